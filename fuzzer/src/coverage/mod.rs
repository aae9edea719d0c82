//! `warren coverage OUT`: lines and branches that a campaign with `--coverage-report` executed, as JaCoCo counts them (docs/coverage.md).
//!
//! Reads `coverage/` of each instance ([`found`]), counts ([`count()`], pure) and prints; starts nothing, and OUT may belong to a living
//! campaign. The campaign's side is [`Recorder`].

pub mod count;
pub mod exec;
pub mod found;
pub mod table;
mod text;

use crate::campaign::WayOut;
use crate::campaign::folder::write_whole;
use crate::campaign::stats::unix_now;
use crate::cli::args::CoverageArgs;
use crate::cli::campaigns::campaign_folders;
use crate::cli::exit::{CliError, Exit};
use count::count;
pub use found::Recorder;
use found::{Found, Held};
use std::path::{Path, PathBuf};
use table::Table;

/// Of trouble with what a campaign counted.
const READ: WayOut<'static> = WayOut {
    place: "name a campaign, or an instance of it, that can be read",
    content: "name a campaign, or an instance of it, that is whole",
};

/// Runs the verb.
///
/// # Errors
/// Exit 2: OUT holds no campaign that counted, or instances of different classes; files are asked of several. Exit 1: I/O.
pub fn run(args: &CoverageArgs) -> Result<Exit, CliError> {
    let report = match &args.out[..] {
        [out] => of_one(out, args)?,
        several => {
            let files = [&args.csv, &args.exec, &args.over_time];
            if files.iter().any(|f| f.is_some()) {
                return Err(CliError::usage(
                    "--csv, --exec and --over-time are files of one campaign: name one folder",
                ));
            }
            of_several(several)?
        }
    };
    print!("{report}");
    Ok(Exit::End)
}

/// A line for each folder.
fn of_several(folders: &[PathBuf]) -> Result<String, CliError> {
    let mut rows = Vec::new();
    for out in folders {
        let (held, table) = open(out)?;
        let total = count(&table, &union(&table, held.found.iter())).total;
        rows.push((out.display().to_string(), total));
    }
    let rows: Vec<_> = rows.iter().map(|(name, c)| (name.clone(), c)).collect();
    Ok(text::rows("campaign", &rows))
}

fn open(out: &Path) -> Result<(Together, Table), CliError> {
    let held = read(out)?;
    let table = Table::parse(&held.table_text)
        .map_err(|why| CliError::setup(format!("{}: table of probes: {why}", out.display())))?;
    Ok((held, table))
}

fn of_one(out: &Path, args: &CoverageArgs) -> Result<String, CliError> {
    let (held, table) = open(out)?;
    let executed = union(&table, held.found.iter());
    let fault_free = union(&table, held.found.iter().filter(|f| f.faults == 0));
    let all = count(&table, &executed);
    let last_ms = held.found.iter().map(|f| f.ms).max().unwrap_or(0);
    let write = |flag: &str, path: &Path, bytes: &[u8]| {
        let place = format!("name a file in another folder with {flag}");
        let way_out = WayOut {
            place: &place,
            ..READ
        };
        write_whole(path, bytes).map_err(|e| way_out.of(e))
    };
    if let Some(path) = &args.csv {
        write("--csv", path, text::csv(&table, &all).as_bytes())?;
    }
    if let Some(path) = &args.exec {
        let end = held.began * 1000 + last_ms;
        write(
            "--exec",
            path,
            &exec::exec(&table, &executed, held.began * 1000, end),
        )?;
    }
    if let Some(path) = &args.over_time {
        let points = over_time(&table, &held.found);
        write("--over-time", path, text::over_time(&points).as_bytes())?;
    }
    let about = text::Heading {
        instances: held.instances,
        last_ms,
        executed: executed.iter().filter(|e| **e).count(),
    };
    let fault_free = count(&table, &fault_free).total;
    Ok(text::report(&table, &all, &fault_free, &about))
}

/// What all instances hold together, by time.
struct Together {
    instances: usize,
    table_text: String,
    began: u64,
    /// By time since then, of whichever instance.
    found: Vec<Found>,
}

/// Finds of an instance that began so many seconds after the first.
fn later(found: Vec<Found>, seconds: u64) -> impl Iterator<Item = Found> {
    found.into_iter().map(move |f| Found {
        ms: f.ms + 1000 * seconds,
        ..f
    })
}

