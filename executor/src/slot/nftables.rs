//! Kernel cuts: one nf_tables table `warren` in the slot's own network namespace, spoken by netlink.
//!
//! Called by `init.rs`. All of our encoding of nf_tables lies in this file. The rules are
//! `ip saddr A ip daddr B drop` on hook input: on loopback a packet passes input once, so each rule is one direction
//! of one link, for old and new connections alike. Table and chain are made once; a change of rules is one
//! transaction that empties the chain and fills it again, so no packet meets a half-made set. A chain before it is empty
//! but while the slot is hushed (`hush.rs`). It touches no table but its own and refuses to run outside a slot by
//! construction (only slot init opens it).

use std::io;
use std::net::Ipv4Addr;
use std::os::fd::{AsRawFd, OwnedFd};

use nix::errno::Errno;
use nix::sys::socket::{
    AddressFamily, MsgFlags, SockFlag, SockProtocol, SockType, recv, send, socket,
};

use super::Cut;
use super::netlink::{Messages, NLM_F_ACK, NLM_F_DUMP, NLM_F_REQUEST, NLMSG_DONE, NLMSG_ERROR};
use super::traffic::Counted;

const TABLE: &str = "warren";
const CHAIN: &str = "cuts";
const HUSH: &str = "hush";

/// The mark of packets that CRIU makes for sockets it restores (`SOCCR_MARK` of its soccr.h).
pub(super) const OF_CRIU: u32 = 0xc114;
/// IP length of a TCP packet with time stamps and nothing else, in bytes.
const BARE: u16 = 20 + 20 + 12;
/// TCP flags of which each begins or ends a connection.
const FIN_SYN_RST: u8 = 7;

// linux/netlink.h, linux/netfilter/nfnetlink.h
const NLM_F_CREATE: u16 = 0x400;
const NLM_F_APPEND: u16 = 0x800;
const BATCH_BEGIN: u16 = 0x10;
const BATCH_END: u16 = 0x11;
const SUBSYS_NFTABLES: u16 = 10;
const NFPROTO_IPV4: u8 = 2;
const NESTED: u16 = 0x8000;

// linux/netfilter/nf_tables.h: messages
const NEWTABLE: u16 = 0;
const NEWCHAIN: u16 = 3;
const NEWRULE: u16 = 6;
const GETRULE: u16 = 7;
const DELRULE: u16 = 8;

/// The open netlink socket of one slot.
#[derive(Debug)]
pub(super) struct KernelCuts {
    socket: OwnedFd,
    seq: u32,
}

impl KernelCuts {
    /// Makes table and chain, puts one rule in and takes it out again: the trial.
    pub fn open() -> io::Result<Self> {
        let socket = socket(
            AddressFamily::Netlink,
            SockType::Raw,
            SockFlag::SOCK_CLOEXEC,
            SockProtocol::NetlinkNetFilter,
        )?;
        let mut cuts = KernelCuts { socket, seq: 1 };
        cuts.commit(|batch| {
            batch.message(NEWTABLE, NLM_F_CREATE, |m| {
                m.text(1, TABLE);
            });
            // What is hushed is counted by no rule of a healed link.
            for (chain, priority) in [(HUSH, -1), (CHAIN, 0)] {
                batch.message(NEWCHAIN, NLM_F_CREATE, |m| {
                    m.text(1, TABLE).text(3, chain);
                    m.nest(4, |hook| {
                        hook.be32(1, 1).be32(2, i32::cast_unsigned(priority)); // NF_INET_LOCAL_IN
                    });
                    m.be32(5, 1); // policy accept
                    m.text(7, "filter");
                });
            }
        })?;
        let nobody = Ipv4Addr::new(127, 255, 255, 254);
        let cut = Cut {
            from: Some(nobody),
            to: Some(nobody),
        };
        cuts.replace(&[cut], &[cut])?;
        if cuts.counts()? != [Counted::default()] {
            return Err(io::Error::other("a rule that was put in is not there"));
        }
        cuts.replace(&[], &[])?;
        Ok(cuts)
    }

