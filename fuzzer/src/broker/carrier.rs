//! One broker of LibAFL's LLMP: it carries what the instances of one output folder tell to other brokers, and what those tell into mirrors
//! ([`super::mirror`]). Called by the hidden process ([`super::main`]); ends when it is told to, or to begin anew.
//!
//! LLMP 0.16.1 gives the transport between brokers (TCP, a thread for each) and the forwarding. It numbers clients twice, once in the broker
//! and once in its listener, and a broker that connects while it listens gives two clients one number: they drop each other's messages. So this
//! one registers itself first, connects second and listens last, and whoever loses its remote broker begins anew as a whole.

use super::mirror::{MirrorError, Shelf};
use super::wire::{self, Body, Have, Hello, Letter, Wrong};
use crate::campaign::state::Identity;
use crossbeam::channel::{Receiver, Sender, unbounded};
use libafl_bolts::ClientId;
use libafl_bolts::llmp::{
    Flags, Listener, LlmpBroker, LlmpBrokerInner, LlmpHook, LlmpMsgHookResult, LlmpSharedMap, Tag,
    TcpResponse,
};
use libafl_bolts::shmem::{ShMemProvider, StdShMem, StdShMemProvider};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::io::Read;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream, ToSocketAddrs};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use warren_executor::Locked;

/// How the lines begin that say where it listens, and whether its remote broker is there.
pub(super) const LISTENS: &str = "listens on ";
pub(super) const JOINED: &str = "joined the broker at ";
pub(super) const AWAY: &str = "the broker at ";

/// Of our messages.
const TAG: Tag = Tag(0x5741_5252);
/// LLMP's word that a broker goes: its threads end by it.
const LLMP_EXITING: Tag = Tag(0x013C_5171);
/// Between two turns.
const TURN: Duration = Duration::from_millis(10);
/// Between two hellos. LLMP itself passes on what is new every 3 s at the latest.
const HELLO: Duration = Duration::from_secs(2);
/// A remote broker that said nothing for so long is joined anew.
const SILENT: Duration = Duration::from_secs(20);
/// At the end, so long for the others to have everything.
const LAST: Duration = Duration::from_secs(8);
/// Between two looks whether the listener still answers: LLMP's has no time limit of its own.
const PROBE: Duration = Duration::from_secs(30);
/// How long a broker may take to answer.
const ANSWER: Duration = Duration::from_secs(5);
/// LLMP keeps every page for those that join later: after so many bytes, whoever wrote them, a broker begins anew.
const PAGES: usize = 64 << 20;
/// Largest hello of an LLMP broker: its page's description and a host name.
const HELLO_MAX: u32 = 4096;

/// What a broker is asked for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Config {
    /// The output folder.
    pub out: PathBuf,
    /// What campaigns must have in common to hear each other.
    pub identity: Identity,
    /// Where it listens; port 0: any that is free.
    pub listen: SocketAddr,
    /// HOST:PORT of the broker it joins.
    pub remote: Option<String>,
}

/// Why a broker ended although nobody asked it to.
#[derive(Debug, thiserror::Error)]
pub enum BrokerError {
    #[error(
        "{} has a broker already ({}): one carries all instances of an output folder; leave --broker-port and --remote-broker to it, or leave this one as it is: it begins when that one ends",
        .0.display(), .1
    )]
    Another(PathBuf, std::io::Error),
    #[error("listening on {at}: {source}")]
    Listen {
        at: SocketAddr,
        source: std::io::Error,
    },
    #[error("{doing}: {source}")]
    Llmp {
        doing: &'static str,
        source: libafl_bolts::Error,
    },
    /// Not an error: a new one takes its place.
    #[error("{0}")]
    Anew(String),
}

fn llmp(doing: &'static str) -> impl FnOnce(libafl_bolts::Error) -> BrokerError {
    move |source| BrokerError::Llmp { doing, source }
}

/// What LLMP asks about each message: what is ours comes in, and only that is passed on, once.
struct Post {
    key: u64,
    me: u64,
    seen: BTreeMap<u64, u64>,
    to: Sender<Came>,
}

/// What came.
struct Came {
    client: ClientId,
    letter: Result<Letter, Wrong>,
    /// Bytes of it that go on LLMP's pages, for it is passed on.
    passed: usize,
}

