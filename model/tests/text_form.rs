//! The text form of sequences: it round-trips, old samples stay readable, and every refusal says what to change.

mod arbitrary;

use proptest::prelude::*;
use warren_model::{At, CutWay, Fault, FaultSequence, Who};

proptest! {
    #[test]
    fn text_round_trips(seq in arbitrary::sequence()) {
        let text = seq.to_text();
        prop_assert_eq!(FaultSequence::from_text(&text).map_err(|e| TestCaseError::fail(format!("{e}\n{text}")))?, seq);
    }

    #[test]
    fn binary_round_trips(seq in arbitrary::sequence()) {
        let bytes = postcard::to_allocvec(&seq).unwrap();
        prop_assert_eq!(postcard::from_bytes::<FaultSequence>(&bytes).unwrap(), seq);
    }

    #[test]
    fn a_text_with_a_mistake_is_refused_or_kept_whole(
        seq in arbitrary::sequence(),
        a in any::<prop::sample::Index>(),
        b in any::<prop::sample::Index>(),
    ) {
        let text = seq.to_text();
        let lines: Vec<&str> = text.lines().collect();
        let (a, b) = (a.index(lines.len()), b.index(lines.len()));
        let mut deleted = lines.clone();
        deleted.remove(a);
        refused_or_kept_whole(&deleted)?;
        let mut doubled = lines.clone();
        doubled.insert(b, lines[a]);
        refused_or_kept_whole(&doubled)?;
        let mut swapped = lines.clone();
        swapped.swap(a, b);
        refused_or_kept_whole(&swapped)?;
        for key in AT_KEYS.into_iter().chain(OTHER_KEYS) {
            let mut added = lines.clone();
            added.insert(a + 1, key);
            refused_or_kept_whole(&added)?;
        }
    }
}

/// A line for each key of a `[fault.at]` table but `when`.
const AT_KEYS: [&str; 11] = [
    "node = \"n1\"",
    "except = \"n2\"",
    "role = \"leader\"",
    "frames = [\"*.x\"]",
    "stack = \"00000000000000ff\"",
    "kind = \"send\"",
    "place = \"before\"",
    "n = 2",
    "ms = 5",
    "phase = \"test\"",
    "pattern = true",
];

const OTHER_KEYS: [&str; 6] = [
    "when = \"at-once\"",
    "style = \"process\"",
    "how = \"drop\"",
    "until = \"next\"",
    "bridge = \"n4\"",
    "way = \"both\"",
];

/// What is said anyway where these are left out, and so is not written everywhere.
const SAID_ANYWAY: [&str; 3] = [
    "node = \"@executing\"",
    "node = \"@first-dead\"",
    "pattern = true",
];

/// No line of a text is dropped silently: what was read of it is written again.
fn refused_or_kept_whole(lines: &[&str]) -> Result<(), TestCaseError> {
    let text = lines.join("\n");
    let Ok(seq) = FaultSequence::from_text(&text) else {
        return Ok(());
    };
    let written = seq.to_text();
    let mut left: Vec<&str> = written.lines().collect();
    for line in lines.iter().filter(|l| l.contains('=')) {
        if SAID_ANYWAY.contains(line) {
            continue;
        }
        let Some(i) = left.iter().position(|l| l == line) else {
            let dropped = format!("`{line}` of\n{text}\nis not in\n{written}");
            return Err(TestCaseError::fail(dropped));
        };
        left.swap_remove(i);
    }
    Ok(())
}

#[test]
fn beside_a_when_no_key_of_a_point_goes() {
    for (when, own) in [
        ("at-once", ""),
        ("joined", "node = \"n1\"\n"),
        ("after", "ms = 5\n"),
    ] {
        let with = |more: &str| {
            FaultSequence::from_text(&format!(
                "version = 1\ntarget = \"t\"\n[[fault]]\nkind = \"crash\"\nnode = \"n3\"\n[fault.at]\nwhen = \"{when}\"\n{own}{more}\n"
            ))
        };
        with("").unwrap();
        for line in AT_KEYS.into_iter().filter(|l| own.trim_end() != *l) {
            let error = with(line).unwrap_err().to_string();
            let (key, value) = line.split_once(" = ").unwrap();
            let place = format!("fault 1: key `at.{key}`: ");
            for part in [place.as_str(), "when = ", "remove it"] {
                assert!(error.contains(part), "{when}, {line}: {error}");
            }
            let value = format!("`{}`", value.trim_matches('"'));
            assert!(key == "ms" || error.contains(&value), "{when}: {error}");
        }
    }
}

