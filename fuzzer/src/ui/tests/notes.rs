//! What the screen tells of the moment: answers to keys, what the campaign says, known bugs, nodes in trouble; and what it does when the terminal
//! does not go along.

use super::*;
use crate::terminal;
use crate::ui::{Screen, Shown, after, due};
use nix::errno::Errno;
use std::io;

/// An answer to a key is seen wherever the key was pressed, or it is pressed again; what the campaign says is on page 1, for a while.
#[test]
fn messages_and_news() {
    let t = Instant::now();
    let mut s = busy(t);
    s.message = "ending: once more (q) ends at once".into();
    for p in Page::ALL {
        let shown = buffer((80, 24), &s, page(p), &Files::default(), t, false);
        anywhere(&lines(&shown), &["ending: once more (q) ends at once"]);
    }
    // With many faults and slots nothing pushes it off the box.
    s.current.faults = (0..10).map(|i| format!("crash n{i}")).collect();
    anywhere(&overview((110, 36), &s, t), &["note : ending: once more"]);

    let mut screen = Screen::new(false);
    let said = ["runs from snapshots start cold: \u{1b}[2J", "  a detail"].map(String::from);
    screen.hear(&said, t);
    let news = |screen: &Screen| screen.news.as_ref().map(|(text, _)| text.clone());
    assert_eq!(
        news(&screen).unwrap(),
        "runs from snapshots start cold:  [2J"
    );
    screen.hear(&[], t + Duration::from_secs(60));
    assert_eq!(news(&screen), None);

    let mut s = busy(t);
    s.news = "runs from snapshots start cold".into();
    anywhere(
        &overview((80, 24), &s, t),
        &["note : runs from snapshots start cold"],
    );
    // Neither the keys of another page nor what ends a campaign give way to it.
    let logs = lines(&buffer(
        (80, 24),
        &s,
        page(Page::Logs),
        &Files::default(),
        t,
        false,
    ));
    anywhere(&logs, &["q quit"]);
    assert!(overview((20, 5), &s, t)[0].starts_with("q ends the campaign"));
    let mut still = paused(t);
    still.message = "paused: p goes on".into();
    let logs = lines(&buffer(
        (80, 24),
        &still,
        page(Page::Logs),
        &Files::default(),
        t,
        false,
    ));
    anywhere(&logs, &["PAUSED", "p go on"]);
}

#[test]
fn a_known_hang_is_no_known_crash() {
    let t = Instant::now();
    let mut s = busy(t);
    let mut hang = s.kept_findings[0].clone();
    (hang.number, hang.kind) = (1, warren_model::FailureKind::Hang);
    s.kept_findings.push(hang);
    (s.findings, s.hangs) = (1, 1);
    s.known.insert(1, "X-1".into());
    let shown = overview((80, 24), &s, t);
    anywhere(
        &shown,
        &["saved crashes : 1   ", "saved hangs : 1 (1 known)"],
    );
}

/// Of eleven nodes those in trouble are told with their state, the others at least by name.
#[test]
fn no_node_in_trouble_is_left_out() {
    let t = Instant::now();
    let mut s = busy(t);
    s.nodes = (1..=10)
        .map(|i| node(&format!("node{i}"), "standby", "alive"))
        .collect();
    s.nodes.push(node("zk1", "", "dead"));
    let shown = overview((80, 24), &s, t);
    anywhere(&shown, &["nodes : zk1:dead node1 node2 "]);
}

/// The note on key `n` would be a lie beside the next run.
#[test]
fn a_note_belongs_to_the_run_its_key_was_pressed_in() {
    let t = Instant::now();
    let (shared, interrupt) = (SharedSnapshot::default(), Interrupt::default());
    let run = |begun: u64| {
        let mut s = busy(t);
        s.current.since = t.checked_add(Duration::from_secs(begun));
        s
    };
    let mut screen = Screen::new(false);
    let message = |screen: &Screen, s: &Snapshot| screen.message(s, &shared, &interrupt);
    assert_eq!(message(&screen, &run(0)), "");
    let n = KeyEvent::from(KeyCode::Char('n'));
    screen.key(n, &run(0), (80, 24).into(), &shared, &interrupt);
    assert!(message(&screen, &run(0)).starts_with("giving up what is running"));
    assert_eq!(message(&screen, &run(1)), "");
    screen.key(n, &learning(t), (80, 24).into(), &shared, &interrupt);
    assert!(message(&screen, &learning(t)).contains("learning needs its runs"));
}

