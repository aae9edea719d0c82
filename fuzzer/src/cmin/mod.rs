//! `warren cmin OUT -o DIR`: of a campaign's kept runs, a small set of sequences that has all their coverage and states, as seeds for
//! `fuzz -i DIR`. Nothing is run: `runs/<id>.run` holds what each run showed. Sequences that are the same by symmetry are one: the cheapest of
//! them stands for what all of them showed. Changes nothing in OUT; it may belong to a living campaign.

pub mod cover;

use crate::campaign::folder::write_whole;
use crate::campaign::run_file::RUN_FILE_VERSION;
use crate::campaign::{FuzzError, StoredRun, WayOut};
use crate::cli::args::CminArgs;
use crate::cli::campaigns::campaign_folders;
use crate::cli::exit::{CliError, Exit};
use crate::search::symmetry;
use cover::{Candidate, cover};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use warren_model::{ClusterShape, FaultSequence, GroupShape, NodeName};

/// Where the slots of the second map begin among those of both: no map has so many. In 32 bits, as the runs of a week have some 10^8.
const STATES: u32 = 1 << 31;

/// A kept run with faults.
struct Entry {
    /// The seed's file: `default-000007.toml`.
    name: String,
    sequence: FaultSequence,
    twin: Option<Twin>,
}

/// Sequences with the same one are the same but for the names of nodes. The roles belong to it: where another node leads, the same names
/// say something else.
type Twin = (u64, BTreeMap<NodeName, String>);

/// What an output folder holds.
#[derive(Default)]
struct Kept {
    instances: usize,
    target: Option<String>,
    entries: Vec<Entry>,
    candidates: Vec<Candidate>,
    /// Slots of runs without faults: whoever uses the seeds makes such runs, too.
    free: BTreeSet<u32>,
}

/// Of trouble with the campaign that is read, and with what is written.
const READ: WayOut<'static> = WayOut {
    place: "name a campaign, or an instance of it, that can be read",
    content: "name a campaign, or an instance of it, that is whole",
};
const WRITTEN: WayOut<'static> = WayOut {
    place: "name another folder with -o",
    content: READ.content,
};

/// Runs the verb.
///
/// # Errors
/// Exit 2: OUT holds no campaign, or one whose runs do not say what they showed; DIR holds something. Exit 1: none of its runs is whole; I/O.
pub fn run(args: &CminArgs) -> Result<Exit, CliError> {
    let holds = |dir: &Path| std::fs::read_dir(dir).is_ok_and(|mut d| d.next().is_some());
    if holds(&args.out) {
        return Err(CliError::usage(format!(
            "{} is not empty: seeds of two campaigns would mix; name another folder with -o",
            args.out.display()
        )));
    }
    let campaign = args
        .campaign
        .as_deref()
        .or(args.input.as_deref())
        .ok_or_else(|| CliError::usage("nothing to minimise: name a campaign with -i"))?;
    let mut kept = read(campaign)?;
    let free: Vec<u32> = kept.free.iter().copied().collect();
    let twins: Vec<Option<&Twin>> = kept.entries.iter().map(|e| e.twin.as_ref()).collect();
    let (merged, stand_for) = merged(std::mem::take(&mut kept.candidates), &twins);
    let mut chosen: Vec<usize> = cover(&merged, &free)
        .iter()
        .map(|i| stand_for[*i])
        .collect();
    chosen.sort_unstable();
    if chosen.is_empty() {
        return Err(CliError::usage(format!(
            "{}: none of its {} kept runs shows more than a fault-free run: there is nothing to keep",
            campaign.display(),
            kept.entries.len()
        )));
    }
    let failed = |path: &Path, e: std::io::Error| {
        CliError::setup(format!(
            "making the folder {}: {e}\n  {}",
            path.display(),
            WRITTEN.place
        ))
    };
    std::fs::create_dir_all(&args.out).map_err(|e| failed(&args.out, e))?;
    for i in &chosen {
        let entry = &kept.entries[*i];
        let path = args.out.join(&entry.name);
        write_whole(&path, entry.sequence.to_text().as_bytes()).map_err(|e| WRITTEN.of(e))?;
    }
    print!("{}", summary(&kept, &merged, &chosen, &args.out));
    Ok(Exit::End)
}

/// The candidates with those of one symmetry made one, at the place of the first: the slots of all, and the cost of the cheapest, whose index
/// comes beside.
fn merged<T: Ord + Copy>(all: Vec<Candidate>, twins: &[Option<T>]) -> (Vec<Candidate>, Vec<usize>) {
    let (mut out, mut stand_for): (Vec<Candidate>, Vec<usize>) = (Vec::new(), Vec::new());
    let mut known: BTreeMap<T, usize> = BTreeMap::new();
    for (i, candidate) in all.into_iter().enumerate() {
        let twin = twins.get(i).copied().flatten();
        match twin.and_then(|t| known.get(&t).copied()) {
            None => {
                if let Some(t) = twin {
                    known.insert(t, out.len());
                }
                out.push(candidate);
                stand_for.push(i);
            }
            Some(at) => {
                let one = &mut out[at];
                let slots: BTreeSet<u32> =
                    one.slots.iter().chain(&candidate.slots).copied().collect();
                one.slots = slots.into_iter().collect();
                if candidate.cost < one.cost {
                    one.cost = candidate.cost;
                    stand_for[at] = i;
                }
            }
        }
    }
    (out, stand_for)
}

