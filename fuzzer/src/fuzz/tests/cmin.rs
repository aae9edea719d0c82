//! `warren cmin` on campaigns of the made-up cluster.

use super::*;
use crate::campaign::StoredRun;
use crate::cli::args::CminArgs;
use crate::cli::exit::{CliError, Exit};
use crate::cmin;
use crate::search::StrategyKind;
use crate::search::symmetry;
use crate::seeds::read_seeds;
use std::collections::BTreeSet;
use std::path::PathBuf;

fn minimised(campaign: &Path, out: PathBuf) -> Result<Exit, CliError> {
    cmin::run(&CminArgs {
        campaign: Some(campaign.to_owned()),
        input: None,
        out,
    })
}

/// Slots of both maps of all kept runs, and how many there are.
fn shown(runs: &Path, ids: impl IntoIterator<Item = u64>) -> BTreeSet<(bool, u32)> {
    let mut all = BTreeSet::new();
    for id in ids {
        let shown = StoredRun::read(runs, id).unwrap().shown.unwrap();
        all.extend(shown.slots.into_iter().map(|s| (false, s)));
        all.extend(shown.states.into_iter().map(|s| (true, s)));
    }
    all
}

#[test]
fn a_campaign_comes_down_to_a_few_seeds_that_show_as_much() {
    let dir = tempfile::tempdir().unwrap();
    let end = fuzz(
        Sim::new(3, 1),
        options(&dir.path().join("out"), StrategyKind::CrashFuzz, 3, 120),
        nothing(),
    );
    let few = dir.path().join("few");
    assert_eq!(
        minimised(&dir.path().join("out"), few.clone()).unwrap(),
        Exit::End
    );
    let seeds = read_seeds(&few).unwrap();
    let runs = end.folder.join("runs");
    let kept = names(&end.folder.join("queue")).len() as u64;
    let ids: Vec<u64> = seeds
        .iter()
        .map(|s| {
            let id = s.name.strip_prefix("default-").unwrap();
            id.strip_suffix(".toml").unwrap_or(id).parse().unwrap()
        })
        .collect();
    assert!(
        !ids.is_empty() && (ids.len() as u64) < kept * 2 / 3,
        "{} of {kept}",
        ids.len()
    );
    // Runs that differ by the names of followers alone are one: no two of the seeds are, and what was left out of coverage is what a twin of a
    // seed showed.
    let shape = Sim::new(3, 1).shape();
    let twin = |id: u64| {
        let stored = StoredRun::read(&runs, id).unwrap();
        symmetry::identity(stored.matched().unwrap(), &shape)
    };
    let twins: Vec<u64> = ids.iter().filter_map(|id| twin(*id)).collect();
    let different: BTreeSet<&u64> = twins.iter().collect();
    assert_eq!(twins.len(), different.len(), "no two seeds are the same");
    let stood_for = |id: u64| twin(id).is_some_and(|t| twins.contains(&t));
    let covered = (0..kept).filter(|id| *id == 0 || ids.contains(id) || stood_for(*id));
    assert_eq!(shown(&runs, covered), shown(&runs, 0..kept));
    for (seed, id) in seeds.iter().zip(&ids) {
        let stored = StoredRun::read(&runs, *id).unwrap();
        assert_eq!(Some(&seed.sequence), stored.matched());
    }

    // As seeds of a new campaign they find what the old one had found.
    let mut o = options(
        &dir.path().join("again"),
        StrategyKind::CrashFuzz,
        9,
        ids.len() as u64,
    );
    o.seeds = seeds;
    let again = fuzz(Sim::new(3, 1), o, nothing());
    let edges = |f: &Path| stat(f, "edges_found").parse::<u64>().unwrap();
    let slots = shown(&runs, 0..kept)
        .iter()
        .filter(|(states, _)| !states)
        .count() as u64;
    assert!(
        edges(&again.folder) >= slots,
        "{} of {slots}",
        edges(&again.folder)
    );

    // An instance alone will do, a folder that holds something will not.
    let same = dir.path().join("same");
    minimised(&end.folder, same.clone()).unwrap();
    assert_eq!(read_seeds(&same).unwrap().len(), ids.len());
    let e = minimised(&end.folder, same).unwrap_err();
    assert!(e.exit == Exit::Usage && e.text.contains("not empty"), "{e}");

    // A run whose file is damaged is left out; what it alone would have shown is lost, and no more.
    let damaged = StoredRun::path(&runs, ids[0]);
    std::fs::write(damaged, "WARNRUN5").unwrap();
    let without = dir.path().join("without");
    minimised(&end.folder, without.clone()).unwrap();
    let seeds = read_seeds(&without).unwrap();
    let of_it = format!("default-{:06}", ids[0]);
    assert!(!seeds.is_empty() && seeds.iter().all(|s| !s.name.contains(&of_it)));
}

#[test]
fn what_cannot_be_minimised_is_said() {
    let dir = tempfile::tempdir().unwrap();
    let out = || dir.path().join("few");
    let e = minimised(dir.path(), out()).unwrap_err();
    assert!(
        e.exit == Exit::Usage && e.text.contains("holds no campaign"),
        "{e}"
    );
    let e = minimised(&dir.path().join("none"), out()).unwrap_err();
    assert!(e.exit == Exit::Usage && e.text.contains("none"), "{e}");
    let old = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/samples/state-v6");
    let e = minimised(&old, out()).unwrap_err();
    assert!(
        e.exit == Exit::Usage && e.text.contains("an earlier Warren"),
        "{e}"
    );
    assert!(!out().exists());
    // Nothing but the fault-free run.
    let mut o = options(&dir.path().join("out"), StrategyKind::CrashFuzz, 3, 1);
    o.max_time = Some(Duration::ZERO);
    fuzz(Sim::new(3, 1), o, nothing());
    let e = minimised(&dir.path().join("out"), out()).unwrap_err();
    assert!(e.text.contains("nothing to keep"), "{e}");
}
