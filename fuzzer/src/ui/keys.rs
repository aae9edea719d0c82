//! What a key means: a pure function from a view and a key to the next view and what is asked of the campaign.
//!
//! Called by the screen's thread. Knows pages and lengths of lists, no contents.

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

/// The pages, in the order of their numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Page {
    #[default]
    Overview,
    Findings,
    Queue,
    Logs,
    Help,
}

impl Page {
    pub const ALL: [Page; 5] = [
        Page::Overview,
        Page::Findings,
        Page::Queue,
        Page::Logs,
        Page::Help,
    ];

    /// As the line of keys names it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Page::Overview => "overview",
            Page::Findings => "findings",
            Page::Queue => "queue",
            Page::Logs => "logs",
            Page::Help => "help",
        }
    }

    fn number(self) -> usize {
        Page::ALL.iter().position(|p| *p == self).unwrap_or(0)
    }

    fn step(self, by: usize) -> Page {
        Page::ALL[(self.number() + by) % Page::ALL.len()]
    }
}

/// What the user looks at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct View {
    pub page: Page,
    /// Selected finding, and lines its text is scrolled down.
    pub finding: usize,
    pub text: usize,
    /// Selected row of the queue; none = the newest, whatever comes.
    pub row: Option<usize>,
    /// Node whose log is shown, and lines back from its end (0 = the end, whatever comes).
    pub node: usize,
    pub back: usize,
    /// Lines the help is scrolled down.
    pub help: usize,
}

/// Lengths of what is shown now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lengths {
    pub findings: usize,
    /// Lines that what is told of a finding can be scrolled down.
    pub text: usize,
    pub rows: usize,
    /// Row of the newest run.
    pub newest: usize,
    pub nodes: usize,
    pub log: usize,
    /// Lines that PgUp and PgDn move.
    pub page: usize,
}

/// What a key asks for beside another view.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Act {
    Look,
    /// `p`
    Pause,
    /// `n`
    GiveUp,
    /// `q`, Ctrl-C
    Quit,
    /// Ctrl-L: the whole screen anew.
    Redraw,
}

/// The view after a key, and what is asked.
#[must_use]
pub fn press(view: View, key: KeyEvent, len: Lengths) -> (View, Act) {
    let mut v = view;
    let act = match key.code {
        KeyCode::Char(c) if key.modifiers.contains(KeyModifiers::CONTROL) => match c {
            'c' => Act::Quit,
            'l' => Act::Redraw,
            _ => Act::Look,
        },
        KeyCode::Char('q') => Act::Quit,
        KeyCode::Char('p') => Act::Pause,
        KeyCode::Char('n') => Act::GiveUp,
        code => {
            turn(&mut v, code, len);
            Act::Look
        }
    };
    (v, act)
}

fn turn(v: &mut View, code: KeyCode, len: Lengths) {
    match code {
        KeyCode::Char(c @ '1'..='5') => {
            v.page = Page::ALL[usize::from(c as u8 - b'1')];
        }
        KeyCode::Char('?' | 'h') => v.page = Page::Help,
        KeyCode::Esc => v.page = Page::Overview,
        KeyCode::Tab => v.page = v.page.step(1),
        KeyCode::BackTab => v.page = v.page.step(Page::ALL.len() - 1),
        _ => match v.page {
            Page::Overview => {}
            Page::Findings => findings(v, code, len),
            Page::Queue => queue(v, code, len),
            Page::Logs => logs(v, code, len),
            Page::Help => match code {
                KeyCode::Down => v.help += 1,
                KeyCode::Up => v.help = v.help.saturating_sub(1),
                KeyCode::PageDown => v.help += len.page,
                KeyCode::PageUp => v.help = v.help.saturating_sub(len.page),
                KeyCode::Home => v.help = 0,
                _ => {}
            },
        },
    }
}

/// Up and down choose, PgUp and PgDn scroll what is told of the chosen one.
fn findings(v: &mut View, code: KeyCode, len: Lengths) {
    let last = len.findings.saturating_sub(1);
    let chosen = match code {
        KeyCode::Up => v.finding.saturating_sub(1),
        KeyCode::Down => v.finding + 1,
        KeyCode::Home => 0,
        KeyCode::End => last,
        KeyCode::PageDown => {
            v.text = (v.text + len.page / 2).min(len.text);
            return;
        }
        KeyCode::PageUp => {
            v.text = v.text.saturating_sub(len.page / 2);
            return;
        }
        _ => return,
    }
    .min(last);
    if chosen != v.finding {
        v.text = 0;
    }
    v.finding = chosen;
}

fn queue(v: &mut View, code: KeyCode, len: Lengths) {
    let last = len.rows.saturating_sub(1);
    let at = v.row.unwrap_or(len.newest).min(last);
    v.row = match code {
        KeyCode::Up => Some(at.saturating_sub(1)),
        KeyCode::Down => Some((at + 1).min(last)),
        KeyCode::PageUp => Some(at.saturating_sub(len.page)),
        KeyCode::PageDown => Some((at + len.page).min(last)),
        KeyCode::Home => Some(0),
        KeyCode::End => None,
        _ => v.row,
    };
}

