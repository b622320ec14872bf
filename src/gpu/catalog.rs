//! The catalogue of GPUs: one row a card, from public sources named in the row. Looked up by id, alias or
//! name, exactly (never by substring: "4070 Ti SUPER" is not a 4070 Ti), and for a device by NVML name and memory,
//! since some names are shared by two memory sizes.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use serde::{Deserialize, Serialize};

use super::device::ComputeCapability;
use crate::units::{Bytes, MIB};

static BUILTIN: LazyLock<Catalog> = LazyLock::new(|| {
    serde_json::from_str(include_str!("catalog.json")).expect("the embedded catalogue is read by a test")
});

#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct Catalog {
    pub schema: u32,
    pub units: String,
    pub gpus: Vec<GpuSpec>,
}

/// One kind of card. Peaks are dense, at boost clock, with fp32 accumulation from tf32 down.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct GpuSpec {
    pub id: String,
    /// As NVML prints it.
    pub name: String,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub aliases: Vec<String>,
    pub architecture: String,
    pub chip: String,
    pub compute_capability: ComputeCapability,
    /// As `nvidia-smi` prints it. Absent where the GPU shares the host's memory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_mib: Option<u32>,
    /// Where that figure comes from.
    pub memory_basis: String,
    /// Other totals of the same card, with the circumstances.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub memory_mib_otherwise: Vec<OtherTotal>,
    /// What CUDA reported on such cards: less, by what the driver reserves.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cuda_memory_mib_seen: Vec<u32>,
    /// The number on the box; decimal GB for some, GiB for others.
    pub memory_nominal_gb: u32,
    pub memory_type: String,
    pub memory_bus_bits: u32,
    pub memory_bandwidth_mb_per_s: u32,
    pub sm_count: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub boost_mhz: Option<u32>,
    pub peak_gflops: Peaks,
    /// Both directions together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nvlink_mb_per_s: Option<u32>,
    pub ecc: EccKind,
    pub tdp_watts: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mig_instances_max: Option<u32>,
    pub pcie_gen: u32,
    /// First and last CUDA toolkit that compiles for this card.
    pub cuda_first: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cuda_last: Option<String>,
    pub release_year: u32,
    pub source: String,
    pub confidence: Confidence,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OtherTotal {
    pub mib: u32,
    pub when: String,
}

/// GFLOPS; GOPS for int8. Absent: not supported, or not known (then `note` says so).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Peaks {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fp64: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fp64_tensor: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fp32: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tf32: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fp16: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bf16: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fp8: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fp4: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub int8: Option<u32>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum EccKind {
    /// On by default, at no cost in memory.
    Always,
    /// Switchable; on GDDR6 it takes a sixteenth of the memory.
    Optional,
    None,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Confidence {
    High,
    Medium,
    Low,
}

/// What a name typed by a person leads to.
#[derive(Debug, Clone, PartialEq)]
pub enum Found<'c> {
    One(&'c GpuSpec),
    /// One name, several cards (two memory sizes).
    Several(Vec<&'c GpuSpec>),
    /// Nothing by that name; ids that look like it, nearest first.
    Nothing {
        near: Vec<String>,
    },
}

/// The row of a device that NVML reports.
#[derive(Debug, Clone, PartialEq)]
pub struct DeviceMatch<'c> {
    pub spec: &'c GpuSpec,
    /// The device's memory is what this row says, within what drivers and ECC make of it. False for a slice of
    /// the card, and for cards with other memory chips than the maker's.
    pub memory_agrees: bool,
}

impl GpuSpec {
    pub fn memory(&self) -> Option<Bytes> {
        self.memory_mib.map(|mib| Bytes::from_mib(u64::from(mib)))
    }

    /// Bytes per second.
    pub fn memory_bandwidth(&self) -> f64 {
        f64::from(self.memory_bandwidth_mb_per_s) * 1e6
    }

