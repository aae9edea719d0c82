//! What the limits of this process's control groups leave of memory: a container has less than /proc/meminfo says, and the kernel kills
//! what takes more. Called by `memory`; sets no limit. Both versions of control groups, by their files' documented meaning.

use std::fs;
use std::path::{Component, Path, PathBuf};

/// A limit, and what it leaves. Bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::run) struct Limit {
    pub(in crate::run) most: u64,
    /// File pages that nobody used lately can be given back and count as left; those of a tmpfs cannot.
    pub(in crate::run) left: u64,
}

/// The names of a version's files, and of the line of memory.stat that tells pages to be given back.
struct Names {
    most: &'static str,
    used: &'static str,
    inactive: &'static str,
}

const V2: Names = Names {
    most: "memory.max",
    used: "memory.current",
    inactive: "inactive_file",
};
const V1: Names = Names {
    most: "memory.limit_in_bytes",
    used: "memory.usage_in_bytes",
    inactive: "total_inactive_file",
};

/// Version 1 says "no limit" by a number near the largest there is.
const NO_LIMIT: u64 = 1 << 60;

/// The limit that leaves least, of the groups in /proc/self/cgroup and of those above them; none where there is no limit. `mounted`:
/// where control groups are, /sys/fs/cgroup. In a container without a namespace of its own a group's path is the host's: its folder is
/// not there, and the mount itself stands for it.
pub(in crate::run) fn limit(groups: &str, mounted: &Path) -> Option<Limit> {
    let mut limits = Vec::new();
    for line in groups.lines() {
        let mut fields = line.splitn(3, ':');
        let (Some(_), Some(controllers), Some(path)) =
            (fields.next(), fields.next(), fields.next())
        else {
            continue;
        };
        let (root, names) = match controllers {
            "" => (mounted.to_owned(), &V2),
            c if c.split(',').any(|c| c == "memory") => (mounted.join("memory"), &V1),
            _ => continue,
        };
        let folders = up_to(&root, path);
        limits.extend(folders.iter().filter_map(|folder| of(folder, names)));
    }
    limits.into_iter().min_by_key(|l| l.left)
}

/// The mount and each folder on the way to the group.
fn up_to(root: &Path, path: &str) -> Vec<PathBuf> {
    let mut folders = vec![root.to_owned()];
    let mut here = root.to_owned();
    for part in Path::new(path).components() {
        if let Component::Normal(name) = part {
            here.push(name);
            folders.push(here.clone());
        }
    }
    folders
}

fn of(folder: &Path, names: &Names) -> Option<Limit> {
    let number = |name: &str| -> Option<u64> {
        let text = fs::read_to_string(folder.join(name)).ok()?;
        text.trim().parse().ok()
    };
    let most = number(names.most).filter(|m| *m < NO_LIMIT)?;
    let used = number(names.used)?;
    let stat = fs::read_to_string(folder.join("memory.stat")).unwrap_or_default();
    let inactive = stat
        .lines()
        .filter_map(|l| l.split_once(' '))
        .find(|(name, _)| *name == names.inactive)
        .and_then(|(_, bytes)| bytes.trim().parse().ok())
        .unwrap_or(0);
    Some(Limit {
        most,
        left: most.saturating_sub(used.saturating_sub(inactive)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    fn put(root: &Path, folder: &str, files: &[(&str, &str)]) {
        let folder = root.join(folder);
        fs::create_dir_all(&folder).unwrap();
        for (name, text) in files {
            fs::write(folder.join(name), text).unwrap();
        }
    }

    fn v2(root: &Path, folder: &str, most: &str, used: u64, inactive: u64) {
        put(
            root,
            folder,
            &[
                ("memory.max", &format!("{most}\n")),
                ("memory.current", &format!("{}\n", used * MIB)),
                (
                    "memory.stat",
                    &format!("anon 5\ninactive_file {}\n", inactive * MIB),
                ),
            ],
        );
    }

    #[test]
    fn the_limit_that_leaves_least_counts() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path();
        let group = "0::/pod/here\n";
        assert_eq!(limit(group, root), None);
        v2(root, "pod/here", "max", 300, 0);
        assert_eq!(limit(group, root), None, "no limit is none");
        v2(root, "pod", &(4096 * MIB).to_string(), 1024, 512);
        let of_the_pod = Limit {
            most: 4096 * MIB,
            left: (4096 - 512) * MIB,
        };
        assert_eq!(limit(group, root), Some(of_the_pod));
        v2(root, "pod/here", &(1024 * MIB).to_string(), 1000, 0);
        let least = limit(group, root).unwrap();
        assert_eq!((least.most, least.left), (1024 * MIB, 24 * MIB));
        v2(root, "pod/here", &(1024 * MIB).to_string(), 1100, 0);
        assert_eq!(
            limit(group, root).unwrap().left,
            0,
            "more than all is none left"
        );
        // A group that is not there, and a line that is none.
        assert_eq!(limit("0::/other\nnonsense\n", root), None);
    }

    #[test]
    fn a_container_of_the_first_version_has_its_limit_at_the_mount() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path();
        let files = |most: &'static str| {
            [
                ("memory.limit_in_bytes", most),
                ("memory.usage_in_bytes", "1048576"),
                (
                    "memory.stat",
                    "inactive_file 1\ntotal_inactive_file 524288\n",
                ),
            ]
        };
        let groups = "9:cpu,cpuacct:/x\n4:memory:/docker/0123\n0::/\n";
        put(root, "memory", &files("9223372036854771712"));
        assert_eq!(limit(groups, root), None);
        put(root, "memory", &files("4194304"));
        let limit = limit(groups, root).unwrap();
        assert_eq!((limit.most, limit.left), (4 * MIB, 4 * MIB - MIB / 2));
    }
}
