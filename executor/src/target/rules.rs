//! The parts of target.toml that say how its logs and its processes' ends are judged: `[exit]` and `[log]`. Called by the loading of a target; what the
//! rules mean is feedback's (`check::exits`, `check::fatal_log`).

use super::section::{Section, TargetError};
use std::path::{Component, Path};
use warren_model::{ExitRule, LogRule, LogSpan};

/// `[log]`.
#[derive(Default)]
pub(super) struct LogSection {
    /// The node's own logs, relative to its folder.
    pub files: Vec<String>,
    pub fatal: Vec<String>,
    pub legal: Vec<LogRule>,
    pub ignore: Vec<String>,
}

/// `[exit]`.
#[derive(Default)]
pub(super) struct ExitSection {
    /// Self-exits that are right.
    pub legal: Vec<ExitRule>,
    /// The line in which a process says why it ends.
    pub cause: Option<String>,
}

/// `[exit]`; where there is none, each self-exit is a failure.
pub(super) fn exits(top: &mut Section<'_>) -> Result<ExitSection, TargetError> {
    let mut exits = ExitSection::default();
    let Some(mut s) = top.opt_table("exit")? else {
        return Ok(exits);
    };
    exits.cause = s.opt_string("cause")?;
    if let Some(cause) = &exits.cause {
        s.check_regex("cause", cause)?;
    }
    for mut r in s.tables("legal")? {
        exits.legal.push(ExitRule {
            log: regex(&mut r, "log", "write a regex over the node's log")?,
            span: span(&mut r)?,
            role: r.opt_string("role")?.unwrap_or_default(),
            why: r.string("why", "write why = \"…\": it is shown with the exit")?,
        });
        r.end()?;
    }
    s.end()?;
    Ok(exits)
}

/// `after` and `until`: both, or neither.
fn span(r: &mut Section<'_>) -> Result<Option<LogSpan>, TargetError> {
    let (after, until) = (r.opt_string("after")?, r.opt_string("until")?);
    let (after, until) = match (after, until) {
        (None, None) => return Ok(None),
        (Some(after), Some(until)) => (after, until),
        (Some(_), None) => {
            return Err(r.missing("until", "write a regex of the line that ends the span"));
        }
        (None, Some(_)) => {
            return Err(r.missing("after", "write a regex of the line that begins the span"));
        }
    };
    let groups = r.check_regex("after", &after)?.captures_len();
    if groups > 2 || r.check_regex("until", &until)?.captures_len() != groups {
        return Err(r.wrong(
            "until",
            format!("`{until}` and `{after}` of `after` have not one group each, or none"),
            "put in parentheses what is the same in both lines; (?:…) is no group",
        ));
    }
    Ok(Some(LogSpan { after, until }))
}

/// `[log]`; where there is none, standard output is the log and no line is fatal.
pub(super) fn log(top: &mut Section<'_>) -> Result<LogSection, TargetError> {
    let mut log = LogSection::default();
    if let Some(mut s) = top.opt_table("log")? {
        log.files = s.strings("files")?;
        read_by_name(&s, &log.files)?;
        log.fatal = s.regexes("fatal_log")?;
        for mut r in s.tables("legal")? {
            log.legal.push(LogRule {
                line: regex(
                    &mut r,
                    "line",
                    "write a regex of lines that are right there",
                )?,
                span: LogSpan {
                    after: regex(
                        &mut r,
                        "after",
                        "write a regex of the line that begins the span",
                    )?,
                    until: regex(&mut r, "until", "write a regex of the line that ends it")?,
                },
                why: r.string("why", "write why = \"…\": the next reader asks")?,
            });
            r.end()?;
        }
        log.ignore = s.regexes("ignore")?;
        s.end()?;
    }
    if log.files.is_empty() {
        log.files.push("stdout".to_owned());
    }
    Ok(log)
}

/// A log is read by its name as it stands, below each node's folder: of anything else nothing would ever be read, and nobody would see that.
/// One with `*` only has no points; so it may not be the only one.
fn read_by_name(s: &Section<'_>, files: &[String]) -> Result<(), TargetError> {
    let is_below = |file: &str| {
        let mut parts = Path::new(file).components();
        let below = parts.all(|part| matches!(part, Component::Normal(_) | Component::CurDir));
        below && !file.is_empty() && !file.contains(['{', '$'])
    };
    let plain = files.is_empty() || files.iter().any(|f| !f.contains('*'));
    let bad = files.iter().find(|f| !plain || !is_below(f));
    bad.map_or(Ok(()), |file| {
        Err(s.wrong(
            "files",
            format!("`{file}` is no file of every node that could be read"),
            "write a path below node.dir that is the same on each node, without templates and `*`: files = [\"stdout\"]",
        ))
    })
}

fn regex(r: &mut Section<'_>, key: &'static str, remedy: &str) -> Result<String, TargetError> {
    let text = r.string(key, remedy)?;
    r.check_regex(key, &text)?;
    Ok(text)
}
