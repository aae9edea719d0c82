//! Output folders beside each other, without brokers.

use super::*;

fn put(out: &Path, name: &str, text: &str) {
    fs::create_dir_all(out.join(name)).unwrap();
    fs::write(out.join(name).join("sync.jsonl"), text).unwrap();
}

fn text(out: &Path, name: &str) -> String {
    fs::read_to_string(out.join(name).join("sync.jsonl")).unwrap()
}

/// Hellos and answers, each of which comes twice, until nothing is lacking; answers how many letters it took.
fn exchange(from: &Shelf, to: &Shelf) -> usize {
    let mut letters = 0;
    for _ in 0..100 {
        let have = to.have();
        let bodies: Vec<Body> = from
            .own()
            .iter()
            .flat_map(|n| {
                from.lacks(n, have.get(n).copied().unwrap_or_default())
                    .unwrap()
            })
            .collect();
        if bodies.is_empty() {
            return letters;
        }
        letters += bodies.len();
        for body in bodies.iter().chain(&bodies) {
            to.take(body).unwrap();
        }
    }
    panic!("it never ends");
}

fn two() -> (tempfile::TempDir, Shelf, Shelf) {
    let dir = tempfile::tempdir().unwrap();
    let (a, b) = (dir.path().join("a"), dir.path().join("b"));
    fs::create_dir_all(&a).unwrap();
    fs::create_dir_all(&b).unwrap();
    let (a, b) = (Shelf::new(&a), Shelf::new(&b));
    (dir, a, b)
}

#[test]
fn a_mirror_follows_its_instance() {
    let (_dir, a, b) = two();
    let end = "end\n";
    // Each is what the instance's file holds then: it grows, ends, goes on, is half written, begins anew.
    for now in [
        "begin 1\n".to_owned(),
        "begin 1\ntold\n".to_owned(),
        format!("begin 1\ntold\n{end}"),
        "begin 1\ntold\nbegin again and on\nto".to_owned(),
        "begin 1\ntold\nbegin again and on\ntold 2\n".to_owned(),
        format!("begin 1\n{}", "more\n".repeat(100_000)),
        // The same, longer than one answer; then other lines almost from the front, which agree with those here in letters.
        format!("begin 1\n{}{end}", "more\n".repeat(100_000)),
        format!("begin 1\n{}begin again\n", "more\n".repeat(100_000)),
        format!("begin 1\n{}", "same\n".repeat(100_000)),
        "begin 2\n".to_owned(),
    ] {
        put(&a.out, "main", &now);
        exchange(&a, &b);
        assert_eq!(text(&b.out, "main"), now);
        assert_eq!(exchange(&a, &b), 0);
    }
    // It has fewer lines than it told, as after a power cut, and then others.
    let fewer = format!("begin 1\n{}", "more\n".repeat(90_000));
    put(
        &a.out,
        "main",
        &format!("{fewer}{}", "gone\n".repeat(9_000)),
    );
    exchange(&a, &b);
    put(&a.out, "main", &fewer);
    let answer = a.lacks("main", b.have()["main"]).unwrap();
    let sizes = answer.iter().map(|body| match body {
        Body::Lines(l) => l.bytes.len(),
        _ => 0,
    });
    assert!(sizes.sum::<usize>() <= 1024);
    for more in ["on\n".to_owned(), "on\n".repeat(500), "on\n".repeat(50_000)] {
        put(&a.out, "main", &format!("{fewer}{more}"));
        exchange(&a, &b);
        assert_eq!(text(&b.out, "main"), format!("{fewer}{more}"));
    }
    // A mirror is nobody's own: it is not told again.
    assert!(b.own().is_empty() && a.have().is_empty());
    assert_eq!(a.own(), ["main"]);
}

#[test]
fn files_come_in_their_order_and_not_twice() {
    let (_dir, a, b) = two();
    put(&a.out, "main", "begin 1\n");
    let write = |sub: &str, name: &str, bytes: &[u8]| {
        let folder = a.out.join("main").join(sub);
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join(name), bytes).unwrap();
    };
    write("runs", "000000.run", b"root");
    write("runs", "000001.run", &vec![7; 300_000]);
    write("runs", ".000002.run.1.2", b"half");
    write("crashes", "README.txt", b"no");
    write(
        "crashes",
        "id:000000,src:000001,time:1,execs:1,op:crash,bug:aa",
        b"x",
    );
    assert_eq!(exchange(&a, &b), 4);
    write("runs", "000002.run", &vec![0; 9 << 20]);
    write("runs", "000003.run", b"after");
    write(
        "hangs",
        "id:000000,src:000001,time:1,execs:1,op:crash,bug:bb",
        b"y",
    );
    assert_eq!(exchange(&a, &b), 3);
    let there = |sub: Sub| files(&b.out.join("main").join(sub.folder()), sub);
    assert_eq!(there(Sub::Runs).len(), 4);
    assert_eq!((there(Sub::Crashes).len(), there(Sub::Hangs).len()), (1, 1));
    let read = |name: &str| fs::read(b.out.join("main/runs").join(name)).unwrap().len();
    assert_eq!((read("000001.run"), read("000002.run")), (300_000, 0));
    // A kill took the last run back, and another one has its number, or none has.
    write("runs", "000003.run", b"another");
    assert_eq!(exchange(&a, &b), 1);
    assert_eq!(read("000003.run"), 7);
    fs::remove_file(a.out.join("main/runs/000003.run")).unwrap();
    assert_eq!(exchange(&a, &b), 1);
    assert_eq!(files(&b.out.join("main/runs"), Sub::Runs).len(), 3);
    // Another campaign of the name has none of them.
    put(&a.out, "main", "begin 2\n");
    fs::remove_dir_all(a.out.join("main/runs")).unwrap();
    fs::remove_dir_all(a.out.join("main/crashes")).unwrap();
    fs::remove_dir_all(a.out.join("main/hangs")).unwrap();
    exchange(&a, &b);
    assert!(there(Sub::Runs).is_empty() && there(Sub::Crashes).is_empty());
}

