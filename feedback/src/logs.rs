//! Log templates: what a system says in fault-free runs and under plain single faults is known; a line of a new shape is a novelty.
//! Called by [`crate::judge::Judge`]; a novelty is shown and never a failure: distributed systems log
//! exceptions when they do right.

use crate::signature::normalise_paths;
use regex::RegexSet;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use warren_model::{NodeName, RunProduct};

/// Templates are cut to this many characters: the head says what it is, the tail often quotes data.
const TEMPLATE_CHARS: usize = 240;
/// Templates kept at most, so that a chatty system cannot eat Warren's memory in a campaign of weeks.
const TEMPLATES_MAX: usize = 50_000;
/// Novelties shown of one run.
const NOVELTIES_MAX: usize = 50;

/// The templates learned so far.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogTemplates {
    known: BTreeSet<u64>,
}

/// The logs of the cluster's nodes. Others, such as the workload's own, are for people and never judged. Where no node is named
/// (a run without a trace) all logs count: rather one too many than a fatal line overlooked.
pub fn of_nodes(product: &RunProduct) -> impl Iterator<Item = (&NodeName, &String)> {
    product
        .logs
        .iter()
        .filter(|(name, _)| product.trace.nodes.is_empty() || product.trace.nodes.contains(name))
}

/// Nodes that log nothing: an empty log, or one with nothing but slf4j's words that it found no logger to write to. Whatever reads logs is blind there, and
/// passes.
#[must_use]
pub fn silent(product: &RunProduct) -> Vec<&NodeName> {
    of_nodes(product)
        .filter(|(_, log)| says_nothing(log))
        .map(|(node, _)| node)
        .collect()
}

/// Whether there is nothing in a log, or nothing but slf4j's words that it found no logger to write to.
#[must_use]
pub fn says_nothing(log: &str) -> bool {
    let mut lines = log.lines().filter(|l| !l.trim().is_empty());
    lines.all(|l| l.starts_with("SLF4J"))
}

/// (byte offset, text) of each line.
pub fn lines(log: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut next = 0;
    log.split_inclusive('\n').map(move |line| {
        let at = next;
        next += line.len();
        (at, line.trim_end_matches(['\n', '\r']))
    })
}

/// The template of a line, or `None` for lines that say nothing by themselves: empty ones and the frames of a stack trace.
#[must_use]
pub fn template(line: &str, nodes: &[NodeName]) -> Option<String> {
    let text = line.trim();
    // The second is logback's.
    let more = text.starts_with("...")
        && (text.ends_with("more") || text.ends_with("common frames omitted"));
    if text.is_empty() || text.starts_with("at ") || more || is_bare_frame(text) {
        return None;
    }
    // Cut generously first: normalising a megabyte line is not worth its template.
    let head: String = text.chars().take(4 * TEMPLATE_CHARS).collect();
    let normal = normalise_paths(&head, nodes);
    Some(normal.chars().take(TEMPLATE_CHARS).collect())
}

/// A frame as systems print it that dump their own threads: `java.base@17.0.15/java.lang.Class.isArray(Native Method)`.
fn is_bare_frame(text: &str) -> bool {
    let Some((method, place)) = text.split_once('(') else {
        return false;
    };
    let named = method.contains('.') && !method.contains(char::is_whitespace);
    let place = place.strip_suffix(')');
    named
        && place
            .is_some_and(|p| p == "Native Method" || p == "Unknown Source" || p.contains(".java"))
}

fn hash(template: &str) -> u64 {
    warren_model::ids::fnv1a(template.as_bytes())
}

impl LogTemplates {
    /// Takes in all lines of a run.
    pub fn learn(&mut self, product: &RunProduct) {
        for line in of_nodes(product).flat_map(|(_, l)| l.lines()) {
            if self.known.len() >= TEMPLATES_MAX {
                return;
            }
            if let Some(t) = template(line, &product.trace.nodes) {
                self.known.insert(hash(&t));
            }
        }
    }

