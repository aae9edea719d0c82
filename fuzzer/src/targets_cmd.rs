//! `warren targets`: the targets there are, with version, nodes and groups. Reads descriptions only.

use crate::cli::args::TargetsArgs;
use crate::cli::exit::{CliError, Exit};
use warren_executor::target::{Target, list_targets, load_target, target_folders};

/// Runs the verb.
///
/// # Errors
/// Exit 2: no target anywhere, as for a target that is not there.
pub fn run(args: &TargetsArgs) -> Result<Exit, CliError> {
    let summaries = list_targets(args.targets.as_deref());
    if summaries.is_empty() {
        let looked: Vec<String> = target_folders(args.targets.as_deref())
            .iter()
            .map(|f| f.display().to_string())
            .collect();
        return Err(CliError::usage(format!(
            "no targets: looked for */target.toml in {}\n  name the folder with --targets",
            looked.join(", ")
        )));
    }
    let rows: Vec<[String; 4]> = summaries
        .iter()
        .map(|s| match load_target(&s.folder, None, false, &[]) {
            Ok(t) => row(&s.name, &t),
            // One broken description must not hide the others.
            Err(e) => [
                s.name.clone(),
                "-".into(),
                "-".into(),
                format!("cannot be used: {}", first_line(&e.to_string())),
            ],
        })
        .collect();
    print!("{}", table(&rows));
    Ok(Exit::End)
}

fn row(name: &str, t: &Target) -> [String; 4] {
    let groups: Vec<String> = t
        .groups
        .iter()
        .map(|g| format!("{} x {} (max dead {})", g.count, g.name, g.max_dead))
        .collect();
    [
        name.to_owned(),
        t.version.clone(),
        t.nodes().len().to_string(),
        groups.join(", "),
    ]
}

fn first_line(text: &str) -> &str {
    text.lines().next().unwrap_or(text)
}

/// Columns set to the widest cell.
fn table(rows: &[[String; 4]]) -> String {
    let head = ["TARGET", "VERSION", "NODES", "GROUPS"].map(str::to_owned);
    let width = |c: usize| {
        rows.iter()
            .chain([&head])
            .map(|r| r[c].chars().count())
            .max()
            .unwrap_or(0)
    };
    let (a, b, c) = (width(0), width(1), width(2));
    let mut out = String::new();
    for r in [&head].into_iter().chain(rows) {
        let line = format!("{:a$}  {:b$}  {:>c$}  {}", r[0], r[1], r[2], r[3]);
        out.push_str(line.trim_end());
        out.push('\n');
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up() {
        let rows = [
            ["a", "1.0", "3", "3 x server (max dead 1)"].map(str::to_owned),
            ["longer", "10.2.3", "12", "x"].map(str::to_owned),
        ];
        assert_eq!(
            table(&rows),
            "TARGET  VERSION  NODES  GROUPS\n\
             a       1.0          3  3 x server (max dead 1)\n\
             longer  10.2.3      12  x\n"
        );
    }
}