/// A folder in the place of a file, which root cannot read either.
#[test]
fn what_cannot_be_read_holds_up_nothing() {
    let (_dir, a, b) = two();
    put(&a.out, "main", "begin 1\ntold\n");
    let runs = a.out.join("main/runs");
    let unreadable = |name: &str| fs::create_dir_all(runs.join(name)).unwrap();
    let mend = |name: &str, bytes: &[u8]| {
        fs::remove_dir(runs.join(name)).unwrap();
        fs::write(runs.join(name), bytes).unwrap();
    };
    let there = |name: &str| fs::read(b.out.join("main/runs").join(name)).unwrap();
    unreadable("000001.run");
    fs::write(runs.join("000000.run"), b"root").unwrap();
    fs::write(runs.join("000002.run"), b"after").unwrap();
    assert_eq!(exchange(&a, &b), 4, "the lines and three files");
    assert_eq!(text(&b.out, "main"), "begin 1\ntold\n");
    assert_eq!(there("000000.run"), b"root");
    assert!(there("000001.run").is_empty(), "as an empty one");
    assert_eq!(there("000002.run"), b"after");
    // As the last one it is not sent over and over, and is sent when it can be read.
    unreadable("000003.run");
    assert_eq!(exchange(&a, &b), 1);
    assert!(there("000003.run").is_empty());
    assert_eq!(exchange(&a, &b), 0);
    mend("000003.run", b"mended");
    assert_eq!(exchange(&a, &b), 1);
    assert_eq!(there("000003.run"), b"mended");
    // A mirror's own one that cannot be read is made again.
    let mine = b.out.join("main/runs/000003.run");
    fs::remove_file(&mine).unwrap();
    std::os::unix::fs::symlink("/nosuch/file", &mine).unwrap();
    assert_eq!(exchange(&a, &b), 1);
    assert_eq!(there("000003.run"), b"mended");
    assert_eq!(exchange(&a, &b), 0);
}

#[test]
fn lost_letters_are_asked_for_again_and_late_ones_do_no_harm() {
    let (_dir, a, b) = two();
    put(
        &a.out,
        "main",
        &format!("begin 1\n{}", "line\n".repeat(60_000)),
    );
    let all = a.lacks("main", Have::default()).unwrap();
    assert!(all.len() >= 4);
    // Only the last arrives; then the first; then all, backwards.
    b.take(all.last().unwrap()).unwrap();
    assert!(b.have().is_empty());
    b.take(&all[0]).unwrap();
    for body in all.iter().rev() {
        b.take(body).unwrap();
    }
    assert_eq!(text(&b.out, "main").len(), 2 * PIECE);
    exchange(&a, &b);
    for body in &all {
        b.take(body).unwrap();
    }
    assert_eq!(text(&b.out, "main"), text(&a.out, "main"));
}

#[test]
fn what_lives_here_and_bad_names_are_left_alone() {
    let (dir, a, b) = two();
    put(&a.out, "main", "begin 1\n");
    put(&b.out, "main", "begin 9\n");
    let body = a.lacks("main", Have::default()).unwrap().remove(0);
    let e = b.take(&body).unwrap_err().to_string();
    assert!(e.contains("its own name"), "{e}");
    assert_eq!(text(&b.out, "main"), "begin 9\n");
    let lines = |name: &str| {
        Body::Lines(Lines {
            name: name.into(),
            first: fnv1a(b"x\n"),
            at: 0,
            bytes: b"x\n".to_vec(),
        })
    };
    for name in ["..", "", "a/b", "../c", ".hidden", "-x"] {
        assert!(
            matches!(b.take(&lines(name)), Err(MirrorError::Name(_))),
            "{name}"
        );
    }
    b.take(&lines("fine")).unwrap();
    for (sub, file) in [
        (Sub::Runs, "../../../x.run"),
        (Sub::Runs, ".run"),
        (Sub::Runs, "000001"),
        (Sub::Crashes, "id:000000,src:000001,op:../../x"),
        (Sub::Crashes, "README.txt"),
    ] {
        let body = Body::File(File {
            name: "fine".into(),
            first: fnv1a(b"x\n"),
            sub,
            index: 0,
            of: 1,
            file: file.into(),
            bytes: Vec::new(),
        });
        assert!(matches!(b.take(&body), Err(MirrorError::Name(_))), "{file}");
    }
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 2);
}

