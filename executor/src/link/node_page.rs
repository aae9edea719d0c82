//! node-<node>.page: the plan for one node, its cuts, and what its agent recorded (docs/formats.md section 4).
//!
//! Written by the executor (PLAN, CUTS, PATTERNS) and the agent (the rest). Reading events and interned texts is in `read`.

use super::{LAYOUT, LinkError, page::SharedPage};
use std::net::Ipv4Addr;
use std::path::Path;
use warren_model::ids::fnv1a;
use warren_model::{Interval, Kind, Phase, Place, StackId};

const MAGIC: u64 = 0x3147_444e_4e52_4157;
const PLAN: usize = 4096;
const PLAN_ENTRY: usize = 128;
/// Most faults a plan holds.
pub const PLAN_MAX: usize = 64;
const CUTS: usize = 16384;
const CUTS_MAX: usize = 255;
const OCC: usize = 20480;
const OCC_ENTRIES: usize = 16384;
const OCC_ENTRY: usize = 32;
const PATTERNS: usize = 544_768;
const PATTERNS_BYTES: usize = 65536;
pub(super) const EVENTS: usize = 1 << 20;
pub(super) const EVENT_BYTES: usize = 64;
/// Records in EVENTS.
pub const EVENTS_CAP: usize = 65536;
/// Bytes of a page of the default size that hold EVENTS.
pub const EVENTS_REGION: std::ops::Range<u64> =
    EVENTS as u64..(EVENTS + EVENT_BYTES * EVENTS_CAP) as u64;
/// Size of INTERN.
pub const INTERN_BYTES: usize = 4 << 20;

/// Words of the header, by their name in docs/formats.md.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Word {
    PlanGen = 5,
    PlanCount = 6,
    Incarnation = 9,
    AgentState = 10,
    EventsNext = 12,
    EventsDropped = 13,
    InternNext = 14,
    InternDropped = 15,
    Unbound = 16,
    HeldIndex = 17,
    HeldThread = 18,
    HeldTime = 19,
    HeldEvent = 20,
    BytesSent = 21,
    BytesReceived = 22,
    Classes = 23,
    ClassFailures = 24,
    Role = 25,
    Errors = 26,
    VirtualHeld = 27,
    HeldN = 28,
}

/// One fault that waits for points of this node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlanEntry {
    /// Index in the sequence.
    pub index: usize,
    pub phase: Phase,
    /// 1-based occurrence.
    pub n: u32,
    /// The fault is a stall.
    pub stall: Option<PlanStall>,
    pub at: PlanWhere,
}

/// How a thread that meets a stall goes on holding when the fault is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlanStall {
    /// At most so long, ms.
    pub ms: u32,
    /// Until the fault after it is done, if that comes first.
    pub until_next: bool,
}

/// What a plan entry looks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PlanWhere {
    Exact {
        stack: StackId,
        kind: Kind,
        place: Place,
    },
    Pattern {
        /// Globs over `class.method`, innermost first.
        frames: Vec<String>,
        stack: Option<StackId>,
        kind: Option<Kind>,
        place: Option<Place>,
        /// 1-based role number; 0 = any.
        role: u8,
    },
}

/// A cut made by the agent (section 2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum CutMode {
    Throw = 1,
    Lose = 2,
}

/// The thread that won a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeldBy {
    pub thread: u64,
    /// When it reached the point, ns.
    pub t_ns: u64,
    /// Index of its event in the node's EVENTS; none when it did not fit.
    pub event: Option<u64>,
    /// The number by which it matched: an exact point's occurrence, a pattern's arrival on this node.
    pub n: u32,
}

/// What came of one plan entry, as its node's agent counted it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Arrivals {
    /// In the interval asked for.
    pub n: u32,
    /// When the last of them came, ns; 0 = none yet.
    pub last: u64,
}

/// The page of one node, owned by the executor.
#[derive(Debug)]
pub struct NodePage {
    pub(super) page: SharedPage,
    pub(super) cap: usize,
    pub(super) intern_bytes: usize,
}