/// The groups of a run's nodes, by their names without the number: a group has one prefix. No folder of a campaign says more, and who
/// may be dead is not asked here.
fn groups(nodes: &[NodeName]) -> ClusterShape {
    let mut groups: BTreeMap<&str, Vec<NodeName>> = BTreeMap::new();
    for node in nodes {
        let prefix = node.as_str().trim_end_matches(|c: char| c.is_ascii_digit());
        groups.entry(prefix).or_default().push(node.clone());
    }
    let group = |(name, nodes): (&str, Vec<NodeName>)| GroupShape {
        name: name.to_owned(),
        max_dead: nodes.len(),
        nodes,
    };
    ClusterShape {
        groups: groups.into_iter().map(group).collect(),
        max_faults: usize::MAX,
    }
}

/// What was kept of what.
fn summary(kept: &Kept, merged: &[Candidate], chosen: &[usize], out: &Path) -> String {
    let all = 0..kept.entries.len();
    let faults = |of: &mut dyn Iterator<Item = usize>| -> usize {
        of.map(|i| kept.entries[i].sequence.faults.len()).sum()
    };
    let mut slots: BTreeSet<u32> = kept.free.clone();
    slots.extend(merged.iter().flat_map(|c| &c.slots));
    let different = merged.len();
    let states = slots.range(STATES..).count();
    let target = kept.target.as_deref().unwrap_or("TARGET");
    let out = crate::campaign::folder::shell_line(&[out.display().to_string()]);
    format!(
        "kept {} of {} sequences with faults{} ({} of {} faults) of {} instance{}: all {} slots and {states} states, of which fault-free runs have {} and {}\n\
         as seeds: warren fuzz {target} -i {out}\n",
        chosen.len(),
        kept.entries.len(),
        match kept.entries.len() - different {
            0 => String::new(),
            _ => format!(", {different} different but for names of nodes"),
        },
        faults(&mut chosen.iter().copied()),
        faults(&mut all.into_iter()),
        kept.instances,
        if kept.instances == 1 { "" } else { "s" },
        slots.len() - states,
        kept.free.range(..STATES).count(),
        kept.free.range(STATES..).count(),
    )
}

/// All kept runs of an output folder, or of one instance.
fn read(out: &Path) -> Result<Kept, CliError> {
    let holds_runs = |f: &Path| f.join("runs").is_dir() && f.join("queue").is_dir();
    let folders = campaign_folders(out, holds_runs)?;
    if folders.is_empty() {
        return Err(CliError::usage(format!(
            "{} holds no campaign: name the folder that `warren fuzz -o` wrote, or an instance in it",
            out.display()
        )));
    }
    let mut kept = Kept {
        instances: folders.len(),
        ..Kept::default()
    };
    for folder in folders {
        let name = std::fs::canonicalize(&folder).unwrap_or(folder.clone());
        let name = name.file_name().map(|n| n.to_string_lossy().into_owned());
        instance(&folder, &name.unwrap_or_default(), &mut kept)?;
    }
    Ok(kept)
}

/// The kept runs of one instance, by id, without those whose file is damaged; where every one is, there is nothing to go on with.
fn instance(folder: &Path, name: &str, kept: &mut Kept) -> Result<(), CliError> {
    let runs = folder.join("runs");
    let mut ids: Vec<u64> = std::fs::read_dir(&runs)
        .map_err(|e| CliError::setup(format!("reading {}: {e}", runs.display())))?
        .flatten()
        .filter_map(|e| e.file_name().to_str()?.strip_suffix(".run")?.parse().ok())
        .collect();
    ids.sort_unstable();
    let mut left = ids.len();
    for id in ids {
        let stored = match StoredRun::read(&runs, id) {
            Err(e) if e.is_of_lost_file() && left > 1 => {
                left -= 1;
                eprintln!("warren: {e}: this run is left out");
                continue;
            }
            Err(e @ FuzzError::Version { found, .. }) => {
                return Err(of_another_warren(&e, found, folder));
            }
            read => read.map_err(|e| READ.of(e))?,
        };
        let path = StoredRun::path(&runs, id);
        let Some(shown) = stored.shown else {
            return Err(CliError::usage(format!(
                "{}: it was kept by an earlier Warren, which did not store what a run shows\n  {}",
                path.display(),
                queue_first(folder)
            )));
        };
        let states = shown.states.iter().map(|s| STATES | *s);
        let slots: Vec<u32> = shown.slots.iter().copied().chain(states).collect();
        let Some(sequence) = stored.record.matched.filter(|m| !m.faults.is_empty()) else {
            kept.free.extend(slots);
            continue;
        };
        match &kept.target {
            Some(target) if *target != sequence.target => {
                return Err(CliError::usage(format!(
                    "{} is of target `{}`, others of `{target}`: name one campaign",
                    path.display(),
                    sequence.target
                )));
            }
            _ => kept.target = Some(sequence.target.clone()),
        }
        kept.candidates.push(Candidate {
            cost: (sequence.faults.len(), stored.whole_ms),
            slots,
        });
        kept.entries.push(Entry {
            name: format!("{name}-{id:06}.toml"),
            twin: symmetry::identity(&sequence, &groups(&stored.trace.nodes))
                .map(|same| (same, sequence.roles.clone())),
            sequence,
        });
    }
    Ok(())
}