#[test]
fn the_sample_of_version_1_stays_readable() {
    let seq = FaultSequence::from_text(include_str!("samples/sequence-v1.toml")).unwrap();
    assert_eq!(
        seq.kinds(),
        "crash+partition-start+crash+partition-stop+reboot"
    );
    assert!(matches!(&seq.faults[0].at, At::Exact(p) if p.n == 3 && p.node.as_str() == "zk2"));
    assert!(
        matches!(&seq.faults[1].fault, Fault::PartitionStart { who, .. } if who.way == CutWay::Both && who.from.len() == 2)
    );
    assert!(matches!(&seq.faults[1].at, At::Pattern(p) if p.role.as_deref() == Some("leader")));
    assert_eq!(seq.faults[2].at, At::AtOnce);
    assert!(matches!(
        &seq.faults[4].fault,
        Fault::Reboot {
            who: Who::FirstDead
        }
    ));
    assert_eq!(FaultSequence::from_text(&seq.to_text()).unwrap(), seq);
}

#[test]
fn a_time_is_a_place_too() {
    let text = "version = 1\ntarget = \"t\"\n[[fault]]\nkind = \"crash\"\nnode = \"zk2\"\n[fault.at]\nwhen = \"after\"\nms = 120\n";
    let seq = FaultSequence::from_text(text).unwrap();
    assert_eq!(seq.faults[0].at, At::After(120));
    assert_eq!(FaultSequence::from_text(&seq.to_text()).unwrap(), seq);
}

