//! A tree of processes that talk over TCP is dumped, and goes on in another slot as if nothing had been.

use super::*;
use warren_executor::setup::{cache, criu};
use warren_executor::slot::{AtDump, Exit, Owed, Process};

/// CRIU, or `None` (said) where there is none to be had.
fn criu() -> Option<Vec<String>> {
    let report = detect_levels(&warren());
    if !report.iter().any(|r| r.level == Level::Root && r.ok) {
        eprintln!("SKIPPED snapshots: level 1 does not work here");
        return None;
    }
    match criu::find_or_fetch(&cache::dir().unwrap(), &|line| eprintln!("{line}")) {
        Ok(found) => Some(found.argv),
        Err(e) => {
            eprintln!("SKIPPED snapshots: {e}");
            None
        }
    }
}

fn numbers(slot: &Slot) -> Vec<u64> {
    output(slot, "talk")
        .lines()
        .filter_map(|l| l.strip_prefix("back ")?.parse().ok())
        .collect()
}

/// How a process below a launcher ended.
fn ended(slot: &Slot, process: &Process) -> Exit {
    let mut exit = None;
    wait_for("its end is told", || {
        exit = slot.launched_exit(process);
        exit.is_some()
    });
    exit.unwrap()
}

fn copy(from: &Path, to: &Path) {
    let copied = Command::new("cp")
        .arg("-a")
        .arg(from.join("."))
        .arg(to)
        .status()
        .unwrap();
    assert!(copied.success());
}

