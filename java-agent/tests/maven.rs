//! Runs the Java tests, so that `cargo test --workspace` covers them. They start JVMs with the finished jars (`mvn verify`).

use std::path::Path;
use std::process::Command;

#[test]
fn java_tests_pass() {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let folder = tempfile::tempdir().expect("a scratch folder");
    let jars = warren_agent::write_jars(folder.path()).expect("the library for parked JVMs");
    // Offline first, as in build.rs: the plugins for tests are fetched on the first run only.
    let mut said = String::new();
    for offline in [true, false] {
        let mut command = Command::new("mvn");
        command.current_dir(here).args(["-q", "-B"]);
        command.arg(format!("-Dwarren.park={}", jars.park.display()));
        if offline {
            command.arg("-o");
        }
        let output = command
            .arg("verify")
            .output()
            .expect("mvn starts: build.rs used it");
        said = String::from_utf8_lossy(&output.stdout).into_owned()
            + &String::from_utf8_lossy(&output.stderr);
        // A failing test is not mended by the network.
        if output.status.success() {
            return;
        }
        if said.contains("There are test failures") || said.contains("COMPILATION ERROR") {
            break;
        }
    }
    panic!("`mvn -q -B verify` in {} failed:\n{said}", here.display());
}
