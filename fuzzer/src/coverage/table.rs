//! What the exact probes of a target stand for, as the agent's instrumenter wrote it (docs/formats.md section 14). Text in, values
//! out; refuses another version and a line it does not understand, with its number.

use std::str::FromStr;

/// Version of the table.
pub const TABLE_VERSION: u32 = 1;

/// All classes of a target in which something is counted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Table {
    /// Probes, numbered from 0.
    pub probes: usize,
    /// What could not be counted, a sentence each.
    pub notes: Vec<String>,
    pub classes: Vec<Class>,
}

/// One class.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Class {
    /// JaCoCo's number of the class file.
    pub id: u64,
    /// With slashes.
    pub name: String,
    /// Name of the source file; lines of classes of one file are counted once.
    pub source: Option<String>,
    /// Number of its first probe among all, and how many it has.
    pub first: usize,
    pub probes: usize,
    /// Methods with something to count.
    pub methods: Vec<Vec<Item>>,
}

/// Instructions of one line that the same probes show.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Item {
    /// None in classes without line numbers.
    pub line: Option<u32>,
    pub instructions: u64,
    /// Ways out: more than one are branches. Each is executed if one of its probes, counted from the class's first, was.
    pub ends: Vec<Vec<usize>>,
}

impl Class {
    /// Its package, with slashes; empty for the default package.
    #[must_use]
    pub fn package(&self) -> &str {
        self.name
            .rsplit_once('/')
            .map_or("", |(package, _)| package)
    }

    /// Its name without the package.
    #[must_use]
    pub fn simple(&self) -> &str {
        self.name
            .rsplit_once('/')
            .map_or(&self.name, |(_, name)| name)
    }
}

impl Table {
    /// Reads a table.
    ///
    /// # Errors
    /// The number of the line, and what is wrong with it.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut lines = text.lines().zip(1..);
        let head = lines.next().map_or("", |(line, _)| line);
        let words: Vec<&str> = head.split(' ').collect();
        let mut table = match words[..] {
            ["warren-probes", version, probes] => {
                if version != TABLE_VERSION.to_string() {
                    return Err(format!(
                        "line 1: the table has version {version}, this program reads {TABLE_VERSION}"
                    ));
                }
                Table {
                    probes: number(probes).map_err(|e| format!("line 1: {e}"))?,
                    ..Table::default()
                }
            }
            _ => return Err(format!("line 1: `{head}` does not begin a table of probes")),
        };
        for (line, at) in lines {
            table
                .line(line)
                .map_err(|why| format!("line {at}: {why}: `{line}`"))?;
        }
        Ok(table)
    }

    fn line(&mut self, line: &str) -> Result<(), String> {
        if let Some(note) = line.strip_prefix("note ") {
            self.notes.push(note.to_owned());
            return Ok(());
        }
        if let Some(class) = line.strip_prefix("class ") {
            let class = Class::parse(class)?;
            if class.first + class.probes > self.probes {
                return Err(format!("a probe beyond the {} there are", self.probes));
            }
            self.classes.push(class);
            return Ok(());
        }
        let class = self.classes.last_mut().ok_or("no class yet")?;
        if line.starts_with("method ") {
            class.methods.push(Vec::new());
            return Ok(());
        }
        let item = Item::parse(line)?;
        if item.ends.iter().flatten().any(|p| *p >= class.probes) {
            return Err(format!("a probe beyond the {} of the class", class.probes));
        }
        let method = class.methods.last_mut().ok_or("no method yet")?;
        method.push(item);
        Ok(())
    }
}

