//! What breaks below a snapshot costs a try, is told, and leaves nothing: CRIU killed in a dump and in a restore, an image cut short, a
//! memory that is full. That one is made small: the tests never fill the machine's.

use nix::sys::signal::Signal;
use nix::sys::statvfs::statvfs;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::{Duration, Instant};
use warren_tests::{
    Seen, cluster, descendants, eventually, kill, levels, namespaces_of, nothing_is_left, ran_on,
    warren,
};

const MINUTE: Duration = Duration::from_secs(60);

/// Where a slot's processes see its memory.
fn memory_of(slot: u32) -> PathBuf {
    format!("/proc/{slot}/root/mnt").into()
}

/// Images of whole snapshots that the campaign holds, each with its slot's init. They lie in the memory of that slot.
fn images(of: &[Seen]) -> Vec<(u32, PathBuf)> {
    let numbered = |name: &str| {
        name.split_once('-')
            .is_some_and(|(k, n)| k.parse::<u8>().is_ok() && n.parse::<u32>().is_ok())
    };
    let slots = of.iter().filter(|p| p.command.contains("__slot-init"));
    slots
        .flat_map(|p| held(p.pid, &numbered, "pages-1.img").map(move |folder| (p.pid, folder)))
        .map(|(slot, folder)| (slot, folder.join("img/pages-1.img")))
        .collect()
}

/// Folders of snapshots in a slot's memory, of those names, in which CRIU has written this file.
fn held<'a>(
    slot: u32,
    named: &'a dyn Fn(&str) -> bool,
    with: &'a str,
) -> impl Iterator<Item = PathBuf> + 'a {
    let folders = fs::read_dir(memory_of(slot)).into_iter().flatten();
    folders
        .flatten()
        .filter(|e| named(&e.file_name().to_string_lossy()))
        .map(|e| e.path())
        .filter(move |p| p.join("img").join(with).is_file())
}

/// Prefix snapshots that lie whole in a slot's memory.
fn prefixes(slot: u32) -> Vec<PathBuf> {
    // What CRIU writes last.
    held(slot, &|name| name.contains("-prefix-"), "inventory.img").collect()
}

/// The images of all parked JVMs in a slot's memory: a folder for each node below their own.
fn parked(slot: u32) -> Vec<PathBuf> {
    let below = |folder: PathBuf| fs::read_dir(folder).into_iter().flatten().flatten();
    below(memory_of(slot))
        .filter(|e| e.file_name().to_string_lossy().starts_with("parked-"))
        .flat_map(|e| below(e.path()))
        .map(|node| node.path().join("img/pages-1.img"))
        .filter(|image| image.is_file())
        .collect()
}

/// Makes an image end after its first page; false where it is gone by now.
fn cut_short(image: &Path) -> bool {
    let file = fs::OpenOptions::new().write(true).open(image);
    file.map(|file| file.set_len(4096).unwrap()).is_ok()
}

/// A slot's memory that has the size it had when this is dropped.
struct Memory {
    slot: u32,
    bytes: u64,
}

impl Memory {
    fn of(slot: u32) -> Self {
        let (bytes, _) = size(slot);
        let memory = Memory { slot, bytes };
        assert!(memory.resize(bytes), "its size can be changed");
        memory
    }

    /// Its slot has not ended.
    fn is_there(&self) -> bool {
        memory_of(self.slot).is_dir()
    }

    /// Not a byte more than now.
    fn make_full(&self) {
        let (_, used) = size(self.slot);
        // What is given back meanwhile makes it refuse; the next call has another figure.
        self.resize(used);
    }

    fn resize(&self, bytes: u64) -> bool {
        let slot = self.slot.to_string();
        let size = format!("remount,size={bytes}");
        let mut command = Command::new("nsenter");
        command.args(["--target", &slot, "--mount", "mount", "-o", &size, "/mnt"]);
        command.output().is_ok_and(|o| o.status.success())
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // It may have ended with its campaign.
        self.resize(self.bytes);
    }
}

/// Bytes of a slot's memory: all, and used.
fn size(slot: u32) -> (u64, u64) {
    let s = statvfs(&memory_of(slot)).unwrap();
    let blocks = |n| n * s.fragment_size();
    (blocks(s.blocks()), blocks(s.blocks() - s.blocks_free()))
}