    /// Puts exactly these rules in force, in one transaction: `drops`, then `counts`, which let pass and count. In force
    /// at return.
    pub fn replace(&mut self, drops: &[Cut], counts: &[Cut]) -> io::Result<()> {
        self.commit(|batch| {
            batch.empty(CHAIN);
            let drops = drops.iter().map(|cut| (cut, false));
            for (cut, count) in drops.chain(counts.iter().map(|cut| (cut, true))) {
                batch.rule(CHAIN, |rule| encode_rule(rule, cut, count));
            }
        })
    }

    /// Drops, before any cut is asked, these packets too, but for CRIU's own and those that only acknowledge; in one transaction, in force
    /// at return. None: no more.
    pub fn hush(&mut self, drops: &[Cut]) -> io::Result<()> {
        self.commit(|batch| {
            batch.empty(HUSH);
            if !drops.is_empty() {
                batch.rule(HUSH, encode_criu);
                batch.rule(HUSH, encode_bare);
            }
            for cut in drops {
                batch.rule(HUSH, |rule| encode_rule(rule, cut, false));
            }
        })
    }

    /// What each counter rule counted, in their order.
    pub fn counts(&mut self) -> io::Result<Vec<Counted>> {
        let mut batch = Batch {
            bytes: Vec::new(),
            seq: self.seq,
            last: 0,
        };
        batch.message(GETRULE, NLM_F_DUMP, |m| {
            m.text(1, TABLE).text(2, CHAIN);
        });
        self.seq = batch.seq;
        send(self.socket.as_raw_fd(), &batch.bytes, MsgFlags::empty())?;
        let mut buffer = vec![0u8; 32 << 10];
        let mut counts = Vec::new();
        // A dump that does not fit one datagram goes on as it is read; it ends with NLMSG_DONE.
        loop {
            let n = match recv(self.socket.as_raw_fd(), &mut buffer, MsgFlags::MSG_DONTWAIT) {
                Ok(n) => n,
                Err(Errno::EINTR) => continue,
                Err(e) => return Err(e.into()),
            };
            for message in Messages(&buffer[..n]) {
                match message.kind {
                    NLMSG_DONE => return Ok(counts),
                    NLMSG_ERROR => {
                        return Err(io::Error::from_raw_os_error(
                            -message.error().unwrap_or(-libc::EIO),
                        ));
                    }
                    _ => counts.extend(counter_of(message.payload.get(4..).unwrap_or_default())),
                }
            }
        }
    }

    /// Sends one batch and reads the kernel's answers, which are all there when send returns.
    fn commit(&mut self, fill: impl FnOnce(&mut Batch)) -> io::Result<()> {
        let mut batch = Batch {
            bytes: Vec::with_capacity(4096),
            seq: self.seq,
            last: 0,
        };
        batch.bound(BATCH_BEGIN);
        fill(&mut batch);
        batch.ask_for_ack();
        let awaited = batch.seq - 1;
        batch.bound(BATCH_END);
        self.seq = batch.seq;
        send(self.socket.as_raw_fd(), &batch.bytes, MsgFlags::empty())?;
        self.answers(awaited)
    }

    fn answers(&self, awaited: u32) -> io::Result<()> {
        let mut buffer = vec![0u8; 32 << 10];
        let mut done = false;
        let mut refused = None;
        loop {
            match recv(self.socket.as_raw_fd(), &mut buffer, MsgFlags::MSG_DONTWAIT) {
                Ok(n) => {
                    for message in Messages(&buffer[..n]) {
                        let Some(code) = message.error() else {
                            continue;
                        };
                        if code != 0 {
                            refused.get_or_insert(io::Error::from_raw_os_error(-code));
                        }
                        done |= message.seq == awaited;
                    }
                }
                Err(Errno::EINTR) => {}
                Err(Errno::EAGAIN) => break,
                Err(e) => return Err(e.into()),
            }
        }
        match refused {
            Some(e) => Err(e),
            None if done => Ok(()),
            None => Err(io::Error::other(
                "the kernel gave no answer to a transaction",
            )),
        }
    }
}

