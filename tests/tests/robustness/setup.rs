//! What a machine may lack: JDK, compiler, Maven, network, a cache that can be written, a folder for the campaign.

use super::{Broken, MINUTE, file, fuzz, nothing_made, refused};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use warren_tests::{cluster, run, warren};

/// A folder that answers as a JDK of that version would, with or without a compiler.
fn jdk(dir: &Path, version: &str, javac: bool) -> String {
    let home = dir.join(format!("jdk-{version}-{javac}"));
    std::fs::create_dir_all(home.join("bin")).unwrap();
    let script = format!(
        "#!/bin/sh\ncat >&2 <<END\n    java.home = {}\n    java.specification.version = {version}\n    java.runtime.version = {version}.0_80\nEND\n",
        home.display()
    );
    let mut programs = vec![("java", script)];
    if javac {
        programs.push(("javac", "#!/bin/sh\nexit 1\n".into()));
    }
    for (name, text) in programs {
        let path = home.join("bin").join(name);
        std::fs::write(&path, text).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    }
    home.display().to_string()
}

fn which(name: &str) -> PathBuf {
    std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default())
        .map(|d| d.join(name))
        .find(|p| p.is_file())
        .unwrap_or_else(|| panic!("no {name} on PATH"))
}

/// No JDK at all needs an empty /usr/lib/jvm: tests/bad-days.sh.
#[test]
fn a_jdk_that_is_none_too_old_or_without_compiler() {
    let dir = tempfile::tempdir().unwrap();
    let d = dir.path();
    let (old, runtime) = (jdk(d, "1.7", true), jdk(d, "1.8", false));
    let absent = d.join("absent").display().to_string();
    let table: [(&str, &[&str]); 3] = [
        (
            &absent,
            &[&absent, "no JDK", "bin/java", "--java or JAVA_HOME"],
        ),
        (
            &old,
            &["Java 8 or later", "found only 7 in", &old, "newer JDK"],
        ),
        (&runtime, &[&runtime, "(Java 8) has no javac", "full JDK"]),
    ];
    for (home, parts) in table {
        let mut by_environment = fuzz(d, "canary", &[]);
        // A cache of its own: a compiled canary in the shared one would need no compiler.
        by_environment
            .env("JAVA_HOME", home)
            .env("WARREN_CACHE", d.join("cache"));
        refused(by_environment, 1, parts);
        let mut by_flag = fuzz(d, "canary", &["--java", home]);
        by_flag.env("WARREN_CACHE", d.join("cache"));
        refused(by_flag, 1, parts);
    }
    nothing_made(d);
}

#[test]
fn no_maven_and_no_network_on_the_first_run() {
    let dir = tempfile::tempdir().unwrap();
    let d = dir.path();
    let bare = d.join("bin");
    std::fs::create_dir(&bare).unwrap();
    for program in ["java", "javac", "jar"] {
        symlink(
            std::fs::canonicalize(which(program)).unwrap(),
            bare.join(program),
        )
        .unwrap();
    }
    let mut without = fuzz(d, "zookeeper", &[]);
    without
        .env("PATH", &bare)
        .env("WARREN_CACHE", d.join("cache"));
    let parts = [
        "Maven (mvn) is needed once",
        "zookeeper/pom.xml at 3.6.3",
        "install Maven",
    ];
    refused(without, 1, &parts);

    // Real Maven with a home of its own, whose only way out is a proxy that is not there.
    let home = d.join("home");
    std::fs::create_dir_all(home.join(".m2")).unwrap();
    let proxy = "<settings><proxies><proxy><active>true</active><protocol>https</protocol><host>127.0.0.1</host><port>9</port></proxy></proxies></settings>";
    std::fs::write(home.join(".m2/settings.xml"), proxy).unwrap();
    let mut offline = fuzz(d, "zookeeper", &[]);
    offline
        .env("MAVEN_OPTS", format!("-Duser.home={}", home.display()))
        .env("WARREN_CACHE", d.join("cache"));
    let parts = [
        "fetching the jars of",
        "zookeeper/pom.xml at 3.6.3",
        "is there a network",
        "WARREN_CACHE",
        "Could not transfer",
    ];
    refused(offline, 1, &parts);
    nothing_made(d);
    let left: Vec<_> = std::fs::read_dir(d.join("cache/tmp")).unwrap().collect();
    assert!(left.is_empty(), "scratch folders stay: {left:?}");
}

#[test]
fn a_cache_that_cannot_be_used_and_none() {
    let dir = tempfile::tempdir().unwrap();
    let d = dir.path();
    let taken = file(d, "taken", "a file");
    for place in [taken.as_str(), "/proc/warren"] {
        let mut c = fuzz(d, "canary", &[]);
        c.env("WARREN_CACHE", place);
        refused(c, 1, &[place, "may be written", "WARREN_CACHE"]);
    }
    let mut c = fuzz(d, "canary", &[]);
    for v in ["WARREN_CACHE", "XDG_CACHE_HOME", "HOME"] {
        c.env_remove(v);
    }
    refused(c, 1, &["no place for the cache", "set WARREN_CACHE"]);
    nothing_made(d);
}

#[test]
fn a_campaign_folder_that_cannot_be_made() {
    let dir = tempfile::tempdir().unwrap();
    let taken = file(dir.path(), "taken", "a file");
    for out in [taken.as_str(), "/dev/null"] {
        let c = warren(&["fuzz", "canary", "-o", out, "--no-ui"]);
        let ran = refused(
            c,
            1,
            &[out, "campaign folder", "choose another folder with -o"],
        );
        assert!(
            !ran.err.contains("setting up"),
            "asked after the set-up\n{}",
            ran.err
        );
    }
}

/// Jars in the cache that a full disk or a killed copy left in pieces are made again; two Warrens that find the same empty cache
/// set it up once and both run.
#[test]
fn an_empty_cache_for_two_and_then_a_corrupt_one() {
    let _one = cluster();
    let broken = Broken::new();
    let cache = broken.dir.path().join("cache");
    let go = || {
        let mut c = broken.replay();
        c.env("WARREN_CACHE", &cache);
        run(c, 5 * MINUTE)
    };
    let both = std::thread::scope(|s| {
        let other = s.spawn(go);
        [go(), other.join().unwrap()]
    });
    for ran in both {
        assert!(ran.expect_code(0).out.contains("pass"));
    }
    let mut damaged = 0;
    for folder in ["classes", "instrumented"] {
        for entry in std::fs::read_dir(cache.join(folder)).unwrap().flatten() {
            let path = entry.path();
            if path.extension().is_some_and(|e| e == "jar") {
                let whole = std::fs::read(&path).unwrap();
                std::fs::write(&path, &whole[..whole.len() / 2]).unwrap();
                damaged += 1;
            }
        }
    }
    assert_eq!(damaged, 3, "canary, its workload, its instrumented jar");
    let ran = go().expect_code(0);
    assert!(ran.out.contains("pass"), "{}", ran.text());
    let left: Vec<_> = std::fs::read_dir(cache.join("tmp")).unwrap().collect();
    assert!(left.is_empty(), "scratch folders stay: {left:?}");
}
