//! Plain data of Warren: what a point, a fault, a sequence, a trace, a run record and a verdict are.
//!
//! Every other crate speaks in these types. Nothing here does I/O, reads a clock or starts anything; LibAFL is known only
//! behind the feature `libafl` (`Input` for [`FaultSequence`]). Words are those of the field (docs/ARCHITECTURE.md).

pub mod address;
pub mod constraints;
pub mod frames;
pub mod history;
pub mod ids;
pub mod not_stable;
pub mod point;
pub mod record;
pub mod rules;
pub mod sequence;
pub mod trace;
pub mod verdict;
pub mod void;

#[cfg(feature = "libafl")]
mod input;

pub use constraints::{ClusterShape, ClusterState, GroupShape, Violation};
pub use frames::{frame_name, frames_match};
pub use history::{HistoryEvent, Observation, OpDone, OpInvoke, Outcome};
pub use ids::{FaultId, NodeName, StackId};
pub use not_stable::{Instability, NotStable};
pub use point::{IoPoint, Kind, Pattern, Phase, Place};
pub use record::{
    Carried, Exit, Fallbacks, FromPrefix, Incarnation, Injected, KillLatency, LogMark, LogMoment,
    NodeTraffic, NotInjected, PhaseTimes, RunProduct, RunRecord,
};
pub use rules::{ExitRule, LogRule, LogSpan, Rules};
pub use sequence::{
    At, CrashStyle, CutHow, CutWay, CutWho, Fault, FaultAt, FaultKind, FaultSequence, MAX_STALL_MS,
    Member, Shape, ShapeError, ShapeFault, StartState, TextError, Who,
};
pub use trace::{EventFlags, Interval, Trace, TraceEvent};
pub use verdict::{Failure, FailureKind, Judgement, Stage, Unknown, Verdict};
pub use void::Void;