    fn totals(&self) -> impl Iterator<Item = u32> + '_ {
        self.memory_mib.into_iter().chain(self.memory_mib_otherwise.iter().map(|other| other.mib))
    }

    /// How far a total is from the nearest one known of this card, as a share of that.
    fn distance(&self, total: Bytes) -> f64 {
        self.totals()
            .map(|mib| (total.get() as f64 / (f64::from(mib) * MIB as f64) - 1.0).abs())
            .fold(f64::INFINITY, f64::min)
    }

    fn keys(&self) -> impl Iterator<Item = String> + '_ {
        [&self.id, &self.name].into_iter().chain(&self.aliases).map(|name| key(name))
    }
}

/// Totals of one card differ by driver and ECC switch by up to 1/16; the next memory size is a quarter away.
const SAME_MEMORY: f64 = 0.07;

impl Catalog {
    pub fn builtin() -> &'static Catalog {
        &BUILTIN
    }

    pub fn by_id(&self, id: &str) -> Option<&GpuSpec> {
        self.gpus.iter().find(|spec| spec.id == id)
    }

    /// By id, alias or name; case, blanks, hyphens and the maker's name do not matter. A memory size at the end
    /// (`rtx 4090 24GB`) must agree.
    pub fn find(&self, text: &str) -> Found<'_> {
        let exact = self.with_key(&key(text));
        let found = if exact.is_empty() { self.with_size(text) } else { exact };
        match found.as_slice() {
            [] => Found::Nothing { near: self.near(text) },
            [one] => Found::One(one),
            _ => Found::Several(found),
        }
    }

    fn with_key(&self, wanted: &str) -> Vec<&GpuSpec> {
        // An id is the narrowest name: `l40` means the row of that id even if it were another's alias.
        if let Some(spec) = self.gpus.iter().find(|spec| key(&spec.id) == wanted) {
            return vec![spec];
        }
        self.gpus.iter().filter(|spec| spec.keys().any(|name| name == wanted)).collect()
    }

    fn with_size(&self, text: &str) -> Vec<&GpuSpec> {
        let Some((name, gigabytes)) = split_size(text) else { return Vec::new() };
        self.with_key(&key(name)).into_iter().filter(|spec| spec.memory_nominal_gb == gigabytes).collect()
    }

    /// The row for a device. `memory` tells apart cards that share a name.
    pub fn of_device(&self, name: &str, memory: Option<Bytes>) -> Option<DeviceMatch<'_>> {
        let wanted = key(whole_card(name));
        let rows = self.gpus.iter().filter(|spec| {
            key(&spec.name) == wanted || spec.aliases.iter().any(|alias| key(alias) == wanted)
        });
        let Some(total) = memory else {
            // Without a size a shared name says nothing.
            let rows: Vec<_> = rows.collect();
            return match rows.as_slice() {
                [spec] => Some(DeviceMatch { spec, memory_agrees: spec.memory_mib.is_none() }),
                _ => None,
            };
        };
        let nearest = rows.min_by(|a, b| a.distance(total).total_cmp(&b.distance(total)))?;
        let memory_agrees = nearest.distance(total) <= SAME_MEMORY;
        Some(DeviceMatch { spec: nearest, memory_agrees })
    }

    /// Up to five ids that look like `text`, nearest first.
    pub fn near(&self, text: &str) -> Vec<String> {
        let wanted = key(text);
        if wanted.is_empty() {
            return Vec::new();
        }
        let mut ranked = BTreeSet::new();
        for spec in &self.gpus {
            let best = spec
                .keys()
                .map(|name| {
                    let contains = name.contains(&wanted) || wanted.contains(&name);
                    let apart = edits(&name, &wanted);
                    // `3080ti` is one edit from `3080`, and is what was meant by a part of a name.
                    if contains { apart.min(1) } else { apart }
                })
                .min()
                .unwrap_or(usize::MAX);
            if best <= 1 + wanted.len() / 4 {
                ranked.insert((best, &spec.id));
            }
        }
        ranked.into_iter().take(5).map(|(_, id)| id.clone()).collect()
    }
}

/// A name without what people leave out or write differently.
fn key(name: &str) -> String {
    let mut plain: String =
        name.chars().filter(char::is_ascii_alphanumeric).map(|c| c.to_ascii_lowercase()).collect();
    for maker in ["nvidia", "geforce", "tesla"] {
        if let Some(rest) = plain.strip_prefix(maker) {
            plain = rest.to_owned();
        }
    }
    plain
}

