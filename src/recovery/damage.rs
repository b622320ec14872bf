//! What can be wrong with the newest checkpoint when a job is resumed, and what resuming made of it.

use serde::{Deserialize, Serialize};

use super::observed::Observed;
use crate::units::Bytes;

/// A page: what a lost write leaves behind as zeros.
pub const PAGE: u64 = 4096;
/// Where the largest file is cut.
pub const CUT: f64 = 0.6;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Damage {
    /// The process died in the middle of a save.
    KilledWhileSaving,
    /// The file that a save writes last is not there.
    LastFileMissing,
    /// The largest file ends early.
    LargestFileCut,
    /// The folder, or the file, is there and empty.
    Emptied,
    /// A page of the largest file holds zeros.
    ZeroedPage,
}

/// Those that are made by hand on a copy.
pub const COPIES: [Damage; 4] =
    [Damage::LastFileMissing, Damage::LargestFileCut, Damage::Emptied, Damage::ZeroedPage];

impl Damage {
    pub fn key(self) -> &'static str {
        match self {
            Damage::KilledWhileSaving => "killed_while_saving",
            Damage::LastFileMissing => "last_file_missing",
            Damage::LargestFileCut => "largest_file_cut",
            Damage::Emptied => "emptied",
            Damage::ZeroedPage => "zeroed_page",
        }
    }
}

/// One file of the newest checkpoint; `order`: when it was last written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct File {
    pub path: String,
    pub bytes: Bytes,
    pub order: u128,
}

/// What is done to which file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    Remove(String),
    Cut { path: String, to: Bytes },
    Zero { path: String, from: u64, bytes: u64 },
}

/// The changes that make this damage, or `None` where the checkpoint has nothing that could be damaged so.
pub fn changes(damage: Damage, files: &[File]) -> Option<Vec<Change>> {
    let largest = files.iter().max_by_key(|file| (file.bytes, std::cmp::Reverse(&file.path)))?;
    match damage {
        Damage::KilledWhileSaving => None,
        Damage::LastFileMissing => {
            // The only file gone is a checkpoint gone: nothing is left to be mistaken for one.
            let last =
                files.iter().max_by_key(|file| (file.order, &file.path)).filter(|_| files.len() > 1)?;
            Some(vec![Change::Remove(last.path.clone())])
        }
        Damage::LargestFileCut => {
            let to = largest.bytes.scaled(CUT);
            (to < largest.bytes).then(|| vec![Change::Cut { path: largest.path.clone(), to }])
        }
        Damage::Emptied if files.len() > 1 => {
            Some(files.iter().map(|file| Change::Remove(file.path.clone())).collect())
        }
        Damage::Emptied => Some(vec![Change::Cut { path: largest.path.clone(), to: Bytes::ZERO }]),
        Damage::ZeroedPage => {
            // In the middle, where tensors lie; aligned as a lost page is.
            let from = largest.bytes.get() / 2 / PAGE * PAGE;
            (largest.bytes.get() >= 4 * PAGE)
                .then(|| vec![Change::Zero { path: largest.path.clone(), from, bytes: PAGE }])
        }
    }
}

/// What resuming made of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Met {
    /// It went on from an older, whole checkpoint.
    FellBack,
    /// It loaded the damaged one and trained on.
    TrainedOn,
    /// It began at the first step although older checkpoints were there.
    StartedOver,
    /// It ended with an error: a person is needed.
    Refused,
    /// It made no step and did not end.
    Hung,
}

impl Met {
    /// Whether the job helped itself without losing what it had.
    pub fn survived(self) -> bool {
        self == Met::FellBack
    }

    pub fn key(self) -> &'static str {
        match self {
            Met::FellBack => "fell-back",
            Met::TrainedOn => "trained-on",
            Met::StartedOver => "started-over",
            Met::Refused => "refused",
            Met::Hung => "hung",
        }
    }
}

/// From the step that it went on from. `newest`: of the damaged checkpoint; `older`: of those before it.
pub fn met(resumed: &Observed, from: Option<u64>, newest: u64, older: &[u64]) -> Option<Met> {
    if resumed.made == 0 {
        return None;
    }
    Some(match from? {
        0 if !older.contains(&0) => Met::StartedOver,
        from if from < newest => Met::FellBack,
        _ => Met::TrainedOn,
    })
}

#[cfg(test)]
mod tests {
    use super::{Change, Damage, File, changes};
    use crate::units::Bytes;

    fn file(path: &str, bytes: u64, order: u128) -> File {
        File { path: path.to_owned(), bytes: Bytes(bytes), order }
    }

    #[test]
    fn each_damage_is_done_to_the_file_that_it_names() {
        let files =
            [file("model.safetensors", 40_000, 1), file("optimizer.pt", 80_001, 2), file("state.json", 9, 3)];
        let of = |damage| changes(damage, &files).expect("possible");
        assert_eq!(of(Damage::LastFileMissing), [Change::Remove("state.json".to_owned())]);
        assert_eq!(
            of(Damage::LargestFileCut),
            [Change::Cut { path: "optimizer.pt".to_owned(), to: Bytes(48_001) }]
        );
        assert_eq!(
            of(Damage::ZeroedPage),
            [Change::Zero { path: "optimizer.pt".to_owned(), from: 36_864, bytes: 4096 }]
        );
        assert_eq!(of(Damage::Emptied).len(), 3);
    }

    #[test]
    fn a_checkpoint_of_one_file_is_not_damaged_by_taking_all_of_it_away() {
        let one = [file("last.pt", 100, 1)];
        assert_eq!(changes(Damage::LastFileMissing, &one), None);
        assert_eq!(changes(Damage::ZeroedPage, &one), None);
        assert_eq!(
            changes(Damage::Emptied, &one),
            Some(vec![Change::Cut { path: "last.pt".to_owned(), to: Bytes::ZERO }])
        );
        assert_eq!(changes(Damage::Emptied, &[]), None);
    }
}
