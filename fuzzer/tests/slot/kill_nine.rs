//! kill -9 of Warren: soon nothing of its slot is left. How soon is said (some ms on an idle machine), not asserted.

use super::*;

pub fn kill_nine_leaves_nothing(level: Level) {
    if open(level).is_none() {
        return;
    }
    let before = mounts();
    let mut owner = helper_process(&format!("own {}", level.number()));
    let mut lines = BufReader::new(owner.stdout.take().unwrap()).lines();
    let line = lines
        .find_map(|l| l.unwrap().strip_prefix("slot ").map(String::from))
        .expect("the owner opened its slot");
    let (init, root) = line.split_once(' ').unwrap();
    let init: i32 = init.parse().unwrap();
    let mark = Path::new(root).join(helper::mark(owner.id()));
    let spaces = namespaces_of(init);
    let tree = members(init, &spaces, level);
    assert!(tree.len() >= 4, "init and three processes: {tree:?}");
    owner.kill().unwrap();
    assert_eq!(owner.wait().unwrap().signal(), Some(9));
    let alive =
        || tree.iter().filter(|p| is_alive(**p)).count() + in_namespaces(&spaces, level).len();
    let killed = Instant::now();
    wait_for("no process and no namespace of the slot is left", || {
        alive() == 0
    });
    eprintln!("gone {:?} after the kill", killed.elapsed());
    // Others of this machine may mount something for a moment.
    wait_for("no mount is left", || mounts().is_subset(&before));
    if level == Level::Plain {
        // The folder of all slots is shared: whoever starts a Warren meanwhile may sweep it first, and take the number.
        sweep_level3();
        assert!(!mark.exists(), "{} is left", mark.display());
        let state = fs::read_to_string(Path::new(root).with_extension("state"));
        let owner = format!("owner {} ", owner.id());
        assert!(!state.unwrap_or_default().starts_with(&owner));
    }
}

fn mounts() -> BTreeSet<String> {
    let all = fs::read_to_string("/proc/self/mountinfo").unwrap();
    all.lines().map(str::to_owned).collect()
}

fn helper_process(what: &str) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "helper_entry", "--nocapture", "--test-threads=1"])
        .env("SLOT_HELPER", what)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap()
}

/// (pid, mnt, net) namespaces of a process; empty at level 3, where they are ours.
fn namespaces_of(pid: i32) -> BTreeSet<PathBuf> {
    let read = |pid: &str, ns: &str| fs::read_link(format!("/proc/{pid}/ns/{ns}")).ok();
    ["pid", "mnt", "net"]
        .into_iter()
        .filter(|ns| read(&pid.to_string(), ns) != read("self", ns))
        .filter_map(|ns| read(&pid.to_string(), ns))
        .collect()
}

fn pids() -> Vec<i32> {
    let entries = fs::read_dir("/proc").unwrap().flatten();
    entries
        .filter_map(|e| e.file_name().to_str()?.parse().ok())
        .collect()
}

fn in_namespaces(spaces: &BTreeSet<PathBuf>, level: Level) -> Vec<i32> {
    if level == Level::Plain {
        return Vec::new();
    }
    assert_eq!(spaces.len(), 3);
    pids()
        .into_iter()
        // A zombie still names its pid namespace until the machine's init gets round to it, some seconds on some machines.
        .filter(|p| is_alive(*p) && !namespaces_of(*p).is_disjoint(spaces))
        .collect()
}

/// Init and its children.
fn members(init: i32, spaces: &BTreeSet<PathBuf>, level: Level) -> Vec<i32> {
    if level != Level::Plain {
        return in_namespaces(spaces, level);
    }
    let text = fs::read_to_string(format!("/proc/{init}/task/{init}/children")).unwrap();
    std::iter::once(init)
        .chain(text.split_whitespace().map(|p| p.parse().unwrap()))
        .collect()
}

fn is_alive(pid: i32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(')')
        .is_some_and(|(_, rest)| !rest.trim_start().starts_with('Z'))
}
