//! Checkpoints in memory, whole and broken in the ways that interrupted and damaged ones are.

use std::collections::BTreeMap;
use std::io::{self, Cursor, Write as _};

use proptest::prelude::*;
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, ZipWriter};

use super::{CheckpointCheck, Depth, Format, Integrity, ReadSeek, Source, check, check_file};
use crate::units::Bytes;

struct Memory {
    name: &'static str,
    files: BTreeMap<String, Vec<u8>>,
}

impl Source for Memory {
    fn name(&self) -> String {
        self.name.to_owned()
    }
    fn files(&self) -> Vec<(String, Bytes)> {
        self.files.iter().map(|(name, bytes)| (name.clone(), Bytes(bytes.len() as u64))).collect()
    }
    fn open(&self, name: &str) -> io::Result<Box<dyn ReadSeek>> {
        Ok(Box::new(Cursor::new(self.files[name].clone())))
    }
}

/// As `torch.save` lays a file out: stored entries below one folder, one of them the pickle.
fn torch_file(tensor: &[u8]) -> Vec<u8> {
    let mut writer = ZipWriter::new(Cursor::new(Vec::new()));
    let stored = SimpleFileOptions::default().compression_method(CompressionMethod::Stored);
    for (name, bytes) in
        [("a/data.pkl", &b"\x80\x02}."[..]), ("a/data/0", tensor), ("a/version", &b"3\n"[..])]
    {
        writer.start_file(name, stored).expect("started");
        writer.write_all(bytes).expect("written");
    }
    writer.finish().expect("finished").into_inner()
}