#[test]
fn every_refusal_names_fault_key_and_remedy() {
    let head = "version = 1\ntarget = \"t\"\n";
    for (body, wanted) in [
        (
            "[[fault]]\nkind = \"crush\"\n[fault.at]\nkind = \"send\"\n",
            "fault 1: key `kind`: `crush` is none of crash",
        ),
        (
            "[[fault]]\nkind = \"crash\"\nstyle = \"power\"\n[fault.at]\nkind = \"send\"\n",
            "key `style`: `power` is none of process, machine, outage",
        ),
        (
            "[[fault]]\nkind = \"reboot\"\nstyle = \"process\"\n[fault.at]\nkind = \"send\"\n",
            "key `style`: means nothing for a reboot",
        ),
        (
            "[[fault]]\nkind = \"partition-start\"\n[fault.at]\nkind = \"send\"\n",
            "key `who`: missing",
        ),
        (
            "[[fault]]\nkind = \"partition-start\"\nwho = { cut = [] }\n[fault.at]\nkind = \"send\"\n",
            "key `who.cut`: empty",
        ),
        (
            "[[fault]]\nkind = \"crash\"\nwho = \"c1\"\n[fault.at]\nkind = \"send\"\n",
            "a crash or reboot takes node = \"a node\"",
        ),
        (
            "[[fault]]\nkind = \"crash\"\nwho = { cut = [\"c1\"] }\n[fault.at]\nkind = \"send\"\n",
            "key `who`: means nothing for a crash: write node",
        ),
        (
            "[[fault]]\nkind = \"crash\"\nat = \"once\"\n",
            "expected a [fault.at] table",
        ),
        ("[[fault]]\nkind = \"crash\"\n", "key `at`: missing"),
        (
            "[[fault]]\nkind = \"crash\"\n[fault.at]\nwhen = \"at-once\"\n",
            "key `node`: no point executes here",
        ),
        (
            "[[fault]]\nkind = \"crash\"\nnode = \"a\"\n[fault.at]\nwhen = \"after\"\n",
            "key `at.ms`: missing",
        ),
        (
            "[[fault]]\nkind = \"crash\"\nnode = \"a\"\n[fault.at]\nwhen = \"joined\"\nnode = \"a\"\nms = 5\n",
            "key `at.ms`: goes with when = \"after\"",
        ),
        (
            "[[fault]]\nkind = \"crash\"\nnode = \"a\"\n[fault.at]\nwhen = \"after\"\nms = -5\n",
            "ms",
        ),
        (
            "[[fault]]\nkind = \"crash\"\n[fault.at]\nwhen = \"after\"\nms = 5\n",
            "key `node`: no point executes here",
        ),
        (
            "[[fault]]\nkind = \"stall\"\n[fault.at]\nkind = \"send\"\n",
            "key `ms`: missing",
        ),
        (
            "[[fault]]\nkind = \"stall\"\nms = 60001\n[fault.at]\nkind = \"send\"\n",
            "key `ms`: 60001 is longer than a stall may be: at most 60000",
        ),
        (
            "[[fault]]\nkind = \"stall\"\nms = 5\nuntil = \"healed\"\n[fault.at]\nkind = \"send\"\n",
            "key `until`: `healed` is not next",
        ),
        (
            "[[fault]]\nkind = \"stall\"\nms = 5\n[fault.at]\nwhen = \"after\"\nms = 5\n",
            "key `at.when`: a stall holds the thread that comes to a point",
        ),
        (
            "[[fault]]\nkind = \"stall\"\nms = 5\nnode = \"a\"\n[fault.at]\nkind = \"send\"\n",
            "key `node`: means nothing for a stall",
        ),
        (
            "[[fault]]\nkind = \"crash\"\nms = 5\n[fault.at]\nkind = \"send\"\n",
            "key `ms`: means nothing for a crash",
        ),
        (
            "[[fault]]\nkind = \"crash\"\nnode = \"a\"\n[fault.at]\nwhen = \"later\"\n",
            "`later` is none of at-once, joined, after",
        ),
        (
            "[[fault]]\nkind = \"crash\"\n[fault.at]\nnode = \"a\"\n",
            "says neither frames, stack nor kind",
        ),
        (
            "[[fault]]\nkind = \"crash\"\n[fault.at]\nframes = [\"\"]\n",
            "key `at.frames`: \"\" is the name of no frame: write \"*\"",
        ),
        (
            "[[fault]]\nkind = \"crash\"\n[fault.at]\nframes = [\"*.a\", \"\"]\nkind = \"send\"\n",
            "key `at.frames`: \"\" is the name of no frame",
        ),
        (
            "[[fault]]\nkind = \"crash\"\n[fault.at]\nframes = [\"*.a\\n*.b\"]\n",
            "key `at.frames`: \"*.a\\n*.b\" holds a line feed",
        ),
        (
            "[[fault]]\nkind = \"crash\"\n[fault.at]\nkind = \"send\"\nn = 0\n",
            "key `at.n`: 0",
        ),
        (
            "[[fault]]\nkind = \"crash\"\n[fault.at]\nkind = \"send\"\nphase = \"heal\"\n",
            "no fault happens in phase heal",
        ),
        (
            "[[fault]]\nkind = \"crash\"\n[fault.at]\nstack = \"xyz\"\n",
            "16 hex digits",
        ),
        (
            "[[fault]]\nkind = \"partition-start\"\nwho = { cut = [\"@peer\"] }\n[fault.at]\nkind = \"force\"\n",
            "fault 1: key `who`: @peer is the other end of a message, and a force has none: name a node",
        ),
        (
            "[[fault]]\nkind = \"partition-start\"\nwho = { cut = [\"a\"], from = [\"@peer\"] }\n[fault.at]\nnode = \"b\"\n\
             stack = \"0000000000000001\"\nkind = \"rename\"\nplace = \"before\"\n",
            "a rename has none",
        ),
        (
            "[[fault]]\nkind = \"crash\"\nwhen = 1\n",
            "unknown field `when`",
        ),
    ] {
        let error = FaultSequence::from_text(&format!("{head}{body}"))
            .unwrap_err()
            .to_string();
        assert!(
            error.contains(wanted),
            "for\n{body}\nexpected `{wanted}` in\n{error}"
        );
        assert!(!error.contains("struct "), "names of ours in\n{error}");
    }
    let old = FaultSequence::from_text("version = 7\ntarget = \"t\"\n")
        .unwrap_err()
        .to_string();
    assert!(old.contains("version 7"), "{old}");
    for start in ["warm", "snapshot-0", "snapshot-x", "snapshot-256", ""] {
        let text = format!("version = 1\ntarget = \"t\"\nstart = \"{start}\"\n");
        let error = FaultSequence::from_text(&text).unwrap_err().to_string();
        assert!(error.contains(&format!("`{start}`")), "{error}");
    }
}

#[test]
fn the_other_end_of_a_message_may_be_asked_for() {
    for at in [
        "kind = \"send\"",
        "kind = \"msg-receive\"",
        "frames = [\"a.B.*\"]",
    ] {
        let text = format!(
            "version = 1\ntarget = \"t\"\n[[fault]]\nkind = \"partition-start\"\nwho = {{ cut = [\"@peer\"] }}\n[fault.at]\n{at}\n"
        );
        FaultSequence::from_text(&text).unwrap_or_else(|e| panic!("{at}: {e}"));
    }
}

#[test]
fn an_empty_sequence_is_legal() {
    let seq = FaultSequence::from_text("version = 1\ntarget = \"t\"\n").unwrap();
    assert_eq!(seq, FaultSequence::empty("t"));
}
