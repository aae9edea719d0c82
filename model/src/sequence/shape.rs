//! A shape: a short list of faults as patterns, with variables in place of nodes and numbers: what a bug of this kind looks like on any
//! cluster with roles. Read from dictionaries (`[[shape]]`) and from the shapes that Warren ships; the search casts it (who is
//! `$a`, which n) into a fault sequence, and the run makes that exact.
//!
//! A node's name that begins with `$` is a variable, the role `$lead` is the target's leading role. Refuses a variable that `nodes` does
//! not declare; whether a shape is legal on a cluster is the constraints' to say, each time one is cast.

use super::text::{TextError, fault_of_table};
use super::{At, CrashStyle, Fault, FaultAt, Member, Who};
use crate::ids::NodeName;
use crate::point::Phase;
use serde::Deserialize;
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use toml::{Table, Value};

/// Version of files that hold nothing but shapes.
const SHAPES_VERSION: u32 = 1;
/// The role that stands for the target's leading one.
pub const LEAD: &str = "$lead";

/// A shape.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shape {
    pub name: String,
    /// Variables, each a node of its own; [`Cast::Others`] is as many as are left.
    pub nodes: BTreeMap<NodeName, Cast>,
    pub faults: Vec<ShapeFault>,
    pub repeat: Option<Repeat>,
}

/// Which nodes a variable may stand for, by their roles at GO.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cast {
    /// The one that leads.
    Lead,
    /// One that does not, of the leader's group.
    Member,
    Any,
    /// Each node that no other variable stands for, of groups that may lose one. A fault that names it comes once for each, in an order
    /// drawn for that fault.
    Others,
}

/// A fault of a shape; its pattern's n is drawn from `n`, both ends included.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShapeFault {
    pub fault: FaultAt,
    pub n: (u32, u32),
}

/// The faults from `from` (0-based) on come so often, drawn, both ends included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Repeat {
    pub from: usize,
    pub times: (u32, u32),
}

/// Why a text is no shape.
#[derive(Debug, thiserror::Error)]
pub enum ShapeError {
    #[error("not a list of shapes: {0}\n  write version = 1 and [[shape]] tables")]
    Toml(String),
    #[error("shapes of version {found} cannot be read: this Warren reads version {SHAPES_VERSION}")]
    Version { found: u32 },
    #[error("shape `{shape}`: {problem}")]
    Shape { shape: String, problem: String },
    #[error("shape `{shape}`: {source}")]
    Fault { shape: String, source: TextError },
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FileText {
    version: u32,
    #[serde(default, rename = "shape")]
    shapes: Vec<Table>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, expecting = "a [[shape]] table")]
struct ShapeText {
    name: String,
    #[serde(default)]
    nodes: BTreeMap<String, String>,
    repeat: Option<RepeatText>,
    #[serde(default, rename = "fault")]
    faults: Vec<Table>,
}

#[derive(Deserialize)]
#[serde(
    deny_unknown_fields,
    expecting = "a table repeat = { from = 2, times = [1, 3] }"
)]
struct RepeatText {
    from: usize,
    times: [u32; 2],
}

impl ShapeFault {
    /// Node names, variables or not.
    #[must_use]
    pub fn named(&self) -> BTreeSet<NodeName> {
        let all = RefCell::new(BTreeSet::new());
        let _ = self.fault.renamed(&|n: &NodeName| {
            all.borrow_mut().insert(n.clone());
            n.clone()
        });
        all.into_inner()
    }

    /// Role names, [`LEAD`] among them.
    #[must_use]
    pub fn roles(&self) -> BTreeSet<String> {
        let mut all = BTreeSet::new();
        let _ = with_role(&self.fault, &mut |r| {
            all.insert(r.to_owned());
            r.to_owned()
        });
        all
    }
}

impl Shape {
    /// Whether one of its crashes takes the machine, which wants packets dropped. (How a cut is made is drawn.)
    #[must_use]
    pub fn needs_machines(&self) -> bool {
        let machine = |f: &ShapeFault| {
            matches!(
                f.fault.fault,
                Fault::Crash {
                    style: CrashStyle::Machine,
                    ..
                }
            )
        };
        self.faults.iter().any(machine)
    }