impl NodePage {
    /// Creates it for node `index` with the default sizes.
    ///
    /// # Errors
    /// [`LinkError::Create`].
    pub fn create(path: &Path, index: usize) -> Result<Self, LinkError> {
        Self::create_sized(path, index, EVENTS_CAP, INTERN_BYTES)
    }

    /// Creates it with so many event records and interning bytes.
    ///
    /// # Errors
    /// [`LinkError::Create`].
    pub(super) fn create_sized(
        path: &Path,
        index: usize,
        cap: usize,
        intern_bytes: usize,
    ) -> Result<Self, LinkError> {
        let page = SharedPage::create(path, EVENTS + EVENT_BYTES * cap + intern_bytes)?;
        page.set(2 * 8, index as u64);
        page.set(3 * 8, cap as u64);
        page.set(4 * 8, intern_bytes as u64);
        page.set(8, LAYOUT);
        page.set(0, MAGIC);
        Ok(NodePage {
            page,
            cap,
            intern_bytes,
        })
    }

    /// The page of a restored node.
    ///
    /// # Errors
    /// [`LinkError::Open`].
    pub fn open(path: &Path) -> Result<Self, LinkError> {
        Self::checked(SharedPage::open(path)?, path)
    }

    /// What is in a page that a snapshot keeps, which has holes ([`SharedPage::read`]).
    ///
    /// # Errors
    /// [`LinkError::Open`].
    pub fn read(path: &Path) -> Result<Self, LinkError> {
        Self::checked(SharedPage::read(path)?, path)
    }

    fn checked(page: SharedPage, path: &Path) -> Result<Self, LinkError> {
        let size = |word: usize| usize::try_from(page.get(word * 8)).unwrap_or(0);
        let (cap, intern_bytes) = (size(3), size(4));
        if page.get(0) != MAGIC || EVENTS + EVENT_BYTES * cap + intern_bytes > page.len() {
            return Err(LinkError::Open {
                path: path.to_owned(),
                source: std::io::Error::other("this is no node page, or only a part of one"),
            });
        }
        Ok(NodePage {
            page,
            cap,
            intern_bytes,
        })
    }

    /// The trace begins anew. The caller sees to it that [`EVENTS_REGION`] is zero.
    pub fn forget_events(&self) {
        self.page.set(Word::EventsNext as usize * 8, 0);
        self.page.set(Word::EventsDropped as usize * 8, 0);
    }

    /// A word of the header.
    #[must_use]
    pub fn word(&self, w: Word) -> u64 {
        self.page.get(w as usize * 8)
    }

    /// How many processes of this node there were; the next one is one more. Only while none is alive.
    pub fn set_incarnations(&self, before: u8) {
        let at = Word::Incarnation as usize * 8;
        self.page.set(at, u64::from(before));
    }

