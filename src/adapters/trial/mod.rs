//! Runs of the recovery test: each is a probe of its own, started, listened to, interrupted and cleared away.
//!
//! A run is the child of a `onecard probe` process, so that its document is made as any other is. Every process of a
//! run carries a token in its environment, by which it is found wherever it went: a launcher's workers in sessions of
//! their own, a daemon that left its parent. A keeper, a third process, waits for our end: should we be killed, it
//! ends what carries the token and removes the workplace.

pub mod copy;
pub mod folder;
pub mod keeper;
pub mod listen;
pub mod run;
pub mod tree;
pub mod vram;

use std::io;
use std::path::{Path, PathBuf};

use keeper::Keeper;

/// In the environment of every process of a run.
pub const TOKEN: &str = "ONECARD_RECOVERY";
/// Where a run is to write.
pub const OUT: &str = "ONECARD_OUT";

/// The one folder that everything of the test is in. Dropping it removes it.
#[derive(Debug)]
pub struct Workplace {
    folder: tempfile::TempDir,
    pub token: String,
    keeper: Keeper,
}

impl Workplace {
    /// Below `scratch`, else below the system's temporary folder.
    pub fn make(scratch: Option<&Path>) -> io::Result<Workplace> {
        let below = match scratch {
            Some(scratch) => scratch.canonicalize()?,
            None => std::env::temp_dir().canonicalize()?,
        };
        let mut builder = tempfile::Builder::new();
        builder.prefix("onecard-recovery-");
        builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o700));
        let folder = builder.tempdir_in(below)?;
        // The folder's name is as unlikely as any token, and says whose processes these are.
        let name = folder.path().file_name().map(|name| name.to_string_lossy().into_owned());
        let token = format!("{}-{}", name.unwrap_or_default(), std::process::id());
        let keeper = Keeper::start(&token, folder.path())?;
        Ok(Workplace { folder, token, keeper })
    }

    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    /// A run's own folder, new and empty.
    pub fn out(&self, name: &str) -> io::Result<PathBuf> {
        let path = self.folder.path().join(name);
        std::fs::create_dir(&path)?;
        Ok(path)
    }

    /// Ends whatever is left, removes everything, and lets the keeper go.
    pub fn clear(self) -> Vec<String> {
        let left = tree::end_all(&self.token, tree::Whom::Everyone);
        let Workplace { folder, keeper, .. } = self;
        // What cannot be removed now, the keeper tries again.
        if folder.close().is_ok() {
            keeper.dismiss();
        }
        left
    }
}
