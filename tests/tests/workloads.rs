//! The workload programs of HDFS and HBase compile as set-up compiles them, against their jars from Maven Central. No cluster is
//! started and nothing is instrumented: that takes minutes, and what these programs ask is tried by hand (their READMEs).
//! ZooKeeper's is run by the end-to-end tests.

use warren_executor::setup::{javac, jdk, maven};
use warren_executor::target::load_target;
use warren_tests::{cache, root};

fn compiles(name: &str) {
    let cache = cache();
    let folder = root().join("targets").join(name);
    let target = load_target(&folder, None, false, &[]).unwrap_or_else(|e| panic!("{e}"));
    let found = jdk::find_or_fetch(target.java, None, &cache, &|line| println!("{line}"))
        .unwrap_or_else(|e| panic!("{e}"));
    let agent = warren_agent::write_jars(&cache.join("agent")).expect("the workload library");
    let lock = folder.join(format!("locks/{}.lock", target.version));
    let fetched = maven::fetch(&folder.join("pom.xml"), &target.version, &lock, &cache)
        .unwrap_or_else(|e| panic!("{e}"));
    let mut class_path = vec![agent.workload];
    class_path.extend(fetched.jars);
    javac::compile(
        &found.compiler,
        &format!("{name}-workload"),
        &[folder.join("workload")],
        &class_path,
        target.java.least,
        &cache,
    )
    .unwrap_or_else(|e| panic!("{e}"));
}

#[test]
#[ignore = "fetches the jars of both systems: cargo test -p warren-tests --test workloads -- --ignored"]
fn the_workloads_of_hdfs_and_hbase_compile() {
    for name in ["hdfs", "hbase"] {
        compiles(name);
    }
}
