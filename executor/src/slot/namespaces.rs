//! What makes a process the init of a slot: namespaces, mounts, loopback, names.
//!
//! Called by `init.rs` in a process that has one thread (a process with more can neither unshare nor enter a user
//! namespace). Every step names itself when it fails; nothing is undone, because the process ends then and takes
//! its namespaces with it.

use std::fs;
use std::io;
use std::net::Ipv4Addr;
use std::os::fd::AsRawFd;
use std::path::Path;

use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, unshare};
use nix::unistd::{getegid, geteuid, sethostname};

use super::Level;

/// Where a level 1 or 2 slot keeps its files (docs/formats.md section 1).
pub(super) const ROOT: &str = "/mnt";
/// Where it keeps its shared memory.
pub(super) const SHM: &str = "/dev/shm";

/// A time namespace: nix has no name for this flag.
pub(super) const NEW_TIME: CloneFlags = CloneFlags::from_bits_retain(libc::CLONE_NEWTIME);

/// A step that failed.
#[derive(Debug)]
pub(super) struct StepError {
    pub step: String,
    pub why: String,
    pub remedy: String,
}

fn step<T, E: std::fmt::Display>(
    result: Result<T, E>,
    step: &str,
    remedy: &str,
) -> Result<T, StepError> {
    result.map_err(|e| StepError {
        step: step.into(),
        why: e.to_string(),
        remedy: remedy.into(),
    })
}

const NEEDS_ROOT: &str = "level 1 needs root with CAP_SYS_ADMIN; take a lower level";
const NEEDS_USERNS: &str = "level 2 needs unprivileged user namespaces (sysctl user.max_user_namespaces, \
     kernel.unprivileged_userns_clone, kernel.apparmor_restrict_unprivileged_userns; containers often forbid them); \
     allow them or take level 3";
const NEEDS_MOUNTS: &str = "the kernel or a container's policy forbids this mount; take level 3";

/// Leaves the host's namespaces. The caller's children live in the new pid namespace, it itself does not.
pub(super) fn enter(level: Level, clock_offset: Option<i64>) -> Result<(), StepError> {
    if let Some(offset) = clock_offset {
        own_clock(offset)?;
    }
    let mut flags = CloneFlags::CLONE_NEWNS
        | CloneFlags::CLONE_NEWNET
        | CloneFlags::CLONE_NEWIPC
        | CloneFlags::CLONE_NEWUTS
        | CloneFlags::CLONE_NEWPID;
    let (uid, gid) = (geteuid(), getegid());
    if level == Level::User {
        flags |= CloneFlags::CLONE_NEWUSER;
        step(
            unshare(flags),
            "unshare(user, mount, net, ipc, uts, pid)",
            NEEDS_USERNS,
        )?;
        // Only root inside is mapped, to the caller: files of the slot belong to the caller outside.
        step(
            fs::write("/proc/self/setgroups", "deny"),
            "writing /proc/self/setgroups",
            NEEDS_USERNS,
        )?;
        step(
            fs::write("/proc/self/uid_map", format!("0 {uid} 1")),
            "writing /proc/self/uid_map",
            NEEDS_USERNS,
        )?;
        step(
            fs::write("/proc/self/gid_map", format!("0 {gid} 1")),
            "writing /proc/self/gid_map",
            NEEDS_USERNS,
        )
    } else {
        step(
            unshare(flags),
            "unshare(mount, net, ipc, uts, pid)",
            NEEDS_ROOT,
        )
    }
}

/// A time namespace for the children: their CLOCK_MONOTONIC (and CLOCK_BOOTTIME) is so many ns ahead of the machine's.
fn own_clock(offset: i64) -> Result<(), StepError> {
    step(
        unshare(NEW_TIME).map_err(io::Error::from),
        "unshare(time)",
        "time namespaces need Linux 5.6 or later; run with --snapshot off",
    )?;
    step(
        fs::write("/proc/self/timens_offsets", clock_text(offset)),
        "writing /proc/self/timens_offsets",
        "run with --snapshot off",
    )
}