fn read(out: &Path) -> Result<Together, CliError> {
    let folders = campaign_folders(out, found::is_there)?;
    let mut together: Option<Together> = None;
    for folder in &folders {
        let Held {
            table_text,
            began,
            found,
        } = found::read(folder).map_err(|e| READ.of(e))?;
        match &mut together {
            None => {
                together = Some(Together {
                    instances: 1,
                    table_text,
                    began,
                    found,
                });
            }
            Some(t) if t.table_text == table_text => {
                t.instances += 1;
                let first = t.began.min(began);
                let before = std::mem::take(&mut t.found);
                t.found.extend(later(before, t.began - first));
                t.found.extend(later(found, began - first));
                t.began = first;
            }
            Some(_) => {
                return Err(CliError::usage(format!(
                    "{} and {} ran different classes (another target, version or agent): name one instance",
                    folders[0].display(),
                    folder.display()
                )));
            }
        }
    }
    let mut together = together.ok_or_else(|| {
        CliError::usage(format!(
            "{} holds no campaign that counted lines and branches: name the folder of a campaign begun by `warren fuzz TARGET -o OUT --coverage-report`",
            out.display()
        ))
    })?;
    together.found.sort_by_key(|f| f.ms);
    Ok(together)
}

fn union<'f>(table: &Table, found: impl Iterator<Item = &'f Found>) -> Vec<bool> {
    let mut executed = vec![false; table.probes];
    for p in found.flat_map(|f| &f.probes) {
        if let Some(e) = executed.get_mut(*p) {
            *e = true;
        }
    }
    executed
}

fn over_time(table: &Table, found: &[Found]) -> Vec<(u64, count::Counters)> {
    let mut executed = vec![false; table.probes];
    let mut points = Vec::new();
    for one in found {
        for p in &one.probes {
            if let Some(e) = executed.get_mut(*p) {
                *e = true;
            }
        }
        points.push((one.ms, count(table, &executed).total));
    }
    points
}

/// The sink's side: opened when the first product comes, for only then the campaign's folder is there and ours.
#[derive(Debug)]
pub struct Recording {
    instance: PathBuf,
    table: PathBuf,
    recorder: Option<Recorder>,
    /// What went wrong last: said once.
    said: Option<String>,
}

impl Recording {
    /// For an instance's folder and the target's table.
    #[must_use]
    pub fn new(instance: PathBuf, table: PathBuf) -> Self {
        Recording {
            instance,
            table,
            recorder: None,
            said: None,
        }
    }

    /// Takes in a run that ended at so many ms of the campaign. Returns what went wrong, once.
    pub fn take(&mut self, map: &[u8], faults: usize, ms: u64) -> Option<String> {
        let done = self.try_take(map, faults, ms);
        let why = done
            .err()
            .map(|e| format!("lines and branches of a run are not counted: {e}"));
        let new = why.clone().filter(|_| why != self.said);
        self.said = why;
        new
    }

