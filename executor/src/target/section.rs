//! Reading a TOML table key by key, so that every refusal names file, key, value and remedy, and unknown keys are errors.
//!
//! Used by target.toml and dictionary loading only.

use super::near::near;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use toml::{Table, Value};

/// Why a target cannot be used as described.
#[derive(Debug, thiserror::Error)]
pub enum TargetError {
    #[error("{file}: cannot be read: {why}")]
    Read { file: PathBuf, why: String },
    #[error("{file}: not TOML: {why}\n  mend that line (docs/target-toml.md)")]
    Syntax { file: PathBuf, why: String },
    #[error("{file}: key `{key}`: {problem}\n  {remedy}")]
    Key {
        file: PathBuf,
        key: String,
        problem: String,
        remedy: String,
    },
    #[error(
        "shape `{shape}` of a dictionary, fault {fault}: `{name}` is no {what} of this target; known: {known}\n  write one of these, or a variable (docs/search.md, Shapes)"
    )]
    Shape {
        shape: String,
        /// 1-based.
        fault: usize,
        /// `node` or `role`.
        what: &'static str,
        name: String,
        known: String,
    },
    #[error(
        "no target `{name}`: looked in {looked}\n  known targets: {known}; name another folder with --targets"
    )]
    NotFound {
        name: String,
        looked: String,
        known: String,
    },
}

/// Where keys of a merged description came from.
#[derive(Clone, Debug, Default)]
pub(super) struct Origins {
    /// (file, its own table), the target's first, its bases after.
    pub files: Vec<(PathBuf, Table)>,
}

impl Origins {
    /// The file that says `key` (dotted), the first one if none does.
    fn file(&self, key: &str) -> PathBuf {
        let says = |table: &Table| {
            let mut at = Some(table);
            let mut parts = key.split('.').peekable();
            while let Some(part) = parts.next() {
                let part = part.split('[').next().unwrap_or(part);
                match at.and_then(|t| t.get(part)) {
                    Some(Value::Table(t)) => at = Some(t),
                    Some(_) => return true,
                    None => return false,
                }
                if parts.peek().is_none() {
                    return true;
                }
            }
            false
        };
        self.files
            .iter()
            .find(|(_, t)| says(t))
            .or_else(|| self.files.first())
            .map(|(f, _)| f.clone())
            .unwrap_or_default()
    }
}

/// One table on its way to be read; what is left at [`Section::end`] is unknown.
pub(super) struct Section<'a> {
    origins: &'a Origins,
    path: String,
    table: Table,
    asked: Vec<&'static str>,
}

impl<'a> Section<'a> {
    pub fn new(origins: &'a Origins, path: impl Into<String>, table: Table) -> Self {
        Section {
            origins,
            path: path.into(),
            table,
            asked: Vec::new(),
        }
    }

    fn dotted(&self, key: &str) -> String {
        if self.path.is_empty() {
            key.to_owned()
        } else {
            format!("{}.{key}", self.path)
        }
    }

    /// The refusal of one key.
    pub fn wrong(
        &self,
        key: &str,
        problem: impl Into<String>,
        remedy: impl Into<String>,
    ) -> TargetError {
        let key = self.dotted(key);
        TargetError::Key {
            file: self.origins.file(&key),
            key,
            problem: problem.into(),
            remedy: remedy.into(),
        }
    }

    /// The refusal of a table without this key. One that is there, is not read yet and looks like it is told instead: who misspelt a
    /// key does not see why it should be missing.
    pub fn missing(&self, key: &str, remedy: impl Into<String>) -> TargetError {
        match near(key, self.table.keys().map(String::as_str)) {
            Some(slip) => self.wrong(
                slip,
                means_nothing(&self.table[slip]),
                format!("did you mean `{key}`, which is missing?"),
            ),
            None => self.wrong(key, "is missing", remedy),
        }
    }

    fn take(&mut self, key: &'static str) -> Option<Value> {
        self.asked.push(key);
        self.table.remove(key)
    }

    fn typed<T>(
        &mut self,
        key: &'static str,
        what: &str,
        as_type: impl Fn(&Value) -> Option<T>,
    ) -> Result<Option<T>, TargetError> {
        match self.take(key) {
            None => Ok(None),
            Some(v) => as_type(&v).map(Some).ok_or_else(|| {
                self.wrong(
                    key,
                    format!("`{}` is a {}", shown(&v), v.type_str()),
                    format!("write {what}"),
                )
            }),
        }
    }

