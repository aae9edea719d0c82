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
        let after = self.when.as_deref() == Some("after");
        if self.ms.is_some() && !after {
            return Err(wrong(
                index,
                "at.ms",
                "goes with when = \"after\" only: write that, or remove it",
            ));
        }
        match self.when.as_deref() {
            Some("at-once") => return Ok(At::AtOnce),
            Some("joined") => {
                let node = self.node.ok_or_else(|| {
                    wrong(index, "at.node", "missing: which node must have joined?")
                })?;
                return Ok(At::Joined(NodeName(node)));
            }
            Some("after") => {
                return self.ms.map(At::After).ok_or_else(|| {
                    wrong(
                        index,
                        "at.ms",
                        "missing: how many ms after GO, or after the fault before was done?",
                    )
                });
            }
            Some(s) => {
                return Err(wrong(
                    index,
                    "at.when",
                    format!("`{s}` is none of at-once, joined, after"),
                ));
            }
            None => {}
        }
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