impl Class {
    fn parse(line: &str) -> Result<Self, String> {
        // A source file's name may hold blanks.
        let mut front = line.splitn(3, ' ');
        let (id, name, rest) = (front.next(), front.next(), front.next());
        let mut back = rest.unwrap_or_default().rsplitn(3, ' ');
        let (probes, first, source) = (back.next(), back.next(), back.next());
        let (Some(id), Some(name), Some(probes), Some(first), Some(source)) =
            (id, name, probes, first, source)
        else {
            return Err("expected id, name, source file, first probe and number of probes".into());
        };
        Ok(Class {
            id: u64::from_str_radix(id, 16).map_err(|e| format!("`{id}`: {e}"))?,
            name: name.to_owned(),
            source: Some(source.to_owned()).filter(|s| s != "-"),
            first: number(first)?,
            probes: number(probes)?,
            methods: Vec::new(),
        })
    }
}

impl Item {
    fn parse(line: &str) -> Result<Self, String> {
        let mut words = line.split(' ');
        let (Some(at), Some(instructions), Some(ends), None) =
            (words.next(), words.next(), words.next(), words.next())
        else {
            return Err("expected line, instructions and probes".into());
        };
        let end = |end: &str| -> Result<Vec<usize>, String> {
            match end {
                "" => Ok(Vec::new()),
                some => some.split(',').map(number).collect(),
            }
        };
        Ok(Item {
            line: match at {
                "-1" => None,
                at => Some(number(at)?),
            },
            instructions: number(instructions)?,
            ends: ends.split('|').map(end).collect::<Result<_, _>>()?,
        })
    }
}

fn number<T: FromStr>(word: &str) -> Result<T, String>
where
    T::Err: std::fmt::Display,
{
    word.parse().map_err(|e| format!("`{word}`: {e}"))
}

#[cfg(test)]
pub(super) const SAMPLE: &str = "warren-probes 1 9
note method a.B.big()V counts as never executed
class 00000000000000ff a/B B of a.java 0 5
method one()V
10 4 0
11 1 0,1|2
12 2 1
method two()V
-1 3 3
13 1 |4
class 0000000000000010 a/B$C B of a.java 5 2
method <init>()V
10 2 0
14 1 1
class 0000000000000011 c/D - 7 2
method f()V
10 5 0,1
";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_is_read() {
        let t = Table::parse(SAMPLE).unwrap();
        assert_eq!((t.probes, t.classes.len(), t.notes.len()), (9, 3, 1));
        let b = &t.classes[0];
        assert_eq!((b.id, b.name.as_str(), b.package()), (255, "a/B", "a"));
        assert_eq!(b.source.as_deref(), Some("B of a.java"));
        assert_eq!((b.first, b.probes, b.methods.len()), (0, 5, 2));
        let branch = &b.methods[0][1];
        assert_eq!(
            (branch.line, branch.instructions, &branch.ends),
            (Some(11), 1, &vec![vec![0, 1], vec![2]])
        );
        assert_eq!(b.methods[1][0].line, None);
        assert_eq!(b.methods[1][1].ends, [vec![], vec![4]]);
        assert_eq!(t.classes[1].simple(), "B$C");
        assert_eq!(t.classes[2].source, None);
    }

    #[test]
    fn what_is_wrong_is_named_with_its_line() {
        for (text, want) in [
            ("", "line 1: `` does not begin"),
            ("warren-probes 2 9", "has version 2, this program reads 1"),
            ("warren-probes 1 x", "line 1: `x`"),
            ("warren-probes 1 9\nmethod a()V", "line 2: no class yet"),
            (
                "warren-probes 1 9\nclass 0 a B 8 2",
                "line 2: a probe beyond the 9",
            ),
            ("warren-probes 1 9\nclass 0 a 8 2", "line 2: expected id"),
            (
                "warren-probes 1 9\nclass 0 a - 0 2\n1 1 0",
                "line 3: no method yet",
            ),
            (
                "warren-probes 1 9\nclass 0 a - 0 2\nmethod a()V\n1 1 0|2",
                "line 4: a probe beyond the 2 of the class",
            ),
            (
                "warren-probes 1 9\nclass 0 a - 0 2\nmethod a()V\n1 1",
                "line 4: expected line",
            ),
        ] {
            let why = Table::parse(text).unwrap_err();
            assert!(why.contains(want), "{text:?}: {why}");
        }
    }
}
