//! What the nodes are asked over TCP: ready, started, role, stable. Answers are judged here; asking is slot init's.

use crate::run::RunError;
use crate::slot::{ProbeAnswer, Slot, TextProbe};
use crate::target::{Probe, Stable, Target};
use regex::Regex;
use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::time::Duration;
use warren_model::Instability;

/// Port of the first node, step to the next node's, text sent.
type Kind = (u16, u16, String);

/// What is asked beside ready and role.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::run) enum Also {
    #[default]
    Nothing,
    /// While the cluster starts.
    Started,
    /// After healing.
    Stable,
}

/// What one node is asked: the first is whether it is ready; equal questions are one.
#[derive(Debug)]
struct Asked {
    kinds: Vec<Kind>,
    role: Option<usize>,
    started: Option<usize>,
    stable: Option<usize>,
}

/// What one node answered.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::run) struct NodeAnswer {
    pub ready: bool,
    pub role: Option<String>,
    /// By this node the cluster has started; never where that was not asked.
    pub started: bool,
    /// Capture 1 of `[stable] equal`, shifted.
    pub equal: Option<String>,
    pub t_ns: u64,
    /// For messages.
    pub said: String,
}

/// The probes of a target with their patterns compiled.
#[derive(Clone, Debug)]
pub(in crate::run) struct Questions {
    /// By node: groups may have their own.
    ready: Vec<(Probe, Regex)>,
    role: Option<(Probe, Regex)>,
    /// Role by what is captured, where it is not its name itself.
    role_names: BTreeMap<String, String>,
    started: Option<(Probe, Regex)>,
    stable: Option<(Stable, Regex)>,
    pub lead: String,
}

impl Questions {
    pub fn new(target: &Target) -> Result<Self, RunError> {
        let compile = |r: &str| Regex::new(r).map_err(|e| RunError::io("a probe's pattern", e));
        let with_pattern = |p: &Probe| Ok::<_, RunError>((p.clone(), compile(&p.expect)?));
        Ok(Questions {
            ready: target
                .nodes()
                .iter()
                .map(|n| with_pattern(target.ready_of(n.group)))
                .collect::<Result<_, RunError>>()?,
            role: target.role.as_ref().map(with_pattern).transpose()?,
            started: target.started.as_ref().map(with_pattern).transpose()?,
            role_names: target.role_names.clone(),
            stable: match &target.stable {
                Some(s) => Some((s.clone(), compile(&s.equal)?)),
                None => None,
            },
            lead: target.lead.clone(),
        })
    }

    /// Asks all these nodes at once; one connection serves questions with the same port and text.
    pub fn ask(
        &self,
        slot: &Slot,
        nodes: &[Ipv4Addr],
        also: Also,
        timeout: Duration,
    ) -> Result<Vec<NodeAnswer>, RunError> {
        let first = slot.node_addr(0);
        let mut probes = Vec::new();
        let asked: Vec<Asked> = nodes
            .iter()
            .map(|addr| {
                let asked = self.of(before(first, *addr), also);
                probes.extend(asked.kinds.iter().map(|(port, step, send)| TextProbe {
                    addr: *addr,
                    port: port_of(*port, *step, first, *addr),
                    send: send.clone(),
                }));
                asked
            })
            .collect();
        let answers = slot
            .probe(probes, timeout)
            .map_err(|e| RunError::Slot(e.to_string()))?;
        let mut answers = answers.as_slice();
        let mut judged = Vec::new();
        for (addr, asked) in nodes.iter().zip(&asked) {
            let (own, others) = answers.split_at(asked.kinds.len().min(answers.len()));
            answers = others;
            judged.push(self.judge(before(first, *addr), own, asked));
        }
        Ok(judged)
    }

    /// What the node with this index is asked.
    fn of(&self, node: usize, also: Also) -> Asked {
        let mut kinds: Vec<Kind> = Vec::new();
        let mut kind = |asked: Kind| -> usize {
            match kinds.iter().position(|k| *k == asked) {
                Some(i) => i,
                None => {
                    kinds.push(asked);
                    kinds.len() - 1
                }
            }
        };
        if let Some((p, _)) = self.ready.get(node) {
            kind((p.port, p.port_step, p.send.clone()));
        }
        let role = self
            .role
            .as_ref()
            .map(|(p, _)| kind((p.port, p.port_step, p.send.clone())));
        let started = self
            .started
            .as_ref()
            .filter(|_| also == Also::Started)
            .map(|(p, _)| kind((p.port, p.port_step, p.send.clone())));
        let stable = self
            .stable
            .as_ref()
            .filter(|_| also == Also::Stable)
            .map(|(s, _)| kind((s.port, s.port_step, s.send.clone())));
        Asked {
            kinds,
            role,
            started,
            stable,
        }
    }

