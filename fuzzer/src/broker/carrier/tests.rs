//! A broker with clients of LLMP that say what a test wants.

use super::*;
use libafl_bolts::llmp::LlmpClient;

/// Of whoever wrote a letter, or passed it on.
type Client = LlmpClient<StdShMem, StdShMemProvider>;

fn client(at: SocketAddr) -> Client {
    LlmpClient::create_attach_to_tcp(StdShMemProvider::new().unwrap(), at.port()).unwrap()
}

fn config(out: &Path) -> Config {
    Config {
        out: out.to_owned(),
        identity: Identity::new([("target", "toy".into())]),
        listen: SocketAddr::from(([127, 0, 0, 1], 0)),
        remote: None,
    }
}

fn letter(key: u64, origin: u64, serial: u64, body: Body) -> Vec<u8> {
    Letter {
        key,
        origin,
        serial,
        body,
    }
    .to_bytes()
}

fn lines(key: u64, origin: u64, serial: u64) -> Vec<u8> {
    let lines = wire::Lines {
        name: format!("of-{origin}"),
        first: 1,
        at: 5,
        bytes: vec![7; 10_000],
    };
    letter(key, origin, serial, Body::Lines(lines))
}

/// A hub of three: whoever joins late gets all that LLMP's pages hold, so that is what they hold.
#[test]
fn what_a_broker_passes_on_counts_as_its_own() {
    let dir = tempfile::tempdir().unwrap();
    let config = config(dir.path());
    let mut say = |_| ();
    let (mut hub, _listens, at) = open(&config, &mut say).unwrap();
    let (key, mut others) = (hub.key, [client(at), client(at)]);
    hub.hello().unwrap();
    let own = hub.bytes;
    assert!(own > 0);
    for (origin, other) in (2..).zip(&mut others) {
        for serial in 1..=3 {
            other.send_buf(TAG, &lines(key, origin, serial)).unwrap();
        }
        // Come round a ring, of another campaign, noise: not passed on.
        other.send_buf(TAG, &lines(key, origin, 2)).unwrap();
        other
            .send_buf(TAG, &lines(key ^ 1, origin + 10, 1))
            .unwrap();
        other.send_buf(TAG, b"noise").unwrap();
    }
    for _ in 0..3 {
        hub.turn().unwrap();
    }
    let mut late = client(at);
    let mut there = 0;
    while let Some((_, TAG, bytes)) = late.recv_buf().unwrap() {
        there += bytes.len();
    }
    assert!(there > own + 60_000, "{there}");
    assert_eq!(hub.bytes, there);
    // And so others' letters, too, make it begin anew.
    hub.bytes = PAGES;
    hub.anew(Instant::now()).unwrap();
    others[0].send_buf(TAG, &lines(key, 2, 4)).unwrap();
    hub.turn().unwrap();
    let ended = hub.anew(Instant::now());
    assert!(matches!(ended, Err(BrokerError::Anew(_))), "{ended:?}");
}

/// Who joins late gets all hellos that LLMP's pages hold, and is said to by brokers that ended, also by a former one of its own.
#[test]
fn hellos_of_long_ago_are_one_call_and_nobody_of_our_name() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::create_dir(dir.path().join("a")).unwrap();
    let told = format!("begin\n{}", "more\n".repeat(60_000));
    std::fs::write(dir.path().join("a/sync.jsonl"), told).unwrap();
    let config = config(dir.path());
    let mut said = Vec::new();
    let mut say = |line| said.push(line);
    let (mut hub, _listens, at) = open(&config, &mut say).unwrap();
    let (key, mut other) = (hub.key, client(at));
    let hello = |origin, serial, own: &str| {
        let hello = Hello {
            identity: config.identity.clone(),
            own: vec![own.to_owned()],
            have: BTreeMap::new(),
        };
        letter(key, origin, serial, Body::Hello(hello))
    };
    for serial in 1..=200 {
        other.send_buf(TAG, &hello(2, serial, "b")).unwrap();
        other.send_buf(TAG, &hello(3, serial, "a")).unwrap();
    }
    for _ in 0..20 {
        hub.turn().unwrap();
    }
    // One answer of 256 KiB, and the hellos as they are passed on.
    assert_eq!(hub.peers.len(), 2);
    assert!((200_000..1_000_000).contains(&hub.bytes), "{}", hub.bytes);
    // One that goes on saying hello is there.
    let peer = hub.peers.get_mut(&3).unwrap();
    (peer.since, peer.answered) = (Instant::now() - 3 * HELLO, None);
    other.send_buf(TAG, &hello(3, 201, "a")).unwrap();
    let at = hub.serial;
    for _ in 0..20 {
        hub.turn().unwrap();
    }
    assert_eq!(hub.serial, at, "it has one of that name itself");
    drop(hub);
    let two = |l: &&String| l.contains("is here and on another machine");
    assert_eq!(said.iter().filter(two).count(), 1, "{said:?}");
}
