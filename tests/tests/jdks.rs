//! The agent's own tests on the JDKs that targets ask for and this machine may not have: 8, 11 and the newest with long support.
//!
//! `java_tests_pass` of the agent's package runs them on Maven's JDK and those beside it. Here Warren finds the others, or fetches them
//! into the tests' cache (some 370 MB, half a minute, once), and the tests that start annotated targets run on those. A version that
//! cannot be had is noted for the end of .ci/run; a test that fails on one that can be is a failure.

use std::process::Command;
use warren_executor::setup::SetupError;
use warren_executor::setup::jdk::{self, OFFERED, Place};
use warren_tests::{cache, note, root, text_of};

/// The agent's tests that have a JDK as their parameter.
const TESTS: &str = "HooksTest,HoldTest,ParkTest,InstrumentTest#loadTimeAndOffline*";

#[test]
fn the_agent_on_the_other_jdks() {
    let cache = cache();
    std::fs::create_dir_all(&cache).expect("the tests' cache");
    let there = jdk::all(None, &cache).unwrap_or_else(|e| panic!("{e}"));
    let newest = OFFERED.iter().copied().max().expect("some are offered");
    let mut homes = Vec::new();
    for version in [8, 11, newest] {
        let found = there.iter().find(|c| c.jdk.feature_version == version);
        match found {
            Some(c) if version == newest && c.place != Place::Cache => {
                note(
                    "jdks-ran",
                    &format!("Java {version}: with the agent's package"),
                );
                continue;
            }
            Some(c) => homes.push((version, c.jdk.home.clone())),
            None => match jdk::own_or_fetch(version, &cache, &|line| println!("{line}")) {
                Ok(jdk) => homes.push((version, jdk.home)),
                Err(e @ SetupError::NotFetched { .. }) => {
                    let why = e.to_string();
                    let why = why.lines().next().unwrap_or_default();
                    note("jdks-ran", &format!("Java {version}: NOT TESTED: {why}"));
                }
                Err(e) => panic!("{e}"),
            },
        }
    }
    if homes.is_empty() {
        return;
    }
    let folders: Vec<String> = homes.iter().map(|(_, h)| h.display().to_string()).collect();
    let folder = tempfile::tempdir().expect("a scratch folder");
    let jars = warren_agent::write_jars(folder.path()).expect("the library for parked JVMs");
    let mut said = String::new();
    // Offline first: build.rs fetched what Maven needs, unless it never ran the tests here.
    for offline in ["-o", "-U"] {
        let output = Command::new("mvn")
            .current_dir(root().join("java-agent"))
            .args(["-q", "-B", offline, "verify"])
            .arg(format!("-Dtest={TESTS}"))
            .arg(format!("-Dwarren.park={}", jars.park.display()))
            .arg("-Dsurefire.failIfNoSpecifiedTests=false")
            .env("WARREN_JDKS", folders.join(":"))
            .output()
            .expect("mvn starts: the agent was built with it");
        if output.status.success() {
            for (version, _) in homes {
                note("jdks-ran", &format!("Java {version}: ran"));
            }
            return;
        }
        said = text_of(&output);
        if said.contains("There are test failures") || said.contains("COMPILATION ERROR") {
            break;
        }
    }
    panic!(
        "the agent's tests on {} failed:\n{said}",
        folders.join(", ")
    );
}
