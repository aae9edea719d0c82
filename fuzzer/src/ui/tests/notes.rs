//! What the screen tells of the moment: answers to keys, what the campaign says, known bugs, nodes in trouble.

use super::*;
use crate::ui::Screen;

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
}
