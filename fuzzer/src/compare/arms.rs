//! What is compared: an arm is a label, a strategy and the parts of it that are switched off. Made from `--strategies` and `--ablate`; which
//! strategies and parts there are is `warren fuzz`'s to say, so its own command line is asked. Pure.

use super::campaign::{owned, parsed};
use crate::cli::args::FuzzArgs;
use crate::fuzz_cmd::{check_flags, parts_of};
use crate::search::StrategyKind;

/// The strategy whose parts `--ablate` takes away.
const ABLATED: &str = "warren";

/// One arm.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Arm {
    pub label: String,
    pub strategy: String,
    /// Passed on as `--without`.
    pub without: Vec<String>,
}

/// The arms asked for, strategies first, then `warren` less each part.
///
/// # Errors
/// A strategy that `fuzz` does not know, or an arm named twice. Parts are looked at with the options: [`check_options`].
pub fn arms(strategies: &[String], ablate: &[String]) -> Result<Vec<Arm>, String> {
    let mut arms: Vec<Arm> = Vec::new();
    for strategy in strategies {
        strategy
            .parse::<StrategyKind>()
            .map_err(|e| format!("--strategies: {e}"))?;
        arms.push(Arm {
            label: strategy.clone(),
            strategy: strategy.clone(),
            without: Vec::new(),
        });
    }
    for part in ablate {
        arms.push(Arm {
            label: format!("{ABLATED}-{part}"),
            strategy: ABLATED.into(),
            without: vec![part.clone()],
        });
    }
    for (i, arm) in arms.iter().enumerate() {
        if arms[..i].iter().any(|a| a.label == arm.label) {
            return Err(format!("`{}` is asked for twice", arm.label));
        }
    }
    Ok(arms)
}

impl Arm {
    /// Its flags of `warren fuzz`.
    #[must_use]
    pub fn flags(&self) -> Vec<String> {
        let mut flags = vec!["--strategy".to_owned(), self.strategy.clone()];
        if !self.without.is_empty() {
            flags.extend(["--without".into(), self.without.join(",")]);
        }
        flags
    }
}

/// The options that every campaign is given beside those of the comparison, asked whether they may be: each arm as `fuzz` will be asked.
///
/// # Errors
/// What `fuzz` says of them with one of the arms, a part taken away that is not there, or an option that is the comparison's own to set.
pub fn check_options(target: &str, arms: &[Arm], options: &[String]) -> Result<(), String> {
    let parsed = |arm: &[String]| parsed(&[&["fuzz".into(), target.into()], arm, options].concat());
    let f = parsed(&[]).map_err(|e| format!("options of fuzz: {e}"))?;
    are_not_our_own(&f, options)?;
    for arm in arms {
        let asked = match arm.without.first() {
            Some(part) => format!("--ablate {part}"),
            None => format!("--strategies {}", arm.strategy),
        };
        let of_arm = |e| format!("{asked}, with the options of fuzz: {e}");
        let less = parsed(&arm.flags()).map_err(of_arm)?;
        check_flags(&less).map_err(of_arm)?;
        let whole = Arm {
            without: Vec::new(),
            ..arm.clone()
        };
        let whole = parsed(&whole.flags()).map_err(of_arm)?;
        if !arm.without.is_empty() && parts_of(&whole) == parts_of(&less) {
            return Err(format!(
                "{asked}: `{}` has that part off with these options, so it would be compared with itself (swarm and symmetry are on with `-- --swarm --symmetry`)",
                arm.strategy
            ));
        }
    }
    Ok(())
}

fn are_not_our_own(f: &FuzzArgs, options: &[String]) -> Result<(), String> {
    let ours = [
        ("-V", f.seconds.is_some()),
        ("-E", f.runs.is_some()),
        ("--cpu-seconds", f.cpu_seconds.is_some()),
        ("--strategy", given(options, "--strategy")),
        ("--without", given(options, "--without")),
        ("--no-ui", f.no_ui),
    ];
    match owned(f).into_iter().chain(ours).find(|(_, given)| *given) {
        Some((flag, _)) => Err(format!(
            "{flag} is set by the comparison itself and cannot stand among the options of fuzz"
        )),
        None => Ok(()),
    }
}

/// A long flag stands among the words, with or without `=`.
fn given(words: &[String], flag: &str) -> bool {
    let mut names = words
        .iter()
        .map(|w| w.split('=').next().unwrap_or_default());
    names.any(|n| n == flag)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<String> {
        text.split_whitespace().map(str::to_owned).collect()
    }

    #[test]
    fn strategies_are_those_of_fuzz() {
        let got = arms(&words("crashfuzz random-points"), &[]).unwrap();
        assert_eq!(got.len(), 2);
        assert_eq!(got[1].flags(), ["--strategy", "random-points"]);
        let e = arms(&words("crashfuzz best"), &[]).unwrap_err();
        assert!(e.contains("`best`"), "{e}");
        let e = arms(&words("crashfuzz crashfuzz"), &[]).unwrap_err();
        assert!(e.contains("twice"), "{e}");
    }

    #[test]
    fn a_part_is_taken_away_where_there_is_one() {
        let made = arms(&words("crashfuzz"), &words("havoc")).unwrap();
        assert_eq!(made[1].label, "warren-havoc");
        assert_eq!(made[1].flags(), words("--strategy warren --without havoc"));
        for (strategies, ablate, options, refused) in [
            ("crashfuzz", "havoc", "-j 2", None),
            ("warren", "swarm", "--swarm", None),
            ("warren", "", "--swarm", None),
            // It is off: the campaign would quietly be another arm's.
            ("warren", "swarm", "", Some("compared with itself")),
            ("warren", "symmetry", "--symmetry", None),
            ("warren", "symmetry", "", Some("compared with itself")),
            ("warren", "nosuch", "", Some("`nosuch`")),
            (
                "warren crashfuzz",
                "",
                "--swarm",
                Some("--strategies crashfuzz, with"),
            ),
        ] {
            let made = arms(&words(strategies), &words(ablate)).unwrap();
            match (check_options("canary", &made, &words(options)), refused) {
                (Ok(()), None) => {}
                (Err(e), Some(part)) => assert!(e.contains(part), "{ablate} {options}: {e}"),
                (got, want) => panic!("{ablate} {options}: {got:?}, wanted {want:?}"),
            }
        }
    }

    #[test]
    fn what_is_the_comparisons_own_is_refused() {
        for (options, refused) in [
            ("", None),
            ("-j 2 --faults crash,reboot --snapshot off -t 20000", None),
            ("-i seeds", None),
            ("-E 5", Some("-E")),
            ("-V 5", Some("-V")),
            ("-s 5", Some("-s")),
            ("-o x", Some("-o")),
            ("-M x", Some("-M")),
            ("-i -", Some("-i -")),
            ("--exit-on-bug", Some("--exit-on-bug")),
            ("--strategy crashfuzz", Some("--strategy")),
            ("--strategy=crashfuzz", Some("--strategy")),
            ("--cpu-seconds 5", Some("--cpu-seconds")),
            ("--nosuch", Some("--nosuch")),
            ("-t 5", Some("5")),
        ] {
            match (check_options("canary", &[], &words(options)), refused) {
                (Ok(()), None) => {}
                (Err(e), Some(part)) => assert!(e.contains(part), "{options}: {e}"),
                (got, want) => panic!("{options}: {got:?}, wanted {want:?}"),
            }
        }
    }
}