    /// Publishes a plan: odd while it is written, even when it is valid.
    ///
    /// # Errors
    /// [`LinkError::TooMany`] for more entries or pattern text than fit.
    pub fn write_plan(&self, entries: &[PlanEntry]) -> Result<(), LinkError> {
        if entries.len() > PLAN_MAX {
            return Err(LinkError::TooMany {
                what: "the plan of one node",
                value: entries.len(),
                max: PLAN_MAX,
            });
        }
        // One text after the other, and for each entry where its own begins.
        let mut texts = String::new();
        let mut written: Vec<[u64; 16]> = Vec::with_capacity(entries.len());
        for e in entries {
            let text = pattern_text(&e.at);
            written.push(entry_words(e, texts.len(), text.len()));
            texts.push_str(&text);
        }
        if texts.len() > PATTERNS_BYTES {
            return Err(LinkError::TooMany {
                what: "the pattern text of one node (bytes)",
                value: texts.len(),
                max: PATTERNS_BYTES,
            });
        }
        let r#gen = self.word(Word::PlanGen) & !1;
        self.page.set(Word::PlanGen as usize * 8, r#gen + 1);
        self.page.write(PATTERNS, texts.as_bytes());
        for (i, words) in written.iter().enumerate() {
            for (w, value) in words.iter().enumerate() {
                self.page.set(PLAN + i * PLAN_ENTRY + w * 8, *value);
            }
        }
        self.page
            .set(Word::PlanCount as usize * 8, entries.len() as u64);
        self.page.set(Word::PlanGen as usize * 8, r#gen + 2);
        Ok(())
    }

    /// The next occurrence with any n is accepted for the fault `index` (after silence).
    pub fn accept_earlier(&self, index: usize) {
        let count = usize::try_from(self.word(Word::PlanCount)).unwrap_or(0);
        for i in 0..count.min(PLAN_MAX) {
            let at = PLAN + i * PLAN_ENTRY;
            if self.page.get(at) == index as u64 {
                self.page.set(at + 10 * 8, 1);
            }
        }
    }

    /// Replaces the table of cuts: what this node's sends to each address do.
    ///
    /// # Errors
    /// [`LinkError::TooMany`].
    pub fn write_cuts(&self, cuts: &[(Ipv4Addr, CutMode)]) -> Result<(), LinkError> {
        if cuts.len() > CUTS_MAX {
            return Err(LinkError::TooMany {
                what: "the cuts of one node",
                value: cuts.len(),
                max: CUTS_MAX,
            });
        }
        // Modes go to 0 first and addresses last, so that a reader in between sees a shorter table, never a wrong pair.
        self.page.set(CUTS, 0);
        for (i, (addr, mode)) in cuts.iter().enumerate().rev() {
            let at = CUTS + i * 16;
            self.page.set(
                at + 16,
                if i + 1 == cuts.len() {
                    0
                } else {
                    self.page.get(at + 16)
                },
            );
            self.page.set(at + 8, *mode as u64);
            self.page.set(at, u64::from(u32::from(*addr)));
        }
        Ok(())
    }

    /// The thread that holds for fault `index`, once it has said so.
    #[must_use]
    pub fn held_by(&self, index: usize) -> Option<HeldBy> {
        (self.word(Word::HeldIndex) == index as u64 + 1).then(|| HeldBy {
            thread: self.word(Word::HeldThread),
            t_ns: self.word(Word::HeldTime),
            event: self.word(Word::HeldEvent).checked_sub(1),
            n: u32::try_from(self.word(Word::HeldN)).unwrap_or(u32::MAX),
        })
    }

    /// Arrivals of the entry for fault `index` in an interval; none if this node's plan has no such entry.
    #[must_use]
    pub fn arrivals(&self, index: usize, interval: Interval) -> Option<Arrivals> {
        let count = usize::try_from(self.word(Word::PlanCount)).unwrap_or(0);
        let at = (0..count.min(PLAN_MAX))
            .map(|i| PLAN + i * PLAN_ENTRY)
            .find(|at| self.page.get(*at) == index as u64)?;
        let word = self.page.get(at + 11 * 8);
        if (word >> 32) as u32 != interval.0 {
            return Some(Arrivals::default());
        }
        Some(Arrivals {
            n: (word & 0xffff_ffff) as u32,
            last: self.page.get(at + 12 * 8),
        })
    }

    /// Role number seen last; 0 = none.
    #[must_use]
    pub fn role(&self) -> u8 {
        u8::try_from(self.word(Word::Role)).unwrap_or(0)
    }

    /// Interval, n in it, and total arrivals of a point on this node; none if it never came.
    #[must_use]
    pub fn occurrence(&self, stack: StackId, kind: Kind, place: Place) -> Option<(u32, u32, u64)> {
        let key = occ_key(stack, kind, place);
        for step in 0..OCC_ENTRIES {
            let slot = ((key % OCC_ENTRIES as u64) as usize + step) % OCC_ENTRIES;
            let at = OCC + slot * OCC_ENTRY;
            match self.page.get(at) {
                0 => return None,
                k if k == key => {
                    let word = self.page.get(at + 8);
                    return Some((
                        (word >> 32) as u32,
                        (word & 0xffff_ffff) as u32,
                        self.page.get(at + 16),
                    ));
                }
                _ => {}
            }
        }
        None
    }

    /// Total arrivals of every point counted so far, by key: what grows while idle is background.
    #[must_use]
    pub fn totals(&self) -> Vec<(u64, u64)> {
        (0..OCC_ENTRIES)
            .filter_map(|i| {
                let at = OCC + i * OCC_ENTRY;
                let key = self.page.get(at);
                (key != 0).then(|| (key, self.page.get(at + 16)))
            })
            .collect()
    }
}

/// The key of an OCC entry.
#[must_use]
pub fn occ_key(stack: StackId, kind: Kind, place: Place) -> u64 {
    let mut bytes = stack.0.to_le_bytes().to_vec();
    bytes.push(kind.to_wire());
    bytes.push(place.to_wire());
    fnv1a(&bytes).max(1)
}

fn pattern_text(at: &PlanWhere) -> String {
    match at {
        PlanWhere::Exact { .. } => String::new(),
        PlanWhere::Pattern { frames, .. } => frames.join("\n"),
    }
}

fn entry_words(e: &PlanEntry, text_at: usize, text_len: usize) -> [u64; 16] {
    let mut w = [0u64; 16];
    w[0] = e.index as u64;
    w[5] = u64::from(e.n);
    w[6] = u64::from(e.phase.to_wire());
    match &e.at {
        PlanWhere::Exact { stack, kind, place } => {
            w[1] = 1;
            w[2] = stack.0;
            w[3] = u64::from(kind.to_wire());
            w[4] = u64::from(place.to_wire());
        }
        PlanWhere::Pattern {
            stack,
            kind,
            place,
            role,
            ..
        } => {
            w[1] = 2;
            w[2] = stack.map_or(0, |s| s.0);
            w[3] = kind.map_or(0, |k| u64::from(k.to_wire()));
            w[4] = place.map_or(0, |p| u64::from(p.to_wire()));
            w[7] = u64::from(*role);
            w[8] = text_at as u64;
            w[9] = text_len as u64;
        }
    }
    w[13] = e
        .stall
        .map_or(0, |s| u64::from(s.until_next) << 32 | u64::from(s.ms));
    w
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page() -> (tempfile::TempDir, NodePage) {
        let dir = tempfile::tempdir().unwrap();
        let p = NodePage::create_sized(&dir.path().join("n"), 4, 16, 4096).unwrap();
        (dir, p)
    }

    #[test]
    fn header_and_plan_layout() {
        let (dir, p) = page();
        let frames = vec!["*.a".to_owned(), "b.*".to_owned()];
        p.write_plan(&[
            PlanEntry {
                index: 0,
                phase: Phase::Test,
                n: 3,
                stall: Some(PlanStall {
                    ms: 500,
                    until_next: true,
                }),
                at: PlanWhere::Exact {
                    stack: StackId(0xabcd),
                    kind: Kind::Force,
                    place: Place::After,
                },
            },
            PlanEntry {
                index: 2,
                phase: Phase::Start,
                n: 1,
                stall: None,
                at: PlanWhere::Pattern {
                    frames,
                    stack: None,
                    kind: None,
                    place: None,
                    role: 2,
                },
            },
        ])
        .unwrap();
        p.accept_earlier(2);
        let b = std::fs::read(dir.path().join("n")).unwrap();
        let word = |at: usize| u64::from_le_bytes(b[at..at + 8].try_into().unwrap());
        assert_eq!(&b[0..8], b"WARNNDG1");
        assert_eq!((word(16), word(24), word(32)), (4, 16, 4096));
        assert_eq!((word(40), word(48)), (2, 2), "even generation, two entries");
        let exact: Vec<u64> = (0..11).map(|i| word(4096 + i * 8)).collect();
        assert_eq!(exact, [0, 1, 0xabcd, 3, 2, 3, 2, 0, 0, 0, 0]);
        let pattern: Vec<u64> = (0..11).map(|i| word(4096 + 128 + i * 8)).collect();
        assert_eq!(pattern, [2, 2, 0, 0, 0, 1, 0, 2, 0, 7, 1]);
        let stalls = [4096, 4096 + 128].map(|at| word(at + 13 * 8));
        assert_eq!(stalls, [1 << 32 | 500, 0]);
        assert_eq!(&b[544_768..544_775], b"*.a\nb.*");
        // As the agent counts: the second entry's words 11 and 12.
        p.page.set(4096 + 128 + 88, 0x1_0002_u64 << 32 | 7);
        p.page.set(4096 + 128 + 96, 55);
        let came = |index, interval| p.arrivals(index, Interval(interval));
        assert_eq!(came(2, 0x1_0002), Some(Arrivals { n: 7, last: 55 }));
        assert_eq!(came(2, 0x1_0003), Some(Arrivals::default()));
        assert_eq!(came(0, 0x1_0000), Some(Arrivals::default()));
        assert_eq!(came(1, 0x1_0001), None, "nobody here waits for it");
        p.page.set(28 * 8, 7);
        p.page.set(17 * 8, 3);
        assert_eq!(p.held_by(2).map(|h| h.n), Some(7));
        p.write_plan(&[]).unwrap();
        assert_eq!((p.word(Word::PlanGen), p.word(Word::PlanCount)), (4, 0));
    }

    #[test]
    fn texts_of_patterns_lie_one_after_the_other() {
        let (dir, p) = page();
        let entry = |index, frame: &str| PlanEntry {
            index,
            phase: Phase::Test,
            n: 1,
            stall: None,
            at: PlanWhere::Pattern {
                frames: vec![frame.to_owned()],
                stack: None,
                kind: None,
                place: None,
                role: 0,
            },
        };
        p.write_plan(&[entry(0, "*.abcdefghi"), entry(1, "x.*")])
            .unwrap();
        let b = std::fs::read(dir.path().join("n")).unwrap();
        assert_eq!(&b[PATTERNS..PATTERNS + 14], b"*.abcdefghix.*");
        let place = |i: usize| {
            let at = PLAN + i * PLAN_ENTRY + 64;
            let word = |at: usize| u64::from_le_bytes(b[at..at + 8].try_into().unwrap());
            (word(at), word(at + 8))
        };
        assert_eq!([place(0), place(1)], [(0, 11), (11, 3)]);
    }

    #[test]
    fn cuts_are_big_endian_numbers_and_end_with_zero() {
        let (dir, p) = page();
        let a = |n| Ipv4Addr::new(127, 0, 0, n);
        p.write_cuts(&[(a(11), CutMode::Throw), (a(12), CutMode::Lose)])
            .unwrap();
        let words = |n: usize| -> Vec<u64> {
            let b = std::fs::read(dir.path().join("n")).unwrap();
            (0..n)
                .map(|i| u64::from_le_bytes(b[16384 + i * 8..16392 + i * 8].try_into().unwrap()))
                .collect()
        };
        assert_eq!(words(5), [0x7f00_000b, 1, 0x7f00_000c, 2, 0]);
        p.write_cuts(&[(a(13), CutMode::Lose)]).unwrap();
        assert_eq!(words(3), [0x7f00_000d, 2, 0]);
        p.write_cuts(&[]).unwrap();
        assert_eq!(words(1), [0]);
    }

    #[test]
    fn too_many_is_refused() {
        let (_d, p) = page();
        let e = PlanEntry {
            index: 0,
            phase: Phase::Test,
            n: 1,
            stall: None,
            at: PlanWhere::Exact {
                stack: StackId(1),
                kind: Kind::Send,
                place: Place::Before,
            },
        };
        assert!(p.write_plan(&vec![e; 65]).is_err());
    }

    #[test]
    fn occurrences_are_found_by_probing() {
        let (_d, p) = page();
        let key = occ_key(StackId(5), Kind::Send, Place::Before);
        let slot = (key % 16384) as usize;
        // Someone else's key sits in the first place.
        p.page.set(OCC + slot * 32, key ^ 1);
        let next = (slot + 1) % 16384;
        p.page.set(OCC + next * 32, key);
        p.page.set(OCC + next * 32 + 8, 0x1_0002_u64 << 32 | 7);
        p.page.set(OCC + next * 32 + 16, 40);
        assert_eq!(
            p.occurrence(StackId(5), Kind::Send, Place::Before),
            Some((0x1_0002, 7, 40))
        );
        assert_eq!(p.occurrence(StackId(6), Kind::Send, Place::Before), None);
        assert_eq!(p.totals().len(), 2);
    }
}
