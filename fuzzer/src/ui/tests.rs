//! The screen on a made-up terminal: words and cells that matter, for tables of snapshots, pages and sizes.

mod notes;

use super::files::{Files, Log, Story};
use super::findings::scrolled_most;
use super::keys::{Page, View};
use super::queue::tree;
use super::samples::{busy, learning, node, paused};
use super::screen::{draw, page as page_of};
use crate::cli::signals::Interrupt;
use crate::fuzz::{CurrentRun, SharedSnapshot, Snapshot};
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::buffer::Buffer;
use ratatui::crossterm::event::{KeyCode, KeyEvent};
use ratatui::style::{Color, Modifier};
use std::time::{Duration, Instant};

const SIZES: [(u16, u16); 3] = [(80, 24), (120, 40), (200, 60)];

fn buffer(size: (u16, u16), s: &Snapshot, v: View, f: &Files, t: Instant, colour: bool) -> Buffer {
    let mut terminal = Terminal::new(TestBackend::new(size.0, size.1)).unwrap();
    terminal
        .draw(|frame| draw(frame, s, v, f, t, colour))
        .unwrap();
    terminal.backend().buffer().clone()
}

fn lines(b: &Buffer) -> Vec<String> {
    (0..b.area.height)
        .map(|y| (0..b.area.width).map(|x| b[(x, y)].symbol()).collect())
        .collect()
}

fn overview(size: (u16, u16), s: &Snapshot, t: Instant) -> Vec<String> {
    lines(&buffer(
        size,
        s,
        View::default(),
        &Files::default(),
        t,
        false,
    ))
}

fn page(page: Page) -> View {
    View {
        page,
        ..View::default()
    }
}

/// Each text stands on its line.
fn has(lines: &[String], want: &[(usize, &str)]) {
    for (y, text) in want {
        assert!(
            lines[*y].contains(text),
            "line {y} lacks `{text}`:\n{}",
            lines.join("\n")
        );
    }
}

/// Each text stands somewhere.
fn anywhere(lines: &[String], want: &[&str]) {
    let all = lines.join("\n");
    for text in want {
        assert!(all.contains(text), "`{text}` is not on:\n{all}");
    }
}

#[test]
fn all_of_it_fits_80_by_24() {
    let t = Instant::now();
    let lines = overview((80, 24), &busy(t), t);
    has(
        &lines,
        &[
            (0, "warren 0.1.0 {default} (canary) [crashfuzz]"),
            (1, " process timing "),
            (1, " overall results "),
            (2, "run time : 0 days, 0 hrs, 4 min, 12 sec"),
            (3, "last new find : 0 days, 0 hrs, 0 min, 2 sec"),
            (3, "corpus count : 12"),
            (4, "last saved crash : none seen yet"),
            (4, "saved crashes : 1"),
            (6, " cycle progress "),
            (6, " map coverage "),
            (7, "now processing : id:000007"),
            (7, "map density : 4.58 % / 4.76 %"),
            (8, "runs timed out : 3 (2.50 %)"),
            (8, "over fault-free : 120 of 3120 slots"),
            (10, "now trying : crash+reboot"),
            (10, "total crashes : 2 (1 saved)"),
            (11, "stage : fuzzing, 0.0 s"),
            (12, "total execs : 120 (100 tested)"),
            (13, "exec speed : 24.0/min"),
            (15, "one fault : 80 % (32/40)"),
            (16, "pending : 4210 in 210 classes"),
            (17, "drift/late : 2/1, given up 4"),
            (17, "stability : 98.20 %"),
            (18, " cluster "),
            (19, "nodes : n1:leader n2:dead n3:follower(cut)"),
            (
                20,
                "sequence : 1/2 crash > [reboot n2 at Log.write:40 write before n=2]",
            ),
            (21, "phase : test 1.2 s | start 2.1"),
            (22, "why : new fault id, score 240, occurrence 1/3"),
            (
                23,
                "[1 overview] 2 findings(1) 3 queue 4 logs 5 help   p pause  n next  q quit",
            ),
        ],
    );
    // Boxes are closed: every line below the banner ends in a border, and the frame has its four corners.
    for (y, line) in lines.iter().enumerate().skip(1) {
        let last = line.chars().last().unwrap();
        assert!("│┐┤┘".contains(last), "line {y} ends in `{last}`");
    }
    assert!(lines[23].starts_with('└') && lines[23].ends_with('┘'));
}

