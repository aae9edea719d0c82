//! `warren jdk`: the JDKs there are and what each would be taken for; fetches one into the cache. Installs nothing.

use crate::cli::args::{JdkArgs, JdkCommand};
use crate::cli::exit::{CliError, Exit};
use crate::cli::signals::Interrupt;
use warren_executor::setup::jdk::{self, Candidate, OFFERED};
use warren_executor::setup::{SetupError, cache};

/// Runs the verb.
///
/// # Errors
/// Exit 1: nothing could be asked or fetched. Exit 2: a version that nobody has.
pub fn run(args: &JdkArgs) -> Result<Exit, CliError> {
    if let JdkCommand::Get { versions } = &args.command {
        are_offered(versions)?;
    }
    let cache = cache::dir().map_err(CliError::setup)?;
    match &args.command {
        JdkCommand::List => {
            let all = jdk::all(None, &cache).map_err(CliError::setup)?;
            print!("{}", table(&all));
        }
        JdkCommand::Get { versions } => {
            let _interrupt = Interrupt::install()?;
            let say = |line: &str| eprintln!("warren: {line}");
            for version in versions {
                let jdk = jdk::own_or_fetch(*version, &cache, &say).map_err(|e| match e {
                    SetupError::Ended => {
                        CliError::ended("ended, as asked: what was not finished is not kept")
                    }
                    e => CliError::setup(e),
                })?;
                println!("{}", jdk.home.display());
            }
        }
    }
    Ok(Exit::End)
}

/// Asked before there is a cache: what nobody has needs none.
fn are_offered(versions: &[u32]) -> Result<(), CliError> {
    match versions.iter().find(|v| !OFFERED.contains(v)) {
        None => Ok(()),
        Some(unknown) => Err(CliError::usage(format!(
            "Java {unknown} cannot be fetched\n  ask for one of {}, or install it and name its folder with --java",
            offered()
        ))),
    }
}

fn offered() -> String {
    OFFERED.map(|v| v.to_string()).join(", ")
}

fn table(all: &[Candidate]) -> String {
    let mut rows = vec![["JAVA", "FROM", "COMPILER", "FOLDER"].map(str::to_owned)];
    rows.extend(all.iter().map(|c| {
        [
            c.jdk.full_version.clone(),
            c.place.shown().to_owned(),
            if c.jdk.javac.is_some() { "yes" } else { "no" }.to_owned(),
            c.jdk.home.display().to_string(),
        ]
    }));
    let width = |c: usize| rows.iter().map(|r| r[c].chars().count()).max().unwrap_or(0);
    let (a, b, c) = (width(0), width(1), width(2));
    let mut out: String = rows
        .iter()
        .map(|r| format!("{:a$}  {:b$}  {:c$}  {}\n", r[0], r[1], r[2], r[3]))
        .collect();
    out.push_str(&format!(
        "\nA target takes the first that fits: JAVA_HOME, java on the PATH, then the lowest from 17 on, else the highest.\n\
         Where none fits, one of {} is fetched; now: warren jdk get VERSION\n",
        offered()
    ));
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use warren_executor::setup::jdk::{Jdk, Place};

    #[test]
    fn a_version_that_nobody_has_says_which_there_are() {
        for (asked, refused) in [
            (vec![8, 25], None),
            (vec![7], Some("Java 7 cannot be fetched")),
            (vec![17, 0], Some("Java 0 cannot be fetched")),
            (
                vec![4_294_967_295],
                Some("Java 4294967295 cannot be fetched"),
            ),
        ] {
            match (are_offered(&asked), refused) {
                (Ok(()), None) => {}
                (Err(e), Some(part)) => assert!(
                    e.exit == Exit::Usage
                        && e.text.contains(part)
                        && e.text.contains("8, 11, 17, 21, 25"),
                    "{e}"
                ),
                (got, want) => panic!("{asked:?}: {got:?}, wanted {want:?}"),
            }
        }
    }

    #[test]
    fn the_table_says_where_each_is() {
        let all = [(Place::Path, 17, true), (Place::Cache, 8, false)].map(|(place, v, javac)| {
            Candidate {
                place,
                jdk: Jdk {
                    home: format!("/jdk/{v}").into(),
                    feature_version: v,
                    full_version: format!("{v}.0.1"),
                    java: "/java".into(),
                    javac: javac.then(|| "/javac".into()),
                },
            }
        });
        let text = table(&all);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], "JAVA    FROM   COMPILER  FOLDER");
        assert_eq!(lines[1], "17.0.1  PATH   yes       /jdk/17");
        assert_eq!(lines[2], "8.0.1   cache  no        /jdk/8");
        assert!(text.contains("8, 11, 17, 21, 25"), "{text}");
    }
}