    fn judge(&self, node: usize, answers: &[ProbeAnswer], asked: &Asked) -> NodeAnswer {
        let (Some(first), Some((probe, regex))) = (answers.first(), self.ready.get(node)) else {
            return NodeAnswer::default();
        };
        let said = match &first.error {
            Some(e) => e.clone(),
            None => first.text.lines().next().unwrap_or_default().to_owned(),
        };
        let capture = |kind: Option<usize>, regex: Option<&Regex>| -> Option<String> {
            let answer = answers.get(kind?).filter(|a| a.connected)?;
            Some(regex?.captures(&answer.text)?.get(1)?.as_str().to_owned())
        };
        let started = asked.started.and_then(|kind| answers.get(kind));
        NodeAnswer {
            ready: holds(first, probe, regex),
            started: started
                .zip(self.started.as_ref())
                .is_some_and(|(answer, (probe, regex))| holds(answer, probe, regex)),
            role: capture(asked.role, self.role.as_ref().map(|(_, r)| r))
                .map(|said| self.role_names.get(&said).cloned().unwrap_or(said)),
            equal: capture(asked.stable, self.stable.as_ref().map(|(_, r)| r))
                .map(|text| shifted(&text, self.stable.as_ref().map_or(0, |(s, _)| s.equal_bits))),
            t_ns: first.t_ns,
            said,
        }
    }

    /// Why these answers of all living nodes are not those of a stable cluster; none if they are.
    pub fn unstable(
        &self,
        names: &[String],
        answers: &[NodeAnswer],
    ) -> Option<(Instability, String)> {
        for (name, a) in names.iter().zip(answers) {
            if !a.ready {
                let why = format!("{name} does not serve ({})", a.said);
                return Some((Instability::Outage, why));
            }
        }
        if !self.lead.is_empty() {
            let leads = answers
                .iter()
                .filter(|a| a.role.as_deref() == Some(self.lead.as_str()))
                .count();
            if leads != 1 {
                let kind = match leads {
                    0 => Instability::Outage,
                    _ => Instability::SeveralLead,
                };
                return Some((kind, format!("{leads} nodes say they are {}", self.lead)));
            }
        }
        if let Some((stable, _)) = self.stable.as_ref().filter(|(s, _)| !s.equal.is_empty()) {
            let values: Vec<&str> = answers
                .iter()
                .map(|a| a.equal.as_deref().unwrap_or("nothing"))
                .collect();
            if values.contains(&"nothing") || values.windows(2).any(|w| w[0] != w[1]) {
                let why = format!("`{}` differs: {}", stable.equal, values.join(", "));
                return Some((Instability::Outage, why));
            }
        }
        None
    }
}

/// Whether this answer to a probe is the one that is expected. A server may reset the connection after it: what was read counts.
fn holds(answer: &ProbeAnswer, probe: &Probe, expect: &Regex) -> bool {
    answer.connected
        && (probe.send.is_empty() || !answer.timed_out())
        && expect.is_match(&answer.text)
}

/// How many nodes come before this one: nodes have consecutive addresses, so the address says which of them it is.
fn before(first: Ipv4Addr, addr: Ipv4Addr) -> usize {
    usize::from(addr.octets()[3].saturating_sub(first.octets()[3]))
}

/// The port of one node.
fn port_of(port: u16, step: u16, first: Ipv4Addr, addr: Ipv4Addr) -> u16 {
    let before = u16::try_from(before(first, addr)).unwrap_or(0);
    port.saturating_add(step.saturating_mul(before))
}