/// A letter with the first line of an instance.
fn begins(name: &str) -> Body {
    Body::Lines(Lines {
        name: name.into(),
        first: fnv1a(b"x\n"),
        at: 0,
        bytes: b"x\n".to_vec(),
    })
}

/// All that a folder holds, itself left out.
fn holds(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap().flatten();
    let mut names: Vec<String> = entries
        .map(|e| e.file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

/// Whenever its maker is killed, what it leaves is no mirror yet, or a marked one.
#[test]
fn a_mirror_is_never_there_without_its_mark() {
    let (_dir, _, b) = two();
    let names: Vec<String> = (0..300).map(|n| format!("m{n}")).collect();
    let limit = std::time::Instant::now() + std::time::Duration::from_secs(60);
    let unmarked = std::thread::scope(|s| {
        let watcher = s.spawn(|| {
            let seen_unmarked = |name: &&String| {
                let root = b.out.join(name);
                while !root.exists() {
                    assert!(std::time::Instant::now() < limit, "{name} never came");
                }
                !root.join(MIRROR).exists()
            };
            names.iter().filter(seen_unmarked).count()
        });
        for name in &names {
            b.take(&begins(name)).unwrap();
        }
        watcher.join().unwrap()
    });
    assert_eq!(unmarked, 0);
    assert_eq!(b.have().len(), names.len());
}

#[test]
fn what_a_killed_maker_left_is_taken_over() {
    let (_dir, a, b) = two();
    put(&a.out, "main", "begin 1\n");
    // Without its mark: as it was left when the folder was made in its place.
    let root = b.out.join("main");
    fs::create_dir(&root).unwrap();
    // And half prepared, for another one.
    let half = b.out.join(".broker.new");
    fs::create_dir_all(half.join("runs")).unwrap();
    fs::write(half.join("runs/000000.run"), "of another").unwrap();
    // Its files come after its lines.
    let file = Body::File(File {
        name: "main".into(),
        first: fnv1a(b"begin 1\n"),
        sub: Sub::Runs,
        index: 0,
        of: 1,
        file: "000000.run".into(),
        bytes: b"root".to_vec(),
    });
    b.take(&file).unwrap();
    assert!(holds(&root).is_empty());
    exchange(&a, &b);
    assert_eq!(holds(&root), [MIRROR, "sync.jsonl"]);
    assert_eq!(text(&b.out, "main"), "begin 1\n");
    assert_eq!(holds(&b.out), ["main"]);
    b.take(&file).unwrap();
    assert_eq!(fs::read(root.join("runs/000000.run")).unwrap(), b"root");
    // Killed when it was marked, and no more.
    fs::remove_dir_all(root.join("runs")).unwrap();
    fs::remove_file(root.join("sync.jsonl")).unwrap();
    b.take(&file).unwrap();
    exchange(&a, &b);
    assert_eq!(holds(&root), [MIRROR, "sync.jsonl"]);
}

#[test]
fn a_folder_that_holds_anything_else_is_never_taken_over() {
    let (_dir, _, b) = two();
    for (name, thing) in [
        ("starts", "lock"),
        ("probes", ".probe.7"),
        ("user", "notes.txt"),
        ("half", "sync.jsonl"),
    ] {
        fs::create_dir(b.out.join(name)).unwrap();
        fs::write(b.out.join(name).join(thing), "mine").unwrap();
    }
    fs::create_dir_all(b.out.join("folders/queue")).unwrap();
    for name in ["starts", "probes", "user", "half", "folders"] {
        let root = b.out.join(name);
        let before = holds(&root);
        let refused = b.take(&begins(name));
        assert!(
            matches!(refused, Err(MirrorError::TwoOfAName(_))),
            "{name}: {refused:?}"
        );
        // Nor if it was filled after it was looked at.
        let Body::Lines(lines) = begins(name) else {
            panic!("{name}")
        };
        assert!(take_lines(&root, &lines).is_err(), "{name}");
        assert_eq!(holds(&root), before);
    }
    fs::write(b.out.join("file"), "mine").unwrap();
    let refused = b.take(&begins("file"));
    assert!(
        matches!(refused, Err(MirrorError::TwoOfAName(_))),
        "{refused:?}"
    );
    assert_eq!(fs::read(b.out.join("file")).unwrap(), b"mine");
    assert!(b.have().is_empty());
}