    /// Reads a file of shapes.
    ///
    /// # Errors
    /// [`ShapeError`] with shape, fault, key, value and remedy.
    pub fn all_of_text(text: &str) -> Result<Vec<Shape>, ShapeError> {
        let file: FileText =
            toml::from_str(text).map_err(|e| ShapeError::Toml(e.to_string().trim().to_owned()))?;
        if file.version != SHAPES_VERSION {
            return Err(ShapeError::Version {
                found: file.version,
            });
        }
        file.shapes.into_iter().map(Shape::of_table).collect()
    }

    /// Reads one `[[shape]]` table.
    ///
    /// # Errors
    /// As [`Shape::all_of_text`].
    pub fn of_table(table: Table) -> Result<Shape, ShapeError> {
        let called = table.get("name").and_then(Value::as_str).unwrap_or("?");
        let called = called.to_owned();
        let wrong = |problem: String| ShapeError::Shape {
            shape: called.clone(),
            problem,
        };
        let text: ShapeText = Value::Table(table)
            .try_into()
            .map_err(|e: toml::de::Error| wrong(e.message().to_owned()))?;
        if text.name.is_empty() || text.faults.is_empty() {
            return Err(wrong(
                "name and at least one [[shape.fault]] must be there".into(),
            ));
        }
        let mut nodes = BTreeMap::new();
        for (variable, cast) in text.nodes {
            let cast = match cast.as_str() {
                "lead" => Cast::Lead,
                "member" => Cast::Member,
                "any" => Cast::Any,
                "others" => Cast::Others,
                other => {
                    return Err(wrong(format!(
                        "key `nodes.{variable}`: `{other}` is none of lead, member, any, others"
                    )));
                }
            };
            nodes.insert(NodeName(format!("${variable}")), cast);
        }
        let mut faults = Vec::new();
        for (i, mut table) in text.faults.into_iter().enumerate() {
            let n = drawn_n(&mut table).map_err(|p| wrong(format!("fault {}: {p}", i + 1)))?;
            let fault = fault_of_table(i + 1, table).map_err(|source| ShapeError::Fault {
                shape: called.clone(),
                source,
            })?;
            if fault.at.phase() == Phase::Start {
                return Err(wrong(format!(
                    "fault {}: key `at.phase`: roles are known only after GO: leave it out",
                    i + 1
                )));
            }
            faults.push(ShapeFault { fault, n });
        }
        let repeat = text
            .repeat
            .map(|r| {
                let [least, most] = r.times;
                if r.from == 0 || r.from > faults.len() || least == 0 || least > most {
                    return Err(wrong(
                        "key `repeat`: from counts faults from 1, times = [least, most] from 1"
                            .into(),
                    ));
                }
                Ok(Repeat {
                    from: r.from - 1,
                    times: (least, most),
                })
            })
            .transpose()?;
        let shape = Shape {
            name: text.name,
            nodes,
            faults,
            repeat,
        };
        match shape
            .named()
            .into_iter()
            .find(|n| n.as_str().starts_with('$') && !shape.nodes.contains_key(n))
        {
            Some(n) => Err(wrong(format!(
                "`{n}` is no node of it; write nodes = {{ {} = \"any\" }} (lead, member, any or others)",
                &n.as_str()[1..]
            ))),
            None => Ok(shape),
        }
    }

    /// Node names, variables or not.
    fn named(&self) -> BTreeSet<NodeName> {
        self.faults.iter().flat_map(ShapeFault::named).collect()
    }

    /// The role [`LEAD`] is asked for, or a node that leads.
    #[must_use]
    pub fn needs_lead(&self) -> bool {
        let by_lead = |c: &Cast| matches!(c, Cast::Lead | Cast::Member);
        let cast = self.nodes.values().any(by_lead);
        cast || self.faults.iter().any(|f| {
            let mut used = false;
            let _ = with_role(&f.fault, &mut |r| {
                used |= r == LEAD;
                r.to_owned()
            });
            used
        })
    }
}

/// A fault with its roles replaced.
#[must_use]
pub fn with_role(f: &FaultAt, new: &mut impl FnMut(&str) -> String) -> FaultAt {
    let mut f = f.clone();
    if let At::Pattern(p) = &mut f.at {
        p.role = p.role.as_deref().map(&mut *new);
    }
    match &mut f.fault {
        Fault::Crash { who, .. } | Fault::Reboot { who } => {
            if let Who::Role(r) = who {
                *r = new(r);
            }
        }
        Fault::PartitionStart { who, .. } => {
            for m in who
                .cut
                .iter_mut()
                .chain(&mut who.from)
                .chain(&mut who.bridge)
            {
                if let Member::Role(r) = m {
                    *r = new(r);
                }
            }
        }
        Fault::PartitionStop | Fault::Stall { .. } => {}
    }
    f
}