    /// New templates of a run, each once, as `node: line`; at most 50. Lines that match `ignore` are passed over. Empty while
    /// nothing was learned: without a base everything would be new.
    #[must_use]
    pub fn novelties(&self, product: &RunProduct, ignore: &RegexSet) -> Vec<String> {
        if self.known.is_empty() {
            return Vec::new();
        }
        let mut seen = BTreeSet::new();
        let mut out = Vec::new();
        for (node, log) in of_nodes(product) {
            for line in log.lines() {
                let Some(t) = template(line, &product.trace.nodes) else {
                    continue;
                };
                let h = hash(&t);
                if self.known.contains(&h) || ignore.is_match(line) || !seen.insert(h) {
                    continue;
                }
                out.push(format!("{node}: {}", cut(line)));
                if out.len() == NOVELTIES_MAX {
                    return out;
                }
            }
        }
        out
    }

    /// How many templates are known.
    #[must_use]
    pub fn len(&self) -> usize {
        self.known.len()
    }

    /// Whether nothing was learned.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.known.is_empty()
    }
}

fn cut(line: &str) -> String {
    line.trim().chars().take(TEMPLATE_CHARS).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn logs(lines: &[&str]) -> RunProduct {
        let mut p = RunProduct::default();
        p.trace.nodes = vec!["zk1".into()];
        p.logs.insert("zk1".into(), lines.join("\n"));
        p
    }

    #[test]
    fn only_a_new_shape_is_a_novelty() {
        let mut known = LogTemplates::default();
        known.learn(&logs(&[
            "2026-11-21 10:00:01 INFO joined as 3 from /127.0.0.11:2888",
            "WARN reading /mnt/nodes/zk1/data/log.7",
        ]));
        let ignore = RegexSet::new(["heartbeat"]).unwrap();
        let run = logs(&[
            "2026-11-22 11:30:59 INFO joined as 5 from /127.0.0.15:2888",
            "WARN reading /mnt/nodes/zk1/data/version-2/log.900",
            "",
            "\tat org.example.Foo.bar(Foo.java:7)",
            "\t... 12 more",
            "\t... 5 common frames omitted",
            "    java.base@17.0.15/java.lang.Class.isArray(Native Method)",
            "    org.example.Foo.bar(Foo.java:7)",
            "WARN heartbeat late",
            "ERROR cannot follow 7",
            "ERROR cannot follow 9",
            "see org.example.Foo(Foo.java)",
        ]);
        assert_eq!(
            known.novelties(&run, &ignore),
            [
                "zk1: ERROR cannot follow 7",
                "zk1: see org.example.Foo(Foo.java)"
            ]
        );
        known.learn(&run);
        assert!(known.novelties(&run, &ignore).is_empty());
    }

    #[test]
    fn who_logs_nothing_is_told() {
        for (lines, silent) in [
            (&["INFO ready"][..], false),
            (&[], true),
            (&["", "  "], true),
            (
                &[
                    "SLF4J(W): No SLF4J providers were found.",
                    "SLF4J(W): Defaulting to no-operation (NOP) logger implementation",
                ],
                true,
            ),
            (
                &[
                    "SLF4J: Defaulting to no-operation (NOP) logger implementation",
                    "INFO ready",
                ],
                false,
            ),
        ] {
            let run = logs(lines);
            assert_eq!(super::silent(&run).len(), usize::from(silent), "{lines:?}");
        }
    }

    #[test]
    fn the_workloads_own_log_is_not_judged() {
        let mut known = LogTemplates::default();
        known.learn(&logs(&["INFO ready"]));
        let mut run = logs(&["INFO ready"]);
        run.logs
            .insert("workload".into(), "client 1 gave up".into());
        assert!(known.novelties(&run, &RegexSet::empty()).is_empty());
    }

    #[test]
    fn nothing_is_new_before_anything_is_known() {
        let known = LogTemplates::default();
        assert!(known.is_empty());
        assert!(
            known
                .novelties(&logs(&["ERROR x"]), &RegexSet::empty())
                .is_empty()
        );
    }
}