#[test]
fn more_room_shows_more() {
    let t = Instant::now();
    for size in [(120, 40), (200, 60)] {
        let lines = overview(size, &busy(t), t);
        anywhere(
            &lines,
            &[
                "prefix : 14.00 % of tests, 61 s spared",
                "not injected : 27, point never came",
                "             : 3, run had ended",
                "seed : 7",
                " this run ",
                " last finds ",
                "n3   follower     cut       #1",
                "fault 1 : done    crash n2 at Log.force:12",
                "fault 2 : awaited reboot n2 at Log.write:40",
                "parent : id:000007",
                "why : new fault id",
                "test :    1.2 s    3.1 s",
                "start :    2.1 s    1.9 s",
                "finding : 0h01m01s  replicas differ 1a2b3c4d",
            ],
        );
    }
    // Five nodes fill the box of 40 rows: no phase is lost for it.
    let mut five = busy(t);
    five.nodes = five.nodes.iter().cycle().take(5).cloned().collect();
    anywhere(&overview((120, 40), &five, t), &["final :"]);
    // Rows without columns: one box, each fault its own line, and finds.
    let lines = overview((80, 40), &busy(t), t);
    anywhere(&lines, &["fault 2 : awaited reboot", "finding : replicas"]);
}

#[test]
fn the_awaited_fault_is_marked_with_and_without_colour() {
    let t = Instant::now();
    for colour in [true, false] {
        let b = buffer(
            (80, 24),
            &busy(t),
            View::default(),
            &Files::default(),
            t,
            colour,
        );
        let line = &lines(&b)[20];
        let x = line.chars().position(|c| c == '[').unwrap();
        let cell = &b[(u16::try_from(x).unwrap() + 1, 20)];
        assert!(cell.modifier.contains(Modifier::REVERSED));
        assert_eq!(cell.fg == Color::Yellow, colour);
    }
    let plain = buffer(
        (80, 24),
        &busy(t),
        View::default(),
        &Files::default(),
        t,
        false,
    );
    for page in Page::ALL {
        let v = View {
            page,
            ..View::default()
        };
        let b = buffer((120, 40), &busy(t), v, &Files::default(), t, false);
        assert!(
            b.content()
                .iter()
                .chain(plain.content())
                .all(|c| c.fg == Color::Reset),
            "{page:?} has colours without colour"
        );
    }
}

