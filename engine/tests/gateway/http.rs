//! HTTP as bytes: what a client sends and receives, nothing tidied up.

use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpStream};

use coldfront_engine::gateway::Registration;

/// A request or an answer as it was on the wire.
#[derive(Debug, Clone)]
pub struct Message {
    /// First line, without its end.
    pub start: String,
    /// Names in lower case.
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

impl Message {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(n, _)| n == name).map(|(_, v)| v.as_str())
    }

    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// Of an answer.
    pub fn status(&self) -> u16 {
        self.start.split(' ').nth(1).and_then(|s| s.parse().ok()).expect("a status line")
    }

    /// Of an error answer: the message of its Iceberg error model.
    pub fn error(&self) -> String {
        let json: serde_json::Value = serde_json::from_slice(&self.body).expect("an error model");
        json["error"]["message"].as_str().expect("a message").to_owned()
    }
}

/// Reads start line and headers; None at the end of the stream.
pub fn read_head(from: &mut impl BufRead) -> Option<Message> {
    let mut line = || {
        let mut line = String::new();
        from.read_line(&mut line).ok().filter(|n| *n > 0)?;
        Some(line.trim_end().to_owned())
    };
    let start = line()?;
    let mut headers = Vec::new();
    loop {
        let line = line()?;
        match line.split_once(':') {
            Some((name, value)) => headers.push((name.to_ascii_lowercase(), value.trim().to_owned())),
            None => return Some(Message { start, headers, body: Vec::new() }),
        }
    }
}

/// Reads a whole message; None if the stream ends before.
pub fn read(from: &mut impl BufRead) -> Option<Message> {
    let mut message = read_head(from)?;
    if message.header("transfer-encoding") == Some("chunked") {
        while let Some(chunk) = read_chunk(from)? {
            message.body.extend(chunk);
        }
    } else if let Some(length) = message.header("content-length") {
        message.body = vec![0; length.parse().ok()?];
        from.read_exact(&mut message.body).ok()?;
    }
    Some(message)
}

/// One chunk of a chunked body; `Some(None)` at its end.
pub fn read_chunk(from: &mut impl BufRead) -> Option<Option<Vec<u8>>> {
    let mut size = String::new();
    from.read_line(&mut size).ok().filter(|n| *n > 0)?;
    let size = usize::from_str_radix(size.trim(), 16).ok()?;
    let mut chunk = vec![0; size + 2];
    from.read_exact(&mut chunk).ok()?;
    chunk.truncate(size);
    Some((size > 0).then_some(chunk))
}

/// An Iceberg client of one registration, one connection per request.
pub struct Client {
    address: SocketAddr,
    id: String,
    token: String,
}

impl Client {
    pub fn of(registration: &Registration) -> Self {
        let address = registration.endpoint["http://".len()..].split('/').next().unwrap();
        let (id, token) = (registration.id.clone(), registration.token.clone());
        Self { address: address.parse().unwrap(), id, token }
    }

    pub fn with_token(self, token: &str) -> Self {
        Self { token: token.to_owned(), ..self }
    }

    /// Sends and leaves the answer to the caller.
    pub fn open(&self, method: &str, path: &str, headers: &str, body: &[u8]) -> BufReader<TcpStream> {
        let mut stream = TcpStream::connect(self.address).unwrap();
        let Self { id, token, .. } = self;
        let length = body.len();
        let head = format!(
            "{method} /{id}{path} HTTP/1.1\r\nHost: gateway\r\nAuthorization: Bearer {token}\r\n\
             Content-Length: {length}\r\nConnection: close\r\n{headers}\r\n"
        );
        stream.write_all(head.as_bytes()).unwrap();
        stream.write_all(body).unwrap();
        BufReader::new(stream)
    }

    pub fn get(&self, path: &str) -> Message {
        read(&mut self.open("GET", path, "", b"")).expect("an answer")
    }

    pub fn send(&self, method: &str, path: &str, body: &str) -> Message {
        let headers = "Content-Type: application/json\r\n";
        let mut answer = self.open(method, path, headers, body.as_bytes());
        if method == "HEAD" {
            return read_head(&mut answer).expect("an answer");
        }
        read(&mut answer).expect("an answer")
    }

    pub fn post(&self, path: &str, body: &str) -> Message {
        self.send("POST", path, body)
    }
}
