//! What is compared: an arm is a label, a strategy and the parts of it that are switched off. Made from `--strategies` and `--ablate`; which
//! strategies and parts there are is `warren fuzz`'s to say, so its own command line is asked. Pure.

use crate::cli::args::{Cli, Command};
use crate::fuzz::StrategyKind;
use crate::fuzz_cmd::may_start_so;
use clap::{CommandFactory, Parser};

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
/// A strategy or a part that `fuzz` does not know, or one named twice.
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
    if !ablate.is_empty() {
        can_ablate()?;
    }
    for part in ablate {
        let arm = Arm {
            label: format!("{ABLATED}-{part}"),
            strategy: ABLATED.into(),
            without: vec![part.clone()],
        };
        let mut words = vec!["warren".to_owned(), "fuzz".into(), "TARGET".into()];
        words.extend(arm.flags());
        Cli::try_parse_from(words)
            .map_err(|e| format!("--ablate {part}: {}", first_line(&e.to_string())))?;
        arms.push(arm);
    }
    for (i, arm) in arms.iter().enumerate() {
        if arms[..i].iter().any(|a| a.label == arm.label) {
            return Err(format!("`{}` is asked for twice", arm.label));
        }
    }
    Ok(arms)
}

/// `fuzz` has a strategy to take parts from, and a flag to do so.
fn can_ablate() -> Result<(), String> {
    let known = ABLATED.parse::<StrategyKind>().is_ok();
    let command = Cli::command();
    let flag = command
        .find_subcommand("fuzz")
        .is_some_and(|f| f.get_arguments().any(|a| a.get_long() == Some("without")));
    if known && flag {
        Ok(())
    } else {
        Err(format!(
            "--ablate takes parts away from strategy `{ABLATED}`, which this Warren does not have; leave --ablate out"
        ))
    }
}

fn first_line(text: &str) -> &str {
    let line = text.lines().next().unwrap_or_default();
    line.strip_prefix("error: ").unwrap_or(line)
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

/// The options that every campaign is given beside those of the comparison, asked whether they may be.
///
/// # Errors
/// What `fuzz` says of them, or an option that is the comparison's own to set.
pub fn check_options(target: &str, options: &[String]) -> Result<(), String> {
    let mut words = vec!["warren".to_owned(), "fuzz".into(), target.to_owned()];
    words.extend(options.iter().cloned());
    let parsed = Cli::try_parse_from(words)
        .map_err(|e| format!("options of fuzz: {}", first_line(&e.to_string())))?;
    let Command::Fuzz(f) = parsed.command else {
        return Err("options of fuzz: this is another verb".into());
    };
    may_start_so(&f)?;
    let own = [
        ("-o", f.out.is_some()),
        ("-M", f.main.is_some()),
        ("-S", f.secondary.is_some()),
        ("-V", f.seconds.is_some()),
        ("-E", f.runs.is_some()),
        ("--cpu-seconds", f.cpu_seconds.is_some()),
        ("-s", f.seed.is_some()),
        (
            "-i -",
            f.input.as_deref().is_some_and(|i| i.as_os_str() == "-"),
        ),
        ("--exit-on-bug", f.exit_on_bug),
        ("--dump-classes", f.dump_classes.is_some()),
        ("--strategy", given(options, "--strategy")),
        ("--without", given(options, "--without")),
    ];
    match own.iter().find(|(_, given)| *given) {
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

    /// With or without the strategy: never a campaign that quietly is another one.
    #[test]
    fn a_part_is_taken_away_where_fuzz_can() {
        match (can_ablate(), arms(&words("crashfuzz"), &words("havoc"))) {
            (Err(why), Err(e)) => assert_eq!(why, e),
            (Ok(()), Ok(arms)) => {
                assert_eq!(arms[1].label, "warren-havoc");
                assert_eq!(arms[1].flags(), words("--strategy warren --without havoc"));
                assert!(super::arms(&[], &words("nosuch")).is_err());
            }
            (can, got) => panic!("{can:?} {got:?}"),
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
            match (check_options("canary", &words(options)), refused) {
                (Ok(()), None) => {}
                (Err(e), Some(part)) => assert!(e.contains(part), "{options}: {e}"),
                (got, want) => panic!("{options}: {got:?}, wanted {want:?}"),
            }
        }
    }
}