/// Nothing is wrong with the campaign, and no other one is to be named.
fn of_another_warren(e: &FuzzError, found: u32, folder: &Path) -> CliError {
    let way_out = match found > u32::from(RUN_FILE_VERSION) {
        true => "a newer Warren wrote it: use that one".to_owned(),
        false => queue_first(folder),
    };
    CliError::usage(format!("{e}\n  {way_out}"))
}

/// The way out of runs that an earlier Warren kept: the sequences beside them can be read.
fn queue_first(folder: &Path) -> String {
    format!(
        "run its queue as seeds of a new campaign first (warren fuzz TARGET -i {})",
        folder.join("queue").display()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What `cmin` says of a campaign and of a place for its seeds.
    fn refusal(campaign: &Path, out: &Path) -> CliError {
        run(&CminArgs {
            campaign: None,
            input: Some(campaign.to_owned()),
            out: out.to_owned(),
        })
        .unwrap_err()
    }

    /// A campaign that is whole is not told as damaged. state-v3 has runs of version 1, state-v6 of version 2.
    #[test]
    fn runs_of_another_warren_say_which_one_reads_them() {
        let samples = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/samples");
        let dir = tempfile::tempdir().unwrap();
        let newer = dir.path().join("newer");
        std::fs::create_dir_all(newer.join("queue")).unwrap();
        std::fs::create_dir(newer.join("runs")).unwrap();
        std::fs::write(newer.join("runs/000000.run"), "WARNRUN6").unwrap();
        let seeds = "as seeds of a new campaign first (warren fuzz TARGET -i ";
        for (campaign, why, way_out) in [
            (
                samples.join("state-v3"),
                "has version 1, this program reads 2 to 5",
                seeds,
            ),
            (samples.join("state-v6"), "kept by an earlier Warren", seeds),
            (
                newer,
                "has version 6",
                "a newer Warren wrote it: use that one",
            ),
        ] {
            let e = refusal(&campaign, &dir.path().join("few"));
            assert_eq!(e.exit, Exit::Usage, "{e}");
            let (said, remedy) = e.text.split_once("\n  ").unwrap();
            assert!(said.contains(why) && remedy.contains(way_out), "{e}");
        }
        assert!(!dir.path().join("few").exists());
    }

    #[test]
    fn a_folder_that_cannot_be_made_says_the_way_out() {
        let campaign = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/samples/state-v14");
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("file");
        std::fs::write(&file, "").unwrap();
        for out in [file.join("few"), file] {
            let e = refusal(&campaign, &out);
            assert_eq!(e.exit, Exit::SetupFailed, "{e}");
            assert!(
                e.text.contains("making the folder")
                    && e.text.ends_with("\n  name another folder with -o"),
                "{e}"
            );
        }
    }

    #[test]
    fn the_cheapest_of_twins_stands_for_all() {
        let of = |faults, ms, slots: &[u32]| Candidate {
            cost: (faults, ms),
            slots: slots.to_vec(),
        };
        let all = [
            of(1, 9, &[1, 2]),
            of(1, 5, &[1, 4]),
            of(1, 7, &[3]),
            of(1, 6, &[2, 3]),
            of(2, 1, &[5]),
        ];
        let (one, stand_for) = merged(all.to_vec(), &[Some(8), None, Some(9), Some(8), None]);
        assert_eq!(
            one,
            [
                of(1, 6, &[1, 2, 3]),
                of(1, 5, &[1, 4]),
                of(1, 7, &[3]),
                of(2, 1, &[5]),
            ]
        );
        assert_eq!(stand_for, [3, 1, 2, 4]);
        let chosen: Vec<usize> = cover(&one, &[]).iter().map(|i| stand_for[*i]).collect();
        assert_eq!(
            chosen,
            [3, 1, 4],
            "the third shows nothing that the twins do not"
        );
        assert_eq!(merged(all.to_vec(), &[None::<u8>; 5]).0, all);
    }

    #[test]
    fn groups_are_named_alike() {
        let nodes: Vec<NodeName> = ["nn1", "dn1", "nn2", "dn2", "dn10"]
            .map(NodeName::from)
            .to_vec();
        let shape = groups(&nodes);
        let found: Vec<(&str, usize)> = shape
            .groups
            .iter()
            .map(|g| (g.name.as_str(), g.nodes.len()))
            .collect();
        assert_eq!(found, [("dn", 3), ("nn", 2)]);
    }
}