fn safetensors_file(floats: usize) -> Vec<u8> {
    let header = format!(r#"{{"w":{{"dtype":"F32","shape":[{floats}],"data_offsets":[0,{}]}}}}"#, floats * 4);
    let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
    bytes.extend(header.as_bytes());
    bytes.extend(std::iter::repeat_n(7_u8, floats * 4));
    bytes
}

fn look(name: &str, bytes: &[u8], depth: Depth) -> (Format, Integrity, String) {
    let file = check_file(name, Bytes(bytes.len() as u64), &mut Cursor::new(bytes), depth);
    (file.format, file.integrity, file.why.map_or_else(String::new, |why| why.to_string()))
}

fn tensor() -> Vec<u8> {
    (0..40_000_u32).map(|n| (n % 251) as u8).collect()
}

#[test]
fn a_torch_file_is_whole_or_cut() {
    let whole = torch_file(&tensor());
    assert_eq!(look("m.pt", &whole, Depth::Contents), (Format::TorchZip, Integrity::Intact, String::new()));
    for share in [1, 10, 50, 90, 99] {
        let cut = &whole[..whole.len() * share / 100];
        let (format, integrity, why) = look("m.pt", cut, Depth::Extents);
        assert_eq!((format, integrity), (Format::TorchZip, Integrity::Damaged), "{share} %: {why}");
    }
    assert_eq!(look("m.pt", b"", Depth::Extents).1, Integrity::Damaged);
    assert_eq!(look("m.pt", &[0; 5000], Depth::Extents).1, Integrity::Damaged);
}

#[test]
fn a_zeroed_page_shows_in_the_checksum_only() {
    let mut holed = torch_file(&tensor());
    holed[8192..12288].fill(0);
    assert_eq!(look("m.pt", &holed, Depth::Extents).1, Integrity::Intact);
    let (_, integrity, why) = look("m.pt", &holed, Depth::Contents);
    assert_eq!((integrity, why.as_str()), (Integrity::Damaged, "the checksum of `a/data/0` does not hold"));
}

#[test]
fn without_checksums_contents_are_not_called_damaged() {
    // `torch.serialization.set_crc32_options(False)` writes 0 for each (torch 2.11: seen).
    let mut bytes = torch_file(&tensor());
    let sums: Vec<usize> = bytes
        .windows(4)
        .enumerate()
        .filter_map(|(at, window)| match window {
            b"PK\x03\x04" => Some(at + 14),
            b"PK\x01\x02" => Some(at + 16),
            _ => None,
        })
        .collect();
    assert_eq!(sums.len(), 6);
    for at in sums {
        bytes[at..at + 4].fill(0);
    }
    assert_eq!(look("m.pt", &bytes, Depth::Contents).1, Integrity::Unverifiable);
    assert_eq!(look("m.pt", &bytes, Depth::Extents).1, Integrity::Intact);
}

#[test]
fn a_safetensors_file_ends_where_its_header_says() {
    let whole = safetensors_file(1000);
    assert_eq!(
        look("m.safetensors", &whole, Depth::Extents),
        (Format::Safetensors, Integrity::Intact, String::new())
    );
    for length in [0, 4, 8, 20, whole.len() / 2, whole.len() - 1] {
        assert_eq!(
            look("m.safetensors", &whole[..length], Depth::Extents).1,
            Integrity::Damaged,
            "{length} bytes"
        );
    }
    let mut longer = whole.clone();
    longer.push(0);
    assert_eq!(look("m.safetensors", &longer, Depth::Extents).1, Integrity::Damaged);
}

#[test]
fn hostile_files_are_refused_before_they_cost_memory() {
    let mut header = u64::MAX.to_le_bytes().to_vec();
    header.extend(b"{}");
    let (_, integrity, why) = look("m.safetensors", &header, Depth::Extents);
    assert_eq!(integrity, Integrity::Damaged);
    assert!(why.starts_with("its header claims "), "{why}");
    // Offsets beyond the end, overlapping tensors, a shape whose product overflows.
    for (shape, offsets) in
        [("[4]", "[0,999999999999]"), ("[4]", "[8,24]"), ("[18446744073709551615,4]", "[0,16]")]
    {
        let json = format!(r#"{{"w":{{"dtype":"F32","shape":{shape},"data_offsets":{offsets}}}}}"#);
        let mut bytes = (json.len() as u64).to_le_bytes().to_vec();
        bytes.extend(json.as_bytes());
        bytes.extend([0; 16]);
        assert_eq!(look("m.safetensors", &bytes, Depth::Extents).1, Integrity::Damaged, "{shape} {offsets}");
    }
    // A zip that is no torch file is nobody's damage.
    let mut writer = ZipWriter::new(Cursor::new(Vec::new()));
    let stored = SimpleFileOptions::default().compression_method(CompressionMethod::Stored);
    writer.start_file("notes.txt", stored).expect("started");
    writer.write_all(b"hello").expect("written");
    let other = writer.finish().expect("finished").into_inner();
    assert_eq!(look("m.pt", &other, Depth::Contents).1, Integrity::Unverifiable);
}

proptest! {
    #[test]
    fn no_bytes_make_it_fail(bytes in prop::collection::vec(any::<u8>(), 0..300), zip in any::<bool>(), kind in 0..5_usize) {
        let name = ["a.pt", "a.safetensors", "a.json", ".metadata", "__0_0.distcp"][kind];
        let mut all = if zip { b"PK\x03\x04".to_vec() } else { Vec::new() };
        all.extend(&bytes);
        let _ = look(name, &all, Depth::Contents);
    }

    #[test]
    fn a_changed_byte_of_a_tensor_is_found(at in 0..40_000_usize, flip in 1..=255_u8) {
        let mut bytes = torch_file(&tensor());
        let start = bytes.windows(8).position(|w| w == b"a/data/0").expect("named") + 8;
        bytes[start + at] ^= flip;
        prop_assert_eq!(look("m.pt", &bytes, Depth::Contents).1, Integrity::Damaged);
    }
}

fn folder(name: &'static str, files: &[(&str, Vec<u8>)]) -> Memory {
    Memory { name, files: files.iter().map(|(name, bytes)| ((*name).to_owned(), bytes.clone())).collect() }
}

fn trainer() -> Vec<(&'static str, Vec<u8>)> {
    vec![
        ("model.safetensors", safetensors_file(1000)),
        ("optimizer.pt", torch_file(&tensor())),
        ("scheduler.pt", torch_file(b"s")),
        ("rng_state.pth", torch_file(b"r")),
        ("training_args.bin", torch_file(b"t")),
        ("trainer_state.json", br#"{"global_step": 500, "log_history": [{"loss": NaN}]}"#.to_vec()),
    ]
}

fn said(check: &CheckpointCheck) -> Vec<String> {
    check.problems.iter().map(ToString::to_string).collect()
}

#[test]
fn a_trainers_folder_is_whole_when_its_state_is_there() {
    let whole = folder("checkpoint-500", &trainer());
    let result = check(&whole, None, Depth::Contents);
    assert!(result.complete, "{result:?}");
    assert_eq!(result.integrity, Integrity::Intact);

    let killed: Vec<_> = trainer().into_iter().filter(|(name, _)| *name != "trainer_state.json").collect();
    let result = check(&folder("checkpoint-500", &killed), None, Depth::Extents);
    assert!(!result.complete);
    assert_eq!(said(&result), ["`trainer_state.json` is missing: the save was not finished"]);

    let result = check(&folder("checkpoint-700", &trainer()), None, Depth::Extents);
    assert_eq!(said(&result), ["`trainer_state.json` tells step 500, the folder's name 700"]);

    // Lost without a trace, but for the checkpoint before it.
    let lost: Vec<_> = trainer().into_iter().filter(|(name, _)| *name != "optimizer.pt").collect();
    let lost = folder("checkpoint-500", &lost);
    assert!(check(&lost, None, Depth::Extents).complete);
    let result = check(&lost, Some(&whole), Depth::Extents);
    assert_eq!(said(&result), ["missing beside the earlier checkpoint: optimizer.pt"]);
}

#[test]
fn a_sharded_model_needs_every_file_of_its_index() {
    let index = |second: &str| {
        format!(r#"{{"weight_map": {{"a": "model-1.safetensors", "b": "{second}"}}}}"#).into_bytes()
    };
    let shard = safetensors_file(10);
    let with = |second: &str| {
        let files = [("model.safetensors.index.json", index(second)), ("model-1.safetensors", shard.clone())];
        check(&folder("m", &files), None, Depth::Extents)
    };
    assert!(with("model-1.safetensors").complete);
    let missing = said(&with("model-2.safetensors"));
    assert_eq!(missing, ["`model.safetensors.index.json` names files that are missing: model-2.safetensors"]);
    let outside = said(&with("../../etc/passwd"));
    assert_eq!(outside, ["`model.safetensors.index.json` names files outside its folder"]);
}

#[test]
fn a_distributed_checkpoint_is_whole_with_its_metadata() {
    let mut metadata = vec![0x80, 0x02];
    metadata.extend(b"X\x0c\0\0\0__0_0.distcpX\x0c\0\0\0__1_0.distcp.");
    let both = [(".metadata", metadata.clone()), ("__0_0.distcp", vec![1; 9]), ("__1_0.distcp", vec![1; 9])];
    assert!(check(&folder("step-1", &both), None, Depth::Extents).complete);
    let result = check(&folder("step-1", &both[1..]), None, Depth::Extents);
    assert_eq!(said(&result), ["`.metadata` is missing: the save was not finished"]);
    let result = check(&folder("step-1", &both[..2]), None, Depth::Extents);
    assert_eq!(said(&result), ["`.metadata` names files that are missing: __1_0.distcp"]);
    let mut cut = both.to_vec();
    cut[0].1.pop();
    assert_eq!(check(&folder("step-1", &cut), None, Depth::Extents).integrity, Integrity::Damaged);
}

#[test]
fn what_a_writer_left_unfinished_is_seen() {
    let files = [("model.safetensors", safetensors_file(10)), ("optimizer.pt.part", vec![1])];
    let result = check(&folder("c", &files), None, Depth::Extents);
    assert_eq!(said(&result), ["unfinished files: optimizer.pt.part"]);
    assert_eq!(said(&check(&folder("c", &[]), None, Depth::Extents)), ["there are no files"]);
}
