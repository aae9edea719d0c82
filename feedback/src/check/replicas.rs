//! Replicas are equal at an equal version, and so are digests.
//!
//! Rules, in the last complete round of final observations (and again in that of a durability restart):
//! - two nodes at the same version hold the same keys with the same content and key version;
//! - one (key, key version) has one content, on whichever node and in whichever round it was seen;
//! - two nodes give the same digest at the newest version that both tell of; so do two digests of one node and version.
//!
//! Why it is right: a version names a prefix of the system's history, and replicas are that prefix applied by a deterministic
//! machine. Nodes at different versions are not compared: a lagging replica is legal. A round that is not complete may have been
//! torn by a change and is not compared either.
//!
//! A node may keep a list of digests, told from the oldest to the newest (ZooKeeper's has each 128th change). A node that joins by a snapshot,
//! which was written while changes went on, applies once more what that holds already, and lists digests of a tree that is further on than their
//! version; at the end of it the tree is right, and the list still has them. So older digests that differ are no divergence, and where the
//! newest common one is the first of a list, it may be of that time: unknown. What has diverged for good differs at the newest one, too, and where
//! that is a list's first one `check_contents` still sees what differs. Design section 8; DESTINI and ZooKeeper's own digests ask the same.

use super::ops::shown;
use super::rounds::{Content, Replicas, Round, last_complete, rounds, torn};
use super::{CheckResult, Found};
use std::collections::BTreeMap;
use warren_model::{FailureKind, NodeName, Observation, Rules, RunProduct, Stage};

const REPLICAS: &str = "replicas";
const DIGESTS: &str = "digests";

fn stage(durable: bool) -> Stage {
    if durable {
        Stage::Durable
    } else {
        Stage::Healed
    }
}

/// Contents.
#[must_use]
pub fn check_contents(product: &RunProduct, _: &Rules) -> CheckResult {
    let mut result = CheckResult::pass();
    let all = rounds(product);
    for durable in [false, true] {
        let wanted = |o: &Observation| matches!(o, Observation::Replica { .. });
        match last_complete(&all, durable, wanted) {
            Ok(_) if torn(product) => {
                result.unknown(REPLICAS, "a line of the observations is broken");
            }
            Ok(round) => compare(product, round, &mut result),
            Err(true) => result.unknown(REPLICAS, "no round of replicas is complete"),
            Err(false) => {}
        }
    }
    one_content_per_version(product, &mut result);
    result
}

fn compare(product: &RunProduct, round: &Round<'_>, result: &mut CheckResult) {
    let replicas = Replicas::of(round);
    let mut groups: BTreeMap<&str, Vec<&NodeName>> = BTreeMap::new();
    for (node, versions) in &replicas.versions {
        let mut v = versions.iter();
        match (v.next(), v.next()) {
            (Some(only), None) => groups.entry(only).or_default().push(node),
            _ => result.unknown(REPLICAS, format!("{node} changed while it was read")),
        }
    }
    if replicas.versions.len() > 1 && groups.values().all(|g| g.len() < 2) {
        result.unknown(REPLICAS, "no two nodes are at the same version");
    }
    for (version, nodes) in groups {
        let Some((first, rest)) = nodes.split_first() else {
            continue;
        };
        for other in rest {
            let (a, b) = (&replicas.nodes[*first], &replicas.nodes[*other]);
            let differing = replicas.keys().into_iter().filter(|k| a.get(k) != b.get(k));
            for key in differing {
                result.fail(
                    product,
                    Found {
                        checker: REPLICAS,
                        kind: FailureKind::Safety,
                        stage: stage(round.durable),
                        role: None,
                        node: Some((*other).clone()),
                        what: "replicas at one version differ".into(),
                        evidence: vec![
                            format!("{key} at version {version}"),
                            format!("{first}: {}", tell(a.get(key))),
                            format!("{other}: {}", tell(b.get(key))),
                        ],
                    },
                );
            }
        }
    }
}

fn tell(content: Option<&Content<'_>>) -> String {
    content.map_or("(absent)".to_owned(), |c| match c.key_version {
        Some(v) => format!("{} (key version {v})", shown(c.value)),
        None => shown(c.value),
    })
}