#[test]
fn states_of_a_campaign() {
    let t = Instant::now();
    type Case<'a> = (Snapshot, &'a [&'a str]);
    let mut ending = busy(t);
    ending.message = "ending: once more ends at once".into();
    let mut done = busy(t);
    (done.current.injected, done.current.awaited) = (2, false);
    let mut confirming = busy(t);
    confirming.current.doing = "confirming 2/3".into();
    confirming.current.faults.clear();
    let table: [Case<'_>; 6] = [
        (
            learning(t),
            &[
                "run time : not yet: learning",
                "stage : learning 2/5",
                "fault-free",
            ],
        ),
        (
            paused(t),
            &[
                "PAUSED",
                "stage : paused for 9 s",
                "p go on",
                "note : paused: p goes on",
            ],
        ),
        (ending, &["note : ending: once more"]),
        (done, &["2/2 crash > reboot n2"]),
        (
            confirming,
            &["stage : confirming 2/3", "sequence : crash+reboot"],
        ),
        (
            Snapshot::default(),
            &["stage :  ", "sequence : no faults", "0.00/sec"],
        ),
    ];
    for (s, want) in table {
        for size in SIZES {
            let lines = overview(size, &s, t);
            if size == (80, 24) {
                anywhere(&lines, want);
            }
            assert!(lines[usize::from(size.1) - 1].contains("q quit"));
        }
    }
}

#[test]
fn five_nodes_fit_80_columns() {
    let t = Instant::now();
    let mut s = busy(t);
    s.nodes = (1..=5)
        .map(|i| node(&format!("zk{i}"), "follower", "alive"))
        .collect();
    s.nodes[1].state = "cut".into();
    let lines = overview((80, 24), &s, t);
    has(&lines, &[(19, "zk2:foll(cut)"), (19, "zk5:foll")]);
}

#[test]
fn findings_are_listed_and_the_chosen_one_is_told() {
    let t = Instant::now();
    let mut s = busy(t);
    let mut other = s.kept_findings[0].clone();
    (other.number, other.n, other.checker) = (1, 0, "acknowledged".into());
    s.kept_findings.push(other);
    let f = Files {
        story: Some(Story {
            number: 0,
            reproduce: Some("warren replay /out/x".into()),
            minimise: Some("warren tmin -i /out/x".into()),
            headline: Some("replicas (safety, healed) at n2, leader [1a2b3c4d]".into()),
            evidence: vec!["    key 7 differs".into()],
            about: vec!["found by warren (seed 7), run 15".into()],
        }),
        ..Files::default()
    };
    for size in SIZES {
        let b = lines(&buffer(size, &s, page(Page::Findings), &f, t, false));
        anywhere(
            &b,
            &[
                " findings (2) ",
                "> 000000  safety    shown 2 of 3    replicas  [1a2b3c4d]",
                "  000001  safety    not replayed    acknowledged",
                "headline : replicas (safety, healed) at n2, leader [1a2b3c4d]",
                "k of n : showed again in 2 of 3 replays",
                "folder : /out/canary/default/findings/000000",
                "reproduce : warren replay /out/x",
                "minimise : warren tmin -i /out/x",
                "key 7 differs",
                "found by warren",
                "[2 findings(2)]",
            ],
        );
        let second = View {
            finding: 1,
            ..page(Page::Findings)
        };
        let b = lines(&buffer(size, &s, second, &f, t, false));
        anywhere(
            &b,
            &["> 000001", "not replayed: stands", "evidence : being read"],
        );
    }
    let none = lines(&buffer(
        (80, 24),
        &learning(t),
        page(Page::Findings),
        &f,
        t,
        false,
    ));
    anywhere(&none, &["No finding stands yet.", "2 runs failed"]);
}

/// At 80 x 24 with many findings what failed is in view, and the end of a long story can be reached and not passed.
#[test]
fn evidence_comes_first_and_the_commands_once_at_the_end() {
    let t = Instant::now();
    let mut s = busy(t);
    s.kept_findings = vec![s.kept_findings[0].clone(); 9];
    let command = format!("warren replay {}", "x".repeat(150));
    let story = Story {
        number: 0,
        evidence: (0..30).map(|k| format!("    key {k} differs")).collect(),
        reproduce: Some(command),
        minimise: Some("warren tmin".into()),
        ..Story::default()
    };
    let f = Files {
        story: Some(story),
        ..Files::default()
    };
    let most = scrolled_most(
        page_of((80, 24).into()),
        &s,
        page(Page::Findings),
        f.story.as_ref(),
    );
    let shown = |text| {
        let v = View {
            text,
            ..page(Page::Findings)
        };
        lines(&buffer((80, 24), &s, v, &f, t, false))
    };
    let (top, end) = (shown(0), shown(most));
    anywhere(
        &top,
        &[
            "headline : ",
            "key 0 differs",
            "key 7 differs",
            ", lines 1-",
        ],
    );
    assert!(!top.join("\n").contains("warren replay"));
    has(&end, &[(22, "minimise : warren tmin"), (21, "xxx")]);
    anywhere(&end, &["reproduce : warren replay x", "folder : /out"]);
    assert_eq!(shown(most + 1), end);
    assert_ne!(shown(most - 1), end);
}

#[test]
fn the_queue_is_a_tree_that_scrolls_to_the_newest() {
    let t = Instant::now();
    let mut names = vec!["id:000000,time:0,execs:5,orig:fault-free,op:none".to_owned()];
    names.extend((1..90).map(|i| {
        let src = if i == 7 { 0 } else { i / 2 };
        let src = if src == 0 { 0 } else { src };
        format!(
            "id:{i:06},src:{src:06},time:{},execs:{i},op:crash,+cov",
            i * 1000
        )
    }));
    let f = Files {
        rows: tree(names.iter().map(|n| n.parse().unwrap()).collect()),
        ..Files::default()
    };
    assert_eq!(f.rows.len(), 90);
    for size in SIZES {
        let top = View {
            row: Some(0),
            ..page(Page::Queue)
        };
        let b = lines(&buffer(size, &busy(t), top, &f, t, false));
        anywhere(
            &b,
            &[
                "queue: 90 kept runs, 4210 children pending in 210 classes",
                "id:000000 at 0h00m00s, run 5, 2 children kept: fault-free",
                "├─ id:000001 +cov at 0h00m01s, run 1, 2 children kept: crash",
            ],
        );
        let b = lines(&buffer(size, &busy(t), page(Page::Queue), &f, t, false));
        anywhere(&b, &["id:000089 +cov at 0h01m29s"]);
    }
    let b = lines(&buffer(
        (200, 60),
        &busy(t),
        View {
            row: Some(80),
            ..page(Page::Queue)
        },
        &f,
        t,
        false,
    ));
    anywhere(
        &b,
        &["id:000007 +cov at", ", a child of it runs now: crash"],
    );
    let empty = lines(&buffer(
        (80, 24),
        &busy(t),
        page(Page::Queue),
        &Files::default(),
        t,
        false,
    ));
    anywhere(&empty, &["No run is kept yet"]);
}

#[test]
fn logs_end_at_the_end_and_scroll_back() {
    let t = Instant::now();
    let mut f = Files::default();
    f.logs.insert(
        "n2".into(),
        Log {
            lines: (0..500).map(|i| format!("line {i}")).collect(),
            past: true,
        },
    );
    for size in SIZES {
        let at = |back| View {
            node: 1,
            back,
            ..page(Page::Logs)
        };
        let b = lines(&buffer(size, &busy(t), at(0), &f, t, false));
        anywhere(
            &b,
            &[
                "node logs: n2 stdout (of the last run)",
                "[n2 dead]",
                " n3 cut ",
                "line 499",
            ],
        );
        let b = lines(&buffer(size, &busy(t), at(100), &f, t, false));
        anywhere(&b, &["line 399"]);
        assert!(!b.join("\n").contains("line 400"));
        let b = lines(&buffer(size, &busy(t), at(100_000), &f, t, false));
        anywhere(&b, &["line 0 "]);
        let b = lines(&buffer(size, &busy(t), page(Page::Logs), &f, t, false));
        anywhere(&b, &["nothing written yet"]);
        let b = lines(&buffer(
            size,
            &Snapshot::default(),
            page(Page::Logs),
            &f,
            t,
            false,
        ));
        anywhere(&b, &["No node runs yet."]);
    }
}

#[test]
fn the_help_can_be_read_to_its_end() {
    let t = Instant::now();
    for size in SIZES {
        let b = lines(&buffer(
            size,
            &busy(t),
            page(Page::Help),
            &Files::default(),
            t,
            false,
        ));
        anywhere(
            &b,
            &[
                "pause before the next run",
                "give up the runs that are going on",
            ],
        );
        let v = View {
            help: 10_000,
            ..page(Page::Help)
        };
        let b = lines(&buffer(size, &busy(t), v, &Files::default(), t, false));
        anywhere(&b, &["shown k of n"]);
    }
}

#[test]
fn slots_side_by_side_have_a_line_each() {
    let t = Instant::now();
    let mut s = busy(t);
    let mut other = s.current.clone();
    (other.phase, other.injected) = ("test".into(), 1);
    (other.faults, other.kinds) = (
        vec!["crash a".into(), "reboot a".into()],
        "crash+reboot".into(),
    );
    s.beside = vec![other, CurrentRun::default()];
    anywhere(
        &overview((120, 60), &s, t),
        &[
            ", 3 slots",
            "slot 2 : test, 1/2 crash+reboot",
            "slot 3 : waits",
        ],
    );
    // In a small terminal the number of slots still stands.
    anywhere(&overview((80, 24), &s, t), &[", 3 slots"]);
}

#[test]
fn empty_huge_and_tiny_do_not_panic() {
    let t = Instant::now();
    let mut s = busy(t);
    s.nodes = (0..60)
        .map(|i| node(&format!("node{i}"), "follower", "alive"))
        .collect();
    s.current.faults = (0..10)
        .map(|i| format!("crash {i} {}", "x".repeat(300)))
        .collect();
    s.current.why = "w".repeat(400);
    for size in [
        (80, 24),
        (200, 60),
        (81, 25),
        (110, 24),
        (120, 31),
        (40, 10),
        (1, 1),
    ] {
        for p in Page::ALL {
            for v in [
                page(p),
                View {
                    finding: 99,
                    text: 99_999,
                    row: Some(99),
                    node: 99,
                    back: 99,
                    help: 99_999,
                    page: p,
                },
            ] {
                for state in [&s, &Snapshot::default()] {
                    buffer(size, state, v, &Files::default(), t, true);
                }
            }
        }
    }
    let small = overview((60, 20), &s, t);
    anywhere(
        &small,
        &["too small for the screen: 60 x 20", "120 runs, 1 findings"],
    );
    let smaller = overview((40, 10), &s, t);
    anywhere(&smaller, &["it needs 80 x 24", "0 hangs"]);
    // However small: first what to do.
    let mut tiny = busy(t);
    assert!(overview((20, 5), &tiny, t)[0].starts_with("q ends the campaign"));
    tiny.message = "ending: once more".into();
    assert!(overview((20, 5), &tiny, t)[0].starts_with("ending: once more"));
    let large = overview((120, 60), &s, t).join("\n");
    assert!(large.contains("fault 10 : -       crash 9"), "{large}");
}