#[test]
fn a_restored_tree_goes_on_where_it_was() {
    let Some(criu) = criu() else { return };
    eprintln!("RAN snapshots");
    let kept = tempfile::tempdir().unwrap();
    let images = kept.path().join("img");
    fs::create_dir(&images).unwrap();
    let mut config = SlotConfig::new(warren(), Level::Root).names(["n1", "n2"]);
    config.images = Some(images);
    config.clock_offset = Some(0);

    let slot = Slot::open(&config).unwrap();
    let missing = [spec(&slot, "missing", &["/nowhere/java"])];
    let refused = slot.launch(&missing).unwrap_err().to_string();
    assert!(refused.contains("/nowhere/java"), "{refused}");
    let first = slot
        .launch(&[helper_spec(&slot, "echo", "echo 127.0.0.11:4000")])
        .unwrap();
    let second = slot
        .launch(&[helper_spec(&slot, "talk", "talk 127.0.0.11:4000")])
        .unwrap();
    assert_eq!(first.launcher, second.launcher, "one tree");
    wait_for("they talk", || numbers(&slot).len() > 5);
    let tree: Vec<AtDump> = first
        .processes
        .iter()
        .chain(&second.processes)
        .map(AtDump::from)
        .collect();
    slot.dump(&criu, first.launcher, "").unwrap();
    let dumped_ns = slot.now_ns();
    assert!(second.processes[0].is_dead(), "the dump ends the tree");
    copy(slot.root(), kept.path());
    let before = numbers(&slot).len();
    slot.close().unwrap();

    // Twice from the same images, the second time a while later.
    for round in 0..2 {
        let host = warren_executor::slot::now_ns();
        config.clock_offset = Some(dumped_ns as i64 - host as i64);
        let slot = Slot::open(&config).unwrap();
        for name in ["echo.out", "talk.out"] {
            fs::copy(kept.path().join(name), slot.root().join(name)).unwrap();
        }
        let processes = slot.restore(&criu, first.launcher, "", &tree).unwrap();
        wait_for("they go on", || numbers(&slot).len() > before + 5);
        let all = numbers(&slot);
        // The very first stands behind what the test harness says.
        let expected: Vec<u64> = (1..=all.len() as u64).collect();
        assert_eq!(all, expected, "nothing said twice, nothing lost");
        assert!(slot.now_ns() > dumped_ns && slot.now_ns() < dumped_ns + 60_000_000_000);

        // One clock for what was restored and what is started now.
        let clocks = format!(
            "readlink /proc/self/ns/time /proc/{}/ns/time /proc/1/ns/time",
            processes[0].pid_inside
        );
        let started = slot.spawn(&spec(&slot, "clocks", &["/bin/sh", "-c", &clocks]));
        slot.wait_exit(&started.unwrap(), Instant::now() + PATIENCE)
            .unwrap()
            .unwrap();
        let text = output(&slot, "clocks");
        let names: BTreeSet<&str> = text.lines().collect();
        assert_eq!((text.lines().count(), names.len()), (3, 1), "{text}");

        // They are init's own now: their ends are told, ours and theirs.
        processes[0].kill();
        let exit = slot
            .wait_exit(&processes[0], Instant::now() + PATIENCE)
            .unwrap()
            .expect("killed");
        assert!(exit.by_us && exit.name == "echo");
        // The machine's clock is far ahead of it by now.
        let now = slot.now_ns();
        assert!((dumped_ns..=now).contains(&exit.t_ns), "the slot's clock");
        let exit = slot
            .wait_exit(&processes[1], Instant::now() + PATIENCE)
            .unwrap()
            .expect("its peer is gone, so it ends");
        assert!(!exit.by_us && exit.name == "talk" && exit.status.is_some());
        slot.close().unwrap();
        if round == 0 {
            std::thread::sleep(3000 * MS);
        }
    }

    // A tree that was restored to be dumped once more: it grows, loses some, is stopped, and goes on from the second dump.
    let host = warren_executor::slot::now_ns();
    config.clock_offset = Some(dumped_ns as i64 - host as i64);
    let slot = Slot::open(&config).unwrap();
    for name in ["echo.out", "talk.out"] {
        fs::copy(kept.path().join(name), slot.root().join(name)).unwrap();
    }
    let mut processes = slot
        .restore_to_dump(&criu, first.launcher, "", &tree)
        .unwrap();
    wait_for("they go on", || numbers(&slot).len() > before + 5);
    let more = [
        spec(&slot, "late", &["/bin/sleep", "600"]),
        spec(&slot, "gone", &["/bin/sleep", "600"]),
        // Not before we have hold of it.
        spec(
            &slot,
            "quit",
            &[
                "/bin/sh",
                "-c",
                "until [ -e may-quit ]; do sleep 0.02; done; exit 3",
            ],
        ),
        spec(&slot, "mute", &["/bin/sleep", "600"]),
    ];
    let mut grown = slot.launch(&more).unwrap();
    assert_eq!(grown.launcher, first.launcher, "the same tree");
    let ends = grown.processes.split_off(1);
    let [gone, quit, mute] = &ends[..] else {
        panic!("{ends:?}")
    };
    assert_eq!(slot.launched_exit(gone), None, "it lives");
    assert!(gone.kill());
    fs::write(slot.root().join("may-quit"), "").unwrap();
    assert!(quit.wait_dead(PATIENCE));
    quit.kill(); // too late: it has ended by itself
    for (process, want) in [
        (gone, (None, Some(9), true)),
        (quit, (Some(3), None, false)),
    ] {
        let exit = ended(&slot, process);
        let name = &process.name;
        assert_eq!((&exit.name, exit.pid), (name, process.pid_inside));
        assert_eq!((exit.status, exit.signal, exit.by_us), want, "{name}");
        let lived = process.spawned_ns..=slot.now_ns();
        assert!(lived.contains(&exit.t_ns), "{name}: the slot's clock");
        assert_eq!(slot.launched_exit(process), Some(exit), "told again");
    }
    // Where the launcher cannot write it goes on all the same, and the end is told without it, a little later.
    let file = slot.root().join(".criu/reaped");
    fs::remove_file(&file).unwrap();
    fs::create_dir(&file).unwrap();
    assert!(mute.kill() && mute.wait_dead(PATIENCE));
    assert_eq!(slot.launched_exit(mute), None, "not yet");
    let exit = ended(&slot, mute);
    assert_eq!(
        (exit.status, exit.signal, exit.by_us),
        (None, Some(9), true)
    );
    assert!(slot.exits().is_empty(), "the launcher reaps");
    processes.extend(grown.processes);
    assert!(processes.iter().all(Process::stop));
    fs::create_dir(kept.path().join("img/later")).unwrap();
    let still_ns = slot.dump_stopped(&criu, first.launcher, "later").unwrap();
    assert!(still_ns < slot.now_ns());
    copy(slot.root(), kept.path());
    let before = numbers(&slot).len();
    slot.close().unwrap();
    config.clock_offset = Some(still_ns as i64 - warren_executor::slot::now_ns() as i64);
    let slot = Slot::open(&config).unwrap();
    for name in ["echo.out", "talk.out", "late.out"] {
        fs::copy(kept.path().join(name), slot.root().join(name)).unwrap();
    }
    let at_dump: Vec<AtDump> = processes.iter().map(AtDump::from).collect();
    let asked = Instant::now();
    let processes = slot
        .restore(&criu, first.launcher, "later", &at_dump)
        .unwrap();
    // Of the dump's time nothing has passed for them.
    let passed = Duration::from_nanos(slot.now_ns() - still_ns);
    assert!(passed <= asked.elapsed(), "{passed:?}");
    std::thread::sleep(100 * MS);
    assert_eq!(numbers(&slot).len(), before, "they are still stopped");
    assert!(processes.iter().all(Process::go_on));
    wait_for("they go on", || numbers(&slot).len() > before + 5);
    let all = numbers(&slot);
    let expected: Vec<u64> = (1..=all.len() as u64).collect();
    assert_eq!(all, expected, "nothing said twice, nothing lost");
    processes[2].kill();
    let exit = slot.wait_exit(&processes[2], Instant::now() + PATIENCE);
    assert!(exit.unwrap().is_some_and(|e| e.by_us && e.name == "late"));
    slot.close().unwrap();

    // What is not whole is refused with CRIU's words, and leaves a slot that can be closed.
    let image = fs::read_dir(kept.path().join("img"))
        .unwrap()
        .map(|e| e.unwrap().path())
        .find(|p| p.to_string_lossy().contains("pages-"))
        .unwrap();
    fs::OpenOptions::new()
        .write(true)
        .open(&image)
        .unwrap()
        .set_len(100)
        .unwrap();
    let slot = Slot::open(&config).unwrap();
    for name in ["echo.out", "talk.out"] {
        fs::copy(kept.path().join(name), slot.root().join(name)).unwrap();
    }
    let refused = slot.restore(&criu, first.launcher, "", &tree).unwrap_err();
    assert!(
        refused.to_string().contains("CRIU could not restore"),
        "{refused}"
    );
    slot.close().unwrap();
}