fn logs(v: &mut View, code: KeyCode, len: Lengths) {
    let nodes = len.nodes.max(1);
    let most = len.log.saturating_sub(1);
    match code {
        KeyCode::Right => (v.node, v.back) = ((v.node + 1) % nodes, 0),
        KeyCode::Left => (v.node, v.back) = ((v.node.min(nodes - 1) + nodes - 1) % nodes, 0),
        KeyCode::Up => v.back = (v.back + 1).min(most),
        KeyCode::Down => v.back = v.back.saturating_sub(1),
        KeyCode::PageUp => v.back = (v.back + len.page).min(most),
        KeyCode::PageDown => v.back = v.back.saturating_sub(len.page),
        KeyCode::Home => v.back = most,
        KeyCode::End => v.back = 0,
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEN: Lengths = Lengths {
        findings: 3,
        text: 8,
        rows: 100,
        newest: 99,
        nodes: 3,
        log: 50,
        page: 10,
    };

    fn after(v: View, codes: &[KeyCode]) -> View {
        codes.iter().fold(v, |v, c| {
            let (v, act) = press(v, KeyEvent::from(*c), LEN);
            assert_eq!(act, Act::Look, "{c:?}");
            v
        })
    }

    #[test]
    fn what_is_asked_of_the_campaign() {
        let ctrl = |c| KeyEvent::new(KeyCode::Char(c), KeyModifiers::CONTROL);
        let table = [
            (KeyEvent::from(KeyCode::Char('q')), Act::Quit),
            (ctrl('c'), Act::Quit),
            (KeyEvent::from(KeyCode::Char('c')), Act::Look),
            (KeyEvent::from(KeyCode::Char('p')), Act::Pause),
            (ctrl('p'), Act::Look),
            (KeyEvent::from(KeyCode::Char('n')), Act::GiveUp),
            (ctrl('l'), Act::Redraw),
            (KeyEvent::from(KeyCode::Char('x')), Act::Look),
        ];
        for (key, want) in table {
            for page in Page::ALL {
                let v = View {
                    page,
                    ..View::default()
                };
                assert_eq!(press(v, key, LEN), (v, want), "{key:?} on {page:?}");
            }
        }
    }

    #[test]
    fn pages() {
        use KeyCode::{BackTab, Char, Esc, Tab};
        let table: [(&[KeyCode], Page); 8] = [
            (&[Char('1')], Page::Overview),
            (&[Char('2')], Page::Findings),
            (&[Char('3')], Page::Queue),
            (&[Char('4')], Page::Logs),
            (&[Char('5'), Esc], Page::Overview),
            (&[Char('?')], Page::Help),
            (&[Tab, Tab], Page::Queue),
            (&[BackTab], Page::Help),
        ];
        for (codes, want) in table {
            assert_eq!(after(View::default(), codes).page, want, "{codes:?}");
        }
        assert_eq!(
            after(View::default(), &[Tab; 5]).page,
            Page::Overview,
            "round"
        );
    }

    #[test]
    fn lists_stop_at_their_ends_and_a_new_choice_is_read_from_the_top() {
        use KeyCode::{Char, Down, End, Home, Left, PageDown, PageUp, Right, Up};
        let v = after(View::default(), &[Char('2'), Up, Down, Down, PageDown]);
        assert_eq!((v.finding, v.text), (2, 5));
        let v = after(v, &[Down]);
        assert_eq!((v.finding, v.text), (2, 5), "at the end nothing changes");
        assert_eq!(after(v, &[Up]).text, 0);
        assert_eq!(after(v, &[PageDown, PageDown]).text, 8);
        assert_eq!(
            after(v, &[PageDown, PageDown, PageUp]).text,
            3,
            "no way back from beyond"
        );

        let q = after(View::default(), &[Char('3')]);
        assert_eq!(q.row, None);
        assert_eq!(after(q, &[Up]).row, Some(98));
        assert_eq!(after(q, &[PageUp, PageUp]).row, Some(79));
        assert_eq!(after(q, &[Home, Up, Down]).row, Some(1));
        assert_eq!(after(q, &[Home, End]).row, None);

        let l = after(View::default(), &[Char('4')]);
        assert_eq!(after(l, &[Left]).node, 2);
        assert_eq!(after(l, &[Right, Right, Right]).node, 0);
        assert_eq!(after(l, &[PageUp, Up, Down]).back, 10);
        assert_eq!(after(l, &[Home, Up]).back, 49);
        assert_eq!(after(l, &[Up, Up, Right]).back, 0);
    }

    #[test]
    fn empty_lists_are_no_trouble() {
        use KeyCode::{Down, End, Home, Left, PageDown, PageUp, Right, Up};
        for page in Page::ALL {
            let mut v = View {
                page,
                node: 7,
                finding: 9,
                ..View::default()
            };
            for c in [Up, Down, Left, Right, PageUp, PageDown, Home, End] {
                v = press(v, KeyEvent::from(c), Lengths::default()).0;
            }
            assert_eq!(v.page, page);
        }
    }
}