fn one_content_per_version(product: &RunProduct, result: &mut CheckResult) {
    let mut first: BTreeMap<(&str, &str), (&str, &NodeName)> = BTreeMap::new();
    for o in &product.observations {
        let Observation::Replica {
            node,
            key,
            value,
            key_version: Some(version),
            durable,
            ..
        } = o
        else {
            continue;
        };
        let value = value.as_deref().unwrap_or("");
        let (known, at) = *first.entry((key, version)).or_insert((value, node));
        if known != value {
            result.fail(
                product,
                Found {
                    checker: REPLICAS,
                    kind: FailureKind::Safety,
                    stage: stage(*durable),
                    role: None,
                    node: Some(node.clone()),
                    what: "one version of a key has two contents".into(),
                    evidence: vec![
                        format!("{key}, key version {version}"),
                        format!("{at}: {known}"),
                        format!("{node}: {value}"),
                    ],
                },
            );
        }
    }
}

/// Digests.
#[must_use]
pub fn check_digests(product: &RunProduct, _: &Rules) -> CheckResult {
    let mut result = CheckResult::pass();
    let all = rounds(product);
    for durable in [false, true] {
        let wanted = |o: &Observation| matches!(o, Observation::Digest { .. });
        let round = match last_complete(&all, durable, wanted) {
            Ok(round) => round,
            Err(seen) => {
                if seen {
                    result.unknown(DIGESTS, "no round of digests is complete");
                }
                continue;
            }
        };
        let mut told: BTreeMap<&NodeName, Told<'_>> = BTreeMap::new();
        for o in &round.seen {
            if let Observation::Digest {
                node,
                version,
                hash,
                ..
            } = o
            {
                told.entry(node).or_default().push((version, hash));
            }
        }
        one_digest_per_version(product, durable, &told, &mut result);
        compare_digests(product, durable, &told, &mut result);
    }
    result
}

/// The digests that a node tells: (version, hash), from the oldest to the newest.
type Told<'a> = Vec<(&'a str, &'a str)>;

fn one_digest_per_version(
    product: &RunProduct,
    durable: bool,
    told: &BTreeMap<&NodeName, Told<'_>>,
    result: &mut CheckResult,
) {
    for (node, digests) in told {
        let mut first: BTreeMap<&str, &str> = BTreeMap::new();
        for (version, hash) in digests {
            let known = *first.entry(version).or_insert(hash);
            if known != *hash {
                let found = differing(durable, version, (node, known), (node, hash));
                result.fail(product, found);
            }
        }
    }
}

/// Each two nodes by the newest version that both tell of: where they differ at older ones alone, one of them tells of a state that it was passing
/// through.
fn compare_digests(
    product: &RunProduct,
    durable: bool,
    told: &BTreeMap<&NodeName, Told<'_>>,
    result: &mut CheckResult,
) {
    let lists = told
        .values()
        .any(|digests| digests.windows(2).any(|two| two[0].0 != two[1].0));
    let begins_at = |digests: &Told<'_>, at| digests.first().is_some_and(|(v, _)| *v == at);
    for (i, (a, of_a)) in told.iter().enumerate() {
        for (b, of_b) in told.iter().skip(i + 1) {
            let Some((version, x, y)) = newest_common(of_a, of_b) else {
                continue;
            };
            if x == y {
                continue;
            }
            if lists && (begins_at(of_a, version) || begins_at(of_b, version)) {
                let why = format!(
                    "digests differ at version {version}, the newest that two nodes tell of, where the list of one begins: it may be of a state that it was passing through"
                );
                result.unknown(DIGESTS, why);
                continue;
            }
            result.fail(product, differing(durable, version, (a, x), (b, y)));
        }
    }
}

/// Its version and both hashes; of a node that tells of it twice what it said last.
fn newest_common<'a>(a: &Told<'a>, b: &Told<'a>) -> Option<(&'a str, &'a str, &'a str)> {
    a.iter().rev().find_map(|(version, x)| {
        let (_, y) = b.iter().rev().find(|(v, _)| v == version)?;
        Some((*version, *x, *y))
    })
}

