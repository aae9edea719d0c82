//! What all talk with the kernel over netlink has in common: flags and kinds, and the messages of an answer.
//!
//! Called by `nftables.rs` and `orphans.rs`. It knows no subsystem; each encodes its own requests.

// linux/netlink.h
pub(super) const NLM_F_REQUEST: u16 = 0x1;
pub(super) const NLM_F_ACK: u16 = 0x4;
pub(super) const NLM_F_DUMP: u16 = 0x300;
pub(super) const NLMSG_ERROR: u16 = 2;
pub(super) const NLMSG_DONE: u16 = 3;

/// One message of an answer.
pub(super) struct Message<'a> {
    pub kind: u16,
    pub seq: u32,
    pub payload: &'a [u8],
}

impl Message<'_> {
    /// NLMSG_ERROR's negative errno, 0 for an acknowledgement; `None` for other messages.
    pub fn error(&self) -> Option<i32> {
        let code = self
            .payload
            .first_chunk::<4>()
            .filter(|_| self.kind == NLMSG_ERROR)?;
        Some(i32::from_ne_bytes(*code))
    }
}

/// The messages of a datagram. Ends at the first that makes no sense.
pub(super) struct Messages<'a>(pub &'a [u8]);

impl<'a> Iterator for Messages<'a> {
    type Item = Message<'a>;

    fn next(&mut self) -> Option<Self::Item> {
        let head = self.0.first_chunk::<16>()?;
        let word =
            |at: usize| u32::from_ne_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
        let len = word(0) as usize;
        let payload = self.0.get(16..len)?;
        self.0 = &self.0[len.next_multiple_of(4).min(self.0.len())..];
        Some(Message {
            kind: u16::from_ne_bytes([head[4], head[5]]),
            seq: word(8),
            payload,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_read_and_a_short_one_is_no_panic() {
        let mut answer = Vec::new();
        answer.extend_from_slice(&36u32.to_ne_bytes());
        answer.extend_from_slice(&NLMSG_ERROR.to_ne_bytes());
        answer.extend_from_slice(&[0, 0]);
        answer.extend_from_slice(&9u32.to_ne_bytes());
        answer.extend_from_slice(&[0; 4]);
        answer.extend_from_slice(&(-1i32).to_ne_bytes());
        answer.extend_from_slice(&[0; 16]);
        let read = |bytes: &[u8]| {
            Messages(bytes)
                .map(|m| (m.seq, m.error()))
                .collect::<Vec<_>>()
        };
        assert_eq!(read(&answer), vec![(9, Some(-1))]);
        assert_eq!(read(&answer[..30]), vec![]);
        assert_eq!(read(&[1, 2, 3]), vec![]);
        assert_eq!(read(&[0; 16]), vec![], "a length of 0 ends it");
        answer[4..6].copy_from_slice(&NLMSG_DONE.to_ne_bytes());
        assert_eq!(read(&answer), vec![(9, None)]);
    }
}
