//! What this binary does when SLOT_HELPER says so: servers and clients inside a slot, a Warren that is killed.

use super::*;

/// Does what SLOT_HELPER names; returns at once without it.
pub fn run() {
    let Ok(what) = std::env::var("SLOT_HELPER") else {
        return;
    };
    let (what, arg) = what.split_once(' ').unwrap();
    match what {
        "echo" => serve(arg, |mut stream| {
            let reader = BufReader::new(stream.try_clone().unwrap());
            for line in reader.lines().map_while(Result::ok) {
                println!("got {line}");
                if writeln!(stream, "{line}").is_err() {
                    return;
                }
            }
        }),
        "word" => serve(arg, |mut stream| {
            let mut word = [0u8; 4];
            if stream.read_exact(&mut word).is_ok() {
                let _ = write!(stream, "you said {}", String::from_utf8_lossy(&word));
            }
        }),
        "mute" => serve(arg, |_stream| std::thread::sleep(Duration::from_secs(600))),
        "clock" => {
            for n in 0.. {
                println!("at {n} {}", warren_executor::slot::now_ns());
                std::thread::sleep(20 * MS);
            }
        }
        "talk" => {
            // The other end may still start.
            let mut stream = loop {
                match TcpStream::connect(arg) {
                    Ok(stream) => break stream,
                    Err(_) => std::thread::sleep(20 * MS),
                }
            };
            stream.set_nodelay(true).unwrap();
            let reader = BufReader::new(stream.try_clone().unwrap());
            std::thread::spawn(move || {
                for line in reader.lines() {
                    println!("back {}", line.unwrap());
                }
            });
            for n in 0.. {
                writeln!(stream, "{n}").unwrap();
                std::thread::sleep(20 * MS);
            }
        }
        "hear" => {
            let mut stream = TcpStream::connect(arg).unwrap();
            println!("connected");
            let mut bytes = Vec::new();
            println!("end: {:?}", stream.read_to_end(&mut bytes).is_ok());
        }
        "dial" => {
            println!("dial: {:?}", TcpStream::connect(arg).map(drop));
            std::thread::sleep(Duration::from_secs(600));
        }
        "bye" => serve(arg, drop),
        // Closes with something unread.
        "rude" => serve(arg, |stream| drop(stream.peek(&mut [0; 1]))),
        "rest" => {
            // Closed at the other end; how often it can write once it may.
            let mut stream = TcpStream::connect(arg).unwrap();
            while !Path::new("write").exists() {
                std::thread::sleep(20 * MS);
            }
            let mut written = 0;
            while stream.write_all(b"more").is_ok() {
                written += 1;
                std::thread::sleep(20 * MS);
            }
            println!("\nwritten {written}");
        }
        "reset" => {
            let mut stream = TcpStream::connect(arg).unwrap();
            stream.write_all(b"unread").unwrap();
            while !Path::new("read").exists() {
                std::thread::sleep(20 * MS);
            }
            println!("\nread {:?}", stream.read(&mut [0; 8]));
            std::thread::sleep(Duration::from_secs(600));
        }
        "chatter" => serve(arg, |mut stream| {
            while stream.write_all(b"more").is_ok() {
                std::thread::sleep(20 * MS);
            }
        }),
        "own" => {
            let level = Level::from_number(arg.parse().unwrap()).unwrap();
            let slot = Slot::open(&SlotConfig::new(warren(), level)).unwrap();
            for i in 0..3 {
                slot.spawn(&spec(&slot, &format!("p{i}"), &["sleep", "600"]))
                    .unwrap();
            }
            // At level 3 another Warren may take the same number, and with it the folders' names, once this one is swept.
            fs::write(slot.root().join(mark(std::process::id())), "").unwrap();
            println!("\nslot {} {}", slot.init_pid(), slot.root().display());
            std::thread::sleep(Duration::from_secs(600));
        }
        other => panic!("no helper {other}"),
    }
}

/// The name of a file in the slot of the `own` that was this process.
pub fn mark(owner: u32) -> String {
    format!("mark-{owner}")
}

fn serve(addr: &str, each: fn(TcpStream)) {
    let listener = TcpListener::bind(addr).unwrap();
    for stream in listener.incoming() {
        let stream = stream.unwrap();
        stream.set_nodelay(true).unwrap();
        std::thread::spawn(move || each(stream));
    }
}