impl<SHM, SP> LlmpHook<SHM, SP> for Post {
    fn on_new_message(
        &mut self,
        _broker: &mut LlmpBrokerInner<SHM, SP>,
        client: ClientId,
        tag: &mut Tag,
        _flags: &mut Flags,
        bytes: &mut [u8],
        _more: &mut Vec<(Tag, Flags, Vec<u8>)>,
    ) -> Result<LlmpMsgHookResult, libafl_bolts::Error> {
        let letter = if *tag == TAG {
            Letter::from_bytes(bytes)
        } else {
            Err(Wrong::Damaged)
        };
        let pass = letter.as_ref().is_ok_and(|l| {
            let seen = self.seen.get(&l.origin);
            l.origin != self.me && seen.is_none_or(|s| *s < l.serial)
        });
        if let (Ok(l), true) = (&letter, pass) {
            self.seen.insert(l.origin, l.serial);
        }
        let on = pass && letter.as_ref().is_ok_and(|l| l.key == self.key);
        if pass || letter.is_err() {
            let passed = if on { bytes.len() } else { 0 };
            // The receiver lives as long as the broker.
            let _ = self.to.send(Came {
                client,
                letter,
                passed,
            });
        }
        Ok(if on {
            LlmpMsgHookResult::ForwardToClients
        } else {
            LlmpMsgHookResult::Handled
        })
    }
}

type Broker = LlmpBroker<(Post, ()), StdShMem, StdShMemProvider>;

/// Another broker, by its last hello.
struct Peer {
    /// Of its first hello. Whoever joins gets all that LLMP's pages hold, hellos of brokers that ended long ago among it.
    since: Instant,
    heard: Instant,
    own: Vec<String>,
    have: BTreeMap<String, Have>,
    /// Its last hello is not answered yet.
    owed: bool,
    answered: Option<Instant>,
}

impl Peer {
    /// A hello is answered, but not each of many that come at once.
    fn is_due(&self) -> bool {
        self.owed && self.answered.is_none_or(|t| t.elapsed() >= HELLO / 2)
    }

    /// It is there now, and not only its letters.
    fn lives(&self) -> bool {
        self.heard.duration_since(self.since) > 2 * HELLO
    }
}

struct Carrier<'a> {
    broker: Broker,
    shelf: Shelf,
    config: &'a Config,
    key: u64,
    me: u64,
    serial: u64,
    /// Bytes on LLMP's pages, about: letters of its own, and those that it passes on.
    bytes: usize,
    peers: BTreeMap<u64, Peer>,
    from: Receiver<Came>,
    /// The remote broker's number here, and when it said something last.
    remote: Option<(ClientId, Instant)>,
    say: &'a mut dyn FnMut(String),
}

/// Makes it, joins and listens; with it, the listener's thread and where that listens.
fn open<'a>(
    config: &'a Config,
    say: &'a mut dyn FnMut(String),
) -> Result<(Carrier<'a>, JoinHandle<()>, SocketAddr), BrokerError> {
    let mut provider = StdShMemProvider::new().map_err(llmp("asking for shared memory"))?;
    let (to, from) = unbounded();
    let (key, me) = (wire::key(&config.identity), origin());
    let post = Post {
        key,
        me,
        seen: BTreeMap::new(),
        to,
    };
    let mut broker = LlmpBroker::new(provider.clone(), (post, ()))
        .map_err(llmp("making the broker's memory"))?;
    // What the broker sends itself bears number 0, which a proxy must not have: it would take it for its own and pass it over.
    let page = provider
        .new_shmem(1 << 16)
        .map_err(llmp("making the broker's memory"))?;
    broker
        .inner_mut()
        .register_client(LlmpSharedMap::new(ClientId(0), page));
    let remote = match &config.remote {
        Some(at) => join(&mut broker, at, say).map(|id| (id, Instant::now())),
        None => None,
    };
    let wrong = |source| BrokerError::Listen {
        at: config.listen,
        source,
    };
    let listener = TcpListener::bind(config.listen).map_err(wrong)?;
    let at = listener.local_addr().map_err(wrong)?;
    let listens = broker
        .inner_mut()
        .launch_listener(Listener::Tcp(listener))
        .map_err(llmp("starting the listener"))?;
    say(format!("{LISTENS}{at}"));
    let carrier = Carrier {
        broker,
        shelf: Shelf::new(&config.out),
        config,
        key,
        me,
        serial: 0,
        bytes: 0,
        peers: BTreeMap::new(),
        from,
        remote,
        say,
    };
    Ok((carrier, listens, at))
}

