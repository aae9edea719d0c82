//! The minimiser as a state machine: it says which sequence to run next and is told how the run ended. Pure and deterministic, so that
//! the outcomes of a journal bring it back to where it was; knows no clock, no file, no cluster.
//!
//! Order: learn (which failure, how often), fewer faults, earlier and simpler ones, points that say less (and fewer faults again, where a
//! point changed), the cold start, the result once more.

use super::bar::{Bar, misses};
use super::candidate::{Best, Candidate, differs, nodes};
use super::exchange::{Ask, Ended, NeverFailed, Outcome, Settings, Step, Told, Verdict};
use super::facts::Facts;
use super::finals::{Then, after};
use super::shrink::Shrink;
use super::simpler::{by_role, cold, simpler, wider};
use super::which::most_often;
use std::collections::{BTreeMap, BTreeSet};
use warren_model::{ClusterShape, FaultSequence, NodeName};

/// Replays at the beginning without -n: until the failure showed three times, at most ten.
const LEARN_MOST: u32 = 10;
const LEARN_HITS: u32 = 3;
/// Replays of the result without -n; more of a failure whose candidates get more tries, as far as that is a quarter of all runs.
const FINAL: u32 = 5;
/// Void runs in a row that count as one that did not show it: where each is, there must be an end.
const VOIDS: u32 = 3;

/// A candidate under test.
#[derive(Clone, Debug)]
struct Trial {
    what: String,
    candidate: Candidate,
    facts: Option<Facts>,
    hits: u32,
    runs: u32,
    passed: u32,
    /// Did not come to all faults.
    missed: u32,
    unclear: u32,
    others: BTreeSet<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Learn,
    Fewer,
    Simpler,
    Wider,
    /// A snapshot can be made only where CRIU works: a cold start is for anybody.
    Cold,
    Final,
    Over,
}

/// The state.
#[derive(Clone, Debug)]
pub struct Minimiser {
    settings: Settings,
    shape: ClusterShape,
    stage: Stage,
    best: Best,
    /// Bests before it, for a result that does not show when it is replayed.
    earlier: Vec<Best>,
    shrink: Shrink,
    /// A candidate with fewer faults did not come to all of them; roles instead of nodes are to be tried because of that, once.
    blocked: bool,
    roles_tried: bool,
    trial: Option<Trial>,
    /// Hashes of the bests that had nothing more to leave out, and nothing more to widen.
    one_minimal: Option<u64>,
    as_wide_as_can_be: Option<u64>,
    refused: BTreeSet<u64>,
    /// Points that a fault was moved away from or that did not do: what comes first on a node differs from run to run, and none is to
    /// go to and fro or to be tried again whenever another fault moved.
    left: BTreeSet<(usize, String)>,
    /// Candidates of which every run passed.
    passing: Vec<(String, Candidate)>,
    learned: Vec<Outcome>,
    signature: Option<String>,
    given: (u32, u32),
    bar: Bar,
    /// So many tries of a candidate, all of which did not come to its faults, are enough.
    misses: u32,
    spent: u64,
    steps: u32,
    voids: u32,
    finals: (u32, u32),
    never: Option<NeverFailed>,
}

impl Minimiser {
    /// For a sequence on a cluster.
    #[must_use]
    pub fn new(sequence: FaultSequence, shape: ClusterShape, settings: Settings) -> Self {
        Minimiser {
            best: Best {
                candidate: Candidate::given(sequence),
                facts: Facts::default(),
                k: 0,
                n: 0,
            },
            signature: settings.signature.clone(),
            bar: Bar {
                tries: 1,
                needed: 1,
            },
            misses: u32::MAX,
            settings,
            shape,
            stage: Stage::Learn,
            earlier: Vec::new(),
            shrink: Shrink::default(),
            blocked: false,
            roles_tried: false,
            trial: None,
            one_minimal: None,
            as_wide_as_can_be: None,
            refused: BTreeSet::new(),
            left: BTreeSet::new(),
            passing: Vec::new(),
            learned: Vec::new(),
            given: (0, 0),
            spent: 0,
            steps: 0,
            voids: 0,
            finals: (0, 0),
            never: None,
        }
    }

