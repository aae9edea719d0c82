//! target.toml: what is read.

mod java;
mod judged;
mod refusals;

use super::*;
use std::fs;

const GOOD: &str = r#"
[target]
name = "toy"
version = "1"
java = 8
main = "toy.Main"
jars = "sources"
include = ["toy.**"]
dictionary = "toy.dict"

[group.zeta]
prefix = "z"
count = 2
max_dead = 1
args = ["${node.dir}/conf"]
files = { "conf" = "conf.in" }
[group.alpha]
prefix = "a"
count = 1
max_dead = 0
heap = "64m"

[ready]
port = 7
port_step = 2
[started]
port = 8
send = "started"
expect = "since (\\d+)"
[role]
port = 7
send = "role"
expect = "is (\\w+)"
names = { yes = "chief" }
lead = "chief"
[workload]
main = "W"
clients = 2
[workload.options]
ops = 5
[clock]
tick_ms = 50
session_ms = 500
[paper]
tick_ms = 2000
[promise]
rejoin = true
"#;

const DICT: &str = r#"
version = 1
[[hook]]
method = "toy.Link.send"
kind = "msg-send"
message = "arg0"
[[hook]]
method = "toy.Store.put"
kind = "write"
place = "both"
[[role]]
frame = "toy.Chief.*"
role = "chief"
[[role]]
frame = "toy.Other.x"
role = "chief"
[[background]]
stack = "*.ping"
"#;

/// A folder of targets with one good target and its dictionary.
fn folder(toml: &str) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir_all(dir.path().join("targets/toy/conf")).unwrap();
    fs::write(dir.path().join("targets/toy/conf/conf.in"), "").unwrap();
    fs::create_dir_all(dir.path().join("dictionaries")).unwrap();
    fs::write(dir.path().join("targets/toy/target.toml"), toml).unwrap();
    fs::write(dir.path().join("dictionaries/toy.dict"), DICT).unwrap();
    dir
}

fn load(dir: &tempfile::TempDir, name: &str) -> Result<Target, TargetError> {
    load_target(&dir.path().join("targets").join(name), None, false, &[])
}

#[test]
fn a_good_target() {
    let dir = folder(GOOD);
    let t = load(&dir, "toy").unwrap();
    let names: Vec<String> = t.nodes().iter().map(|n| n.name.to_string()).collect();
    assert_eq!(names, ["z1", "z2", "a1"], "groups in the order of the file");
    let shape = t.shape(10);
    assert_eq!(
        (shape.groups[0].max_dead, shape.groups[1].nodes.len()),
        (1, 1)
    );
    let rules = t.rules();
    assert_eq!(
        (rules.tick_ms, rules.lead_role.as_str(), rules.rejoin),
        (50, "chief", true)
    );
    assert_eq!(t.workload.options["ops"], "5");
    assert_eq!(t.logs, ["stdout"]);
    assert_eq!(
        (t.ready.port_step, t.role.as_ref().unwrap().port_step),
        (2, 0)
    );
    let started = t.started.as_ref().unwrap();
    assert_eq!((started.port, started.send.as_str()), (8, "started"));
    assert_eq!(t.role_names["yes"], "chief");
    assert_eq!(t.dictionary.role_names(), ["chief"]);
    let conf = t.dictionary.conf_lines();
    assert!(
        conf.contains(
            "hook toy.Link.send kind=msg-send place=before message=arg0 skippable=false\n"
        ),
        "{conf}"
    );
    assert!(
        conf.contains("hook toy.Store.put kind=write place=both skippable=false\n"),
        "{conf}"
    );
    assert!(conf.contains("background *.ping\n"));
}

#[test]
fn version_paper_and_extra_dictionaries() {
    let dir = folder(GOOD);
    let more = dir.path().join("more.dict");
    fs::write(&more, "version = 1\n[[skip]]\nframe = \"toy.Log.*\"\n").unwrap();
    let at = dir.path().join("targets/toy");
    let maven = GOOD.replace("jars = \"sources\"", "jars = \"maven\"");
    fs::write(at.join("target.toml"), maven).unwrap();
    let t = load_target(&at, Some("2"), true, &[more]).unwrap();
    assert_eq!((t.version.as_str(), t.default_version.as_str()), ("2", "1"));
    assert_eq!((t.clock["tick_ms"], t.clock["session_ms"]), (2000, 500));
    assert_eq!(t.dictionary.skips, ["toy.Log.*"]);
}

