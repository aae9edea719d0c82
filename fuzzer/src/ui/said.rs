//! What the campaign says while its screen is up: findings with their commands, reports on seeds, warnings. The screen has
//! room for one of them, so the newest are kept and printed once the terminal is given back.
//!
//! Filled by the screen's thread at each frame, printed by it at the end. It refuses to grow: a long campaign says more than anybody reads.

use std::collections::VecDeque;

/// Most lines that are kept.
const MOST: usize = 400;

/// The newest lines.
#[derive(Debug, Default)]
pub(super) struct Said {
    lines: VecDeque<String>,
    /// Older ones that are not kept.
    lost: usize,
}

impl Said {
    /// Takes lines in.
    pub fn take(&mut self, lines: Vec<String>) {
        self.lines.extend(lines);
        let over = self.lines.len().saturating_sub(MOST);
        self.lines.drain(..over);
        self.lost += over;
    }

    /// All that is kept, as text for the terminal.
    pub fn text(&self) -> String {
        let mut text = match self.lost {
            0 => String::new(),
            n => format!(
                "({n} earlier lines are not kept; findings/ and crashes/ have what was found)\n"
            ),
        };
        for line in &self.lines {
            text.push_str(line);
            text.push('\n');
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_lines_are_kept_in_their_order() {
        let mut said = Said::default();
        assert_eq!(said.text(), "");
        said.take(vec!["a".into(), "b".into()]);
        said.take(vec!["c".into()]);
        assert_eq!(said.text(), "a\nb\nc\n");
        said.take((0..MOST).map(|i| i.to_string()).collect());
        let text = said.text();
        assert!(text.starts_with("(3 earlier lines"), "{text}");
        assert!(text.contains("\n0\n") && !text.contains("\nc\n"), "{text}");
        assert_eq!(text.lines().count(), MOST + 1);
    }
}
