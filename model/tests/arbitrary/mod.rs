//! Any fault sequence that the text form can say, legal on a cluster or not.
#![allow(dead_code)] // each test binary uses its part

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use warren_model::sequence::SEQUENCE_VERSION;
use warren_model::*;

pub fn node() -> impl Strategy<Value = NodeName> {
    (1u8..6).prop_map(|i| NodeName(format!("n{i}")))
}

fn one_of<T: Clone + std::fmt::Debug + 'static>(all: &'static [T]) -> impl Strategy<Value = T> {
    prop::sample::select(all)
}

fn phase() -> impl Strategy<Value = Phase> {
    prop_oneof![Just(Phase::Start), Just(Phase::Test)]
}

fn point() -> impl Strategy<Value = IoPoint> {
    (
        node(),
        any::<u64>(),
        one_of(Kind::ALL),
        one_of(Place::ALL),
        1u32..9,
        phase(),
    )
        .prop_map(|(node, stack, kind, place, n, phase)| IoPoint {
            node,
            stack: StackId(stack),
            kind,
            place,
            n,
            phase,
        })
}

fn pattern() -> impl Strategy<Value = Pattern> {
    (
        (option::of(node()), option::of(node())),
        option::of("[a-z]{1,8}"),
        vec("[a-zA-Z.*]{1,12}", 0..3),
        option::of(any::<u64>()),
        option::of(one_of(Kind::ALL)),
        option::of(one_of(Place::ALL)),
        1u32..9,
        phase(),
    )
        .prop_filter("says where", |p| {
            !p.2.is_empty() || p.3.is_some() || p.4.is_some()
        })
        .prop_map(
            |((node, except), role, frames, stack, kind, place, n, phase)| Pattern {
                node,
                except,
                role,
                frames,
                stack: stack.map(StackId),
                kind,
                place,
                n,
                phase,
            },
        )
}

fn who() -> impl Strategy<Value = Who> {
    prop_oneof![
        Just(Who::Executing),
        Just(Who::FirstDead),
        node().prop_map(Who::Node),
        prop::sample::select(vec!["leader", "follower"]).prop_map(|r| Who::Role(r.to_owned())),
    ]
}

fn member() -> impl Strategy<Value = Member> {
    prop_oneof![
        node().prop_map(Member::Node),
        Just(Member::Executing),
        Just(Member::Peer),
        Just(Member::Role("leader".to_owned())),
    ]
}

fn cut() -> impl Strategy<Value = CutWho> {
    (
        vec(member(), 1..3),
        vec(member(), 0..3),
        option::of(member()),
        prop::sample::select(vec![CutWay::Both, CutWay::To, CutWay::From]),
    )
        .prop_map(|(cut, from, bridge, way)| CutWho {
            cut,
            from,
            bridge,
            way,
        })
}

pub fn fault() -> impl Strategy<Value = Fault> {
    prop_oneof![
        (
            who(),
            prop::sample::select(vec![
                CrashStyle::Process,
                CrashStyle::Machine,
                CrashStyle::Outage
            ])
        )
            .prop_map(|(who, style)| Fault::Crash { who, style }),
        who().prop_map(|who| Fault::Reboot { who }),
        (
            prop::sample::select(vec![CutHow::Drop, CutHow::Throw, CutHow::Lose]),
            cut()
        )
            .prop_map(|(how, who)| Fault::PartitionStart { how, who }),
        Just(Fault::PartitionStop),
        (0..=warren_model::MAX_STALL_MS, any::<bool>())
            .prop_map(|(ms, until_next)| Fault::Stall { ms, until_next }),
    ]
}

fn at_point() -> impl Strategy<Value = At> {
    prop_oneof![point().prop_map(At::Exact), pattern().prop_map(At::Pattern)]
}

/// Only a message has another end: where a cut names it, the point is one.
fn meeting(mut at: At, fault: &Fault) -> At {
    let Fault::PartitionStart { who, .. } = fault else {
        return at;
    };
    let mut members = who.cut.iter().chain(&who.from).chain(&who.bridge);
    if members.any(|m| *m == Member::Peer) {
        match &mut at {
            At::Exact(p) => p.kind = Kind::MsgSend,
            At::Pattern(p) => p.kind = p.kind.map(|_| Kind::MsgSend),
            At::AtOnce | At::Joined(_) | At::After(_) => {}
        }
    }
    at
}

/// A fault that needs no executing node, for "at once" and "joined".
fn aimed() -> impl Strategy<Value = Fault> {
    node().prop_flat_map(|n| {
        prop_oneof![
            Just(Fault::Crash {
                who: Who::Node(n.clone()),
                style: CrashStyle::Process
            }),
            Just(Fault::Reboot {
                who: Who::FirstDead
            }),
            Just(Fault::PartitionStop),
        ]
    })
}

pub fn sequence() -> impl Strategy<Value = FaultSequence> {
    let fault_at = prop_oneof![
        4 => (at_point(), fault()).prop_map(|(at, fault)| FaultAt { at: meeting(at, &fault), fault }),
        1 => (prop_oneof![Just(At::AtOnce), node().prop_map(At::Joined), any::<u32>().prop_map(At::After)], aimed())
            .prop_map(|(at, fault)| FaultAt { at, fault }),
    ];
    let roles = prop::collection::btree_map(node(), "[a-z]{1,8}", 0..3);
    let start = prop_oneof![
        Just(StartState::Cold),
        (1..=u8::MAX).prop_map(StartState::Snapshot)
    ];
    (vec(fault_at, 0..6), roles, start).prop_map(|(faults, roles, start)| FaultSequence {
        version: SEQUENCE_VERSION,
        target: "canary".to_owned(),
        start,
        roles,
        faults,
    })
}