#[test]
fn shapes_of_dictionaries() {
    let dir = folder(GOOD);
    let at = dir.path().join("targets/toy");
    let more = dir.path().join("more.dict");
    let shape = "[[shape]]\nname = \"x\"\nnodes = { a = \"any\" }\n\
        [[shape.fault]]\nkind = \"crash\"\nat = { node = \"$a\", kind = \"force\", n = [1, 9] }\n";
    let read = |body: String| {
        fs::write(&more, format!("version = 1\n{body}")).unwrap();
        load_target(&at, None, false, std::slice::from_ref(&more))
            .map(|t| t.dictionary.shapes)
            .map_err(|e| e.to_string())
    };
    let shapes = read(shape.into()).unwrap();
    assert_eq!(
        (shapes[0].name.as_str(), shapes[0].faults[0].n),
        ("x", (1, 9))
    );
    for (from, to, part) in [
        ("$a", "$b", "`$b` is no node of it"),
        ("kind = \"crash\"", "kind = \"delay\"", "`delay`"),
        ("name = \"x\"\n", "", "name"),
    ] {
        let e = read(shape.replacen(from, to, 1)).unwrap_err();
        assert!(
            e.contains("more.dict") && e.contains("shape[1]") && e.contains(part),
            "{e}"
        );
    }
    let e = read(format!("{shape}{shape}")).unwrap_err();
    assert!(e.contains("`x` is there twice"), "{e}");
    // A name that the target does not have: told before a campaign begins with it.
    for (at, part) in [
        (
            "node = \"n7\"",
            "fault 2: `n7` is no node of this target; known: ",
        ),
        (
            "role = \"cheif\"",
            "fault 2: `cheif` is no role of this target; known: chief",
        ),
        ("role = \"chief\"", ""),
        ("role = \"$lead\"", ""),
    ] {
        let second = format!(
            "[[shape.fault]]\nkind = \"crash\"\nat = {{ {at}, kind = \"force\", frames = [\"a.B.c\"] }}\n"
        );
        let e = read(format!("{shape}{second}")).err();
        let told = e.as_deref().unwrap_or_default();
        assert!(
            e.is_some() != part.is_empty() && told.contains(part),
            "{at}: {told}"
        );
    }
}

#[test]
fn only_a_call_that_comes_can_be_left_out() {
    let dir = folder(GOOD);
    let at = dir.path().join("targets/toy");
    let more = dir.path().join("more.dict");
    let refused = |kind: &str, place: &str| {
        let hook = format!("method = \"a.B.c\"\nkind = \"{kind}\"\nplace = \"{place}\"");
        let text = format!("version = 1\n[[hook]]\n{hook}\nskippable = true\n");
        fs::write(&more, text).unwrap();
        let read = load_target(&at, None, false, std::slice::from_ref(&more));
        read.map_or_else(|e| e.to_string(), |_| String::new())
    };
    for place in ["before", "both"] {
        assert_eq!(refused("msg-send", place), "");
    }
    for (kind, place) in [
        ("msg-send", "after"),
        ("msg-receive", "before"),
        ("write", "before"),
    ] {
        let e = refused(kind, place);
        let names = e.contains("more.dict") && e.contains("skippable") && e.contains(kind);
        assert!(names && e.contains("write skippable = false"), "{e}");
    }
}

#[test]
fn a_version_that_cannot_be_is_refused() {
    let dir = folder(GOOD);
    let at = dir.path().join("targets/toy");
    let refused = |v: &str| {
        load_target(&at, Some(v), false, &[])
            .map(|t| t.version)
            .map_err(|e| e.to_string())
    };
    assert_eq!(refused("1"), Ok("1".to_owned()), "the one it has");
    for (v, problem) in [
        ("9", "has only version 1"),
        ("../9", "is no version"),
        ("", "is no version"),
        ("-Dx", "is no version"),
    ] {
        let e = refused(v).unwrap_err();
        assert!(
            e.contains("target.toml") && e.contains("`target.version`") && e.contains(problem),
            "{v}: {e}"
        );
        assert!(e.contains(&format!("`{v}`")), "{e}");
    }
}

#[test]
fn a_base_is_overridden_key_by_key() {
    let dir = folder(GOOD);
    let child = dir.path().join("targets/toy-fixed");
    fs::create_dir_all(&child).unwrap();
    fs::write(
        child.join("target.toml"),
        "base = \"../toy\"\n[target]\nname = \"toy-fixed\"\n[group.zeta]\ncount = 3\n",
    )
    .unwrap();
    fs::write(child.join("mine"), "").unwrap();
    fs::write(dir.path().join("targets/toy/theirs"), "").unwrap();
    let t = load(&dir, "toy-fixed").unwrap();
    assert_eq!(
        (t.name.as_str(), t.main.as_str()),
        ("toy-fixed", "toy.Main")
    );
    assert_eq!(t.nodes().len(), 4);
    assert!(t.file(Path::new("mine")).is_some() && t.file(Path::new("theirs")).is_some());
    // A mistake in the base is blamed on the base, one in the child on the child.
    fs::write(
        child.join("target.toml"),
        "base = \"../toy\"\n[target]\nname = \"x\"\n[group.zeta]\ncount = 0\n",
    )
    .unwrap();
    let e = load(&dir, "toy-fixed").unwrap_err().to_string();
    assert!(e.contains("toy-fixed/target.toml"), "{e}");
    fs::write(child.join("target.toml"), "base = \"../none\"\n").unwrap();
    let e = load(&dir, "toy-fixed").unwrap_err().to_string();
    assert!(e.contains("`base`") && e.contains("../none"), "{e}");
    fs::write(child.join("target.toml"), "base = \"../toy-fixed\"\n").unwrap();
    let e = load(&dir, "toy-fixed").unwrap_err().to_string();
    assert!(e.contains("circle"), "{e}");
}

