//! When two sequences are the same test. Called wherever a sequence is looked up among those tested or those that happened.

use super::{At, Fault, FaultAt, FaultSequence, Member, Who};
use crate::ids::{NodeName, fnv1a};
use crate::point::Phase;
use std::collections::{BTreeMap, BTreeSet};

impl FaultAt {
    /// The nodes that it names.
    #[must_use]
    pub fn named_nodes(&self) -> Vec<&NodeName> {
        let mut names = Vec::new();
        match &self.at {
            At::Exact(p) => names.push(&p.node),
            At::Pattern(p) => names.extend(p.node.iter().chain(&p.except)),
            At::Joined(n) => names.push(n),
            At::AtOnce | At::After(_) => {}
        }
        match &self.fault {
            Fault::Crash {
                who: Who::Node(n), ..
            }
            | Fault::Reboot { who: Who::Node(n) } => names.push(n),
            Fault::PartitionStart { who, .. } => {
                for m in who.cut.iter().chain(&who.from).chain(&who.bridge) {
                    if let Member::Node(n) = m {
                        names.push(n);
                    }
                }
            }
            _ => {}
        }
        names
    }
}

impl FaultSequence {
    /// The roles at GO of the nodes that faults after it name: where another node leads, the same names say something else.
    #[must_use]
    pub fn roles_of_named(&self) -> BTreeMap<NodeName, String> {
        let later = self.faults.iter().filter(|f| f.at.phase() != Phase::Start);
        let named: BTreeSet<&NodeName> = later.flat_map(FaultAt::named_nodes).collect();
        let mut roles = self.roles.clone();
        roles.retain(|n, _| named.contains(n));
        roles
    }

    /// What makes two sequences the same test: start, faults, and the roles of the nodes that these name.
    #[must_use]
    pub fn identity(&self) -> u64 {
        let bare = FaultSequence {
            roles: self.roles_of_named(),
            ..self.clone()
        };
        fnv1a(bare.to_text().as_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sequence::CrashStyle;

    #[test]
    fn whom_it_names_serves_as_what() {
        let led_by = |leader: &str| {
            let crash = Fault::Crash {
                who: Who::Node("n2".into()),
                style: CrashStyle::Process,
            };
            let mut s = FaultSequence::empty("t").with(At::AtOnce, crash);
            for node in ["n1", "n2", "n3"] {
                let role = if node == leader { "leader" } else { "follower" };
                s.roles.insert(node.into(), role.into());
            }
            s
        };
        assert_ne!(led_by("n2").identity(), led_by("n1").identity());
        // Where one leads that no fault names, it is the same test.
        assert_eq!(led_by("n3").identity(), led_by("n1").identity());
    }
}