/// `NVIDIA A100-SXM4-40GB MIG 1g.5gb` names a slice, `GRID A100-10C` and `NVIDIA A40-48Q` a virtual card.
pub fn whole_card(name: &str) -> &str {
    name.split(" MIG ").next().unwrap_or(name).trim()
}

/// `rtx 4090 24GB` → (`rtx 4090`, 24).
fn split_size(text: &str) -> Option<(&str, u32)> {
    let text = text.trim();
    let lower = text.to_ascii_lowercase();
    let end = ["gib", "gb", "g"].iter().find_map(|unit| lower.strip_suffix(unit))?.trim_end().len();
    let head = text.get(..end)?;
    let digits = head.len() - head.trim_end_matches(|c: char| c.is_ascii_digit()).len();
    let (name, size) = head.split_at(head.len() - digits);
    Some((name.trim_end_matches([' ', '-', '_']), size.parse().ok()?))
}

/// Levenshtein's distance.
fn edits(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, ca) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, cb) in b.iter().enumerate() {
            let above = row[j + 1];
            row[j + 1] = (above + 1).min(row[j] + 1).min(diagonal + usize::from(ca != *cb));
            diagonal = above;
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::{Catalog, EccKind, Found, edits, key, split_size};
    use crate::units::Bytes;
    use std::collections::BTreeMap;

    #[test]
    fn ids_are_sorted_and_unique_and_no_name_means_two_rows_of_one_size() {
        let catalog = Catalog::builtin();
        assert!(catalog.gpus.len() > 100);
        assert!(catalog.gpus.is_sorted_by(|a, b| a.id < b.id), "sorted, no id twice");
        let mut taken = BTreeMap::new();
        for spec in &catalog.gpus {
            for alias in spec.aliases.iter().map(|a| key(a)).chain([key(&spec.id)]) {
                assert_eq!(taken.insert(alias.clone(), &spec.id), None, "`{alias}` of {} is taken", spec.id);
            }
        }
        let mut named = BTreeMap::new();
        for spec in &catalog.gpus {
            let name = (key(&spec.name), spec.memory_nominal_gb);
            assert_eq!(named.insert(name, &spec.id), None, "{}", spec.id);
        }
    }

    #[test]
    fn rows_are_plausible_and_sourced() {
        for spec in &Catalog::builtin().gpus {
            let id = &spec.id;
            assert!(spec.source.len() > 20, "{id}: source");
            assert!(!spec.memory_basis.is_empty(), "{id}: basis");
            assert!((16..=8192).contains(&spec.memory_bus_bits), "{id}: bus");
            assert!((80_000..=9_000_000).contains(&spec.memory_bandwidth_mb_per_s), "{id}: bandwidth");
            assert!((8..=200).contains(&spec.sm_count), "{id}: SMs");
            assert!((30..=1500).contains(&spec.tdp_watts), "{id}: power");
            assert!((3..=6).contains(&spec.pcie_gen), "{id}: PCIe");
            assert!((2016..=2026).contains(&spec.release_year), "{id}: year");
            if let Some(mib) = spec.memory_mib {
                let nominal = f64::from(spec.memory_nominal_gb) * 1024.0;
                assert!((0.9..=1.0).contains(&(f64::from(mib) / nominal)), "{id}: memory {mib}");
            }
            // fp32 peak = SMs x clock x FLOP per SM and clock, which is 128 or 256 since Pascal.
            if let Some(mhz) = spec.boost_mhz {
                assert!((900..=3200).contains(&mhz), "{id}: clock");
                let fp32 = spec.peak_gflops.fp32.expect("every card has fp32");
                let per_clock = f64::from(fp32) * 1e3 / (f64::from(spec.sm_count) * f64::from(mhz));
                let near = |rate: f64| (per_clock / rate - 1.0).abs() < 0.03;
                assert!(near(128.0) || near(256.0), "{id}: {per_clock} FLOP per SM and clock");
            }
            let has_bf16 = spec.compute_capability.major >= 8;
            assert!(has_bf16 || spec.peak_gflops.bf16.is_none(), "{id}: bf16 before Ampere");
            assert!(spec.mig_instances_max.is_none() || spec.ecc != EccKind::None, "{id}: MIG without ECC");
        }
    }

    #[test]
    fn names_are_found_however_they_are_written() {
        let catalog = Catalog::builtin();
        for text in
            ["rtx-4090", "RTX 4090", "NVIDIA GeForce RTX 4090", "GeForce RTX 4090", "4090", "rtx4090 24GB"]
        {
            assert!(matches!(catalog.find(text), Found::One(spec) if spec.id == "rtx-4090"), "{text}");
        }
        assert!(
            matches!(catalog.find("rtx 4070 ti super"), Found::One(spec) if spec.id == "rtx-4070-ti-super")
        );
        assert!(matches!(catalog.find("H200"), Found::One(spec) if spec.id == "h200-sxm"));
        let Found::Several(rows) = catalog.find("RTX 3080") else { panic!("two sizes") };
        assert_eq!(
            rows.iter().map(|row| row.id.as_str()).collect::<Vec<_>>(),
            ["rtx-3080-10gb", "rtx-3080-12gb"]
        );
        assert!(matches!(catalog.find("RTX 3080 12GB"), Found::One(spec) if spec.id == "rtx-3080-12gb"));
    }

    #[test]
    fn an_unknown_name_is_answered_with_near_ones() {
        let catalog = Catalog::builtin();
        let near = |text: &str| match catalog.find(text) {
            Found::Nothing { near } => near,
            other => panic!("{text}: {other:?}"),
        };
        assert!(near("rtx-4091").contains(&"rtx-4090".to_owned()));
        assert!(near("h10").contains(&"h100-sxm".to_owned()), "{:?}", near("h10"));
        assert!(near("rtx 4090 48GB").contains(&"rtx-4090".to_owned()));
        assert_eq!(near("voodoo banshee"), Vec::<String>::new());
        assert_eq!(near(""), Vec::<String>::new());
    }

    #[test]
    fn a_device_is_matched_by_name_and_memory() {
        let catalog = Catalog::builtin();
        let of = |name: &str, mib: u64| {
            catalog.of_device(name, Some(Bytes::from_mib(mib))).map(|m| (m.spec.id.as_str(), m.memory_agrees))
        };
        assert_eq!(of("NVIDIA H200", 143_771), Some(("h200-sxm", true)));
        assert_eq!(of("NVIDIA GeForce RTX 4060 Ti", 16_380), Some(("rtx-4060-ti-16gb", true)));
        assert_eq!(of("NVIDIA GeForce RTX 4060 Ti", 8_188), Some(("rtx-4060-ti-8gb", true)));
        assert_eq!(of("GeForce RTX 2080 Ti", 11_019), Some(("rtx-2080-ti", true)));
        // Sold with twice the memory by others than the maker.
        assert_eq!(of("NVIDIA GeForce RTX 4090", 49_140), Some(("rtx-4090", false)));
        assert_eq!(of("NVIDIA A100-SXM4-40GB MIG 1g.5gb", 4_864), Some(("a100-sxm4-40gb", false)));
        assert_eq!(of("NVIDIA L40", 49_140), Some(("l40", true)));
        assert_eq!(of("NVIDIA GeForce RTX 9090", 49_140), None);
        assert_eq!(catalog.of_device("NVIDIA GeForce RTX 3080", None), None);
        let spark = catalog.of_device("NVIDIA GB10", None).expect("a row");
        assert_eq!((spark.spec.id.as_str(), spark.memory_agrees), ("gb10", true));
    }

    #[test]
    fn sizes_at_the_end_of_a_name() {
        assert_eq!(split_size("rtx 4090 24GB"), Some(("rtx 4090", 24)));
        assert_eq!(split_size("a100-80g"), Some(("a100", 80)));
        assert_eq!(split_size("rtx 4090"), None);
        assert_eq!(split_size("GB"), None);
    }

    #[test]
    fn distance_between_words() {
        assert_eq!(edits("rtx4090", "rtx4091"), 1);
        assert_eq!(edits("kitten", "sitting"), 3);
        assert_eq!(edits("", "abc"), 3);
    }
}