#[test]
fn the_targets_of_the_repository_can_be_read() {
    let top = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../targets");
    let mut seen = Vec::new();
    for entry in fs::read_dir(&top).unwrap() {
        let folder = entry.unwrap().path();
        if !folder.join("target.toml").is_file() {
            continue;
        }
        let t = load_target(&folder, None, false, &[]).unwrap_or_else(|e| panic!("{e}"));
        if t.jars == JarSource::Maven {
            let lock = format!("locks/{}.lock", t.version);
            assert!(
                t.file(std::path::Path::new(&lock)).is_some(),
                "{lock} of {}",
                t.name
            );
        }
        seen.push(t.name);
    }
    seen.sort();
    for name in [
        "canary",
        "canary-fixed",
        "hbase",
        "hdfs",
        "hdfs-journal",
        "ratis",
        "zookeeper",
        "zookeeper-moved",
    ] {
        assert!(
            seen.iter().any(|s| s == name),
            "{name} is not among {seen:?}"
        );
    }
}

const IMAGE: &str = r#"
[group.alpha.ready]
port = 9
[image]
keep = ["data"]
timeout_ms = 9000
[[image.step]]
start = "alpha"
[[image.step]]
run = "z1"
main = "toy.Format"
args = ["-format", "${node.dir}"]
[[image.step]]
copy = "z1/data"
to = "z2/data"
"#;

#[test]
fn an_image_and_what_a_group_is_asked() {
    let t = load(&folder(GOOD), "toy").unwrap();
    assert_eq!((t.image.is_none(), t.ready_of(1).port), (true, 7));
    let t = load(&folder(&format!("{GOOD}{IMAGE}")), "toy").unwrap();
    assert_eq!((t.ready_of(0).port, t.ready_of(1).port), (7, 9));
    let image = t.image.unwrap();
    assert_eq!((image.timeout.as_millis(), image.keep.len()), (9000, 1));
    let place = |node: &str| Place {
        node: node.into(),
        path: "data".into(),
    };
    assert_eq!(
        image.steps,
        [
            ImageStep::Start {
                group: "alpha".into()
            },
            ImageStep::Run {
                node: "z1".into(),
                main: Some("toy.Format".into()),
                args: vec!["-format".into(), "${node.dir}".into()],
            },
            ImageStep::Copy {
                from: place("z1"),
                to: place("z2")
            },
        ]
    );
    // (what is replaced, by what, key named, value or problem named, remedy named)
    for (from, to, key, problem, remedy) in [
        (
            "keep = [\"data\"]",
            "keep = []",
            "image.keep",
            "empty",
            "keep = ",
        ),
        (
            "keep = [\"data\"]",
            "keep = [\"../x\"]",
            "image.keep",
            "`../x` leaves",
            "below",
        ),
        (
            "start = \"alpha\"",
            "start = \"beta\"",
            "image.step[1].start",
            "`beta` is no group",
            "zeta",
        ),
        (
            "run = \"z1\"",
            "run = \"z3\"",
            "image.step[2].run",
            "`z3` is no node",
            "z1, z2, a1",
        ),
        (
            "to = \"z2/data\"",
            "",
            "image.step[3].to",
            "missing",
            "<node>",
        ),
        (
            "\"z2/data\"",
            "\"z2\"",
            "image.step[3].to",
            "`z2` is no path",
            "below its folder",
        ),
        (
            "start = \"alpha\"",
            "",
            "image.step[1].start",
            "not the one thing",
            "copy = ",
        ),
        (
            "start = \"alpha\"",
            "start = \"alpha\"\nrun = \"z1\"",
            "image.step[1].start",
            "not the one thing",
            "one of",
        ),
        (
            "[group.alpha.ready]\nport = 9",
            "[group.alpha.ready]\nsend = \"ok\"",
            "group.alpha.ready.port",
            "missing",
            "port = ",
        ),
    ] {
        let e = load(
            &folder(&format!("{GOOD}{}", IMAGE.replacen(from, to, 1))),
            "toy",
        )
        .expect_err(key)
        .to_string();
        for part in ["target.toml", &format!("`{key}`"), problem, remedy] {
            assert!(e.contains(part), "`{part}` is not in: {e}");
        }
    }
}
