//! Kernel cuts, with real connections between processes of a slot.

use super::*;

pub fn cuts_are_silent_directed_and_heal(level: Level) {
    let Some(slot) = open(level) else { return };
    if let Err(why) = slot.kernel_cuts() {
        // Only a kernel without nf_tables (or a policy) excuses: anything else is our encoding.
        let excuses = ["not supported", "not permitted", "no network of its own"];
        assert!(excuses.iter().any(|e| why.contains(e)), "{why}");
        eprintln!("SKIPPED cuts on level {level}: {why}");
        return;
    }
    let client = Ipv4Addr::LOCALHOST; // the source address of sockets that nobody bound
    let (one, two) = (slot.node_addr(0), slot.node_addr(1));
    let _one = slot
        .spawn(&helper_spec(&slot, "one", &format!("echo {one}:2181")))
        .unwrap();
    let _two = slot
        .spawn(&helper_spec(&slot, "two", &format!("echo {two}:2181")))
        .unwrap();
    let probe = |addr| {
        slot.probe(
            vec![TextProbe {
                addr,
                port: 2181,
                send: String::new(),
            }],
            400 * MS,
        )
        .unwrap()
        .remove(0)
    };
    wait_for("both listen", || probe(one).ok() && probe(two).ok());
    let talk = slot
        .spawn(&helper_spec(&slot, "talk", &format!("talk {one}:2181")))
        .unwrap();
    let sent = || {
        output(&slot, "one")
            .lines()
            .filter(|l| l.starts_with("got "))
            .count()
    };
    let back = || {
        output(&slot, "talk")
            .lines()
            .filter(|l| l.starts_with("back "))
            .count()
    };
    wait_for("the connection is in use", || back() > 5);
    // What moves in a while that is long beside the 20 ms between two messages.
    let moved = || {
        std::thread::sleep(30 * MS); // what is under way arrives
        let before = (sent(), back());
        std::thread::sleep(250 * MS);
        (sent() - before.0, back() - before.1)
    };
    wait_for("messages go both ways", || {
        let (there, here) = moved();
        there > 0 && here > 0
    });

    for round in 0..2 {
        let t = Instant::now();
        slot.cut(&CutRules::one_way(&[client], &[one])).unwrap();
        eprintln!("cut after {:?}; threads are held meanwhile", t.elapsed());
        wait_for(
            &format!("round {round}: nothing gets to the server"),
            || moved() == (0, 0),
        );
        let new = probe(one);
        assert!(
            !new.connected && new.error.as_deref() == Some("timeout"),
            "silent for new connections too: {new:?}"
        );
        wait_for("others are not cut", || probe(two).ok());
        slot.uncut().unwrap();
        let more = back();
        wait_for("the old connection goes on after the heal", || {
            back() > more + 5
        });
        wait_for("new connections get through again", || probe(one).ok());
    }

    let heals = slot.heals().unwrap();
    assert_eq!(heals.len(), 2, "one per round: {heals:?}");
    for healed in &heals {
        let late = healed.first_ns.expect("packets went through") - healed.healed_ns;
        eprintln!("first packet {} ms after the heal", late / 1_000_000);
        assert!(late < PATIENCE.as_nanos() as u64);
    }

    slot.cut(&CutRules::one_way(&[one], &[client])).unwrap();
    // Without acknowledgements no more than a window of them is sent: counted, as a late look sees none move.
    wait_for(
        "messages still arrive this way, but no answer comes back",
        || moved().1 == 0 && sent() > back() + 1,
    );
    // A new set replaces the old one in one step.
    slot.cut(&CutRules::machine(two)).unwrap();
    let more = back();
    wait_for("the link that is no longer cut heals", || back() > more + 5);
    assert!(!probe(two).connected);
    slot.uncut().unwrap();
    wait_for("all is healed", || probe(two).ok());
    assert!(!talk.is_dead(), "{}", output(&slot, "talk"));
}

