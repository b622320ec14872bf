//! A release served on the loopback interface.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};

use crate::script;

pub(crate) const ARCHIVE: &str = "onecard-x86_64-unknown-linux-gnu.tar.gz";

/// What the server answers to one path.
#[derive(Clone)]
pub(crate) enum Answer {
    Whole(Vec<u8>),
    /// Promises all of it, sends half and closes.
    Half(Vec<u8>),
    /// As GitHub does: the file lies elsewhere.
    Moved(String),
}

type Files = Arc<Mutex<BTreeMap<String, Answer>>>;

/// A release on 127.0.0.1, until it is dropped.
pub(crate) struct Release {
    port: u16,
    files: Files,
    asked: Arc<Mutex<Vec<String>>>,
}

impl Release {
    pub(crate) fn serve(files: BTreeMap<String, Answer>) -> Release {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let asked = Arc::new(Mutex::new(Vec::new()));
        let noted = Arc::clone(&asked);
        let files: Files = Arc::new(Mutex::new(files));
        let served = Arc::clone(&files);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let Some(path) = answer(stream, &served) else { continue };
                if path == "/stop" {
                    break;
                }
                noted.lock().unwrap().push(path);
            }
        });
        Release { port, files, asked }
    }

    pub(crate) fn server(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    pub(crate) fn url(&self) -> String {
        self.server() + "/releases"
    }

    pub(crate) fn put(&self, path: &str, answer: Answer) {
        self.files.lock().unwrap().insert(path.to_owned(), answer);
    }

    pub(crate) fn asked(&self) -> Vec<String> {
        self.asked.lock().unwrap().clone()
    }
}

impl Drop for Release {
    fn drop(&mut self) {
        if let Ok(mut stream) = TcpStream::connect(("127.0.0.1", self.port)) {
            let _ = stream.write_all(b"GET /stop HTTP/1.0\r\n\r\n");
        }
    }
}

fn answer(mut stream: TcpStream, files: &Files) -> Option<String> {
    let mut lines = BufReader::new(stream.try_clone().ok()?).lines();
    let path = lines.next()?.ok()?.split(' ').nth(1)?.to_owned();
    for line in lines {
        if line.ok()?.is_empty() {
            break;
        }
    }
    let head = |status: &str, length: usize| {
        format!("HTTP/1.1 {status}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n").into_bytes()
    };
    let bytes = match files.lock().unwrap().get(&path) {
        Some(Answer::Whole(body)) => [head("200 OK", body.len()), body.clone()].concat(),
        Some(Answer::Half(body)) => [head("200 OK", body.len()), body[..body.len() / 2].to_vec()].concat(),
        Some(Answer::Moved(to)) => {
            format!("HTTP/1.1 302 Found\r\nLocation: {to}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
                .into_bytes()
        }
        None => head("404 Not Found", 0),
    };
    let _ = stream.write_all(&bytes);
    Some(path)
}

/// An archive as the release workflow makes it, around a program that only says its version.
pub(crate) fn archive(folder: &Path, target: &str, program: &str) -> Vec<u8> {
    let inside = folder.join(format!("onecard-{target}"));
    fs::create_dir_all(&inside).unwrap();
    script(&inside.join("onecard"), program);
    fs::write(inside.join("LICENSE"), "MIT\n").unwrap();
    let made = Command::new("tar")
        .args(["-czf", "made.tar.gz"])
        .arg(inside.file_name().unwrap())
        .current_dir(folder)
        .status();
    assert!(made.unwrap().success());
    fs::read(folder.join("made.tar.gz")).unwrap()
}

fn sha256(bytes: &[u8]) -> String {
    let mut child = Command::new("sha256sum").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(bytes).unwrap();
    let mut text = String::new();
    child.stdout.take().unwrap().read_to_string(&mut text).unwrap();
    child.wait().unwrap();
    text.split(' ').next().unwrap().to_owned()
}

pub(crate) const PROGRAM: &str = "#!/bin/sh\necho 'onecard 0.1.0'\n";

/// The files of version 0.1.0, which is also the latest.
pub(crate) fn release_of(program: &str) -> BTreeMap<String, Answer> {
    let folder = tempfile::tempdir().unwrap();
    let mut files = BTreeMap::new();
    let mut sums = String::new();
    for target in ["x86_64-unknown-linux-gnu", "aarch64-unknown-linux-gnu", "aarch64-apple-darwin"] {
        let bytes = archive(folder.path(), target, program);
        sums = sums + &sha256(&bytes) + "  onecard-" + target + ".tar.gz\n";
        files.insert(format!("/releases/download/v0.1.0/onecard-{target}.tar.gz"), Answer::Whole(bytes));
    }
    files.insert("/releases/download/v0.1.0/SHA256SUMS".to_owned(), Answer::Whole(sums.into_bytes()));
    for name in files.keys().cloned().collect::<Vec<_>>() {
        let latest = name.replace("/download/v0.1.0/", "/latest/download/");
        files.insert(latest, Answer::Moved(name));
    }
    files
}
