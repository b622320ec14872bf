//! Files and the terminal's size: bounded reads, writes that happen whole or not at all.

use std::fs::File;
use std::io::{ErrorKind, Read as _, Write as _};
use std::path::Path;

use serde::de::DeserializeOwned;

use crate::document::{Body, Document, ReadError};
use crate::units::{Bytes, MIB};
use crate::words::{Message, Problem};

/// Documents and configs larger than this are not ours.
pub const TEXT_LIMIT: Bytes = Bytes(64 * MIB);

/// The whole of a text file, refused when it is larger than `limit`.
pub fn read_text(path: &Path, limit: Bytes) -> Result<String, Problem> {
    let bytes = read_bytes(path, limit)?;
    String::from_utf8(bytes).map_err(|_| Problem::new(named("file-not-utf8", path)))
}

pub fn read_bytes(path: &Path, limit: Bytes) -> Result<Vec<u8>, Problem> {
    let file = File::open(path).map_err(|error| unreadable(path, &error))?;
    if file.metadata().is_ok_and(|meta| meta.is_dir()) {
        return Err(Problem::new(named("file-is-folder", path)));
    }
    let mut bytes = Vec::new();
    file.take(limit.get() + 1).read_to_end(&mut bytes).map_err(|error| unreadable(path, &error))?;
    if bytes.len() as u64 > limit.get() {
        return Err(Problem::new(named("file-too-large", path).with("limit", limit)));
    }
    Ok(bytes)
}

/// Whether something is there. A default file that cannot be looked at counts as there, so that reading it says why.
pub fn exists(path: &Path) -> bool {
    path.try_exists().unwrap_or(true)
}

/// For reading in pieces.
pub fn open(path: &Path) -> Result<File, Problem> {
    let file = File::open(path).map_err(|error| unreadable(path, &error))?;
    if file.metadata().is_ok_and(|meta| meta.is_dir()) {
        return Err(Problem::new(named("file-is-folder", path)));
    }
    Ok(file)
}

/// The commit that is checked out in the repository around this folder, read from its files.
pub fn git_commit(folder: &Path) -> Option<String> {
    let repository = folder.ancestors().map(|folder| folder.join(".git")).find(|path| path.exists())?;
    let limit = Bytes(MIB);
    let read = |path: &Path| read_text(path, limit).ok().map(|text| text.trim().to_owned());
    // A worktree or submodule has a file here that names the folder.
    let repository = match read(&repository).and_then(|text| text.strip_prefix("gitdir: ").map(str::to_owned))
    {
        Some(path) => folder.join(path),
        None => repository,
    };
    let head = read(&repository.join("HEAD"))?;
    let Some(name) = head.strip_prefix("ref: ") else { return Some(head) };
    // Branches of a worktree are kept in the folder of the whole repository.
    let shared =
        read(&repository.join("commondir")).map_or_else(|| repository.clone(), |p| repository.join(p));
    [&repository, &shared].iter().find_map(|place| read(&place.join(name))).or_else(|| {
        let packed = read(&shared.join("packed-refs"))?;
        packed.lines().find_map(|line| line.strip_suffix(name).map(|hash| hash.trim().to_owned()))
    })
}

/// A document of the kind that `B` names.
pub fn read_document<B: Body + DeserializeOwned>(path: &Path) -> Result<Document<B>, Problem> {
    let text = read_text(path, TEXT_LIMIT)
        .map_err(|problem| problem.hint(Message::new("document-hint").with("kind", B::KIND.to_string())))?;
    Document::from_json(&text).map_err(|cause| {
        let hint = match cause {
            ReadError::NewerSchema { .. } => Message::new("document-newer-hint"),
            _ => Message::new("document-hint").with("kind", B::KIND.to_string()),
        };
        Problem::new(named("document-unreadable", path).with("cause", cause.message())).hint(hint)
    })
}

/// Written beside its place, then renamed: a reader sees the old file or the new one, never a part.
pub fn write_atomically(path: &Path, bytes: &[u8]) -> Result<(), Problem> {
    let folder = match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    let attempt = || -> std::io::Result<()> {
        // A device or a pipe (`/dev/stdout`) is written to; renaming over it would replace it.
        if path.exists() && !path.is_file() {
            return File::options().write(true).open(path)?.write_all(bytes);
        }
        let mut file = tempfile::Builder::new().prefix(".onecard-").tempfile_in(folder)?;
        file.write_all(bytes)?;
        file.as_file().sync_all()?;
        set_ordinary_mode(file.as_file(), path);
        file.persist(path).map_err(|error| error.error)?;
        Ok(())
    };
    attempt().map_err(|error| {
        Problem::new(named("file-unwritable", path).with("cause", plain(&error)))
            .hint(Message::new("file-unwritable-hint"))
    })
}

pub fn make_folder(path: &Path) -> Result<(), Problem> {
    std::fs::create_dir_all(path)
        .map_err(|error| Problem::new(named("file-unwritable", path).with("cause", plain(&error))))
}

