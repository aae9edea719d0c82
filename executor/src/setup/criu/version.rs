//! CRIU's version numbers, its own and its package's. Pure.

/// Lowest version that works on today's kernels (older ones fail on the vDSO or on SO_PASSCRED).
pub const LEAST: (u32, u32) = (4, 2);

/// `Version: 4.2.1`, perhaps with a `GitID` after it.
pub(super) fn parse_version(text: &str) -> Option<String> {
    let version = text.lines().find_map(|l| l.strip_prefix("Version:"))?;
    let version = version.split_whitespace().next()?;
    // It becomes a folder's name.
    let plain = |c: char| c.is_ascii_alphanumeric() || ".+~-_".contains(c);
    (version.starts_with(|c: char| c.is_ascii_digit()) && version.chars().all(plain))
        .then(|| version.to_string())
}

/// `4.2.1` and the package's `1:4.2.1-3+b1` alike: the numbers before the first thing that is none.
pub(super) fn numbers(version: &str) -> Vec<u32> {
    let upstream = version.split_once(':').map_or(version, |(_, v)| v);
    let end = upstream.find(|c: char| !c.is_ascii_digit() && c != '.');
    let upstream = &upstream[..end.unwrap_or(upstream.len())];
    upstream.split('.').map_while(|n| n.parse().ok()).collect()
}

pub(super) fn new_enough(version: &str) -> bool {
    numbers(version) >= vec![LEAST.0, LEAST.1]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read_and_compared() {
        let table = [
            ("Version: 4.2.1\n", Some(("4.2.1", true))),
            ("Version: 4.2\nGitID: v4.2-3-gabc\n", Some(("4.2", true))),
            ("Version: 3.17.1\n", Some(("3.17.1", false))),
            ("Version: 4.1.1\n", Some(("4.1.1", false))),
            ("Version: 4.10\n", Some(("4.10", true))),
            ("Version: 4.2-rc1", Some(("4.2-rc1", true))),
            ("Warning: x\nVersion: 5\n", Some(("5", true))),
            ("Version: ../4.2\n", None),
            ("Version:\n", None),
            ("criu: not found\n", None),
        ];
        for (text, want) in table {
            let got = parse_version(text);
            let got = got.as_deref().map(|v| (v, new_enough(v)));
            assert_eq!(got, want, "{text}");
        }
        let packages = [
            ("4.2.1-1", true),
            ("1:4.2-3+b1", true),
            ("1:3.17-2", false),
            ("", false),
        ];
        for (version, want) in packages {
            assert_eq!(new_enough(version), want, "{version}");
        }
    }
}