/// `ip saddr FROM ip daddr TO drop` (or `counter`) as a list of expressions.
fn encode_rule(rule: &mut Attrs<'_>, cut: &Cut, count: bool) {
    for (addr, offset) in [(cut.from, 12), (cut.to, 16)] {
        let Some(addr) = addr else { continue };
        rule.load(1, offset, 4); // of the network header
        rule.equal(&addr.octets());
    }
    if count {
        rule.expression("counter", |_| {});
        return;
    }
    rule.verdict(0); // NF_DROP
}

/// `meta mark 0xc114 accept`: to be heard by the chains after this one.
fn encode_criu(rule: &mut Attrs<'_>) {
    rule.expression("meta", |e| {
        e.be32(1, 1).be32(2, 3); // register 1 = NFT_META_MARK
    });
    rule.equal(&OF_CRIU.to_ne_bytes());
    rule.verdict(1); // NF_ACCEPT
}

/// A TCP packet without data that begins and ends nothing, by its length (time stamps are on in each new network) and its flags: accept.
fn encode_bare(rule: &mut Attrs<'_>) {
    const NETWORK: u32 = 1;
    const TRANSPORT: u32 = 2;
    rule.load(NETWORK, 2, 2);
    rule.equal(&BARE.to_be_bytes());
    rule.load(NETWORK, 9, 1);
    rule.equal(&[libc::IPPROTO_TCP as u8]);
    rule.load(TRANSPORT, 13, 1);
    rule.expression("bitwise", |e| {
        e.be32(1, 1).be32(2, 1).be32(3, 1); // register 1, one byte of it
        for (kind, byte) in [(4, FIN_SYN_RST), (5, 0)] {
            e.nest(kind, |d| {
                d.raw(1, &[byte]); // and, exclusive or
            });
        }
    });
    rule.equal(&[0]);
    rule.verdict(1); // NF_ACCEPT
}

/// What a rule's counter says, if it has one: rule -> expressions -> element named `counter` -> bytes, packets.
fn counter_of(rule: &[u8]) -> Option<Counted> {
    let expressions = attribute(rule, 4)?;
    let mut elements = Pieces(expressions)
        .filter(|(kind, _)| *kind == 1)
        .map(|(_, element)| element);
    let counter = elements.find(|e| attribute(e, 1) == Some(b"counter\0"))?;
    let data = attribute(counter, 2)?;
    let number = |kind| Some(u64::from_be_bytes(attribute(data, kind)?.try_into().ok()?));
    Some(Counted {
        bytes: number(1)?,
        packets: number(2)?,
    })
}

fn attribute(attributes: &[u8], kind: u16) -> Option<&[u8]> {
    Pieces(attributes)
        .find(|(k, _)| *k == kind)
        .map(|(_, payload)| payload)
}

/// Attributes one after another: (kind without flags, payload). Ends at the first that makes no sense.
struct Pieces<'a>(&'a [u8]);

impl<'a> Iterator for Pieces<'a> {
    type Item = (u16, &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        let head = self.0.first_chunk::<4>()?;
        let len = u16::from_ne_bytes([head[0], head[1]]) as usize;
        let kind = u16::from_ne_bytes([head[2], head[3]]) & 0x3fff;
        let payload = self.0.get(4..len)?;
        self.0 = &self.0[len.next_multiple_of(4).min(self.0.len())..];
        Some((kind, payload))
    }
}

/// Netlink messages one after another, with rising sequence numbers.
struct Batch {
    bytes: Vec<u8>,
    seq: u32,
    /// Where the last message starts.
    last: usize,
}

