//! I/O points: where a fault can be placed. Exact points are recorded by the agent; patterns are written by people.

use crate::ids::{NodeName, StackId};
use serde::{Deserialize, Serialize};

macro_rules! wire_enum {
    ($(#[$doc:meta])* $name:ident { $($(#[$vdoc:meta])* $variant:ident = $byte:literal, $text:literal;)+ }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        pub enum $name { $($(#[$vdoc])* #[serde(rename = $text)] $variant,)+ }

        impl $name {
            /// Every value, in wire order.
            pub const ALL: &'static [$name] = &[$($name::$variant),+];

            /// The byte of docs/formats.md section 2.
            #[must_use]
            pub fn to_wire(self) -> u8 { match self { $($name::$variant => $byte,)+ } }

            /// The value of a byte; `None` for a byte no version of the layout knows.
            #[must_use]
            pub fn from_wire(byte: u8) -> Option<Self> { match byte { $($byte => Some($name::$variant),)+ _ => None } }

            /// The text form used in sequences.
            #[must_use]
            pub fn as_str(self) -> &'static str { match self { $($name::$variant => $text,)+ } }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result { f.write_str(self.as_str()) }
        }

        impl std::str::FromStr for $name {
            type Err = String;
            fn from_str(s: &str) -> Result<Self, String> {
                match s { $($text => Ok($name::$variant),)+
                    _ => Err(format!("`{s}` is none of {}", [$($text),+].join(", "))) }
            }
        }
    };
}

wire_enum! {
    /// What an I/O point does.
    Kind {
        Create = 1, "create";
        Write = 2, "write";
        Force = 3, "force";
        Truncate = 4, "truncate";
        Rename = 5, "rename";
        Delete = 6, "delete";
        /// Bytes on a socket, at JRE level.
        Send = 7, "send";
        /// Bytes on a socket, at JRE level.
        Receive = 8, "receive";
        /// A whole message at an application-level hook.
        MsgSend = 9, "msg-send";
        /// A whole message at an application-level hook.
        MsgReceive = 10, "msg-receive";
    }
}

wire_enum! {
    /// Whether the point is met before or after its effect.
    Place {
        Before = 1, "before";
        After = 2, "after";
    }
}

wire_enum! {
    /// The part of a run (docs/ARCHITECTURE.md, "One run"). Faults match only in `start` and `test`.
    Phase {
        Start = 0, "start";
        Setup = 1, "setup";
        Test = 2, "test";
        Degraded = 3, "degraded";
        /// `healed` in what a workload writes (docs/formats.md section 7).
        #[serde(alias = "healed")]
        Heal = 4, "heal";
        Final = 5, "final";
    }
}

impl Phase {
    /// The phase of a point that was met in this one: points count in `start` or in `test`.
    #[must_use]
    pub fn of_point(self) -> Phase {
        match self {
            Phase::Start => Phase::Start,
            Phase::Setup | Phase::Test | Phase::Degraded | Phase::Heal | Phase::Final => {
                Phase::Test
            }
        }
    }
}

impl Kind {
    /// The message points of CoFI: where partitions may start.
    #[must_use]
    pub fn is_message(self) -> bool {
        matches!(
            self,
            Kind::Send | Kind::Receive | Kind::MsgSend | Kind::MsgReceive
        )
    }
}

/// One execution of an I/O call: the `n`-th arrival of this stack, kind and place on this node since GO (phase `start`: since
/// launch) or since the previous fault of the sequence was done.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct IoPoint {
    pub node: NodeName,
    pub stack: StackId,
    pub kind: Kind,
    pub place: Place,
    /// 1-based.
    pub n: u32,
    pub phase: Phase,
}

/// A point described by a person (or drawn without exact identity): every given part must hold.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Pattern {
    pub node: Option<NodeName>,
    /// Not on this node: "the next leader" is a leader that is not the one before.
    #[serde(default)]
    pub except: Option<NodeName>,
    pub role: Option<String>,
    /// Globs over `class.method`, to occur in this order, innermost first.
    pub frames: Vec<String>,
    pub stack: Option<StackId>,
    pub kind: Option<Kind>,
    pub place: Option<Place>,
    /// 1-based, counted over arrivals that match this pattern on one node.
    pub n: u32,
    pub phase: Phase,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wire_and_text_round_trip() {
        for k in Kind::ALL {
            assert_eq!(Kind::from_wire(k.to_wire()), Some(*k));
            assert_eq!(k.as_str().parse::<Kind>().unwrap(), *k);
        }
        for p in Phase::ALL {
            assert_eq!(Phase::from_wire(p.to_wire()), Some(*p));
        }
        assert_eq!(
            serde_json::from_str::<Phase>("\"healed\"").unwrap(),
            Phase::Heal
        );
        assert_eq!(Kind::from_wire(0), None);
        assert!("sendd".parse::<Kind>().unwrap_err().contains("msg-send"));
    }
}