    /// The run to make now; none = it is over. Steps that end by the bound are told through `told`.
    pub fn next(&mut self, told: &mut Vec<Told>) -> Option<Ask> {
        loop {
            match self.stage {
                Stage::Learn => {
                    if self.spent >= self.settings.runs {
                        self.learn_over(told);
                        continue;
                    }
                    return Some(self.ask("the sequence as given"));
                }
                Stage::Fewer | Stage::Simpler | Stage::Wider | Stage::Cold => {
                    if self.spent + u64::from(self.finals_wanted()) >= self.settings.runs {
                        if self.trial.is_some() {
                            self.settle(Verdict::Undecided, told);
                        }
                        self.stage = Stage::Final;
                        continue;
                    }
                    if let Some(t) = &self.trial {
                        return Some(Ask {
                            sequence: t.candidate.sequence.clone(),
                            hash: t.candidate.hash(),
                            what: t.what.clone(),
                        });
                    }
                    self.trial = self.propose();
                }
                Stage::Final => {
                    // Nothing was kept: it has been replayed already.
                    if self.earlier.is_empty() && self.steps_kept() == 0 {
                        self.finals = self.given;
                        self.stage = Stage::Over;
                        continue;
                    }
                    let (shown, made) = self.finals;
                    let spent = self.spent >= self.settings.runs;
                    match after(shown, made, self.finals_wanted(), spent) {
                        Then::Replay => return Some(self.ask("the result")),
                        // It has replays of its own, if there are runs left.
                        Then::StepBack if self.step_back() && !spent => {}
                        Then::StepBack | Then::Over => self.stage = Stage::Over,
                    }
                }
                Stage::Over => return None,
            }
        }
    }

    /// How the run asked for ended.
    pub fn outcome(&mut self, outcome: Outcome, told: &mut Vec<Told>) {
        self.spent += outcome.cost.max(1);
        if self.tells_nothing(&outcome) {
            self.voids += 1;
            if self.voids < VOIDS {
                return;
            }
        }
        self.voids = 0;
        match self.stage {
            Stage::Learn => {
                self.learned.push(outcome);
                let runs = u32::try_from(self.learned.len()).unwrap_or(u32::MAX);
                let most = self.most_often().map_or(0, |(_, n)| n);
                let done = match self.settings.tries {
                    Some(n) => runs >= n,
                    None => most >= LEARN_HITS || runs >= LEARN_MOST,
                };
                if done {
                    self.learn_over(told);
                }
            }
            Stage::Final => {
                self.finals.1 += 1;
                self.finals.0 += u32::from(self.shows(&outcome));
            }
            Stage::Fewer | Stage::Simpler | Stage::Wider | Stage::Cold => {
                self.tried(outcome, told);
            }
            Stage::Over => {}
        }
    }

    fn tried(&mut self, outcome: Outcome, told: &mut Vec<Told>) {
        let shows = self.shows(&outcome);
        let Some(t) = &mut self.trial else { return };
        t.runs += 1;
        t.hits += u32::from(shows);
        t.passed += u32::from(outcome.ended == Ended::Passed);
        t.missed += u32::from(outcome.ended == Ended::NotInjected);
        t.unclear += u32::from(!matches!(outcome.ended, Ended::Passed | Ended::Failed));
        // What a run shows beside the failure to keep is the same story told by another checker.
        if !shows {
            t.others.extend(outcome.signatures);
        }
        if shows && outcome.facts.is_some() {
            t.facts = outcome.facts;
        }
        // Its point does not come: more tries of it are wasted.
        let gone = t.missed == t.runs && t.missed >= self.misses;
        match self.bar.decided(t.hits, t.runs) {
            Some(true) => self.settle(Verdict::Kept, told),
            Some(false) => self.settle(Verdict::NotKept, told),
            None if gone => self.settle(Verdict::NotKept, told),
            None => {}
        }
    }

