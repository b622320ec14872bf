//! A hub of one thread a request: just enough HTTP to answer, misbehave and remember what was asked.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

#[derive(Debug, Clone)]
pub(crate) struct Request {
    pub(crate) path: String,
    pub(crate) headers: BTreeMap<String, String>,
}

pub(crate) enum Reply {
    /// Status, extra headers, body.
    Say(u16, Vec<(&'static str, String)>, Vec<u8>),
    /// A file, by range where one is asked for.
    File(Vec<u8>),
    /// Announces more than it sends.
    Short(Vec<u8>, usize),
    /// Never answers.
    Hang,
}

pub(crate) struct Server {
    pub(crate) endpoint: String,
    seen: Arc<Mutex<Vec<Request>>>,
}

impl Server {
    pub(crate) fn start(answer: impl Fn(&Request) -> Reply + Send + Sync + 'static) -> Server {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let endpoint = format!("http://{}", listener.local_addr().unwrap());
        let seen = Arc::new(Mutex::new(Vec::new()));
        let (answer, log) = (Arc::new(answer), Arc::clone(&seen));
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (answer, log) = (Arc::clone(&answer), Arc::clone(&log));
                std::thread::spawn(move || serve(stream, &*answer, &log));
            }
        });
        Server { endpoint, seen }
    }

    pub(crate) fn requests(&self) -> Vec<Request> {
        self.seen.lock().unwrap().clone()
    }
}

fn serve(mut stream: TcpStream, answer: &dyn Fn(&Request) -> Reply, log: &Mutex<Vec<Request>>) {
    let mut lines = BufReader::new(stream.try_clone().unwrap()).lines();
    let Some(Ok(first)) = lines.next() else { return };
    let path = first.split(' ').nth(1).unwrap_or_default().to_owned();
    let mut headers = BTreeMap::new();
    for line in lines.by_ref() {
        let line = line.unwrap_or_default();
        let Some((name, value)) = line.split_once(':') else { break };
        headers.insert(name.to_ascii_lowercase(), value.trim().to_owned());
    }
    let request = Request { path, headers };
    log.lock().unwrap().push(request.clone());
    match answer(&request) {
        Reply::Hang => std::thread::sleep(std::time::Duration::from_secs(20)),
        Reply::Say(status, extra, body) => send(&mut stream, status, &extra, &body, body.len()),
        Reply::Short(body, announced) => send(&mut stream, 200, &[], &body, announced),
        Reply::File(body) => {
            let range = request.headers.get("range").and_then(|range| {
                let (first, last) = range.strip_prefix("bytes=")?.split_once('-')?;
                Some((first.parse::<usize>().ok()?, last.parse::<usize>().ok()?))
            });
            match range {
                Some((first, last)) => {
                    let last = (last + 1).min(body.len());
                    let content = format!("bytes {first}-{}/{}", last - 1, body.len());
                    send(&mut stream, 206, &[("Content-Range", content)], &body[first..last], last - first);
                }
                None => send(&mut stream, 200, &[], &body, body.len()),
            }
        }
    }
}

fn send(stream: &mut TcpStream, status: u16, extra: &[(&'static str, String)], body: &[u8], length: usize) {
    let mut head = format!("HTTP/1.1 {status} X\r\nContent-Length: {length}\r\nConnection: close\r\n");
    for (name, value) in extra {
        head.extend([name, ": ", value, "\r\n"]);
    }
    head.push_str("\r\n");
    // The other side may hang up once it has what it wanted.
    let _ = stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(body));
}
