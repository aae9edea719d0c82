//! Addresses of a run's nodes, and which node a peer text means. Pure.
//!
//! Called wherever a node gets its address, and wherever the other end of an event is asked for. An address in a text is read as the agent
//! reads it (java-agent/runtime, `Peers`): the node that the search sees there is the one that a cut meets. Of names the agent takes only those
//! that are the whole text.

use crate::ids::NodeName;
use std::net::Ipv4Addr;

/// Last octet of the first node's address; the others follow in the order of target.toml.
pub const FIRST_NODE: u8 = 11;

/// Last octet of the first client's (java-agent/workload, `Runner`).
pub const FIRST_CLIENT: u8 = 101;

/// Address of node `i`, counted from 0 over all groups. `second` is the second octet: at level 3 the slot's own, else 0.
#[must_use]
pub fn of_node(second: u8, i: usize) -> Ipv4Addr {
    let i = u8::try_from(i).unwrap_or(u8::MAX);
    Ipv4Addr::new(127, second, 0, FIRST_NODE.saturating_add(i))
}

/// The index of the node that an event's peer text means: by the first IPv4 address in it (`127.0.0.12`, `/127.0.0.12:2888`,
/// `zk2/127.0.0.12:2888`), else by the name that it begins with (`zk2`, `zk2:2888`).
#[must_use]
pub fn node_of<'a>(text: &str, nodes: impl IntoIterator<Item = &'a NodeName>) -> Option<usize> {
    let mut nodes = nodes.into_iter();
    if let Some(address) = first_ipv4(text) {
        let [127, _, 0, last] = address.octets() else {
            return None;
        };
        let i = usize::from(last.checked_sub(FIRST_NODE)?);
        return nodes.nth(i).map(|_| i);
    }
    let name = text.split([':', '/']).next()?;
    nodes.position(|n| n.as_str() == name)
}

/// Digits and dots that stand alone: in `10.127.0.0.12` there is no address.
fn first_ipv4(text: &str) -> Option<Ipv4Addr> {
    text.split(|c: char| !c.is_ascii_digit() && c != '.')
        .find_map(|t| t.trim_start_matches('.').parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nodes() -> Vec<NodeName> {
        ["zk1", "zk2", "zk3"].map(NodeName::from).to_vec()
    }

    #[test]
    fn a_peer_is_a_node_by_name_or_address() {
        for (text, want) in [
            ("zk2", Some(1)),
            ("zk2:2888", Some(1)),
            ("zk2/<unresolved>:2888", Some(1)),
            ("127.0.0.12", Some(1)),
            ("127.0.0.11:2888", Some(0)),
            ("/127.0.0.13:45678", Some(2)),
            ("zk2/127.0.0.12:2888", Some(1)),
            ("Socket[addr=/127.0.0.13,port=2888]", Some(2)),
            // At level 3 a slot has a network of its own.
            ("zk2/127.7.0.12:3888", Some(1)),
            // A cut goes by the address.
            ("zk1/127.0.0.12:2888", Some(1)),
            ("zk2/10.0.0.12:2888", None),
            // Another network.
            ("10.0.0.12:2888", None),
            ("127.0.1.12:2888", None),
            // No node's: before the first, after the last, a client's.
            ("127.0.0.1:2888", None),
            ("127.0.0.10", None),
            ("127.0.0.14:2888", None),
            ("127.0.0.101:40000", None),
            ("127.0.0.120", None),
            // No address.
            ("10.127.0.0.12", None),
            ("127.0.0", None),
            ("127.0.0.300", None),
            ("zk4:2888", None),
            ("zk22", None),
            ("a zk2", None),
            ("session 12", None),
            (":2888", None),
            ("", None),
        ] {
            assert_eq!(node_of(text, &nodes()), want, "{text}");
        }
    }

    #[test]
    fn the_address_of_a_node_is_read_as_that_node() {
        assert_eq!(of_node(0, 0), Ipv4Addr::new(127, 0, 0, 11));
        assert_eq!(of_node(7, 2), Ipv4Addr::new(127, 7, 0, 13));
        for i in 0..3 {
            let text = format!("{}:2888", of_node(7, i));
            assert_eq!(node_of(&text, &nodes()), Some(i), "{text}");
        }
        let client = Ipv4Addr::new(127, 0, 0, FIRST_CLIENT).to_string();
        assert_eq!(node_of(&client, &nodes()), None);
    }
}