    /// A candidate is decided.
    fn settle(&mut self, verdict: Verdict, told: &mut Vec<Told>) {
        let Some(t) = self.trial.take() else { return };
        self.steps += 1;
        told.push(Told::Step(Step {
            number: self.steps,
            what: t.what.clone(),
            k: t.hits,
            n: t.runs,
            verdict,
            others: t.others,
            unclear: t.unclear,
        }));
        if verdict == Verdict::Kept {
            let best = Best {
                candidate: t.candidate,
                facts: t.facts.unwrap_or_default(),
                k: t.hits,
                n: t.runs,
            };
            let before = std::mem::replace(&mut self.best, best);
            if self.stage == Stage::Simpler {
                let (old, new) = (places(&before.candidate), places(&self.best.candidate));
                self.left.extend(old.difference(&new).cloned());
            }
            if self.stage == Stage::Fewer {
                let faults = |b: &Best| b.candidate.sequence.faults.len();
                if faults(&before) == faults(&self.best) {
                    self.shrink = Shrink::default();
                } else {
                    self.shrink.kept();
                }
            }
            self.earlier.push(before);
            return;
        }
        self.blocked |= self.stage == Stage::Fewer && t.unclear > 0;
        if self.stage == Stage::Simpler {
            let (old, new) = (places(&self.best.candidate), places(&t.candidate));
            self.left.extend(new.difference(&old).cloned());
        }
        self.refused.insert(t.candidate.hash());
        if verdict == Verdict::NotKept && t.passed == t.runs {
            self.passing.push((t.what, t.candidate));
        }
    }

    /// The next candidate of this stage; none = the next stage begins.
    fn propose(&mut self) -> Option<Trial> {
        let own = self.best.candidate.hash();
        let known = |refused: &BTreeSet<u64>, c: &Candidate| {
            let hash = c.hash();
            hash == own || refused.contains(&hash)
        };
        let found = match self.stage {
            Stage::Fewer => loop {
                match self.shrink.next(&self.best, &self.shape) {
                    Some((_, c)) if known(&self.refused, &c) => {}
                    None if self.blocked && !self.roles_tried => {
                        self.roles_tried = true;
                        let roles = by_role(&self.best, &self.shape);
                        break (roles.1.hash() != own).then_some(roles);
                    }
                    other => break other,
                }
            },
            Stage::Simpler => simpler(&self.best, &self.shape)
                .into_iter()
                .find(|(_, c)| !known(&self.refused, c) && !self.goes_back(c)),
            Stage::Wider => wider(&self.best, &self.shape)
                .into_iter()
                .find(|(_, c)| !known(&self.refused, c)),
            Stage::Cold => cold(&self.best).filter(|(_, c)| !known(&self.refused, c)),
            Stage::Learn | Stage::Final | Stage::Over => None,
        };
        let Some((what, candidate)) = found else {
            self.stage = self.stage_after(own);
            return None;
        };
        Some(Trial {
            what,
            candidate,
            facts: None,
            hits: 0,
            runs: 0,
            passed: 0,
            missed: 0,
            unclear: 0,
            others: BTreeSet::new(),
        })
    }

    /// Whether a fault moves to a point that it left, or that did not do.
    fn goes_back(&self, c: &Candidate) -> bool {
        let now = places(&self.best.candidate);
        places(c).difference(&now).any(|p| self.left.contains(p))
    }

    /// The stage that follows where this one has no more to propose for the best, which has hash `best`. What points were moved or widened
    /// for is asked again with fewer faults: they may have been needed only for the old ones.
    fn stage_after(&mut self, best: u64) -> Stage {
        match self.stage {
            Stage::Fewer => {
                self.one_minimal = Some(best);
                match self.as_wide_as_can_be == self.one_minimal {
                    true => Stage::Cold,
                    false => Stage::Simpler,
                }
            }
            Stage::Simpler => Stage::Wider,
            Stage::Wider => {
                self.as_wide_as_can_be = Some(best);
                if self.one_minimal == self.as_wide_as_can_be {
                    return Stage::Cold;
                }
                self.shrink = Shrink::default();
                Stage::Fewer
            }
            Stage::Learn | Stage::Cold | Stage::Final | Stage::Over => Stage::Final,
        }
    }

    fn learn_over(&mut self, told: &mut Vec<Told>) {
        let runs = u32::try_from(self.learned.len()).unwrap_or(u32::MAX);
        let most = self.most_often();
        let Some((signature, k)) = most.filter(|(_, k)| *k > 0) else {
            let mut others: BTreeMap<String, u32> = BTreeMap::new();
            for s in self.learned.iter().filter_map(|o| o.signatures.first()) {
                *others.entry(s.clone()).or_default() += 1;
            }
            self.never = Some(NeverFailed { runs, others });
            self.stage = Stage::Over;
            return;
        };
        self.signature = Some(signature.clone());
        let last = self.learned.iter().rev().find(|o| self.shows(o));
        self.best.facts = last.and_then(|o| o.facts.clone()).unwrap_or_default();
        (self.best.k, self.best.n) = (k, runs);
        self.given = (k, runs);
        let missed = self.learned.iter();
        let missed = missed.filter(|o| o.ended == Ended::NotInjected);
        self.misses = misses(u32::try_from(missed.count()).unwrap_or(u32::MAX), runs);
        self.bar = Bar::learn(k, runs, self.settings.tries, self.settings.needed);
        self.stage = Stage::Fewer;
        told.push(Told::Learned {
            signature,
            k,
            n: runs,
            bar: self.bar,
        });
    }

