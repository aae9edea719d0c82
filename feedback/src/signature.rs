//! Signatures of failures and the normaliser under them. Called by every checker and by the log templates; refuses to guess what
//! text means: it only takes out what differs between two runs of the same story.
//!
//! A signature is 8 hex digits over (checker, normalised evidence, role, stage; of a self-exit always the healed one). Two findings with one signature are filed as
//! one bug, so numbers, addresses, node names and ids must not reach it.

use regex::{Captures, Regex};
use std::sync::LazyLock;
use warren_model::{NodeName, Stage, ids::fnv1a};

static VOLATILE: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(concat!(
        r"(?P<uuid>\b[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}\b)",
        r"|(?P<addr>(?:(?:[\w.\-]+|<node>)?/)?\b\d{1,3}(?:\.\d{1,3}){3}(?::\d+)?\b)",
        r"|(?P<hex>\b0[xX][0-9a-fA-F]+\b)",
        r"|(?P<word>\b[0-9a-fA-F]{8,}\b)",
        r"|(?P<num>\d+(?:\.\d+)*)"
    ))
    .expect("the pattern is a constant and a test compiles it")
});

static PATH: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"(?:/[\w.\-@+$<>]+){2,}/?")
        .expect("the pattern is a constant and a test compiles it")
});

/// Text without numbers, hex words, uuids, addresses and the given node names.
#[must_use]
pub fn normalise(text: &str, nodes: &[NodeName]) -> String {
    let mut text = text.to_owned();
    for node in nodes {
        text = replace_word(&text, node.as_str(), "<node>");
    }
    VOLATILE
        .replace_all(&text, |c: &Captures<'_>| {
            if c.name("uuid").is_some() {
                "<id>".to_owned()
            } else if c.name("addr").is_some() {
                "<addr>".to_owned()
            } else if let Some(word) = c.name("word") {
                // `deadbeef` may be a word of the language; an id nearly always has a digit.
                if word.as_str().bytes().any(|b| b.is_ascii_digit()) {
                    "<n>".to_owned()
                } else {
                    word.as_str().to_owned()
                }
            } else {
                "<n>".to_owned()
            }
        })
        .into_owned()
}

/// [`normalise`], and file paths of two or more parts taken out too: for log lines, where paths are places, not keys.
#[must_use]
pub fn normalise_paths(text: &str, nodes: &[NodeName]) -> String {
    PATH.replace_all(&normalise(text, nodes), "<path>")
        .into_owned()
}

/// 8 hex digits over checker, normalised evidence, role and stage; stable across runs, machines and versions of Rust.
#[must_use]
pub fn signature(checker: &str, normalised: &str, role: Option<&str>, stage: Stage) -> String {
    let stage = match stage {
        Stage::Test => "test",
        Stage::Degraded => "degraded",
        Stage::Healed => "healed",
        Stage::Durable => "durable",
    };
    let role = role.unwrap_or("");
    let h = fnv1a(format!("{checker}\n{normalised}\n{role}\n{stage}").as_bytes());
    format!("{:08x}", (h >> 32) ^ (h & 0xffff_ffff))
}

/// Digits as letters, `134` as `bde`: for numbers that are a part of the story, which the normaliser would take out.
#[must_use]
pub fn spelled(text: &str) -> String {
    let letter = |c: char| char::from_digit(c.to_digit(10)? + 10, 20);
    text.chars().map(|c| letter(c).unwrap_or(c)).collect()
}

/// Replaces `word` where no letter, digit, `_` or `-` touches it: `zk1` in `zk1:` but not in `zk12`.
fn replace_word(text: &str, word: &str, with: &str) -> String {
    if word.is_empty() {
        return text.to_owned();
    }
    let joins = |c: char| c.is_alphanumeric() || c == '_' || c == '-';
    let mut out = String::with_capacity(text.len());
    let mut from = 0;
    for (at, found) in text.match_indices(word) {
        let before = text[..at].chars().next_back().is_some_and(joins);
        let after = text[at + found.len()..].chars().next().is_some_and(joins);
        if !before && !after {
            out.push_str(&text[from..at]);
            out.push_str(with);
            from = at + found.len();
        }
    }
    out.push_str(&text[from..]);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nodes() -> Vec<NodeName> {
        vec!["zk1".into(), "zk12".into(), "head-a".into()]
    }

    #[test]
    fn what_differs_between_runs_is_taken_out() {
        for (text, expect) in [
            ("zk1 lost /w3 = 17", "<node> lost /w<n> = <n>"),
            ("zk12: head-a, head-ab", "<node>: <node>, head-ab"),
            (
                "from /127.0.0.11:2888 to zk1/127.0.0.12",
                "from <addr> to <addr>",
            ),
            (
                "zxid 0x1000000ff, session 1a2b3c4d5e",
                "zxid <n>, session <n>",
            ),
            ("deadbeef stays, deadbee7 goes", "deadbeef stays, <n> goes"),
            (
                "id 123e4567-e89b-12d3-a456-426614174000 after 1.5s",
                "id <id> after <n>s",
            ),
        ] {
            assert_eq!(normalise(text, &nodes()), expect, "{text}");
        }
    }

    #[test]
    fn numbers_that_are_the_story_are_spelled() {
        for (text, expect) in [
            ("code 134", "code bde"),
            ("code 137", "code bdh"),
            ("-1029", "-bacj"),
            ("^FATAL \\d+ é", "^FATAL \\d+ é"),
        ] {
            assert_eq!(spelled(text), expect);
            assert_eq!(normalise(&spelled(text), &nodes()), expect);
        }
    }

    #[test]
    fn paths_go_only_from_logs() {
        assert_eq!(
            normalise_paths("read /mnt/nodes/zk1/data/log.100 of /bug", &nodes()),
            "read <path> of /bug"
        );
        assert_eq!(normalise("/mnt/data/log.100", &[]), "/mnt/data/log.<n>");
    }

    #[test]
    fn each_part_changes_the_signature() {
        let a = signature("replicas", "x", None, Stage::Healed);
        assert_eq!(a.len(), 8);
        assert_eq!(a, signature("replicas", "x", None, Stage::Healed));
        for other in [
            signature("digests", "x", None, Stage::Healed),
            signature("replicas", "y", None, Stage::Healed),
            signature("replicas", "x", Some("leader"), Stage::Healed),
            signature("replicas", "x", None, Stage::Durable),
        ] {
            assert_ne!(a, other);
        }
    }
}