/// A campaign that does not outlive its test.
struct Campaign(Child);

impl Drop for Campaign {
    fn drop(&mut self) {
        // Where it has ended already there is nothing to do.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Where each dump fails, `--snapshot require` ends with the reason in place of a cold start.
#[test]
fn where_snapshots_are_required_a_replay_does_not_start_cold() {
    let _one = cluster();
    if !levels().contains(&1) {
        eprintln!("SKIPPED required snapshots: level 1 does not work here");
        return;
    }
    ran_on(1, "required snapshots");
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("empty.toml");
    fs::write(
        &file,
        "version = 1\ntarget = \"canary\"\nstart = \"snapshot-1\"\n",
    )
    .unwrap();
    let file = file.display().to_string();
    // A dump that was over before it was seen, or at its end, is none that failed.
    for _ in 0..5 {
        let (code, text) = without_dumps(dir.path(), &["replay", &file, "--snapshot", "require"]);
        assert!(!text.contains("started cold"), "{text}");
        if code == Some(0) {
            continue;
        }
        assert_eq!(code, Some(1), "{text}");
        let why = "--snapshot require: a run cannot begin from its snapshot: ";
        assert!(text.contains(why), "{text}");
        return;
    }
    panic!("no dump failed");
}

/// How a Warren ends whose dumps of clusters are killed as they are seen, and what it says.
fn without_dumps(dir: &Path, args: &[&str]) -> (Option<i32>, String) {
    let (out, err) = (dir.join("out"), dir.join("err"));
    let child = warren(args)
        .stdout(fs::File::create(&out).unwrap())
        .stderr(fs::File::create(&err).unwrap())
        .spawn()
        .unwrap();
    let mut child = Campaign(child);
    let pid = child.0.id();
    let mut ended = None;
    eventually("it ends", 4 * MINUTE, || {
        let all = descendants(pid);
        // A dump of something without a JVM is CRIU's trial.
        if all.iter().any(|p| p.command.contains("java")) {
            let criu = all
                .iter()
                .filter(|p| p.command.contains("criu") && p.command.contains(" dump "));
            criu.for_each(|p| kill(p.pid, Signal::SIGKILL));
        }
        ended = child.0.try_wait().unwrap();
        ended.is_some()
    });
    let said = |file: &Path| fs::read_to_string(file).unwrap();
    (ended.and_then(|e| e.code()), said(&out) + &said(&err))
}

#[test]
fn a_criu_that_is_killed_an_image_cut_short_and_a_full_memory_cost_a_try() {
    let _one = cluster();
    if !levels().contains(&1) {
        eprintln!("SKIPPED snapshots: level 1 does not work here");
        return;
    }
    ran_on(1, "broken snapshots");
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("out").display().to_string();
    let (said, wrong) = (dir.path().join("said"), dir.path().join("wrong"));
    // As many sequences as it takes: ended by its own signal below.
    let campaign = warren(&[
        "fuzz",
        "canary",
        "-o",
        &out,
        "-s",
        "3",
        "--cold-share",
        "0",
        "--no-ui",
        "-V",
        // Longer than all that is waited for here: it is ended by the test.
        "36000",
    ])
    .stdout(fs::File::create(&said).unwrap())
    .stderr(fs::File::create(&wrong).unwrap())
    .spawn()
    .unwrap();
    let mut campaign = Campaign(campaign);
    let pid = campaign.0.id();
    let told = || {
        [&said, &wrong]
            .map(|f| fs::read_to_string(f).unwrap())
            .concat()
    };
    let lines = || -> Vec<serde_json::Value> {
        let text = fs::read_to_string(dir.path().join("out/default/runs.jsonl"));
        let text = text.unwrap_or_default();
        text.lines()
            .filter_map(|l| serde_json::from_str(l).ok())
            .collect()
    };
    let says = |what: &str| {
        eventually(what, 4 * MINUTE, || told().contains(what));
    };
    // Before that CRIU was only tried.
    says("learning 5/5");
    let made_anew = || told().matches("a snapshot was made anew: ").count();
    for doing in ["dump", "restore"] {
        let before = made_anew();
        let mut hit = None::<Instant>;
        eventually("a CRIU that was killed is told", 4 * MINUTE, || {
            // Two failures of one snapshot in a row would be enough to leave it alone. But it may have been at its end, or at a parked JVM.
            if hit.is_none_or(|hit| hit.elapsed() > MINUTE / 2) {
                let all = descendants(pid);
                // Those of parked JVMs are for later: where one could not be dumped they are left alone for minutes.
                let criu = all.iter().filter(|p| {
                    let of = |word: &str| p.command.contains(word);
                    of("criu") && of(&format!(" {doing} ")) && !of("parked-")
                });
                if criu.map(|p| kill(p.pid, Signal::SIGKILL)).count() > 0 {
                    hit = Some(Instant::now());
                }
            }
            made_anew() > before
        });
    }
    says("snapshot 3/3: made in");
    let whole = images(&descendants(pid));
    assert!(!whole.is_empty(), "{}", told());
    for (_, image) in &whole {
        assert!(cut_short(image), "{}", image.display());
    }
    let at = lines().len();
    eventually("runs start from snapshots again", 4 * MINUTE, || {
        let warm = |l: &&serde_json::Value| l["role"] == "fuzz" && l["cold"].is_null();
        let all = lines();
        assert!(all.iter().all(|l| l["void"].is_null()), "{all:#?}");
        all.iter().skip(at).filter(warm).count() >= 4
    });
    let anew = images(&descendants(pid));
    assert!(
        told().contains("made anew: image pages-1.img of "),
        "{}",
        told()
    );
    let remade = anew.iter().any(|i| !whole.contains(i));
    assert!(remade, "{whole:?}, then {anew:?}");
    let told_of = |at: usize, key: &str, words: &[&str]| {
        let all = lines();
        assert!(all.iter().all(|l| l["void"].is_null()), "{all:#?}");
        let mut why = all.iter().skip(at).filter_map(|l| l[key].as_str());
        why.any(|why| words.iter().any(|w| why.contains(w)))
    };
    let of_size = "image pages-1.img of ";
    let at = lines().len();
    eventually("a prefix that is cut short is told", 4 * MINUTE, || {
        // Prefixes are made and go all the time: whichever is there, at times after it was looked at.
        for prefix in prefixes(anew[0].0) {
            cut_short(&prefix.join("img/pages-1.img"));
        }
        told_of(at, "no_prefix", &[of_size, "CRIU could not restore"])
    });
    let at = lines().len();
    eventually("runs begin from prefixes again", 4 * MINUTE, || {
        let all = lines();
        all.iter().skip(at).any(|l| !l["from_prefix"].is_null())
    });
    let at = lines().len();
    let images = parked(anew[0].0);
    assert!(!images.is_empty(), "{}", told());
    let cut = images.iter().filter(|image| cut_short(image)).count();
    assert_eq!(cut, images.len(), "all are there");
    eventually("a parked JVM that is cut short is told", 4 * MINUTE, || {
        told_of(at, "no_parked", &[of_size])
    });
    let memory = Memory::of(anew[0].0);
    let at = lines().len();
    let refused = |l: &serde_json::Value| {
        let why = [&l["no_prefix"], &l["cold"]];
        let mut why = why.iter().filter_map(|w| w.as_str());
        why.any(|w| w.contains("No space left on device"))
    };
    eventually("a dump finds no room, and is told", 4 * MINUTE, || {
        // Again and again: a prefix that is not wanted any more leaves room.
        assert!(memory.is_there(), "the slot has ended\n{}", told());
        memory.make_full();
        lines().iter().skip(at).any(refused)
    });
    let at = lines().len();
    eventually("what is there goes on serving", MINUTE, || {
        assert!(memory.is_there(), "the slot has ended\n{}", told());
        memory.make_full();
        let all = lines();
        let warm = |l: &&serde_json::Value| l["role"] == "fuzz" && l["cold"].is_null();
        assert!(all.iter().all(|l| l["void"].is_null()), "{all:#?}");
        all.iter().skip(at).filter(warm).count() >= 4
    });
    drop(memory);
    let held = prefixes(anew[0].0);
    eventually("there is room again for a prefix", 4 * MINUTE, || {
        prefixes(anew[0].0).iter().any(|p| !held.contains(p))
    });
    let deployed = descendants(pid);
    let namespaces = namespaces_of(&deployed);
    kill(pid, Signal::SIGINT);
    assert!(campaign.0.wait().unwrap().success(), "{}", told());
    nothing_is_left(&deployed, &namespaces);
}