impl Batch {
    /// BATCH_BEGIN or BATCH_END.
    fn bound(&mut self, kind: u16) {
        self.raw_message(kind, NLM_F_REQUEST, 0, SUBSYS_NFTABLES.to_be(), |_| {});
    }

    fn message(&mut self, kind: u16, flags: u16, fill: impl FnOnce(&mut Attrs<'_>)) {
        self.raw_message(
            (SUBSYS_NFTABLES << 8) | kind,
            NLM_F_REQUEST | flags,
            NFPROTO_IPV4,
            0,
            fill,
        );
    }

    fn raw_message(
        &mut self,
        kind: u16,
        flags: u16,
        family: u8,
        res_id: u16,
        fill: impl FnOnce(&mut Attrs<'_>),
    ) {
        self.last = self.bytes.len();
        let b = &mut self.bytes;
        b.extend_from_slice(&[0; 4]); // length, below
        b.extend_from_slice(&kind.to_ne_bytes());
        b.extend_from_slice(&flags.to_ne_bytes());
        b.extend_from_slice(&self.seq.to_ne_bytes());
        b.extend_from_slice(&[0; 4]); // port: the kernel fills it in
        b.extend_from_slice(&[family, 0]); // nfgenmsg
        b.extend_from_slice(&res_id.to_ne_bytes());
        fill(&mut Attrs { bytes: b });
        let len = (b.len() - self.last) as u32;
        b[self.last..self.last + 4].copy_from_slice(&len.to_ne_bytes());
        self.seq += 1;
    }

    /// Takes all rules out of a chain.
    fn empty(&mut self, chain: &str) {
        self.message(DELRULE, 0, |m| {
            m.text(1, TABLE).text(2, chain); // no handle: all rules of the chain
        });
    }

    /// Adds one rule to the end of a chain.
    fn rule(&mut self, chain: &str, fill: impl FnOnce(&mut Attrs<'_>)) {
        self.message(NEWRULE, NLM_F_CREATE | NLM_F_APPEND, |m| {
            m.text(1, TABLE).text(2, chain);
            m.nest(4, fill);
        });
    }

    /// Only the last message asks for an answer: errors come for every one anyway.
    fn ask_for_ack(&mut self) {
        let at = self.last + 6;
        let flags = u16::from_ne_bytes([self.bytes[at], self.bytes[at + 1]]) | NLM_F_ACK;
        self.bytes[at..at + 2].copy_from_slice(&flags.to_ne_bytes());
    }
}

/// Attributes of one message or nest; lengths are padded to four bytes.
struct Attrs<'a> {
    bytes: &'a mut Vec<u8>,
}

impl Attrs<'_> {
    fn raw(&mut self, kind: u16, payload: &[u8]) -> &mut Self {
        self.bytes
            .extend_from_slice(&(payload.len() as u16 + 4).to_ne_bytes());
        self.bytes.extend_from_slice(&kind.to_ne_bytes());
        self.bytes.extend_from_slice(payload);
        self.bytes.resize(self.bytes.len().next_multiple_of(4), 0);
        self
    }

    /// A terminated string.
    fn text(&mut self, kind: u16, text: &str) -> &mut Self {
        let mut bytes = text.as_bytes().to_vec();
        bytes.push(0);
        self.raw(kind, &bytes)
    }

    fn be32(&mut self, kind: u16, value: u32) -> &mut Self {
        self.raw(kind, &value.to_be_bytes())
    }

    fn nest(&mut self, kind: u16, fill: impl FnOnce(&mut Attrs<'_>)) -> &mut Self {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(&[0; 2]);
        self.bytes.extend_from_slice(&(kind | NESTED).to_ne_bytes());
        fill(&mut Attrs { bytes: self.bytes });
        let len = (self.bytes.len() - start) as u16;
        self.bytes[start..start + 2].copy_from_slice(&len.to_ne_bytes());
        self
    }

    fn expression(&mut self, name: &str, fill: impl FnOnce(&mut Attrs<'_>)) {
        self.nest(1, |elem| {
            elem.text(1, name).nest(2, fill);
        });
    }

    /// Register 1 = header[offset..offset + len]; the network's is 1, the transport's 2.
    fn load(&mut self, header: u32, offset: u32, len: u32) {
        self.expression("payload", |e| {
            e.be32(1, 1).be32(2, header).be32(3, offset).be32(4, len);
        });
    }

    /// Register 1 holds these bytes, or the rule ends here.
    fn equal(&mut self, bytes: &[u8]) {
        self.expression("cmp", |e| {
            e.be32(1, 1).be32(2, 0); // register 1 equal
            e.nest(3, |d| {
                d.raw(1, bytes);
            });
        });
    }

    fn verdict(&mut self, verdict: u32) {
        self.expression("immediate", |e| {
            e.be32(1, 0); // the verdict register
            e.nest(2, |d| {
                d.nest(2, |v| {
                    v.be32(1, verdict);
                });
            });
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_are_padded_and_nests_know_their_length() {
        let mut bytes = Vec::new();
        Attrs { bytes: &mut bytes }.nest(4, |n| {
            n.text(1, "ab").be32(2, 1);
        });
        let mut want = Vec::new();
        want.extend_from_slice(&20u16.to_ne_bytes());
        want.extend_from_slice(&(4u16 | 0x8000).to_ne_bytes());
        want.extend_from_slice(&7u16.to_ne_bytes());
        want.extend_from_slice(&1u16.to_ne_bytes());
        want.extend_from_slice(b"ab\0\0");
        want.extend_from_slice(&8u16.to_ne_bytes());
        want.extend_from_slice(&2u16.to_ne_bytes());
        want.extend_from_slice(&[0, 0, 0, 1]);
        assert_eq!(bytes, want);
    }

    #[test]
    fn messages_carry_rising_numbers_and_only_the_last_asks() {
        let mut batch = Batch {
            bytes: Vec::new(),
            seq: 5,
            last: 0,
        };
        batch.bound(BATCH_BEGIN);
        batch.message(NEWTABLE, NLM_F_CREATE, |m| {
            m.text(1, TABLE);
        });
        batch.ask_for_ack();
        batch.bound(BATCH_END);
        let mut at = 0;
        let mut seen = Vec::new();
        while at < batch.bytes.len() {
            let b = &batch.bytes[at..];
            let len = u32::from_ne_bytes([b[0], b[1], b[2], b[3]]) as usize;
            seen.push((
                u32::from_ne_bytes([b[8], b[9], b[10], b[11]]),
                u16::from_ne_bytes([b[6], b[7]]),
            ));
            at += len;
        }
        let create = NLM_F_REQUEST | NLM_F_CREATE | NLM_F_ACK;
        assert_eq!(
            seen,
            vec![(5, NLM_F_REQUEST), (6, create), (7, NLM_F_REQUEST)]
        );
        assert_eq!(at, batch.bytes.len());
    }

    #[test]
    fn a_counter_is_found_in_its_rule_and_only_there() {
        let mut bytes = Vec::new();
        let mut rule = Attrs { bytes: &mut bytes };
        rule.text(1, TABLE).text(2, CHAIN).nest(4, |list| {
            list.expression("cmp", |e| {
                e.be32(1, 1);
            });
            list.expression("counter", |e| {
                e.raw(1, &900u64.to_be_bytes()).raw(2, &7u64.to_be_bytes());
            });
        });
        let counted = Counted {
            packets: 7,
            bytes: 900,
        };
        assert_eq!(counter_of(&bytes), Some(counted));
        let mut drop = Vec::new();
        Attrs { bytes: &mut drop }.nest(4, |list| {
            encode_rule(
                list,
                &Cut {
                    from: None,
                    to: None,
                },
                false,
            )
        });
        assert_eq!(counter_of(&drop), None);
        for end in 0..bytes.len() {
            counter_of(&bytes[..end]); // a cut answer is no panic
        }
    }
}