fn differing(
    durable: bool,
    version: &str,
    (a, x): (&NodeName, &str),
    (b, y): (&NodeName, &str),
) -> Found<'static> {
    Found {
        checker: DIGESTS,
        kind: FailureKind::Safety,
        stage: stage(durable),
        role: None,
        node: Some(b.clone()),
        what: "digests differ at one version".into(),
        evidence: vec![
            format!("at version {version}"),
            format!("{a}: {x}"),
            format!("{b}: {y}"),
        ],
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::testing::{Build, count};

    fn replica(node: &str, version: &str, key_version: &str, value: &str) -> Observation {
        Observation::Replica {
            node: node.into(),
            version: version.into(),
            key: "/a".into(),
            value: Some(value.into()),
            key_version: Some(key_version.into()),
            durable: false,
        }
    }

    fn digest(node: &str, version: &str, hash: &str, durable: bool) -> Observation {
        Observation::Digest {
            node: node.into(),
            version: version.into(),
            hash: hash.into(),
            durable,
        }
    }

    #[test]
    fn equal_or_not_comparable() {
        let table = vec![
            ("equal", Build::new().everywhere(&[("/a", "1")]), (0, 0)),
            (
                "one lags, two are equal",
                Build::new()
                    .replica("n1", "9", "/a", "1")
                    .replica("n2", "9", "/a", "1")
                    .replica("n3", "8", "/a", "0")
                    .round(true),
                (0, 0),
            ),
            (
                "an incomplete round, made up for",
                Build::new()
                    .replica("n1", "9", "/a", "1")
                    .replica("n2", "9", "/a", "0")
                    .round(false)
                    .everywhere(&[("/a", "1")]),
                (0, 0),
            ),
            (
                "a key version that moved on",
                Build::new()
                    .obs(replica("n1", "9", "4", "x"))
                    .obs(replica("n2", "8", "3", "y"))
                    .obs(replica("n3", "9", "4", "x"))
                    .round(true),
                (0, 0),
            ),
            ("nothing observed", Build::new(), (0, 0)),
            (
                "incomplete only",
                Build::new()
                    .replica("n1", "9", "/a", "1")
                    .replica("n2", "9", "/a", "0")
                    .round(false),
                (0, 1),
            ),
            (
                "nobody at one version",
                Build::new()
                    .replica("n1", "9", "/a", "1")
                    .replica("n2", "8", "/a", "0")
                    .round(true),
                (0, 1),
            ),
            (
                "changed while read",
                Build::new()
                    .replica("n1", "9", "/a", "1")
                    .replica("n2", "9", "/a", "1")
                    .replica("n3", "8", "/a", "1")
                    .replica("n3", "9", "/b", "1")
                    .round(true),
                (0, 1),
            ),
        ];
        for (name, b, expect) in table {
            let r = check_contents(&b.product, &Rules::default());
            assert_eq!(count(&r), expect, "{name}: {r:?}");
        }
    }

    #[test]
    fn diverged() {
        let table = vec![
            (
                Build::new()
                    .replica("n1", "9", "/a", "1")
                    .replica("n2", "9", "/a", "0")
                    .round(true),
                "version differ",
            ),
            (
                Build::new()
                    .replica("n1", "9", "/a", "1")
                    .replica("n2", "9", "/b", "0")
                    .replica("n2", "9", "/a", "1")
                    .round(true),
                "version differ",
            ),
            (
                Build::new()
                    .obs(replica("n1", "9", "4", "x"))
                    .obs(replica("n2", "9", "5", "x"))
                    .round(true),
                "version differ",
            ),
            (
                Build::new()
                    .obs(replica("n1", "9", "4", "x"))
                    .obs(replica("n3", "9", "4", "x"))
                    .obs(replica("n2", "8", "4", "y"))
                    .round(true),
                "two contents",
            ),
        ];
        for (b, expect) in table {
            let r = check_contents(&b.product, &Rules::default());
            assert_eq!(count(&r), (1, 0), "{expect}: {r:?}");
            assert!(r.failures[0].normalised.contains(expect), "{r:?}");
        }
    }

    #[test]
    fn a_broken_line_may_be_the_missing_key() {
        let mut b = Build::new()
            .replica("n1", "9", "/a", "1")
            .replica("n2", "9", "/b", "1")
            .round(true);
        b.product.broken_lines.push("observations.jsonl".into());
        assert_eq!(
            count(&check_contents(&b.product, &Rules::default())),
            (0, 1)
        );
    }

    #[test]
    fn digests_agree_at_equal_versions() {
        let table = vec![
            (vec![("n1", "9", "a"), ("n2", "9", "a")], true, (0, 0)),
            (vec![("n1", "9", "a"), ("n2", "8", "b")], true, (0, 0)),
            (vec![], true, (0, 0)),
            (vec![("n1", "9", "a"), ("n2", "9", "b")], false, (0, 1)),
            (vec![("n1", "9", "a"), ("n2", "9", "b")], true, (1, 0)),
            (vec![("n1", "9", "a"), ("n1", "9", "b")], true, (1, 0)),
            (
                vec![("n1", "8", "a"), ("n2", "9", "a"), ("n3", "8", "c")],
                true,
                (1, 0),
            ),
        ];
        for (digests, complete, expect) in table {
            let mut b = Build::new();
            for (n, v, h) in &digests {
                b = b.obs(digest(n, v, h, false));
            }
            let r = check_digests(&b.round(complete).product, &Rules::default());
            assert_eq!(count(&r), expect, "{digests:?}");
        }
        let b = Build::new()
            .obs(digest("n1", "9", "a", true))
            .obs(digest("n2", "9", "b", true))
            .obs(Observation::Round {
                name: "x".into(),
                complete: true,
                durable: true,
            });
        let r = check_digests(&b.product, &Rules::default());
        assert_eq!(r.failures[0].stage, Stage::Durable);
    }

    /// A digest of a tree that was further on stays in a node's list as long as its process lives; a tree that has diverged stays wrong.
    #[test]
    fn of_two_lists_the_newest_common_digest_counts() {
        let lists = |all: &[(&str, &str)]| {
            let mut b = Build::new();
            for (node, list) in all {
                for entry in list.split(' ') {
                    let (version, hash) = entry.split_at(1);
                    b = b.obs(digest(node, version, hash, false));
                }
            }
            check_digests(&b.round(true).product, &Rules::default())
        };
        // Each node's list as version and hash; failures and unknowns.
        for (name, all, expect) in [
            ("equal", vec![("n1", "1a 2b 3c"), ("n2", "2b 3c")], (0, 0)),
            (
                "the first was of a tree further on",
                vec![("n1", "1a 2b 3c"), ("n2", "2x 3c")],
                (0, 0),
            ),
            (
                "so were two of them",
                vec![("n1", "1a 2b 3c"), ("n2", "1x 2y 3c"), ("n3", "3c")],
                (0, 0),
            ),
            (
                "diverged",
                vec![("n1", "1a 2b 3c"), ("n2", "2x 3y")],
                (1, 0),
            ),
            (
                "diverged, and equal before",
                vec![("n1", "1a 2b 3c"), ("n2", "1a 2b 3y")],
                (1, 0),
            ),
            (
                "equal in between",
                vec![("n1", "1a 2b 3c"), ("n2", "1x 2b 3y")],
                (1, 0),
            ),
            (
                "diverged, and one lags",
                vec![("n1", "1a 2b 3c"), ("n2", "1a 2y")],
                (1, 0),
            ),
            (
                "joined just before the newest",
                vec![("n1", "1a 2b"), ("n2", "2x"), ("n3", "1a 2b")],
                (0, 1),
            ),
            (
                "the same, and another one has diverged",
                vec![("n1", "1a 2b"), ("n2", "2x"), ("n3", "1a 2y")],
                (1, 1),
            ),
            (
                "nothing common",
                vec![("n1", "1a 2b"), ("n2", "3x")],
                (0, 0),
            ),
            ("no lists", vec![("n1", "2b"), ("n2", "2x")], (1, 0)),
            (
                "one contradicts itself and is right in the end",
                vec![("n1", "1a 1x 2b"), ("n2", "1a 2b")],
                (1, 0),
            ),
        ] {
            let r = lists(&all);
            assert_eq!(count(&r), expect, "{name}: {r:?}");
            let told = r.failures.iter().map(|f| f.signature.as_str());
            assert!(told.eq(r.failures.iter().map(|_| "1d6eaeb0")), "{name}");
        }
        let r = lists(&[("n1", "1a 2b"), ("n2", "1a 2x")]);
        let evidence = ["at version 2", "n1: b", "n2: x"];
        assert_eq!(r.failures[0].evidence[1..], evidence);
    }
}
