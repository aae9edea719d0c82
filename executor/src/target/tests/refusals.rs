//! target.toml: every refusal names file, key, value and remedy.

use super::*;

#[test]
fn every_refusal_names_file_key_value_and_remedy() {
    // (what is replaced, by what, key named, value or problem named, remedy named)
    let table = [
        ("name = \"toy\"\n", "", "target.name", "missing", "name = "),
        (
            "jars = \"sources\"",
            "jars = \"ant\"",
            "target.jars",
            "`ant`",
            "\"maven\"",
        ),
        (
            "java = 8",
            "java = \"8\"",
            "target.java",
            "`8` is no range",
            "\"8..17\"",
        ),
        (
            "java = 8",
            "java = 7",
            "target.java",
            "7 is out of range",
            "java = 8",
        ),
        (
            "include = [\"toy.**\"]",
            "include = []",
            "target.include",
            "empty",
            "include = ",
        ),
        (
            "toy.dict",
            "no.dict",
            "target.dictionary",
            "`no.dict`",
            "create the file",
        ),
        (
            "count = 2",
            "count = 2\ncuont = 3",
            "group.zeta.cuont",
            "`3`",
            "remove it",
        ),
        // What was meant is told before what is missing for it.
        (
            "count = 2",
            "cuont = 2",
            "group.zeta.cuont",
            "`2` stands under a key that means nothing",
            "did you mean `count`",
        ),
        (
            "main = \"toy.Main\"",
            "mian = \"toy.Main\"",
            "target.mian",
            "`toy.Main` stands under a key that means nothing",
            "did you mean `main`",
        ),
        (
            "[ready]",
            "[raedy]",
            "raedy",
            "stands under a key that means nothing",
            "did you mean `ready`",
        ),
        (
            "lead = \"chief\"",
            "lead = \"chief\"\ntimeuot_ms = 2000",
            "role.timeuot_ms",
            "`2000` stands under a key that means nothing",
            "did you mean `timeout_ms`? else remove it",
        ),
        (
            "tick_ms = 50\n",
            "tik_ms = 50\n",
            "clock.tick_ms",
            "missing",
            "instead of `tik_ms`",
        ),
        (
            "max_dead = 1",
            "max_dead = 3",
            "group.zeta.max_dead",
            "3 is more than the 2",
            "at most 2",
        ),
        (
            "prefix = \"a\"",
            "prefix = \"z\"",
            "group.alpha.prefix",
            "`z`",
            "own prefix",
        ),
        (
            "prefix = \"a\"",
            "prefix = \"a1\"",
            "group.alpha.prefix",
            "`a1`",
            "not ending",
        ),
        (
            "heap = \"64m\"",
            "heap = \"big\"",
            "group.alpha.heap",
            "`big`",
            "128m",
        ),
        (
            "\"conf\" = \"conf.in\"",
            "\"../x\" = \"conf.in\"",
            "group.zeta.files.../x",
            "leaves",
            "below node.dir",
        ),
        (
            "is (\\\\w+)",
            "is (\\\\w+",
            "role.expect",
            "no regular expression",
            "mend",
        ),
        (
            "is (\\\\w+)",
            "is \\\\w+",
            "role.expect",
            "captures nothing",
            "parentheses",
        ),
        (
            "since (\\\\d+)",
            "since (\\\\d+",
            "started.expect",
            "no regular expression",
            "mend",
        ),
        (
            "clients = 2",
            "clients = 0",
            "workload.clients",
            "0 is out of range",
            "from 1",
        ),
        (
            "tick_ms = 50\n",
            "",
            "clock.tick_ms",
            "missing",
            "tick_ms = 500",
        ),
        (
            "tick_ms = 2000",
            "tock_ms = 1",
            "paper.tock_ms",
            "not in [clock]",
            "same keys",
        ),
        (
            "[promise]",
            "[promises]",
            "promises",
            "means nothing",
            "promise",
        ),
        (
            "[promise]",
            "[[exit.legal]]\nlog = \"x\"\nwhy = \"y\"\nafter = \"a\"\n[promise]",
            "exit.legal[1].until",
            "missing",
            "ends the span",
        ),
        (
            "[promise]",
            "[[exit.legal]]\nlog = \"x\"\nwhy = \"y\"\nuntil = \"a\"\n[promise]",
            "exit.legal[1].after",
            "missing",
            "begins the span",
        ),
        // The line of one would never end the span of the other.
        (
            "[promise]",
            "[[exit.legal]]\nlog = \"x\"\nwhy = \"y\"\nafter = \"(a)\"\nuntil = \"b\"\n[promise]",
            "exit.legal[1].until",
            "`b` and `(a)` of `after` have not one group each",
            "in parentheses",
        ),
        // Its templates would be read as they stand, and no line of it ever.
        (
            "[ready]\nport = 7\nport_step",
            "[log]\nfiles = [\"stdout\", \"{{ node.name }}.log\"]\n[ready]\nport = 7\nport_step",
            "log.files",
            "`{{ node.name }}.log` is no file",
            "without templates",
        ),
        (
            "[ready]\nport = 7\nport_step",
            "[log]\nfiles = [\"log/*\"]\n[ready]\nport = 7\nport_step",
            "log.files",
            "`log/*` is no file",
            "without templates and `*`",
        ),
        (
            "[ready]\nport = 7\nport_step",
            "[log]\nfiles = [\"/var/log/toy\"]\n[ready]\nport = 7\nport_step",
            "log.files",
            "`/var/log/toy`",
            "below node.dir",
        ),
        (
            "[ready]\nport = 7\nport_step = 2",
            "",
            "ready",
            "missing",
            "[ready]",
        ),
        (
            "\"conf.in\"",
            "\"cnf.in\"",
            "group.zeta.files",
            "template `cnf.in` of `conf` is not in conf/",
            "create it",
        ),
    ];
    for (from, to, key, problem, remedy) in table {
        let dir = folder(&GOOD.replacen(from, to, 1));
        let e = load(&dir, "toy").expect_err(key).to_string();
        for part in ["target.toml", &format!("`{key}`"), problem, remedy] {
            assert!(e.contains(part), "`{part}` is not in: {e}");
        }
    }
}

#[test]
fn broken_files_and_unknown_names() {
    let dir = folder("[target\n");
    let e = load(&dir, "toy").unwrap_err().to_string();
    assert!(e.contains("not TOML") && e.contains("line 1"), "{e}");
    let e = load(&dir, "none").unwrap_err().to_string();
    assert!(e.contains("cannot be read"), "{e}");
    let dir = folder(GOOD);
    let targets = dir.path().join("targets");
    assert!(find_target("toy", Some(&targets)).is_ok());
    for name in ["tay", "../toy", ""] {
        let e = find_target(name, Some(&targets)).unwrap_err().to_string();
        assert!(
            e.contains("known targets: toy") && e.contains("--targets"),
            "{e}"
        );
    }
    assert_eq!(list_targets(Some(&targets))[0].version, "1");
    fs::write(dir.path().join("dictionaries/toy.dict"), "version = 9\n").unwrap();
    let e = load(&dir, "toy").unwrap_err().to_string();
    assert!(
        e.contains("toy.dict") && e.contains("`version`") && e.contains('9'),
        "{e}"
    );
    fs::write(
        dir.path().join("dictionaries/toy.dict"),
        "version = 1\n[[hook]]\nmethod = \"a.b\"\nkind = \"send\"\n",
    )
    .unwrap();
    let e = load(&dir, "toy").unwrap_err().to_string();
    assert!(
        e.contains("`hook[1].kind`") && e.contains("`send`") && e.contains("msg-send"),
        "{e}"
    );
}
