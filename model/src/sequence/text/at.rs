//! The `[fault.at]` table of a sequence's text: a point, a pattern, or a word for when.
//!
//! Called by `text`, which reads and writes the rest of a fault. It asks for no run: whether the point comes is the controller's.

use super::{TextError, parse, wrong};
use crate::ids::{NodeName, StackId};
use crate::point::{IoPoint, Kind, Pattern, Phase, Place};
use crate::sequence::At;
use serde::{Deserialize, Serialize};

#[derive(Default, Serialize, Deserialize)]
#[serde(
    deny_unknown_fields,
    expecting = "a [fault.at] table (a point, a pattern, or when = \"at-once\")"
)]
pub(super) struct AtText {
    /// `at-once`, `joined` or `after`; absent for points.
    #[serde(skip_serializing_if = "Option::is_none")]
    when: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    node: Option<String>,
    /// Any node but this one.
    #[serde(skip_serializing_if = "Option::is_none")]
    except: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    role: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    frames: Option<Vec<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    stack: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    kind: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    place: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    n: Option<u32>,
    /// With `after`.
    #[serde(skip_serializing_if = "Option::is_none")]
    ms: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    phase: Option<String>,
    /// Set for a pattern whose parts would otherwise read as an exact point.
    #[serde(skip_serializing_if = "Option::is_none")]
    pattern: Option<bool>,
}

impl AtText {
    pub(super) fn into_at(self, index: usize) -> Result<At, TextError> {
        match self.when.clone() {
            Some(when) => self.without_point(index, &when),
            None => self.at_point(index),
        }
    }

    /// With a `when`: nobody has to come to a point.
    fn without_point(self, index: usize, when: &str) -> Result<At, TextError> {
        match when {
            "at-once" => {
                self.refuse_all_but("", index, when)?;
                Ok(At::AtOnce)
            }
            "joined" => {
                self.refuse_all_but("at.node", index, when)?;
                let node = self.node.ok_or_else(|| {
                    wrong(index, "at.node", "missing: which node must have joined?")
                })?;
                Ok(At::Joined(NodeName(node)))
            }
            "after" => {
                self.refuse_all_but("at.ms", index, when)?;
                self.ms.map(At::After).ok_or_else(|| {
                    wrong(
                        index,
                        "at.ms",
                        "missing: how many ms after GO, or after the fault before was done?",
                    )
                })
            }
            s => Err(wrong(
                index,
                "at.when",
                format!("`{s}` is none of at-once, joined, after"),
            )),
        }
    }