/// Takes `n = [least, most]` out of a fault's `at`; a plain n stays one number.
fn drawn_n(table: &mut Table) -> Result<(u32, u32), String> {
    let Some(at) = table.get_mut("at").and_then(Value::as_table_mut) else {
        return Ok((1, 1));
    };
    if at.contains_key("when") && at.contains_key("n") {
        let problem = "key `at.n`: means nothing with a `when`, which waits for no point: remove it, or remove `when`";
        return Err(problem.into());
    }
    let number = |v: &Value| v.as_integer().and_then(|i| u32::try_from(i).ok());
    let drawn = match at.get("n") {
        None => return Ok((1, 1)),
        Some(Value::Array(ends)) => match &ends[..] {
            [least, most] => number(least).zip(number(most)),
            _ => None,
        },
        Some(one) => number(one).map(|n| (n, n)),
    };
    let drawn = drawn.filter(|(least, most)| *least > 0 && least <= most);
    let drawn = drawn.ok_or("key `at.n`: write a number from 1, or [least, most]")?;
    at.remove("n");
    Ok(drawn)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(body: &str) -> Result<Shape, String> {
        Shape::all_of_text(&format!("version = 1\n[[shape]]\n{body}"))
            .map(|mut all| all.remove(0))
            .map_err(|e| e.to_string())
    }

    const GOOD: &str = "name = \"x\"\nnodes = { a = \"member\" }\nrepeat = { from = 2, times = [1, 3] }\n\
        [[shape.fault]]\nkind = \"crash\"\nnode = \"@$lead\"\nat = { node = \"$a\", frames = [\"*\"], n = [2, 9] }\n\
        [[shape.fault]]\nkind = \"reboot\"\nat = { when = \"at-once\" }\n";

    #[test]
    fn a_shape_is_read() {
        let s = one(GOOD).unwrap();
        assert_eq!(s.nodes[&NodeName::from("$a")], Cast::Member);
        assert_eq!((s.faults[0].n, s.faults[1].n), ((2, 9), (1, 1)));
        assert_eq!(
            s.repeat,
            Some(Repeat {
                from: 1,
                times: (1, 3)
            })
        );
        assert!(s.needs_lead());
        let lead = with_role(&s.faults[0].fault, &mut |_| "chief".into());
        assert!(matches!(lead.fault, Fault::Crash { who: Who::Role(r), .. } if r == "chief"));
    }

    #[test]
    fn refusals_say_shape_key_and_remedy() {
        for (from, to, part) in [
            ("a = \"member\"", "b = \"member\"", "`$a` is no node"),
            (
                "\"member\"",
                "\"chief\"",
                "none of lead, member, any, others",
            ),
            ("[2, 9]", "[9, 2]", "`at.n`"),
            ("[2, 9]", "0", "`at.n`"),
            ("[2, 9]", "[1]", "`at.n`"),
            ("from = 2", "from = 3", "`repeat`"),
            ("[1, 3]", "[0, 3]", "`repeat`"),
            ("\"reboot\"", "\"stop\"", "fault 2: key `kind`"),
            ("frames", "frame", "frame"),
            ("n = [2, 9]", "phase = \"start\"", "`at.phase`"),
            (
                "when = \"at-once\"",
                "when = \"at-once\", n = 3",
                "fault 2: key `at.n`: means nothing with a `when`",
            ),
            (
                "when = \"at-once\"",
                "when = \"at-once\", kind = \"force\"",
                "fault 2: key `at.kind`: `force` means nothing with when",
            ),
            ("name = \"x\"", "named = \"x\"", "named"),
        ] {
            let text = one(&GOOD.replacen(from, to, 1)).unwrap_err();
            assert!(text.contains(part), "{to}: {text}");
        }
        assert!(one("name = \"x\"").unwrap_err().contains("at least one"));
        let e = Shape::all_of_text("version = 2").unwrap_err().to_string();
        assert!(e.contains('2') && e.contains("reads version 1"), "{e}");
    }
}
