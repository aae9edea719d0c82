//! `reproduce.sh` of a finding: runs its sequence again, from any directory, with the flags it was found with. Pure text.

use super::environment::Environment;
use crate::campaign::folder::{DURABLE, absolute_flags, shell_line};

/// What the script runs.
pub struct Again<'a> {
    /// `finding 000003`.
    pub what: &'a str,
    pub signature: &'a str,
    /// The file's name in the finding's folder.
    pub sequence: &'a str,
    pub seed: u64,
    /// The failure may need the durability restart to show.
    pub durable: bool,
}

/// The script's text.
#[must_use]
pub fn script(again: &Again<'_>, e: &Environment) -> String {
    let Again {
        what,
        signature,
        sequence,
        ..
    } = *again;
    let quote = |word: &str| shell_line(&[word.to_owned()]);
    let mut flags: Vec<String> = Vec::new();
    let mut words = absolute_flags(&e.flags).into_iter();
    while let Some(word) = words.next() {
        if word == "--targets" {
            // Its own variable below.
            words.next();
            continue;
        }
        flags.push(word);
    }
    flags.extend(again.durable.then(|| DURABLE.to_owned()));
    flags.extend(["-s".into(), again.seed.to_string()]);
    let program = if e.program.is_empty() {
        "warren"
    } else {
        &e.program
    };
    format!(
        "#!/bin/sh\n\
         # Runs {what} (signature {signature}) again, five times, or as the arguments say: they go to `warren replay`,\n\
         # such as -n 20 or --junit FILE. Ends with 77 when it failed, 70 for a hang, 0 when nothing failed, 1 or 2 when it could not run.\n\
         # WARREN=PROGRAM takes another Warren, TARGETS=FOLDER another folder of targets.\n\
         here=$(CDPATH= cd -- \"$(dirname -- \"$0\")\" && pwd) || exit 1\n\
         warren=${{WARREN:-{program}}}\n\
         targets=${{TARGETS:-{targets}}}\n\
         command -v \"$warren\" >/dev/null 2>&1 || warren=warren\n\
         command -v \"$warren\" >/dev/null 2>&1 || {{ echo \"reproduce.sh: no program warren: name it with WARREN=\" >&2; exit 1; }}\n\
         [ $# -gt 0 ] || set -- -n 5\n\
         # Elsewhere than where it was found, Warren looks for the target by itself.\n\
         [ -d \"$targets\" ] && set -- --targets \"$targets\" \"$@\"\n\
         exec \"$warren\" replay \"$here/{sequence}\" {flags} \"$@\"\n",
        program = quote(program),
        targets = quote(&e.targets),
        flags = shell_line(&flags),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    fn again<'a>(signature: &'a str, sequence: &'a str, seed: u64) -> Again<'a> {
        Again {
            what: "finding 000000",
            signature,
            sequence,
            seed,
            durable: false,
        }
    }

    /// Starts the script with a program that prints its arguments and ends with 77.
    fn start(e: &Environment, args: &[&str], env: &[(&str, &str)]) -> (Option<i32>, String) {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().join("a b/000000");
        std::fs::create_dir_all(&folder).unwrap();
        let stub = dir.path().join("my warren");
        let text = dir.path().join("text");
        std::fs::write(&text, "#!/bin/sh\nprintf '%s\\n' \"$@\"\nexit 77\n").unwrap();
        // By another process: a child that another test forks while we write would keep it from being started (ETXTBSY).
        let mut install = Command::new("install");
        let made = install.args(["-m", "755"]).args([&text, &stub]).status();
        assert!(made.unwrap().success());
        let file = folder.join("reproduce.sh");
        let mut e = e.clone();
        e.program = stub.display().to_string();
        std::fs::write(&file, script(&again("1f2e3d4c", "matched.toml", 9), &e)).unwrap();
        let out = Command::new("sh")
            .arg(&file)
            .args(args)
            .current_dir("/")
            .envs(env.iter().copied())
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&out.stdout).into_owned();
        let said = text.replace(&folder.display().to_string(), "HERE");
        (out.status.code(), said)
    }

    #[test]
    fn it_runs_from_anywhere_with_the_flags_of_the_campaign() {
        let e = Environment {
            flags: ["--level", "2", "--exclude", "a b", "--paper"]
                .map(str::to_owned)
                .to_vec(),
            ..Environment::default()
        };
        let (code, said) = start(&e, &[], &[]);
        assert_eq!(code, Some(77));
        assert_eq!(
            said.lines().collect::<Vec<_>>(),
            [
                "replay",
                "HERE/matched.toml",
                "--level",
                "2",
                "--exclude",
                "a b",
                "--paper",
                "-s",
                "9",
                "-n",
                "5"
            ]
        );
        let (_, said) = start(&e, &["-n", "1"], &[("TARGETS", "/")]);
        assert!(said.ends_with("-s\n9\n--targets\n/\n-n\n1\n"), "{said}");
    }

    #[test]
    fn paths_among_the_flags_become_absolute() {
        let e = Environment {
            flags: ["--targets", "t", "-x", "my.dict"]
                .map(str::to_owned)
                .to_vec(),
            targets: "/abs/t".into(),
            ..Environment::default()
        };
        let text = script(&again("s", "sequence.toml", 1), &e);
        let here = std::env::current_dir().unwrap();
        assert!(
            text.contains(&format!(
                "-x {}",
                shell_line(&[here.join("my.dict").display().to_string()])
            )),
            "{text}"
        );
        assert!(
            text.contains("TARGETS:-/abs/t") && !text.contains("--targets t"),
            "{text}"
        );
    }

    #[test]
    fn a_warren_that_is_gone_is_said() {
        let dir = tempfile::tempdir().unwrap();
        let e = Environment {
            program: "/no/such/warren".into(),
            ..Environment::default()
        };
        let file = dir.path().join("r.sh");
        std::fs::write(&file, script(&again("s", "matched.toml", 1), &e)).unwrap();
        let out = Command::new("/bin/sh")
            .arg(&file)
            .env("PATH", "/usr/bin:/bin")
            .output()
            .unwrap();
        assert_eq!(out.status.code(), Some(1));
        assert!(String::from_utf8_lossy(&out.stderr).contains("WARREN="));
    }
}
