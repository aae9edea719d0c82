//! `warren report DIR`: a finding, or all findings of a campaign, as text or as Markdown for an issue. Reads folders; writes nothing.
//!
//! [`read`] takes in a folder of any layout Warren has written, [`text`] and [`markdown`] are pure.

mod markdown;
mod read;
mod text;

use crate::campaign::folder::UNCONFIRMED;
use crate::cli::args::ReportArgs;
use crate::cli::exit::{CliError, Exit};
use read::Finding;
use std::path::{Path, PathBuf};

/// Runs the verb.
///
/// # Errors
/// Exit 2: the folder holds neither a finding nor a campaign, or a finding cannot be read (the others are printed before).
pub fn run(args: &ReportArgs) -> Result<Exit, CliError> {
    let folders = findings(&args.dir)?;
    let mut out = String::new();
    let mut broken = Vec::new();
    for folder in &folders {
        match Finding::read(folder) {
            Ok(f) => {
                if !out.is_empty() {
                    out.push_str(if args.markdown { "\n---\n\n" } else { "\n\n" });
                }
                out.push_str(&if args.markdown {
                    markdown::markdown(&f)
                } else {
                    text::text(&f)
                });
            }
            Err(why) => broken.push(why),
        }
    }
    if folders.is_empty() {
        out = format!("no findings in {}\n", args.dir.display());
    }
    print!("{out}");
    // Not part of what is printed: that may go into an issue.
    if let Some(stories) = unconfirmed(&args.dir) {
        eprintln!("{stories}");
    }
    if broken.is_empty() {
        Ok(Exit::End)
    } else {
        Err(CliError::usage(broken.join("\n")))
    }
}

/// The folders of findings below `dir`: itself, those of an instance, or those of all instances of a campaign.
fn findings(dir: &Path) -> Result<Vec<PathBuf>, CliError> {
    if read::is_finding(dir) {
        return Ok(vec![dir.to_owned()]);
    }
    let mut campaign = false;
    let mut all = Vec::new();
    let subfolders = folders(dir).map_err(|e| {
        CliError::usage(format!(
            "reading {}: {e}\n  name the folder of a finding, or the one given to `fuzz -o` (default: out/TARGET)",
            dir.display()
        ))
    })?;
    for place in std::iter::once(dir.to_owned()).chain(subfolders) {
        let below = place.join("findings");
        if !below.is_dir() {
            continue;
        }
        campaign = true;
        let found = folders(&below)
            .map_err(|e| CliError::usage(format!("reading {}: {e}", below.display())))?;
        all.extend(found.into_iter().filter(|f| read::is_finding(f)));
    }
    if campaign {
        Ok(all)
    } else {
        Err(CliError::usage(format!(
            "{} is neither the folder of a finding nor that of a campaign\n  \
             name findings/<nnnnnn> (with finding.json or evidence.txt in it), an instance such as out/TARGET/default, or the folder of -o",
            dir.display()
        )))
    }
}

/// Where the stories of failures lie that are no findings: they did not show again, or nobody has replayed them. None where there are none.
fn unconfirmed(dir: &Path) -> Option<String> {
    let places = std::iter::once(dir.to_owned()).chain(folders(dir).ok()?);
    let told = places.filter_map(|place| {
        let stories = place.join(UNCONFIRMED);
        let n = folders(&stories).ok()?.len();
        (n > 0).then(|| {
            let failures = if n == 1 { "failure" } else { "failures" };
            let place = stories.display();
            format!("warren: {n} {failures} without confirmation (evidence.txt says why): {place}")
        })
    });
    let told: Vec<String> = told.collect();
    (!told.is_empty()).then(|| told.join("\n"))
}

/// Folders in a folder, in order of their names.
fn folders(dir: &Path) -> std::io::Result<Vec<PathBuf>> {
    let mut out: Vec<PathBuf> = std::fs::read_dir(dir)?
        .flatten()
        .map(|e| e.path())
        .filter(|p| p.is_dir())
        .collect();
    out.sort();
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::campaign::finding::FINDING_JSON;

    #[test]
    fn a_finding_that_is_damaged_says_what_can_be_read() {
        let dir = tempfile::tempdir().unwrap();
        for (content, why) in [("{}", "no `version`"), ("{\"version\": 9}", "version 9")] {
            std::fs::write(dir.path().join(FINDING_JSON), content).unwrap();
            let e = Finding::read(dir.path()).unwrap_err();
            assert!(
                e.contains(why) && e.contains("\n  name another finding; evidence.txt"),
                "{e}"
            );
        }
    }

    #[test]
    fn a_finding_an_instance_and_a_campaign() {
        let dir = tempfile::tempdir().unwrap();
        let make = |name: &str| {
            let f = dir.path().join(name);
            std::fs::create_dir_all(&f).unwrap();
            std::fs::write(f.join("evidence.txt"), "x").unwrap();
            f
        };
        let a = make("out/default/findings/000000");
        let b = make("out/default/findings/000001");
        let c = make("out/second/findings/000000");
        std::fs::create_dir_all(dir.path().join("out/default/findings/half")).unwrap();
        let of = |name: &str| findings(&dir.path().join(name));
        assert_eq!(
            of("out/default/findings/000001").unwrap(),
            std::slice::from_ref(&b)
        );
        assert_eq!(of("out/default").unwrap(), [a.clone(), b.clone()]);
        assert_eq!(of("out").unwrap(), [a, b, c]);
        std::fs::create_dir_all(dir.path().join("quiet/default/findings")).unwrap();
        assert!(of("quiet").unwrap().is_empty());
        assert_eq!(unconfirmed(&dir.path().join("quiet")), None);
        let story = dir.path().join("quiet/default/unconfirmed/000007-1f2e3d4c");
        std::fs::create_dir_all(story).unwrap();
        let told = unconfirmed(&dir.path().join("quiet")).unwrap();
        assert!(
            told.starts_with("warren: 1 failure without confirmation"),
            "{told}"
        );
        assert!(told.ends_with("quiet/default/unconfirmed"), "{told}");
        for bad in ["out/default/findings/half", "nothing"] {
            let e = of(bad).unwrap_err();
            assert_eq!(e.exit, Exit::Usage);
            assert!(e.text.contains(bad), "{e}");
        }
    }
}