/// What we made and need no longer. One that is not there is gone already.
pub fn remove(path: &Path) {
    let _ = std::fs::remove_file(path);
}

/// Temporary files are private; a document is an ordinary file, or keeps the mode of the one it replaces.
#[cfg(unix)]
fn set_ordinary_mode(file: &File, replaced: &Path) {
    use std::os::unix::fs::PermissionsExt as _;
    let mode = std::fs::metadata(replaced).map_or_else(
        |_| {
            // umask can only be read by setting it, which other threads would see; a fresh file shows it.
            0o644
        },
        |meta| meta.permissions().mode(),
    );
    // A file system without modes keeps its own.
    let _ = file.set_permissions(std::fs::Permissions::from_mode(mode));
}

#[cfg(not(unix))]
fn set_ordinary_mode(_file: &File, _replaced: &Path) {}

fn named(id: &'static str, path: &Path) -> Message {
    Message::new(id).with("path", path.display().to_string())
}

pub fn unreadable(path: &Path, error: &std::io::Error) -> Problem {
    Problem::new(match error.kind() {
        ErrorKind::NotFound => named("file-not-found", path),
        ErrorKind::IsADirectory => named("file-is-folder", path),
        _ => named("file-unreadable", path).with("cause", plain(error)),
    })
}

/// The system's words in lower case, without its error number.
pub fn plain(error: &std::io::Error) -> String {
    let known = match error.kind() {
        ErrorKind::NotFound => Some(Message::new("system-not-found")),
        ErrorKind::PermissionDenied => Some(Message::new("system-permission")),
        ErrorKind::ReadOnlyFilesystem => Some(Message::new("system-read-only")),
        ErrorKind::StorageFull => Some(Message::new("system-full")),
        ErrorKind::ConnectionRefused => Some(Message::new("system-refused")),
        ErrorKind::ConnectionReset => Some(Message::new("system-reset")),
        ErrorKind::HostUnreachable | ErrorKind::NetworkUnreachable => {
            Some(Message::new("system-unreachable"))
        }
        ErrorKind::TimedOut => Some(Message::new("system-timeout")),
        ErrorKind::NotADirectory => Some(Message::new("system-not-a-folder")),
        _ => None,
    };
    if let Some(known) = known {
        return known.to_string();
    }
    let text = error.to_string();
    // The resolver's failure has no kind of its own.
    if text.starts_with("failed to lookup address information") {
        return Message::new("system-no-host").to_string();
    }
    let text = text.split(" (os error").next().unwrap_or(&text);
    let mut chars = text.chars();
    chars.next().map_or_else(String::new, |first| first.to_lowercase().chain(chars).collect())
}

#[cfg(unix)]
fn width_of(fd: impl std::os::fd::AsFd) -> Option<u16> {
    rustix::termios::tcgetwinsize(fd).ok().map(|size| size.ws_col).filter(|columns| *columns > 0)
}

#[cfg(unix)]
pub fn terminal_width_of_stdout() -> Option<u16> {
    width_of(std::io::stdout())
}

#[cfg(unix)]
pub fn terminal_width_of_stderr() -> Option<u16> {
    width_of(std::io::stderr())
}

#[cfg(not(unix))]
pub fn terminal_width_of_stdout() -> Option<u16> {
    None
}

#[cfg(not(unix))]
pub fn terminal_width_of_stderr() -> Option<u16> {
    None
}

#[cfg(test)]
mod tests {
    use super::{read_text, write_atomically};
    use crate::units::Bytes;

    #[test]
    fn a_file_is_written_whole_and_leaves_nothing_beside_it() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("a.json");
        write_atomically(&path, b"one").expect("written");
        write_atomically(&path, b"two").expect("replaced");
        assert_eq!(read_text(&path, Bytes(3)).as_deref(), Ok("two"));
        assert_eq!(std::fs::read_dir(folder.path()).expect("listed").count(), 1);
    }

    #[test]
    fn what_cannot_be_read_or_written_is_one_sentence() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let inside = |name: &str| folder.path().join(name);
        let shown = |problem: super::Problem| {
            problem.to_string().replace(&folder.path().display().to_string(), "DIR")
        };
        let read = |name: &str| read_text(&inside(name), Bytes(3)).map_err(shown);
        assert_eq!(read("none"), Err("cannot read `DIR/none`: no such file".to_owned()));
        assert_eq!(read(""), Err("cannot read `DIR/`: it is a folder".to_owned()));
        std::fs::write(inside("big"), "four").expect("written");
        assert_eq!(read("big"), Err("cannot read `DIR/big`: larger than 3 B".to_owned()));
        std::fs::write(inside("raw"), [0xff]).expect("written");
        assert_eq!(read("raw"), Err("cannot read `DIR/raw`: not UTF-8 text".to_owned()));
        let written = write_atomically(&inside("no/such/place"), b"x").map_err(shown);
        assert_eq!(written, Err("cannot write `DIR/no/such/place`: no such file or directory".to_owned()));
    }
}
