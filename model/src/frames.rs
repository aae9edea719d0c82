//! Frames of a stack and the globs that ask for them, as the agent matches them (java-agent/runtime, `Glob`). Pure.
//!
//! Called wherever a pattern is tried on a recorded trace. Refuses to count arrivals: that needs the run's rules, not a stack.

/// A frame `class.method:line` without its line number, which is not part of what a glob asks.
#[must_use]
pub fn frame_name(frame: &str) -> &str {
    frame.rsplit_once(':').map_or(frame, |(name, _)| name)
}

/// The globs occur in this order among the frames, innermost first, gaps allowed. No globs match every stack.
#[must_use]
pub fn frames_match(globs: &[String], frames: &[String]) -> bool {
    let mut frames = frames.iter().map(|f| frame_name(f));
    globs.iter().all(|g| frames.any(|f| glob(g, f)))
}

/// `*` = any run of characters.
#[must_use]
pub fn glob(pattern: &str, text: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == text,
        Some((start, rest)) => text.strip_prefix(start).is_some_and(|text| {
            (0..=text.len())
                .filter(|i| text.is_char_boundary(*i))
                .any(|i| glob(rest, &text[i..]))
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn globs() {
        for (pattern, text, want) in [
            ("a.B.c", "a.B.c", true),
            ("a.B.c", "a.B.cd", false),
            ("*.c", "a.B.c", true),
            ("a*B*c", "a.B.c", true),
            ("a*x*c", "a.B.c", false),
            ("*", "", true),
            ("ab*ba", "aba", false),
        ] {
            assert_eq!(glob(pattern, text), want, "{pattern} {text}");
        }
    }

    #[test]
    fn globs_as_the_agent_matches_them() {
        let s = |v: &[&str]| v.iter().map(|f| (*f).to_owned()).collect::<Vec<_>>();
        for (globs, frames, want) in [
            (s(&[]), s(&["a.b"]), true),
            (s(&["a.b"]), s(&["x.y", "a.b"]), true),
            (s(&["*.b", "c*"]), s(&["a.b", "x", "c.d"]), true),
            (s(&["c*", "*.b"]), s(&["a.b", "x", "c.d"]), false),
            (s(&["a"]), s(&["ab"]), false),
            (s(&["a.b", "c.d"]), s(&["a.b:7", "c.d:-1"]), true),
            (s(&["a.lambda$f$*"]), s(&["a.lambda$f$12:3"]), true),
        ] {
            assert_eq!(frames_match(&globs, &frames), want, "{globs:?} {frames:?}");
        }
    }
}
