//! Which node a message point's other end is.
//!
//! Addresses follow the order of target.toml: the last octet is 11 + index (any 127.x.y network); clients start at 101.

use warren_model::NodeName;

/// The index of the node named or addressed by an event's `peer` text, such as `/127.0.0.12:2888` or `zk2`.
#[must_use]
pub fn node_of(peer: &str, nodes: &[NodeName]) -> Option<usize> {
    if let Some(i) = nodes.iter().position(|n| n.as_str() == peer) {
        return Some(i);
    }
    let at = peer.find("127.")?;
    let address = peer[at..]
        .split(|c: char| !c.is_ascii_digit() && c != '.')
        .next()?;
    let octets: Vec<u8> = address
        .split('.')
        .map(str::parse)
        .collect::<Result<_, _>>()
        .ok()?;
    let [_, _, _, last] = octets[..] else {
        return None;
    };
    let index = usize::from(last.checked_sub(11)?);
    (index < nodes.len()).then_some(index)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn table() {
        let nodes: Vec<NodeName> = ["a", "b", "c"].map(NodeName::from).to_vec();
        for (text, want) in [
            ("127.0.0.11:2888", Some(0)),
            ("/127.0.0.13:45678", Some(2)),
            ("zk2/127.7.0.12:3888", Some(1)),
            ("b", Some(1)),
            ("127.0.0.101:40000", None),
            ("127.0.0.14:1", None),
            ("127.0.0.1:1", None),
            ("127.0.0", None),
            ("10.0.0.11:1", None),
            ("", None),
        ] {
            assert_eq!(node_of(text, &nodes), want, "{text}");
        }
    }
}
