//! The probes that were executed as a JaCoCo execution data file (`.exec`, format 0x1007), from which JaCoCo's own tools make reports
//! with the classes and sources of the target. Our probes stand where JaCoCo's do, in its order, so they are written as they are. Pure.

use super::table::Table;

const HEADER: [u8; 5] = [0x01, 0xc0, 0xc0, 0x10, 0x07];
const SESSION: u8 = 0x10;
const CLASS: u8 = 0x11;

/// The file's bytes; `start` and `end` of the session in ms since 1970.
#[must_use]
pub fn exec(table: &Table, executed: &[bool], start: u64, end: u64) -> Vec<u8> {
    let mut out = HEADER.to_vec();
    out.push(SESSION);
    text(&mut out, "warren");
    out.extend(start.to_be_bytes());
    out.extend(end.to_be_bytes());
    for class in &table.classes {
        let probes: Vec<bool> = (class.first..class.first + class.probes)
            .map(|p| executed.get(p).copied().unwrap_or(false))
            .collect();
        // JaCoCo leaves out a class of which nothing was executed, too.
        if !probes.contains(&true) {
            continue;
        }
        out.push(CLASS);
        out.extend(class.id.to_be_bytes());
        text(&mut out, &class.name);
        let mut length = probes.len();
        while length > 0x7f {
            out.push(0x80 | (length & 0x7f) as u8);
            length >>= 7;
        }
        out.push(length as u8);
        for eight in probes.chunks(8) {
            let bits = eight.iter().enumerate();
            out.push(bits.fold(0, |byte, (i, hit)| byte | u8::from(*hit) << i));
        }
    }
    out
}

/// As Java's writeUTF has it, for names without zero bytes and without what lies beyond the first plane: class names have neither.
fn text(out: &mut Vec<u8>, text: &str) {
    let length = u16::try_from(text.len()).unwrap_or(u16::MAX);
    out.extend(length.to_be_bytes());
    out.extend(&text.as_bytes()[..usize::from(length)]);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::coverage::table::Class;

    #[test]
    fn bytes_are_jacocos() {
        let class = |id, name: &str, first, probes| Class {
            id,
            name: name.into(),
            first,
            probes,
            ..Class::default()
        };
        let table = Table {
            probes: 140,
            classes: vec![
                class(0x0102, "a/B", 0, 9),
                class(3, "never", 9, 1),
                class(4, "c", 10, 130),
            ],
            ..Table::default()
        };
        let mut executed = vec![false; 140];
        for p in [0, 8, 10, 139] {
            executed[p] = true;
        }
        let mut want = vec![0x01, 0xc0, 0xc0, 0x10, 0x07, 0x10, 0, 6];
        want.extend(b"warren");
        want.extend([0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 1, 0]);
        want.extend([
            0x11, 0, 0, 0, 0, 0, 0, 1, 2, 0, 3, b'a', b'/', b'B', 9, 1, 1,
        ]);
        want.extend([0x11, 0, 0, 0, 0, 0, 0, 0, 4, 0, 1, b'c', 0x82, 1, 1]);
        want.extend([0; 15]);
        want.push(2);
        assert_eq!(exec(&table, &executed, 1, 256), want);
    }
}