/// How many TCP sockets of the slot have this local or remote port and are in that state of /proc/net/tcp.
fn sockets(slot: &Slot, port: u16, state: u8) -> usize {
    let all = fs::read_to_string(format!("/proc/{}/net/tcp", slot.init_pid())).unwrap();
    let port = format!(":{port:04X}");
    let is = |line: &&str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let of_port = words[1].ends_with(&port) || words[2].ends_with(&port);
        of_port && words[3] == format!("{state:02X}")
    };
    all.lines().skip(1).filter(is).count()
}

/// Without the hush some of those that dial are refused: their first packet comes when nobody listens yet.
#[test]
fn what_is_underway_at_a_dump_comes_after_the_restore() {
    const SYN_SENT: u8 = 2;
    const CLOSE_WAIT: u8 = 8;
    const LISTEN: u8 = 10;
    let Some(criu) = criu() else { return };
    let kept = tempfile::tempdir().unwrap();
    let images = kept.path().join("img");
    fs::create_dir(&images).unwrap();
    let mut config = SlotConfig::new(warren(), Level::Root).names(["n1", "n2"]);
    config.images = Some(images);
    config.clock_offset = Some(0);
    let slot = Slot::open(&config).unwrap();
    if let Err(e) = slot.kernel_cuts() {
        eprintln!("SKIPPED packets underway: no kernel cuts here: {e}");
        return;
    }
    let nodes = [slot.node_addr(0), slot.node_addr(1)];
    slot.cut(&CutRules::machine(nodes[0])).unwrap();
    // Those that dial are restored before who listens.
    let what = [
        ("dial1", "dial 127.0.0.11:4000"),
        ("dial2", "dial 127.0.0.11:4000"),
        ("dial3", "dial 127.0.0.11:4000"),
        ("bye", "bye 127.0.0.12:4001"),
        ("echo", "echo 127.0.0.11:4000"),
    ];
    let specs = what.map(|(name, what)| helper_spec(&slot, name, what));
    let mut tree = slot.launch(&specs).unwrap();
    wait_for("they listen", || {
        sockets(&slot, 4000, LISTEN) + sockets(&slot, 4001, LISTEN) == 2
    });
    let rest = [helper_spec(&slot, "rest", "rest 127.0.0.12:4001")];
    tree.processes.extend(slot.launch(&rest).unwrap().processes);
    wait_for("all is underway", || {
        (
            sockets(&slot, 4000, SYN_SENT),
            sockets(&slot, 4001, CLOSE_WAIT),
        ) == (3, 1)
    });
    assert!(tree.processes.iter().all(Process::stop));
    slot.hush(&nodes).unwrap();
    let dumped_ns = slot.dump_stopped(&criu, tree.launcher, "").unwrap();
    copy(slot.root(), kept.path());
    slot.close().unwrap();

    let at_dump: Vec<AtDump> = tree.processes.iter().map(AtDump::from).collect();
    let names = what.map(|(name, _)| name).into_iter().chain(["rest"]);
    for round in 0..3 {
        let host = warren_executor::slot::now_ns();
        config.clock_offset = Some(dumped_ns as i64 - host as i64);
        let slot = Slot::open(&config).unwrap();
        for name in names.clone() {
            let file = format!("{name}.out");
            fs::copy(kept.path().join(&file), slot.root().join(&file)).unwrap();
        }
        slot.hush(&nodes).unwrap();
        let processes = slot.restore(&criu, tree.launcher, "", &at_dump).unwrap();
        // CRIU tells it of its end by a packet of its own.
        assert_eq!(sockets(&slot, 4001, CLOSE_WAIT), 1, "round {round}");
        slot.unhush().unwrap();
        assert!(processes.iter().all(Process::go_on));
        for dial in ["dial1", "dial2", "dial3"] {
            wait_for(dial, || output(&slot, dial).contains("dial: "));
            let said = output(&slot, dial);
            assert!(said.contains("dial: Ok"), "round {round}: {said}");
        }
        // Whose other end is gone: it meets that at its first word, however CRIU has told it of the end.
        fs::write(slot.root().join("write"), "").unwrap();
        wait_for("it writes", || output(&slot, "rest").contains("written"));
        let said = output(&slot, "rest");
        assert!(said.contains("written 1\n"), "round {round}: {said}");
        slot.close().unwrap();
    }
}