/// A number (decimal or 0x) shifted right; any other text as it is.
fn shifted(text: &str, bits: u32) -> String {
    if bits == 0 {
        return text.to_owned();
    }
    let number = match text.strip_prefix("0x") {
        Some(hex) => u64::from_str_radix(hex, 16).ok(),
        None => text.parse::<u64>().ok(),
    };
    number.map_or_else(|| text.to_owned(), |n| (n >> bits).to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use warren_model::NotStable;

    fn questions() -> Questions {
        let probe = Probe {
            port: 2181,
            port_step: 0,
            send: "srvr".into(),
            expect: String::new(),
            timeout: Duration::from_secs(1),
        };
        Questions {
            ready: vec![(probe.clone(), Regex::new("Mode: ").unwrap())],
            role: Some((probe, Regex::new("Mode: (\\w+)").unwrap())),
            role_names: BTreeMap::new(),
            started: None,
            stable: Some((
                Stable {
                    port: 2181,
                    port_step: 0,
                    send: "srvr".into(),
                    equal: "Zxid: (0x[0-9a-f]+)".into(),
                    equal_bits: 32,
                },
                Regex::new("Zxid: (0x[0-9a-f]+)").unwrap(),
            )),
            lead: "leader".into(),
        }
    }

    fn answer(text: &str) -> ProbeAnswer {
        ProbeAnswer {
            connected: true,
            text: text.into(),
            error: None,
            t_ns: 1,
        }
    }

    #[test]
    fn each_node_may_have_a_port_of_its_own() {
        let first = Ipv4Addr::new(127, 7, 0, 11);
        for (step, last, want) in [(0, 13, 6001), (1, 11, 6001), (1, 13, 6003), (10, 12, 6011)] {
            let addr = Ipv4Addr::new(127, 7, 0, last);
            assert_eq!(port_of(6001, step, first, addr), want, "{step} {last}");
        }
    }

    #[test]
    fn each_group_may_have_a_question_of_its_own() {
        let mut q = questions();
        let mut own = q.ready[0].clone();
        own.0.port = 8485;
        own.0.send = String::new();
        own.1 = Regex::new("").unwrap();
        q.ready.push(own);
        // (node, kinds asked, role's among them, ready by an answer without words)
        for (node, kinds, role, ready) in [(0, 1, 0, false), (1, 2, 1, true)] {
            let asked = q.of(node, Also::Stable);
            assert_eq!((asked.kinds.len(), asked.role), (kinds, Some(role)));
            let answers = vec![answer(""); kinds];
            assert_eq!(q.judge(node, &answers, &asked).ready, ready, "{node}");
        }
    }

    #[test]
    fn an_answer_may_have_another_name() {
        let mut q = questions();
        q.role_names.insert("true".to_owned(), "active".to_owned());
        for (said, role) in [
            ("Mode: true", Some("active")),
            ("Mode: false", Some("false")),
            ("no word of it", None),
        ] {
            let judged = q.judge(0, &[answer(said)], &q.of(0, Also::Stable));
            assert_eq!(judged.role.as_deref(), role, "{said}");
        }
    }

    #[test]
    fn whether_it_has_started_is_asked_in_the_start_only() {
        let mut q = questions();
        let mut own = q.ready[0].clone();
        own.0.port = 16010;
        q.started = Some((own.0, Regex::new("\"ended\": [1-9]").unwrap()));
        let serves = || answer("Mode: leader");
        for (also, said, started) in [
            (Also::Started, Some("\"ended\": 0"), false),
            (Also::Started, Some("\"ended\": 1763"), true),
            (Also::Nothing, None, false),
            (Also::Stable, None, false),
        ] {
            let asked = q.of(0, also);
            let answers: Vec<_> = [serves()].into_iter().chain(said.map(answer)).collect();
            assert_eq!(asked.kinds.len(), answers.len(), "{also:?}");
            let judged = q.judge(0, &answers, &asked);
            assert_eq!((judged.ready, judged.started), (true, started), "{said:?}");
        }
        let refused = ProbeAnswer {
            connected: false,
            ..answer("")
        };
        let asked = q.of(0, Also::Started);
        assert!(!q.judge(0, &[serves(), refused], &asked).started);
    }

    #[test]
    fn answers_are_judged() {
        let q = questions();
        let says = |t: &str| q.judge(0, &[answer(t)], &q.of(0, Also::Stable));
        let l = says("Zxid: 0x100000007\nMode: leader");
        let f = says("Zxid: 0x100000009\nMode: follower");
        let old = says("Zxid: 0x9\nMode: follower");
        let down = says("This instance is not serving");
        assert_eq!(
            (l.role.as_deref(), l.equal.as_deref()),
            (Some("leader"), Some("1"))
        );
        let names = ["a".to_owned(), "b".to_owned()];
        let (torn, dark) = (Instability::SeveralLead, Instability::Outage);
        for (answers, want) in [
            (vec![l.clone(), f.clone()], None),
            (vec![l.clone(), l.clone()], Some((torn, "2 nodes"))),
            (vec![f.clone(), f.clone()], Some((dark, "0 nodes"))),
            (vec![l.clone(), down], Some((dark, "b does not serve"))),
            (vec![l, old], Some((dark, "differs"))),
        ] {
            match (q.unstable(&names, &answers), want) {
                (None, None) => {}
                (Some((kind, got)), Some((want, words))) => {
                    assert!(kind == want && got.contains(words), "{kind:?} {got}");
                    // A record keeps the words only.
                    assert_eq!(NotStable::from(&*got).kind, want, "{got}");
                }
                (got, want) => panic!("{got:?}, wanted {want:?}"),
            }
        }
    }
}