/// Carries until `ending` is set, and then until the others have all, or 8 s. `say`: a line for the user, `alive`: called every other
/// second.
///
/// # Errors
/// [`BrokerError`]; `Anew` is none.
pub fn run(
    config: &Config,
    ending: &AtomicBool,
    say: &mut dyn FnMut(String),
    alive: &mut dyn FnMut(),
) -> Result<(), BrokerError> {
    let _lock = lock(&config.out)?;
    let (mut carrier, listens, at) = open(config, say)?;
    let mut hello: Option<Instant> = None;
    let mut ends: Option<Instant> = None;
    let began = Instant::now();
    let (probes, answers) = unbounded();
    let mut probed = began;
    loop {
        carrier.turn()?;
        if hello.is_none_or(|t| t.elapsed() >= HELLO) {
            hello = Some(Instant::now());
            alive();
            carrier.hello()?;
        }
        if ending.load(Ordering::SeqCst) {
            let since = *ends.get_or_insert_with(|| {
                // What the campaign told last goes at once.
                hello = None;
                Instant::now()
            });
            if since.elapsed() > LAST || carrier.all_told() {
                return carrier
                    .broker
                    .inner_mut()
                    .send_buf(LLMP_EXITING, &[])
                    .map_err(llmp("ending"));
            }
        } else {
            carrier.anew(began)?;
        }
        if listens.is_finished() {
            return Err(BrokerError::Anew("LLMP's listener has ended".into()));
        }
        if probed.elapsed() > PROBE {
            probed = Instant::now();
            let probes = probes.clone();
            std::thread::spawn(move || probes.send(answers_at(&reachable(at).to_string())));
        }
        if let Ok(Err(why)) = answers.try_recv() {
            return Err(BrokerError::Anew(format!(
                "LLMP's listener is held up by a connection that says nothing: {why}"
            )));
        }
        std::thread::sleep(TURN);
    }
}

impl Carrier<'_> {
    /// Takes in what has come.
    fn turn(&mut self) -> Result<(), BrokerError> {
        self.broker.broker_once().map_err(llmp("passing on"))?;
        while let Ok(came) = self.from.try_recv() {
            self.bytes += came.passed;
            if let Some((remote, heard)) = &mut self.remote
                && *remote == came.client
            {
                *heard = Instant::now();
            }
            match came.letter {
                Ok(letter) => self.read(letter),
                Err(Wrong::Version(v)) => (self.say)(format!(
                    "a broker of another Warren is refused: its letters have version {v}, this one reads {}",
                    wire::VERSION
                )),
                Err(Wrong::Damaged) => {
                    (self.say)(
                        "something that is no letter of Warren came, and was passed over".into(),
                    );
                }
            }
        }
        let due = self.peers.iter().filter(|(_, peer)| peer.is_due());
        for origin in due.map(|(origin, _)| *origin).collect::<Vec<u64>>() {
            self.answer(origin)?;
        }
        Ok(())
    }

    fn read(&mut self, letter: Letter) {
        if letter.key != self.key {
            if let Body::Hello(hello) = letter.body {
                let differences = hello.identity.differences(&self.config.identity);
                (self.say)(format!(
                    "a broker with instances {} is of another campaign, and refused: {}",
                    hello.own.join(", "),
                    differences.in_a_line()
                ));
            }
            return;
        }
        match letter.body {
            Body::Hello(hello) => self.note(letter.origin, hello),
            body => match self.shelf.take(&body) {
                Ok(()) => {}
                // What is left of an earlier one of ours is no second one.
                Err(MirrorError::TwoOfAName(_))
                    if !self.peers.get(&letter.origin).is_some_and(Peer::lives) => {}
                Err(e @ MirrorError::Io { .. }) => (self.say)(format!("{e}: tried again")),
                Err(e) => (self.say)(e.to_string()),
            },
        }
    }

    /// What another broker is and has: answered when it is due.
    fn note(&mut self, origin: u64, hello: Hello) {
        let now = Instant::now();
        let known = self.peers.get(&origin);
        let (since, answered) = known.map_or((now, None), |p| (p.since, p.answered));
        if known.is_none() {
            (self.say)(format!(
                "hears another broker; its instances: {}",
                if hello.own.is_empty() {
                    "none yet".into()
                } else {
                    hello.own.join(", ")
                }
            ));
        }
        let peer = Peer {
            since,
            heard: now,
            own: hello.own,
            have: hello.have,
            owed: true,
            answered,
        };
        self.peers.insert(origin, peer);
    }

    /// What a broker lacks of our instances.
    fn answer(&mut self, origin: u64) -> Result<(), BrokerError> {
        let Some(peer) = self.peers.get_mut(&origin) else {
            return Ok(());
        };
        (peer.owed, peer.answered) = (false, Some(Instant::now()));
        let (lives, theirs_own, have) = (peer.lives(), peer.own.clone(), peer.have.clone());
        for name in self.shelf.own() {
            if theirs_own.contains(&name) {
                if lives {
                    (self.say)(MirrorError::TwoOfAName(name).to_string());
                }
                continue;
            }
            let theirs = have.get(&name).copied().unwrap_or_default();
            match self.shelf.lacks(&name, theirs) {
                Ok(bodies) => {
                    for body in bodies {
                        self.send(body)?;
                    }
                }
                Err(e) => (self.say)(format!(
                    "reading what instance {name} told: {e}: tried again"
                )),
            }
        }
        Ok(())
    }

    fn hello(&mut self) -> Result<(), BrokerError> {
        self.peers.retain(|_, p| p.heard.elapsed() < SILENT);
        let hello = Hello {
            identity: self.config.identity.clone(),
            own: self.shelf.own(),
            have: self.shelf.have(),
        };
        self.send(Body::Hello(hello))
    }

    fn send(&mut self, body: Body) -> Result<(), BrokerError> {
        self.serial += 1;
        let letter = Letter {
            key: self.key,
            origin: self.me,
            serial: self.serial,
            body,
        };
        let bytes = letter.to_bytes();
        self.bytes += bytes.len();
        self.broker
            .inner_mut()
            .send_buf(TAG, &bytes)
            .map_err(llmp("sending"))
    }

    /// Everybody who is there has everything of our instances.
    fn all_told(&self) -> bool {
        let own = self.shelf.own();
        self.peers.values().all(|p| {
            own.iter().filter(|n| !p.own.contains(n)).all(|n| {
                let theirs = p.have.get(n).copied().unwrap_or_default();
                self.shelf.lacks(n, theirs).is_ok_and(|l| l.is_empty())
            })
        })
    }

    /// Whether a new broker is to take this one's place.
    fn anew(&self, began: Instant) -> Result<(), BrokerError> {
        if self.bytes > PAGES {
            return Err(BrokerError::Anew(
                "LLMP's pages are many: a new broker begins without them".into(),
            ));
        }
        let Some(at) = &self.config.remote else {
            return Ok(());
        };
        let heard = self.remote.map_or(began, |(_, heard)| heard);
        if heard.elapsed() < SILENT {
            return Ok(());
        }
        Err(BrokerError::Anew(format!(
            "{AWAY}{at} has said nothing for {} s: it is joined anew, again and again",
            SILENT.as_secs()
        )))
    }
}