#[test]
fn a_connection_that_failed_is_owed_until_its_process_was_told() {
    let Some(slot) = open(Level::Root) else {
        return;
    };
    let what = [
        helper_spec(&slot, "rude", "rude 127.0.0.11:4000"),
        helper_spec(&slot, "reset", "reset 127.0.0.11:4000"),
    ];
    let tree = slot.launch(&what[..1]).unwrap();
    wait_for("it listens", || sockets(&slot, 4000, 10) == 1);
    let mut all = tree.processes;
    all.extend(slot.launch(&what[1..]).unwrap().processes);
    let owed = || {
        assert!(all.iter().all(Process::stop));
        let owed = slot.owed(tree.launcher).unwrap();
        assert!(all.iter().all(Process::go_on));
        owed
    };
    wait_for("it fails", || {
        owed()
            .failed
            .iter()
            .any(|o| o.starts_with("127.0.0.1:") && o.ends_with(" (an error)"))
    });
    fs::write(slot.root().join("read"), "").unwrap();
    wait_for("it is told", || output(&slot, "reset").contains("read Err"));
    assert_eq!(owed(), Owed::default());
    slot.close().unwrap();
}

/// (number, time) that the helper `clock` said last in this file of the slot.
fn last_clock(slot: &Slot, name: &str) -> Option<(u64, u64)> {
    let text = output(slot, name);
    // The last line may be half written.
    let whole = text.rsplit_once('\n')?.0;
    let line = whole
        .lines()
        .filter_map(|l| l.strip_prefix("at "))
        .next_back()?;
    let (n, t) = line.split_once(' ')?;
    Some((n.parse().ok()?, t.parse().ok()?))
}

