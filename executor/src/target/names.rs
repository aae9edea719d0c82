//! Names of nodes and roles that sequences and shapes may use on a target. Asked when a target is loaded, for the shapes of its dictionaries, and
//! before each run. Knows nothing of who has a role when.

use super::{Target, TargetError};
use warren_model::sequence::shape::LEAD;

impl Target {
    /// Role names that a sequence may use: those of the dictionaries, those that answers stand for (`[role] names`) and the lead. None = not
    /// known, because the target asks its nodes by a probe (whose answers cannot be listed) and no dictionary names any.
    pub(crate) fn known_roles(&self) -> Option<Vec<String>> {
        let mut more: Vec<&str> = self.role_names.values().map(String::as_str).collect();
        more.push(&self.lead);
        known_roles(self.dictionary.role_names(), self.role.is_some(), &more)
    }
}

fn known_roles(mut dictionary: Vec<String>, probe: bool, more: &[&str]) -> Option<Vec<String>> {
    if dictionary.is_empty() && probe {
        return None;
    }
    for role in more.iter().filter(|r| !r.is_empty()) {
        if !dictionary.iter().any(|n| n == role) {
            dictionary.push((*role).to_owned());
        }
    }
    Some(dictionary)
}

/// Refuses shapes that name what the target does not have. Each of their runs would be refused, which ends a campaign in the middle; and
/// by then the dictionary is a part of what the campaign is.
///
/// # Errors
/// [`TargetError::Shape`] with shape, fault, name and remedy.
pub(super) fn check_shapes(target: &Target) -> Result<(), TargetError> {
    let nodes: Vec<String> = target.nodes().into_iter().map(|n| n.name.0).collect();
    let roles = target.known_roles();
    for shape in &target.dictionary.shapes {
        for (i, fault) in shape.faults.iter().enumerate() {
            let named = fault.named().into_iter().map(|n| n.0);
            let other = { named }.find(|n| !n.starts_with('$') && !nodes.contains(n));
            let refused = |what: &'static str, name: String, known: &[String]| {
                Err(TargetError::Shape {
                    shape: shape.name.clone(),
                    fault: i + 1,
                    what,
                    name,
                    known: match known {
                        [] => "none".to_owned(),
                        known => known.join(", "),
                    },
                })
            };
            if let Some(name) = other {
                return refused("node", name, &nodes);
            }
            let Some(known) = &roles else { continue };
            let mut used = fault.roles().into_iter();
            if let Some(name) = used.find(|r| r != LEAD && !known.contains(r)) {
                return refused("role", name, known);
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn roles_come_from_dictionaries_and_the_lead() {
        type Case<'a> = (&'a [&'a str], bool, &'a [&'a str], Option<&'a [&'a str]>);
        let both: &[&str] = &["leader", "follower"];
        let table: [Case<'_>; 6] = [
            (both, true, &["leader"], Some(both)),
            (&["leader"], true, &["follower", "leader"], Some(both)),
            (
                &["follower"],
                true,
                &["leader"],
                Some(&["follower", "leader"]),
            ),
            (&["follower"], false, &[""], Some(&["follower"])),
            (&[], true, &["leader"], None),
            (&[], false, &[""], Some(&[])),
        ];
        for (dictionary, probe, more, want) in table {
            let names = dictionary.iter().map(|n| (*n).to_owned()).collect();
            let want: Option<Vec<String>> =
                want.map(|w| w.iter().map(|n| (*n).to_owned()).collect());
            assert_eq!(known_roles(names, probe, more), want, "{dictionary:?}");
        }
    }
}
