//! The `java` key: a least version or a range.

use super::{GOOD, folder, load};

#[test]
fn java_is_a_least_version_or_a_range() {
    for (written, want) in [
        ("java = 8", "8 or later"),
        ("java = 11", "11 or later"),
        ("java = \"8..17\"", "8 to 17"),
        ("", "8 or later"),
    ] {
        let dir = folder(&GOOD.replace("java = 8", written));
        let got = load(&dir, "toy").unwrap().java.to_string();
        assert_eq!(got, want, "{written}");
    }
}

#[test]
fn what_is_no_range_is_refused_with_both_forms() {
    for (written, problem) in [
        ("\"17..8\"", "no version in it"),
        ("\"8..x\"", "`x` in `8..x`"),
        ("true", "`true` is a boolean"),
    ] {
        let dir = folder(&GOOD.replace("java = 8", &format!("java = {written}")));
        let e = load(&dir, "toy").unwrap_err().to_string();
        for part in ["target.java", problem, "java = 8", "both ends"] {
            assert!(e.contains(part), "{written}: {part}: {e}");
        }
    }
}
