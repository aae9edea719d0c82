//! The workload programs of HDFS and HBase compile as set-up compiles them, against their jars from Maven Central (some 140 MB, fetched
//! into the tests' cache once). No cluster is started and nothing is instrumented: that takes minutes, and what these programs ask is
//! tried by hand (their READMEs). ZooKeeper's is run by the end-to-end tests. What a program decides without its system is tried by a
//! program in `java/<target>/`, which is compiled with it.

use std::path::PathBuf;
use std::process::Command;
use warren_executor::setup::jdk::{self, JavaRange};
use warren_executor::setup::{javac, maven};
use warren_executor::target::load_target;
use warren_tests::{cache, root};

/// The class path of a target's workload program and of these sources, and a `java` for it.
fn compiles(name: &str, tests: Option<PathBuf>) -> (Vec<PathBuf>, PathBuf) {
    let cache = cache();
    let folder = root().join("targets").join(name);
    let target = load_target(&folder, None, false, &[]).unwrap_or_else(|e| panic!("{e}"));
    // Only the compiler is used: one that is newer than what the target runs on will do, and no other Java need be fetched.
    let java = JavaRange::from(target.java.least);
    let found = jdk::find_or_fetch(java, None, &cache, &|line| println!("{line}"))
        .unwrap_or_else(|e| panic!("{e}"));
    let agent = warren_agent::write_jars(&cache.join("agent")).expect("the workload library");
    let lock = folder.join(format!("locks/{}.lock", target.version));
    let fetched = maven::fetch(&folder.join("pom.xml"), &target.version, &lock, &cache)
        .unwrap_or_else(|e| panic!("{e}"));
    let mut class_path = vec![agent.workload];
    class_path.extend(fetched.jars);
    let mut sources = vec![folder.join("workload")];
    sources.extend(tests);
    let made = javac::compile(
        &found.compiler,
        &format!("{name}-workload"),
        &sources,
        &class_path,
        java.least,
        &cache,
    )
    .unwrap_or_else(|e| panic!("{e}"));
    class_path.insert(0, made);
    (class_path, found.compiler.java)
}

/// And HBase's tells right from wrong answers. One after the other: two Mavens at once would write into one local repository.
#[test]
fn the_workloads_of_hdfs_and_hbase_compile() {
    compiles("hdfs", None);
    let tests = root().join("tests/java/hbase");
    let (class_path, java) = compiles("hbase", Some(tests));
    let class_path = std::env::join_paths(class_path).expect("a class path");
    let ran = Command::new(java)
        .arg("-cp")
        .arg(class_path)
        .arg("HbaseAnswersTest")
        .output()
        .expect("java");
    let said = String::from_utf8_lossy(&[ran.stdout, ran.stderr].concat()).into_owned();
    assert!(ran.status.success(), "{said}");
}