/// A process that dies while it is cut off: its peer hears of it when the cut is over, as it would with the kernel's usual, longer waits.
pub fn a_death_during_a_cut_is_told_after_it(level: Level) {
    let Some(slot) = open(level) else { return };
    if slot.kernel_cuts().is_err() || !Path::new("/proc/sys/net/ipv4/tcp_rto_max_ms").exists() {
        eprintln!("SKIPPED death in a cut on level {level}: no kernel cuts, or its own waits");
        return;
    }
    let (client, one) = (Ipv4Addr::LOCALHOST, slot.node_addr(0));
    let talker = slot
        .spawn(&helper_spec(
            &slot,
            "talker",
            &format!("chatter {one}:2181"),
        ))
        .unwrap();
    let listens = || {
        let wanted = TextProbe {
            addr: one,
            port: 2181,
            send: String::new(),
        };
        slot.probe(vec![wanted], 400 * MS).unwrap()[0].connected
    };
    wait_for("it listens", listens);
    let _hears = slot
        .spawn(&helper_spec(&slot, "hears", &format!("hear {one}:2181")))
        .unwrap();
    wait_for("it hears", || output(&slot, "hears").contains("connected"));
    slot.cut(&CutRules::one_way(&[one], &[client])).unwrap();
    // Until the talker's end waits as long as it may: 200, 400, 800 ms, then a second each time.
    std::thread::sleep(2500 * MS);
    assert!(talker.kill());
    slot.wait_exit(&talker, Instant::now() + PATIENCE).unwrap();
    std::thread::sleep(1500 * MS);
    assert!(!output(&slot, "hears").contains("end:"), "it is cut off");
    slot.uncut().unwrap();
    wait_for("the peer hears of it", || {
        output(&slot, "hears").contains("end:")
    });
}

/// What the kernel counts of a node is what its processes wrote and read, without headers.
pub fn traffic_is_counted_without_headers(level: Level) {
    let Some(slot) = open(level) else { return };
    let (one, two) = (slot.node_addr(0), slot.node_addr(1));
    if slot.kernel_cuts().is_err() {
        assert!(slot.count_traffic(&[one, two]).is_err());
        eprintln!("SKIPPED traffic on level {level}: no kernel rules");
        return;
    }
    let _one = slot
        .spawn(&helper_spec(&slot, "one", &format!("echo {one}:2181")))
        .unwrap();
    let listens = || {
        let wanted = TextProbe {
            addr: one,
            port: 2181,
            send: String::new(),
        };
        slot.probe(vec![wanted], 400 * MS).unwrap()[0].connected
    };
    wait_for("it listens", listens);
    slot.count_traffic(&[two, one]).unwrap();
    let talk = slot
        .spawn(&helper_spec(&slot, "talk", &format!("talk {one}:2181")))
        .unwrap();
    let bytes = |of: &str, word: &str| -> u64 {
        let lines = output(&slot, of);
        let payload = lines.lines().filter_map(|l| l.strip_prefix(word));
        payload.map(|l| l.len() as u64 + 1).sum()
    };
    wait_for("messages go both ways", || bytes("talk", "back ") > 200);
    // What lay in a socket when its reader was killed would be in no output: it is stopped, and what it wrote is what `one` echoed.
    assert!(talk.stop());
    // The first two packets of a connection have longer headers, a reset shorter ones.
    let near = |payload: u64, said: u64| payload.abs_diff(said) <= 40;
    wait_for("the kernel counts what was read and written", || {
        let (traffic, got) = (slot.traffic().unwrap(), bytes("one", "got "));
        near(traffic[1].received.payload(), got) && near(traffic[1].sent.payload(), got)
    });
    let traffic = slot.traffic().unwrap();
    assert_eq!(traffic.len(), 2);
    assert_eq!(traffic[0].sent.packets + traffic[0].received.packets, 0);
}