/// As the kernel wants it: nanoseconds are never negative.
fn clock_text(offset: i64) -> String {
    let (seconds, ns) = (
        offset.div_euclid(1_000_000_000),
        offset.rem_euclid(1_000_000_000),
    );
    format!("monotonic {seconds} {ns}\nboottime {seconds} {ns}\n")
}

/// Furnishes the slot, as its pid 1. Returns notes: things that are missing but not needed.
pub(super) fn furnish(
    root_bytes: u64,
    shm_bytes: u64,
    hosts: &[(String, Ipv4Addr)],
) -> Result<Vec<String>, StepError> {
    let mut notes = Vec::new();
    let none: Option<&str> = None;
    let private = mount(
        Some("none"),
        "/",
        none,
        MsFlags::MS_REC | MsFlags::MS_PRIVATE,
        none,
    );
    step(private, "making all mounts private", NEEDS_MOUNTS)?;
    tmpfs(ROOT, root_bytes, "0755")?;
    tmpfs(SHM, shm_bytes, "1777")?;
    let hardened = MsFlags::MS_NOSUID | MsFlags::MS_NODEV | MsFlags::MS_NOEXEC;
    step(
        mount(Some("proc"), "/proc", Some("proc"), hardened, none),
        "mounting /proc",
        NEEDS_MOUNTS,
    )?;
    step(
        std::env::set_current_dir(ROOT),
        "chdir to /mnt",
        NEEDS_MOUNTS,
    )?;
    names(hosts, &mut notes)?;
    if let Err(e) = sethostname("slot") {
        notes.push(format!("sethostname: {e}"));
    }
    step(loopback_up(), "bringing lo up", NEEDS_MOUNTS)?;
    patience_of_tcp(Path::new("/proc/sys/net/ipv4"), &mut notes);
    Ok(notes)
}

/// How long TCP waits between two tries, in ms, and how many tries that makes of a connection's patience. After a cut TCP waits for
/// its retransmission timer: bounded, data flows again soon (kernel >= 6.15 only). The kernel counts patience in tries, and short waits
/// would make it short, too: above all a process that dies during a cut would never be told of to its peer, because a connection without
/// an owner is dropped at once when it waits as long as it may. So there are as many tries as the usual waits would take in time; of
/// connections without an owner half a minute's, as they keep the slot's network alive when the slot has ended.
const TCP: [(&str, &str, &str); 5] = [
    ("tcp_rto_max_ms", "1000", "data comes late after a cut"),
    (
        "tcp_orphan_retries",
        "30",
        "a death during a cut is not told to the other end",
    ),
    (
        "tcp_retries2",
        "255",
        "connections break after a cut of 14 s",
    ),
    (
        "tcp_syn_retries",
        "127",
        "a connection that is being made breaks in a long cut",
    ),
    (
        "tcp_synack_retries",
        "60",
        "a connection that is being made breaks in a long cut",
    ),
];

fn patience_of_tcp(folder: &Path, notes: &mut Vec<String>) {
    if !folder.join(TCP[0].0).exists() {
        notes.push(format!(
            "net.ipv4.{}: this kernel has none, {}",
            TCP[0].0, TCP[0].2
        ));
        return;
    }
    for (name, value, without) in TCP {
        if let Err(e) = fs::write(folder.join(name), value) {
            notes.push(format!("net.ipv4.{name}: {e}, {without}"));
            if name == TCP[0].0 {
                return; // The kernel's own waits, with its own tries.
            }
        }
    }
}