    fn most_often(&self) -> Option<(String, u32)> {
        most_often(self.signature.as_deref(), &self.learned)
    }

    fn shows(&self, outcome: &Outcome) -> bool {
        self.signature
            .as_ref()
            .is_some_and(|s| outcome.signatures.contains(s))
    }

    /// Of the failure to keep, where it is known which.
    fn tells_nothing(&self, outcome: &Outcome) -> bool {
        // Whatever its number: which one is meant is not known while it is learned.
        let shows = |kept: &String| {
            let mut all = outcome.signatures.iter();
            all.any(|s| s.split(' ').next() == kept.split(' ').next())
        };
        let kept = self.signature.as_ref();
        outcome.ended == Ended::Void || outcome.by_load && kept.is_some_and(|kept| !shows(kept))
    }

    fn ask(&self, what: &str) -> Ask {
        Ask {
            sequence: self.best.candidate.sequence.clone(),
            hash: self.best.candidate.hash(),
            what: what.to_owned(),
        }
    }

    fn finals_wanted(&self) -> u32 {
        let few = u32::try_from(self.settings.runs / 4).unwrap_or(u32::MAX);
        let tries = self.settings.tries;
        tries.unwrap_or(FINAL.max(self.bar.tries.min(few)))
    }

    /// Steps that led to the best there is.
    #[must_use]
    pub fn steps_kept(&self) -> usize {
        self.earlier.len()
    }

    /// The result did not show again: the best before it is the result. False: there is none.
    fn step_back(&mut self) -> bool {
        let Some(before) = self.earlier.pop() else {
            return false;
        };
        self.best = before;
        self.finals = (0, 0);
        true
    }

    /// Why it ended before it began.
    #[must_use]
    pub fn never_failed(&self) -> Option<&NeverFailed> {
        self.never.as_ref()
    }

    /// The signature kept, once it is known.
    #[must_use]
    pub fn signature(&self) -> Option<&str> {
        self.signature.as_deref()
    }

    /// The best so far.
    #[must_use]
    pub fn best(&self) -> &Best {
        &self.best
    }

    /// The failure was seen: there is something to keep.
    #[must_use]
    pub fn has_learned(&self) -> bool {
        self.given.0 > 0
    }

    /// Nothing is left to try (or the bound is reached).
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.stage == Stage::Over
    }

    /// k of n of the given sequence.
    #[must_use]
    pub fn given(&self) -> (u32, u32) {
        self.given
    }

    /// k of n of the result: replayed at the end, else from when it was kept.
    #[must_use]
    pub fn result(&self) -> (u32, u32) {
        if self.finals.1 > 0 {
            self.finals
        } else {
            (self.best.k, self.best.n)
        }
    }

    /// Whether the result was replayed after it was found.
    #[must_use]
    pub fn replayed(&self) -> bool {
        self.finals.1 > 0
    }

    /// Runs made.
    #[must_use]
    pub fn spent(&self) -> u64 {
        self.spent
    }

    /// The bound.
    #[must_use]
    pub fn bound(&self) -> u64 {
        self.settings.runs
    }

    /// The nodes of the cluster.
    #[must_use]
    pub fn nodes(&self) -> Vec<NodeName> {
        nodes(&self.shape)
    }

    /// Of the candidates that always passed, the one that differs least from the best (of equal ones the last), and how.
    #[must_use]
    pub fn neighbour(&self) -> Option<(&Candidate, usize, String)> {
        self.passing
            .iter()
            .map(|(_, c)| {
                let (n, text) = differs(&self.best.candidate, c, &self.best.facts);
                (c, n, text)
            })
            .filter(|(_, n, _)| *n > 0)
            .reduce(|a, b| if b.1 <= a.1 { b } else { a })
    }
}

/// Where each fault happens.
fn places(c: &Candidate) -> BTreeSet<(usize, String)> {
    c.ids
        .iter()
        .zip(&c.sequence.faults)
        .map(|(id, f)| (*id, format!("{:?}", f.at)))
        .collect()
}