    /// Beside a `when` a key that describes a point is a mistake, not noise: whoever wrote it waits for that point.
    fn refuse_all_but(&self, own: &str, index: usize, when: &str) -> Result<(), TextError> {
        if own != "at.ms" {
            self.refuse_ms(index)?;
        }
        let said: [(&'static str, Option<String>); 10] = [
            ("at.node", self.node.clone()),
            ("at.except", self.except.clone()),
            ("at.role", self.role.clone()),
            ("at.frames", self.frames.as_ref().map(|f| format!("{f:?}"))),
            ("at.stack", self.stack.clone()),
            ("at.kind", self.kind.clone()),
            ("at.place", self.place.clone()),
            ("at.n", self.n.map(|n| n.to_string())),
            ("at.phase", self.phase.clone()),
            ("at.pattern", self.pattern.map(|p| p.to_string())),
        ];
        for (key, value) in said {
            if let Some(value) = value.filter(|_| key != own) {
                let problem = format!(
                    "`{value}` means nothing with when = \"{when}\", which waits for no point: remove it, or remove `when`"
                );
                return Err(wrong(index, key, problem));
            }
        }
        Ok(())
    }

    fn refuse_ms(&self, index: usize) -> Result<(), TextError> {
        if self.ms.is_none() {
            return Ok(());
        }
        Err(wrong(
            index,
            "at.ms",
            "goes with when = \"after\" only: write that, or remove it",
        ))
    }

    /// The agent gets the globs joined by line feeds: an empty one matches every stack there and none here, and one with a line feed is two.
    fn refuse_odd_frames(&self, index: usize) -> Result<(), TextError> {
        for glob in self.frames.iter().flatten() {
            let problem = if glob.is_empty() {
                "\"\" is the name of no frame: write \"*\" for any frame, or remove it".to_owned()
            } else if glob.contains('\n') {
                format!("{glob:?} holds a line feed: write a glob for each of the frames")
            } else {
                continue;
            };
            return Err(wrong(index, "at.frames", problem));
        }
        Ok(())
    }

    /// An exact point, or a pattern.
    fn at_point(self, index: usize) -> Result<At, TextError> {
        self.refuse_ms(index)?;
        self.refuse_odd_frames(index)?;
        let stack = self
            .stack
            .as_deref()
            .map(|s| parse::<StackId>(index, "at.stack", s))
            .transpose()?;
        let kind = self
            .kind
            .as_deref()
            .map(|s| parse::<Kind>(index, "at.kind", s))
            .transpose()?;
        let place = self
            .place
            .as_deref()
            .map(|s| parse::<Place>(index, "at.place", s))
            .transpose()?;
        let phase = self
            .phase
            .as_deref()
            .map_or(Ok(Phase::Test), |s| parse(index, "at.phase", s))?;
        if !matches!(phase, Phase::Start | Phase::Test) {
            return Err(wrong(
                index,
                "at.phase",
                format!("no fault happens in phase {phase}: start or test"),
            ));
        }
        let n = self.n.unwrap_or(1);
        if n == 0 {
            return Err(wrong(index, "at.n", "0: occurrences count from 1"));
        }
        let loose = self.pattern == Some(true)
            || self.except.is_some()
            || self.role.is_some()
            || self.frames.is_some();
        if !loose
            && let (Some(node), Some(stack), Some(kind), Some(place)) =
                (&self.node, stack, kind, place)
        {
            return Ok(At::Exact(IoPoint {
                node: NodeName(node.clone()),
                stack,
                kind,
                place,
                n,
                phase,
            }));
        }
        let pattern = Pattern {
            node: self.node.map(NodeName),
            except: self.except.map(NodeName),
            role: self.role,
            frames: self.frames.unwrap_or_default(),
            stack,
            kind,
            place,
            n,
            phase,
        };
        if pattern.frames.is_empty() && stack.is_none() && kind.is_none() {
            return Err(wrong(
                index,
                "at",
                "says neither frames, stack nor kind: write frames = [\"*.Class.method\"] or when = \"at-once\"",
            ));
        }
        Ok(At::Pattern(pattern))
    }

    pub(super) fn from_at(at: &At) -> Self {
        match at {
            At::AtOnce => AtText {
                when: Some("at-once".into()),
                ..AtText::default()
            },
            At::Joined(n) => AtText {
                when: Some("joined".into()),
                node: Some(n.to_string()),
                ..AtText::default()
            },
            At::After(ms) => AtText {
                when: Some("after".into()),
                ms: Some(*ms),
                ..AtText::default()
            },
            At::Exact(p) => AtText {
                node: Some(p.node.to_string()),
                stack: Some(p.stack.to_string()),
                kind: Some(p.kind.to_string()),
                place: Some(p.place.to_string()),
                n: Some(p.n),
                phase: Some(p.phase.to_string()),
                ..AtText::default()
            },
            At::Pattern(p) => AtText {
                when: None,
                ms: None,
                node: p.node.as_ref().map(ToString::to_string),
                except: p.except.as_ref().map(ToString::to_string),
                role: p.role.clone(),
                frames: (!p.frames.is_empty()).then(|| p.frames.clone()),
                stack: p.stack.map(|s| s.to_string()),
                kind: p.kind.map(|k| k.to_string()),
                place: p.place.map(|k| k.to_string()),
                n: Some(p.n),
                phase: Some(p.phase.to_string()),
                pattern: (p.except.is_none() && p.role.is_none() && p.frames.is_empty())
                    .then_some(true),
            },
        }
    }
}