#[test]
fn what_came_from_other_instances_has_room_in_its_box() {
    let t = Instant::now();
    let mut s = busy(t);
    anywhere(&overview((80, 24), &s, t), &["imported : -"]);
    (s.imported, s.others) = (123, 15);
    anywhere(&overview((80, 24), &s, t), &["imported : 123 from 15"]);
    // Half a number would be another number.
    (s.imported, s.others) = (1234, 12);
    anywhere(&overview((80, 24), &s, t), &["imported : 1234 from ~"]);
}

#[test]
fn the_times_of_a_day_of_fuzzing_have_room_in_their_box() {
    let t = Instant::now();
    let mut s = busy(t);
    s.run_time_ms = 1000 * (23 * 3600 + 59 * 60 + 58);
    let shown = overview((80, 24), &s, t);
    anywhere(&shown, &["run time : 0 days, 23 hrs, 59 min, 58 sec"]);
}

/// Rows come in above the chosen one; the run that was chosen stays so.
#[test]
fn the_chosen_run_of_the_queue_stays_chosen() {
    let dir = tempfile::tempdir().unwrap();
    let queue = dir.path().join("queue");
    std::fs::create_dir(&queue).unwrap();
    let keep = |name: &str| std::fs::write(queue.join(name), "").unwrap();
    for name in [
        "id:000000,time:0,execs:5,orig:fault-free,op:none",
        "id:000001,src:000000,time:7,execs:6,op:crash",
        "id:000002,src:000000,time:8,execs:7,op:crash",
    ] {
        keep(name);
    }
    let t = Instant::now();
    let mut s = busy(t);
    (s.folder, s.corpus) = (dir.path().to_owned(), 3);
    let (shared, interrupt) = (SharedSnapshot::default(), Interrupt::default());
    let mut screen = Screen::new(false);
    screen.view.page = Page::Queue;
    screen.refresh(&s, t);
    let chosen = |screen: &Screen| screen.view.row.map(|at| screen.files.rows[at].entry.id);
    let press = |screen: &mut Screen, key: KeyCode| {
        screen.key(key.into(), &s, (80, 24).into(), &shared, &interrupt);
    };
    press(&mut screen, KeyCode::Home);
    press(&mut screen, KeyCode::PageDown);
    assert_eq!(chosen(&screen), Some(2));
    keep("id:000003,src:000001,time:9,execs:8,op:crash");
    press(&mut screen, KeyCode::End);
    assert_eq!(chosen(&screen), None, "the newest, whatever comes");
    press(&mut screen, KeyCode::PageDown);
    assert_eq!(chosen(&screen), Some(2));
    let s = Snapshot { corpus: 4, ..s };
    screen.refresh(&s, t + Duration::from_secs(1));
    assert_eq!((screen.files.rows.len(), chosen(&screen)), (4, Some(2)));
}

/// Only a terminal that has gone ends the campaign.
#[test]
fn what_an_error_of_the_terminal_means() {
    let gone: fn() -> io::Result<bool> = || Err(io::ErrorKind::BrokenPipe.into());
    let there: fn() -> io::Result<bool> = || Ok(false);
    let table = [
        (Errno::EIO, there, "gone"),
        (Errno::EBADF, there, "gone"),
        // What asks for the size of one that is gone may end with any error.
        (Errno::ENOENT, gone, "gone"),
        (Errno::EAGAIN, gone, "gone"),
        (Errno::EAGAIN, there, "again"),
        (Errno::ENOENT, there, "broken"),
    ];
    for (code, still, want) in table {
        let is = match after(code.into(), still) {
            None => "again",
            Some(Shown::Gone) => "gone",
            Some(Shown::Broken(e)) => {
                assert!(!terminal::is_gone(&e));
                "broken"
            }
            Some(_) => "another",
        };
        assert_eq!(is, want, "{code}");
    }
}

/// What a stalled terminal held up comes once, not once for each second.
#[test]
fn a_status_line_comes_a_second_after_the_one_before() {
    let t = Instant::now();
    let ms = |ms| t + Duration::from_millis(ms);
    let mut next = ms(1_000);
    let table = [
        (900, false),
        (1_020, true),
        (1_070, false),
        (2_000, false),
        (2_020, true),
        (60_000, true),
        (60_050, false),
        (61_000, true),
    ];
    for (at, want) in table {
        assert_eq!(due(&mut next, ms(at)), want, "{at}");
    }
}