#[test]
fn a_tree_apart_joins_other_slots_on_their_clock_again_and_again() {
    let Some(criu) = criu() else { return };
    let kept = tempfile::tempdir().unwrap();
    let images = kept.path().join("img");
    fs::create_dir_all(images.join("apart")).unwrap();
    let mut config = SlotConfig::new(warren(), Level::Root).names(["n1"]);
    config.images = Some(images.clone());
    // Long ago, so that no slot's clock is behind it.
    config.clock_offset = Some(5_000_000_000 - warren_executor::slot::now_ns() as i64);
    let slot = Slot::open(&config).unwrap();
    let helper = helper_spec(&slot, "clock", "clock -");
    let apart = slot.launch_apart(&helper, 20_000).unwrap();
    assert!(apart.launcher > 20_000 && apart.processes[0].pid_inside > apart.launcher);
    wait_for("it counts", || {
        last_clock(&slot, "clock").is_some_and(|(n, _)| n > 5)
    });
    let at_dump = AtDump::from(&apart.processes[0]);
    slot.dump(&criu, apart.launcher, "apart").unwrap();
    let (before, _) = last_clock(&slot, "clock").unwrap();
    slot.close().unwrap();
    fs::remove_file(
        images
            .join("apart")
            .join(warren_executor::slot::CLOCK_IMAGE),
    )
    .unwrap();

    config.clock_offset = Some(-1_000_000_000);
    let slot = Slot::open(&config).unwrap();
    let other = slot
        .spawn(&spec(&slot, "other", &["/bin/sleep", "600"]))
        .unwrap();
    // Of another size than at the dump, which is no hindrance.
    fs::write(slot.root().join("clock.out"), "what the one before said\n").unwrap();
    let stdout = slot.inside_root().join("clock.out");
    for round in 0..2 {
        let asked = slot.now_ns();
        let joined = slot
            .restore_apart(&criu, apart.launcher, "apart", &at_dump, &stdout)
            .unwrap();
        wait_for("it goes on", || {
            last_clock(&slot, "clock").is_some_and(|(n, t)| n > before && t > asked)
        });
        let (_, said) = last_clock(&slot, "clock").unwrap();
        assert!(said <= slot.now_ns(), "round {round}: one clock");
        // While it is there its number is taken.
        let twice = slot.restore_apart(&criu, apart.launcher, "apart", &at_dump, &stdout);
        let refused = twice.unwrap_err().to_string();
        assert!(refused.contains("CRIU could not restore"), "{refused}");
        assert!(!joined.is_dead() && !other.is_dead(), "round {round}");
        assert!(joined.kill());
        let exit = slot.wait_exit(&joined, Instant::now() + PATIENCE).unwrap();
        assert!(
            exit.is_some_and(|e| e.by_us && e.name == "clock"),
            "round {round}"
        );
    }
    assert!(output(&slot, "clock").starts_with("what the one before said\n"));
    slot.close().unwrap();
}
