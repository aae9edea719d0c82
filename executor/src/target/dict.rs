//! Dictionaries: what a target's I/O points mean at application level (docs/target-toml.md, "Dictionaries").
//!
//! Read with the target and with each extra `-x` file; written out for the agent as lines of agent.conf.

use super::section::{Origins, Section, TargetError, read_table};
use std::fmt::Write as _;
use std::path::Path;
use warren_model::Shape;

/// The version of the dictionary format this Warren reads.
const DICTIONARY_VERSION: i64 = 1;

/// An application-level hook: a message, or a record that goes into a store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hook {
    pub method: String,
    /// `msg-send`, `msg-receive` or `write`.
    pub kind: String,
    /// `before`, `after` or `both`.
    pub place: String,
    pub message: String,
    pub peer: String,
    pub skippable: bool,
}

/// A frame that shows what a node serves as.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RoleFrame {
    pub frame: String,
    pub role: String,
}

/// All dictionaries of a target together.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Dictionary {
    pub hooks: Vec<Hook>,
    pub roles: Vec<RoleFrame>,
    pub skips: Vec<String>,
    /// Frame globs of stacks that are background without being learned.
    pub background: Vec<String>,
    /// What the search casts beside the shapes that Warren ships.
    pub shapes: Vec<Shape>,
    /// Frame globs of stacks at which faults come more often.
    pub favour: Vec<String>,
}

impl Dictionary {
    /// Adds the contents of one file.
    ///
    /// # Errors
    /// [`TargetError`] naming file, key, value and remedy.
    pub fn add_file(&mut self, file: &Path) -> Result<(), TargetError> {
        let table = read_table(file)?;
        let origins = Origins {
            files: vec![(file.to_owned(), table.clone())],
        };
        let mut top = Section::new(&origins, "", table);
        let version = top.int("version", 0, i64::MAX, "write version = 1")?;
        if version != DICTIONARY_VERSION {
            return Err(top.wrong(
                "version",
                format!("{version} cannot be read: this Warren reads version {DICTIONARY_VERSION}"),
                "write version = 1 after checking the keys",
            ));
        }
        for mut s in top.tables("hook")? {
            let method = s.string("method", "write method = \"a.package.Class.method\"")?;
            let kind = one_of(&mut s, "kind", &["msg-send", "msg-receive", "write"], None)?;
            let place = one_of(
                &mut s,
                "place",
                &["before", "after", "both"],
                Some("before"),
            )?;
            let skippable = s.bool("skippable", false)?;
            if skippable && (kind != "msg-send" || place == "after") {
                return Err(s.wrong(
                    "skippable",
                    format!("a {kind} hook with place = \"{place}\" cannot leave the call out"),
                    "write skippable = false; only a msg-send hooked before its call can be lost",
                ));
            }
            self.hooks.push(Hook {
                method,
                kind,
                place,
                message: s.opt_string("message")?.unwrap_or_default(),
                peer: s.opt_string("peer")?.unwrap_or_default(),
                skippable,
            });
            s.end()?;
        }
        for mut s in top.tables("role")? {
            self.roles.push(RoleFrame {
                frame: s.string("frame", "write frame = \"a.package.Class.method\"")?,
                role: s.string("role", "write role = \"leader\"")?,
            });
            s.end()?;
        }
        for (key, glob, into) in [
            ("skip", "frame", &mut self.skips),
            ("background", "stack", &mut self.background),
            ("favour", "stack", &mut self.favour),
        ] {
            for mut s in top.tables(key)? {
                into.push(s.string(glob, "write a glob over class.method frames")?);
                s.end()?;
            }
        }
        for s in top.tables("shape")? {
            let shape = s.whole(|table| Shape::of_table(table).map_err(|e| e.to_string()))?;
            if self.shapes.iter().any(|known| known.name == shape.name) {
                return Err(top.wrong(
                    "shape",
                    format!("`{}` is there twice", shape.name),
                    "give each shape a name of its own",
                ));
            }
            self.shapes.push(shape);
        }
        top.end()
    }

    /// Roles in the order of their numbers (1-based in plans and events).
    #[must_use]
    pub fn role_names(&self) -> Vec<String> {
        let mut names: Vec<String> = Vec::new();
        for r in &self.roles {
            if !names.contains(&r.role) {
                names.push(r.role.clone());
            }
        }
        names
    }

    /// The lines of agent.conf that come from dictionaries.
    #[must_use]
    pub fn conf_lines(&self) -> String {
        let mut out = String::new();
        for r in &self.roles {
            let _ = writeln!(out, "role {} {}", r.role, r.frame);
        }
        for h in &self.hooks {
            let _ = write!(out, "hook {} kind={} place={}", h.method, h.kind, h.place);
            if !h.message.is_empty() {
                let _ = write!(out, " message={}", h.message);
            }
            if !h.peer.is_empty() {
                let _ = write!(out, " peer={}", h.peer);
            }
            let _ = writeln!(out, " skippable={}", h.skippable);
        }
        for s in &self.skips {
            let _ = writeln!(out, "skip {s}");
        }
        for s in &self.background {
            let _ = writeln!(out, "background {s}");
        }
        out
    }
}

fn one_of(
    s: &mut Section<'_>,
    key: &'static str,
    allowed: &[&str],
    default: Option<&str>,
) -> Result<String, TargetError> {
    let remedy = format!("write one of {}", allowed.join(", "));
    let value = match (s.opt_string(key)?, default) {
        (Some(v), _) => v,
        (None, Some(d)) => d.to_owned(),
        (None, None) => return Err(s.missing(key, remedy)),
    };
    if allowed.contains(&value.as_str()) {
        Ok(value)
    } else {
        Err(s.wrong(key, format!("`{value}` is not known"), remedy))
    }
}