    /// A value with rules of its own: `parse` says what is wrong with it, `remedy` what to write.
    pub fn opt_parsed<T>(
        &mut self,
        key: &'static str,
        remedy: &str,
        parse: impl FnOnce(&Value) -> Result<T, String>,
    ) -> Result<Option<T>, TargetError> {
        let Some(value) = self.take(key) else {
            return Ok(None);
        };
        let wrong = |problem| self.wrong(key, problem, remedy);
        parse(&value).map(Some).map_err(wrong)
    }

    pub fn opt_string(&mut self, key: &'static str) -> Result<Option<String>, TargetError> {
        self.typed(key, &format!("{key} = \"…\""), |v| {
            v.as_str().map(str::to_owned)
        })
    }

    /// A text that must be there and not empty; `remedy` says what to write.
    pub fn string(&mut self, key: &'static str, remedy: &str) -> Result<String, TargetError> {
        match self.opt_string(key)? {
            Some(s) if !s.is_empty() => Ok(s),
            Some(_) => Err(self.wrong(key, "is empty", remedy)),
            None => Err(self.missing(key, remedy)),
        }
    }

    pub fn opt_int(
        &mut self,
        key: &'static str,
        min: i64,
        max: i64,
    ) -> Result<Option<i64>, TargetError> {
        let got = self.typed(key, &format!("{key} = a whole number"), Value::as_integer)?;
        match got {
            Some(n) if n < min || n > max => Err(self.wrong(
                key,
                format!("{n} is out of range"),
                format!("write a number from {min} to {max}"),
            )),
            other => Ok(other),
        }
    }

    pub fn int(
        &mut self,
        key: &'static str,
        min: i64,
        max: i64,
        remedy: &str,
    ) -> Result<i64, TargetError> {
        self.opt_int(key, min, max)?
            .ok_or_else(|| self.missing(key, remedy))
    }

    pub fn bool(&mut self, key: &'static str, default: bool) -> Result<bool, TargetError> {
        Ok(self
            .typed(key, &format!("{key} = true or false"), Value::as_bool)?
            .unwrap_or(default))
    }

    pub fn strings(&mut self, key: &'static str) -> Result<Vec<String>, TargetError> {
        Ok(self
            .typed(key, &format!("{key} = [\"…\", …]"), |v| {
                v.as_array()?
                    .iter()
                    .map(|x| x.as_str().map(str::to_owned))
                    .collect::<Option<Vec<_>>>()
            })?
            .unwrap_or_default())
    }

    /// A list of regexes, each compiled once to refuse bad ones here and not in the middle of a campaign.
    pub fn regexes(&mut self, key: &'static str) -> Result<Vec<String>, TargetError> {
        let list = self.strings(key)?;
        for r in &list {
            self.check_regex(key, r)?;
        }
        Ok(list)
    }

    pub fn check_regex(&self, key: &str, regex: &str) -> Result<regex::Regex, TargetError> {
        regex::Regex::new(regex).map_err(|e| {
            self.wrong(
                key,
                format!("`{regex}` is no regular expression: {e}"),
                "mend the pattern (a backslash is written \\\\ in TOML strings in double quotes)",
            )
        })
    }

