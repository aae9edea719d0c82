//! The stack ids of Java and Rust are the same: `java-agent/vectors/stackid.txt` is read by the tests of both.

use warren_model::StackId;

#[test]
fn stack_ids_match_the_shared_vectors() {
    let text = include_str!("../../java-agent/vectors/stackid.txt");
    let mut kept: Vec<&str> = Vec::new();
    let mut checked = 0;
    let mut name = "";
    for line in text.lines() {
        match line.split_once(' ') {
            Some(("vector", n)) => {
                name = n;
                kept.clear();
            }
            Some(("kept", frame)) => kept.push(frame),
            Some(("id", "none")) => assert!(kept.is_empty(), "{name}"),
            Some(("id", hex)) => {
                assert_eq!(
                    StackId::of_frames(kept.iter().copied()).to_string(),
                    hex,
                    "{name}"
                );
                checked += 1;
            }
            _ => {}
        }
    }
    assert!(checked >= 8, "only {checked} vectors were found");
}