/// Joins a broker; answers its number here. None: it is not there, and is tried again by the next one.
fn join(broker: &mut Broker, at: &str, say: &mut dyn FnMut(String)) -> Option<ClientId> {
    // LLMP waits for ever for a broker that says nothing, and believes whatever one says.
    if let Err(why) = answers_at(at) {
        say(format!(
            "{AWAY}{at} cannot be joined: {why}; tried again and again"
        ));
        return None;
    }
    let id = broker.inner().peek_next_client_id();
    match broker.inner_mut().connect_b2b(at) {
        Ok(()) => {
            say(format!("{JOINED}{at}"));
            Some(id)
        }
        Err(e) => {
            say(format!(
                "{AWAY}{at} cannot be joined: {e}; tried again and again"
            ));
            None
        }
    }
}

/// Whether an LLMP broker answers there, within 5 s.
fn answers_at(at: &str) -> Result<(), String> {
    let addresses = at.to_socket_addrs().map_err(|e| e.to_string())?;
    let mut stream = Err("the name has no address".to_owned());
    for address in addresses {
        stream = TcpStream::connect_timeout(&address, ANSWER).map_err(|e| e.to_string());
        if stream.is_ok() {
            break;
        }
    }
    let mut stream = stream?;
    stream
        .set_read_timeout(Some(ANSWER))
        .map_err(|e| e.to_string())?;
    let mut size = [0; 4];
    stream
        .read_exact(&mut size)
        .map_err(|e| format!("it says nothing ({e})"))?;
    let size = u32::from_be_bytes(size);
    let other = || "what answers there is no LLMP broker of this version".to_owned();
    if size > HELLO_MAX {
        return Err(other());
    }
    let mut hello = Vec::new();
    stream
        .take(u64::from(size))
        .read_to_end(&mut hello)
        .map_err(|e| format!("it stopped in the middle ({e})"))?;
    match TcpResponse::try_from(hello) {
        Ok(TcpResponse::BrokerConnectHello { .. }) => Ok(()),
        _ => Err(other()),
    }
}

/// Where this machine reaches what listens there.
fn reachable(at: SocketAddr) -> SocketAddr {
    if at.ip().is_unspecified() {
        SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), at.port())
    } else {
        at
    }
}

/// A number no other broker has.
fn origin() -> u64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    let host = std::fs::read_to_string("/proc/sys/kernel/random/uuid").unwrap_or_default();
    let text = format!("{now:?} {} {host}", std::process::id());
    warren_model::ids::fnv1a(text.as_bytes())
}

/// One broker an output folder: two would write the same mirrors.
fn lock(out: &Path) -> Result<Locked, BrokerError> {
    let wrong = |e| BrokerError::Another(out.to_owned(), e);
    std::fs::create_dir_all(out).map_err(wrong)?;
    let file = std::fs::File::create(out.join(".broker")).map_err(wrong)?;
    file.try_lock().map_err(|e| wrong(e.into()))?;
    Ok(Locked::new(file))
}

#[cfg(test)]
mod tests;