    fn try_take(
        &mut self,
        map: &[u8],
        faults: usize,
        ms: u64,
    ) -> Result<(), crate::campaign::FuzzError> {
        let recorder = match &mut self.recorder {
            Some(recorder) => recorder,
            none => {
                let began = unix_now().saturating_sub(ms / 1000);
                none.insert(Recorder::open(&self.instance, &self.table, began)?)
            }
        };
        recorder.take(map, faults, ms)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn args(out: &Path) -> CoverageArgs {
        CoverageArgs {
            out: vec![out.to_owned()],
            csv: None,
            exec: None,
            over_time: None,
        }
    }

    #[test]
    fn instances_are_counted_together() {
        let dir = tempfile::tempdir().unwrap();
        let table = dir.path().join("table");
        std::fs::write(&table, table::SAMPLE).unwrap();
        for (name, map) in [("a", [1, 0, 0, 0]), ("b", [1, 1, 0, 0])] {
            let mut r = Recording::new(dir.path().join(name), table.clone());
            assert_eq!(r.take(&map, 0, 0), None);
        }
        let t = read(dir.path()).unwrap_or_else(|e| panic!("{e}"));
        assert_eq!((t.instances, t.found.len()), (2, 2));
        let parsed = Table::parse(&t.table_text).unwrap();
        let executed = union(&parsed, t.found.iter());
        assert_eq!(executed.iter().filter(|e| **e).count(), 2);
        assert_eq!(over_time(&parsed, &t.found).len(), 2);
        let mut both = args(&dir.path().join("a"));
        assert_eq!(run(&both), Ok(Exit::End));
        both.out.push(dir.path().join("b"));
        assert_eq!(run(&both), Ok(Exit::End));
        let rows = of_several(&both.out).unwrap_or_else(|e| panic!("{e}"));
        assert!(
            rows.lines().count() == 3 && rows.contains("3 / 6  50.00 %"),
            "{rows}"
        );
        both.csv = Some(dir.path().join("csv"));
        assert_eq!(run(&both).unwrap_err().exit, Exit::Usage);
        std::fs::write(&table, table::SAMPLE.replace("13 1", "14 1")).unwrap();
        let mut r = Recording::new(dir.path().join("c"), table);
        assert_eq!(r.take(&[1], 0, 0), None);
        let why = run(&args(dir.path())).unwrap_err();
        assert!(
            why.exit == Exit::Usage && why.text.contains("different classes"),
            "{why}"
        );
    }

    /// The second was joined an hour later: what it found in its first seconds came after what the first had.
    #[test]
    fn finds_of_several_instances_have_one_clock() {
        let dir = tempfile::tempdir().unwrap();
        let table = dir.path().join("table");
        std::fs::write(&table, table::SAMPLE).unwrap();
        // The younger one's folder is read first, and last.
        for younger in ["a", "z"] {
            let out = dir.path().join(format!("out-{younger}"));
            for (name, began) in [("m", 77), (younger, 3677)] {
                let mut r = found::Recorder::open(&out.join(name), &table, began).unwrap();
                r.take(&[1, 0, 0, 0], 0, 0).unwrap();
            }
            let t = read(&out).unwrap_or_else(|e| panic!("{e}"));
            let late = t.found.iter().filter(|f| f.ms >= 3_600_000).count();
            assert_eq!((t.began, t.found.len(), late), (77, 2, 1));
        }
    }

    /// A campaign of version 1, and what JaCoCo 0.8.13 counts from its execution data and classes.
    #[test]
    fn version_1_is_read_and_counted_as_jacoco_does() {
        let sample = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/samples/coverage-v1");
        let t = read(&sample).unwrap_or_else(|e| panic!("{e}"));
        let table = Table::parse(&t.table_text).unwrap();
        assert_eq!(
            (t.found.len(), table.classes.len(), table.probes),
            (7, 28, 1491)
        );
        let executed = union(&table, t.found.iter());
        let counted = count(&table, &executed);
        let c = counted.total;
        let have = [c.instructions, c.branches, c.lines, c.complexity, c.methods]
            .map(|c| (c.covered, c.missed()));
        let jacoco = [(6310, 1263), (378, 181), (1221, 237), (362, 159), (213, 14)];
        assert_eq!(have, jacoco);
        let aside = table.classes.iter().position(|c| c.name == "canary/Aside");
        let c = counted.classes[aside.unwrap()];
        assert_eq!(
            (c.instructions.all, c.branches.all, c.lines.all),
            (181, 4, 33)
        );
    }

    #[test]
    fn a_folder_that_did_not_count_is_told() {
        let dir = tempfile::tempdir().unwrap();
        for out in [dir.path().to_owned(), dir.path().join("gone")] {
            assert_eq!(run(&args(&out)).unwrap_err().exit, Exit::Usage);
        }
    }

    /// The folder is begun when the first run has ended: by then the campaign is as old as that run's time says.
    #[test]
    fn a_campaign_began_before_its_first_run_ended() {
        let dir = tempfile::tempdir().unwrap();
        let table = dir.path().join("table");
        std::fs::write(&table, table::SAMPLE).unwrap();
        let mut r = Recording::new(dir.path().join("a"), table);
        let now = unix_now();
        assert_eq!(r.take(&[1], 0, 7_500), None);
        let held = found::read(&dir.path().join("a")).unwrap();
        assert_eq!(held.found[0].ms, 7_500);
        assert!(held.began.abs_diff(now - 7) <= 5, "{} {now}", held.began);
    }

    #[test]
    fn what_goes_wrong_is_said_once() {
        let dir = tempfile::tempdir().unwrap();
        let mut r = Recording::new(dir.path().join("a"), dir.path().join("no table"));
        let why = r.take(&[1], 0, 0);
        assert!(why.is_some_and(|why| why.contains("no table")));
        assert_eq!(r.take(&[1], 0, 0), None);
    }
}
