//! A peer on a TCP port that answers, stalls or hangs up as a test tells it: it stands for network faults, not for a
//! catalog.

use std::io::{BufReader, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use coldfront_common::frame::{CatalogAuth, Lake};

use crate::http::{self, Message};

/// What to do about a request.
pub enum Reply {
    /// Status, and a JSON body.
    Json(u16, &'static str),
    /// Status, and a body that needs no quoting.
    Text(u16, String),
    /// Hang up without an answer.
    HangUp,
    /// Write pieces of an answer, with a pause before each.
    Pieces(Vec<(Duration, Vec<u8>)>),
    /// Write this, then hang up.
    LastWords(Vec<u8>),
}

/// The peer. Its port stays bound while it lives.
pub struct Scripted {
    pub address: SocketAddr,
    requests: Arc<Mutex<Vec<Message>>>,
}

impl Scripted {
    /// `script` gets the number of the request, from 0, and the request.
    pub fn start(script: impl Fn(usize, &Message) -> Reply + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        Self::on(listener, script)
    }

    pub fn on(listener: TcpListener, script: impl Fn(usize, &Message) -> Reply + Send + Sync + 'static) -> Self {
        let address = listener.local_addr().unwrap();
        let requests = Arc::new(Mutex::new(Vec::new()));
        let (script, seen) = (Arc::new(script), requests.clone());
        thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let (script, seen) = (script.clone(), seen.clone());
                thread::spawn(move || converse(stream, &*script, &seen));
            }
        });
        Self { address, requests }
    }

    /// What arrived so far.
    pub fn requests(&self) -> Vec<Message> {
        self.requests.lock().unwrap().clone()
    }

    /// First lines of what arrived, without the protocol version.
    pub fn lines(&self) -> Vec<String> {
        self.requests().iter().map(|r| r.start.trim_end_matches(" HTTP/1.1").to_owned()).collect()
    }

    /// A lake whose catalog is this peer.
    pub fn lake(&self, catalog_auth: CatalogAuth) -> Lake {
        Lake {
            warehouse: "lake".to_owned(),
            catalog_uri: format!("http://{}", self.address),
            catalog_auth,
            storage: None,
        }
    }
}

fn converse(stream: TcpStream, script: &dyn Fn(usize, &Message) -> Reply, seen: &Mutex<Vec<Message>>) {
    let mut to = stream.try_clone().unwrap();
    let mut from = BufReader::new(stream);
    while let Some(request) = http::read(&mut from) {
        let number = {
            let mut seen = seen.lock().unwrap();
            seen.push(request.clone());
            seen.len() - 1
        };
        let sent = match script(number, &request) {
            Reply::Json(status, body) => to.write_all(&answer(status, body)),
            Reply::Text(status, body) => to.write_all(&answer(status, &body)),
            Reply::HangUp => {
                let _ = to.shutdown(Shutdown::Both);
                return;
            }
            Reply::LastWords(words) => {
                let _ = to.write_all(&words).and_then(|()| to.shutdown(Shutdown::Both));
                return;
            }
            Reply::Pieces(pieces) => pieces.iter().try_for_each(|(pause, piece)| {
                thread::sleep(*pause);
                to.write_all(piece)
            }),
        };
        if sent.is_err() {
            return;
        }
    }
}

/// An answer that promises to keep the connection.
pub fn answer(status: u16, body: &str) -> Vec<u8> {
    let length = body.len();
    format!("HTTP/1.1 {status} Said\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\r\n{body}")
        .into_bytes()
}