fn tmpfs(at: &str, bytes: u64, mode: &str) -> Result<(), StepError> {
    if !Path::new(at).is_dir() {
        return step(
            Err("there is no such folder"),
            &format!("mounting a tmpfs on {at}"),
            &format!("make it, as root: mkdir {at}"),
        );
    }
    let options = format!("size={bytes},mode={mode}");
    let flags = MsFlags::MS_NOSUID | MsFlags::MS_NODEV;
    let mounted = mount(
        Some("tmpfs"),
        at,
        Some("tmpfs"),
        flags,
        Some(options.as_str()),
    );
    step(
        mounted,
        &format!("mounting a tmpfs of {bytes} bytes on {at}"),
        NEEDS_MOUNTS,
    )
}

/// Own hosts, nsswitch and resolv.conf: names resolve at once and the same everywhere (Java 8 knows no hosts file of
/// its own, and a DNS wait costs 5 s). The files lie beside the nodes on the slot's tmpfs.
fn names(hosts: &[(String, Ipv4Addr)], notes: &mut Vec<String>) -> Result<(), StepError> {
    let mut text = String::from("127.0.0.1 localhost slot\n");
    for (name, addr) in hosts {
        text.push_str(&format!("{addr} {name}\n"));
    }
    let etc = Path::new(ROOT).join(".slot");
    step(
        fs::create_dir_all(&etc),
        "creating /mnt/.slot",
        NEEDS_MOUNTS,
    )?;
    let files = [
        ("hosts", text.as_str()),
        (
            "nsswitch.conf",
            "hosts: files\npasswd: files\ngroup: files\n",
        ),
        ("resolv.conf", ""),
    ];
    for (name, content) in files {
        let own = etc.join(name);
        step(fs::write(&own, content), "writing /mnt/.slot", NEEDS_MOUNTS)?;
        let there = Path::new("/etc").join(name);
        if !there.exists() {
            notes.push(format!(
                "{} does not exist, so it is not replaced",
                there.display()
            ));
            continue;
        }
        let none: Option<&str> = None;
        let bound = mount(Some(&own), &there, none, MsFlags::MS_BIND, none);
        step(
            bound,
            &format!("binding {} over {}", own.display(), there.display()),
            NEEDS_MOUNTS,
        )?;
    }
    Ok(())
}

pub(super) fn loopback_up() -> io::Result<()> {
    let socket = nix::sys::socket::socket(
        nix::sys::socket::AddressFamily::Inet,
        nix::sys::socket::SockType::Datagram,
        nix::sys::socket::SockFlag::SOCK_CLOEXEC,
        None,
    )?;
    // SAFETY: ifreq is plain data, all zero is a valid value.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    request.ifr_name[0] = b'l' as libc::c_char;
    request.ifr_name[1] = b'o' as libc::c_char;
    // SAFETY: both calls get a live socket and a pointer to a whole ifreq with a terminated name; the kernel reads
    // and writes within it, and the flags member of the union is the one SIOCGIFFLAGS has just filled.
    unsafe {
        if libc::ioctl(socket.as_raw_fd(), libc::SIOCGIFFLAGS as _, &mut request) != 0 {
            return Err(io::Error::last_os_error());
        }
        request.ifr_ifru.ifru_flags |= libc::IFF_UP as libc::c_short;
        if libc::ioctl(socket.as_raw_fd(), libc::SIOCSIFFLAGS as _, &request) != 0 {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(())
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// In a network of its own; not at all where there is no right to one.
    pub(in super::super) fn in_own_network(test: impl FnOnce() + Send) {
        std::thread::scope(|scope| {
            scope.spawn(|| {
                if unshare(CloneFlags::CLONE_NEWNET).is_ok() {
                    loopback_up().unwrap();
                    test();
                }
            });
        });
    }

    #[test]
    fn offsets_of_the_clock_have_no_negative_nanoseconds() {
        for (offset, want) in [
            (0, "0 0"),
            (1_500_000_000, "1 500000000"),
            (-1, "-1 999999999"),
            (-2_000_000_000, "-2 0"),
        ] {
            assert_eq!(
                clock_text(offset),
                format!("monotonic {want}\nboottime {want}\n")
            );
        }
    }
}