    pub fn opt_table(&mut self, key: &'static str) -> Result<Option<Section<'a>>, TargetError> {
        let path = self.dotted(key);
        let table = self.typed(key, &format!("a table [{path}]"), |v| v.as_table().cloned())?;
        Ok(table.map(|t| Section::new(self.origins, path, t)))
    }

    pub fn table(&mut self, key: &'static str, remedy: &str) -> Result<Section<'a>, TargetError> {
        self.opt_table(key)?
            .ok_or_else(|| self.missing(key, remedy))
    }

    /// `[[key]]`: an array of tables, empty when absent.
    pub fn tables(&mut self, key: &'static str) -> Result<Vec<Section<'a>>, TargetError> {
        let path = self.dotted(key);
        let list = self.typed(key, &format!("tables [[{path}]]"), |v| {
            v.as_array()?
                .iter()
                .map(|x| x.as_table().cloned())
                .collect::<Option<Vec<_>>>()
        })?;
        Ok(list
            .unwrap_or_default()
            .into_iter()
            .enumerate()
            .map(|(i, t)| Section::new(self.origins, format!("{path}[{}]", i + 1), t))
            .collect())
    }

    /// All remaining keys as tables, in the order of the file where one file says them all, else sorted.
    pub fn rest_tables(&mut self) -> Result<Vec<(String, Section<'a>)>, TargetError> {
        let mut out = Vec::new();
        for (key, value) in std::mem::take(&mut self.table) {
            let path = self.dotted(&key);
            match value {
                Value::Table(t) => out.push((key, Section::new(self.origins, path, t))),
                v => {
                    return Err(self.wrong(
                        &key,
                        format!("`{}` is a {}", shown(&v), v.type_str()),
                        format!("write a table [{path}]"),
                    ));
                }
            }
        }
        Ok(out)
    }

    /// All remaining keys as texts (numbers and booleans are written out).
    pub fn rest_texts(&mut self) -> Result<BTreeMap<String, String>, TargetError> {
        let mut out = BTreeMap::new();
        for (key, value) in std::mem::take(&mut self.table) {
            let text = match &value {
                Value::String(s) => s.clone(),
                Value::Integer(i) => i.to_string(),
                Value::Boolean(b) => b.to_string(),
                Value::Float(f) => f.to_string(),
                v => {
                    return Err(self.wrong(
                        &key,
                        format!("`{}` is a {}", shown(v), v.type_str()),
                        "write a text, a number or a boolean",
                    ));
                }
            };
            out.insert(key, text);
        }
        Ok(out)
    }

    /// All remaining keys as whole numbers.
    pub fn rest_ints(&mut self) -> Result<BTreeMap<String, i64>, TargetError> {
        let mut out = BTreeMap::new();
        for (key, value) in std::mem::take(&mut self.table) {
            let Some(n) = value.as_integer() else {
                return Err(self.wrong(
                    &key,
                    format!("`{}` is a {}", shown(&value), value.type_str()),
                    "write a whole number",
                ));
            };
            out.insert(key, n);
        }
        Ok(out)
    }

    /// The whole table, read by somebody who refuses unknown keys.
    pub fn whole<T>(
        mut self,
        read: impl FnOnce(Table) -> Result<T, String>,
    ) -> Result<T, TargetError> {
        let table = std::mem::take(&mut self.table);
        read(table).map_err(|problem| TargetError::Key {
            file: self.origins.file(&self.path),
            key: self.path.clone(),
            problem,
            remedy: "docs/target-toml.md, \"Shapes\", says what a shape may hold".into(),
        })
    }

    /// Refuses what nobody asked for.
    pub fn end(self) -> Result<(), TargetError> {
        match self.table.iter().next() {
            None => Ok(()),
            Some((key, value)) => {
                let known = if self.asked.is_empty() {
                    "nothing".to_owned()
                } else {
                    self.asked.join(", ")
                };
                let remove = format!("remove it, or write one of: {known}");
                let remedy = match near(key, self.asked.iter().copied()) {
                    Some(meant) => format!("did you mean `{meant}`? else {remove}"),
                    None => remove,
                };
                Err(self.wrong(key, means_nothing(value), remedy))
            }
        }
    }
}

fn means_nothing(value: &Value) -> String {
    let value = shown(value);
    format!("`{value}` stands under a key that means nothing here")
}

/// A value as one short line.
pub(super) fn shown(value: &Value) -> String {
    let text = match value {
        Value::String(s) => s.clone(),
        other => other.to_string().replace('\n', " "),
    };
    if text.chars().count() > 60 {
        text.chars().take(57).collect::<String>() + "..."
    } else {
        text
    }
}

/// Reads one TOML file.
pub(super) fn read_table(file: &Path) -> Result<Table, TargetError> {
    let text = std::fs::read_to_string(file).map_err(|e| TargetError::Read {
        file: file.to_owned(),
        why: e.to_string(),
    })?;
    text.parse::<Table>().map_err(|e| TargetError::Syntax {
        file: file.to_owned(),
        why: e.to_string().trim().to_owned(),
    })
}
