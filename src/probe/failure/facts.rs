//! Figures out of the text of a failure.
//!
//! PyTorch's message has changed its wording four times (1.0 `cached`, 1.5 `reserved in total by PyTorch`, 2.1 `has a
//! total capacity of`, 2.5 `Process N has`); each figure is looked for by itself, so that a mixture reads too.
//! (c10/cuda/CUDACachingAllocator.cpp.)

use std::sync::LazyLock;

use regex::Regex;

use super::FailureFacts;

fn pattern(text: &str) -> Regex {
    Regex::new(text).expect("a constant pattern")
}

macro_rules! figure {
    ($name:ident, $text:expr) => {
        static $name: LazyLock<Regex> = LazyLock::new(|| pattern($text));
    };
}

// Each has the number in group 1 and its unit in group 2.
figure!(
    TRIED,
    r"(?:[Tt]ried|[Tt]rying|attempt\w*|[Uu]nable|[Ff]ailed|request) (?:to )?allocate:? ?(?:request for )?([\d.]+) ?([KMGT]?i?B|[Bb]ytes)|(?:Out of memory|[Ee]rror) allocating ([\d.]+) ?(bytes)|Cannot allocate ([\d.]+) ?([KMGT]?i?B) memory"
);
figure!(TOTAL, r"([\d.]+) ([KMGT]?i?B) total capacity|total capaci?ty of ([\d.]+) ([KMGT]?i?B)");
figure!(FREE, r"([\d.]+) ([KMGT]?i?B) (?:is )?free|available memory is only ([\d.]+) ?([KMGT]?i?B)");
figure!(
    ALLOCATED,
    r"([\d.]+) ([KMGT]?i?B) (?:already allocated|is allocated by PyTorch|allowed)|total allocation: *([\d.]+) ?([KMGT]?i?B)"
);
figure!(RESERVED, r"([\d.]+) ([KMGT]?i?B) (?:cached|reserved in total by PyTorch)");
figure!(UNALLOCATED, r"([\d.]+) ([KMGT]?i?B) is reserved by PyTorch but unallocated");
figure!(OWN, r"this process has ([\d.]+) ([KMGT]?i?B) memory in use");
figure!(PROCESS, r"Process \d+ has ([\d.]+) ([KMGT]?i?B) memory in use");
figure!(REQUIRED, r"(?i)required: (\d+)()|uses too much shared data \(0x([0-9a-f]+) (bytes)");
figure!(LIMIT, r"(?i)hardware limit: ?(\d+)()|bytes, 0x([0-9a-f]+) (max)");
static XID: LazyLock<Regex> = LazyLock::new(|| pattern(r"Xid(?: \([^)]*\))?:? *(\d+)"));
static RANK: LazyLock<Regex> =
    LazyLock::new(|| pattern(r"^\[?rank ?(\d+)\]?:|local_rank: (\d+)|\[Rank (\d+)\]"));
static CAPABILITY: LazyLock<Regex> = LazyLock::new(|| {
    pattern(r"(?:of|with) (?:cuda|CUDA) capability (?:sm_)?(\d+)\.?(\d?)|GPU has capability \((\d+), (\d+)\)")
});
static SIGNAL: LazyLock<Regex> = LazyLock::new(|| pattern(r"(?:exitcode: -|[Ss]ignal:? |status -)(\d+)"));

fn bytes(number: &str, unit: &str) -> Option<u64> {
    let value = number.trim_end_matches('.').parse::<f64>().ok()?;
    let factor: f64 = match unit.chars().next()? {
        'K' => 1024.0,
        'M' => 1024.0 * 1024.0,
        'G' => 1024.0 * 1024.0 * 1024.0,
        'T' => 1024.0 * 1024.0 * 1024.0 * 1024.0,
        _ => 1.0,
    };
    Some((value * factor).round() as u64)
}

/// The first pair of groups that took part.
fn figure(regex: &Regex, text: &str) -> Option<u64> {
    let found = regex.captures(text)?;
    let mut groups = found.iter().skip(1);
    while let (Some(number), Some(unit)) = (groups.next(), groups.next()) {
        if let (Some(number), Some(unit)) = (number, unit) {
            return bytes(number.as_str(), if unit.as_str().is_empty() { "B" } else { unit.as_str() });
        }
    }
    None
}

fn hexadecimal(regex: &Regex, text: &str) -> Option<u64> {
    let found = regex.captures(text)?;
    match (found.get(1), found.get(3)) {
        (Some(decimal), _) => decimal.as_str().parse().ok(),
        (None, Some(hex)) => u64::from_str_radix(hex.as_str(), 16).ok(),
        _ => None,
    }
}

/// What `text` states.
pub(super) fn facts(text: &str) -> FailureFacts {
    let number = |regex: &Regex| {
        let found = regex.captures(text)?;
        found.iter().skip(1).flatten().next()?.as_str().parse::<u32>().ok()
    };
    let mut facts = FailureFacts {
        tried_to_allocate: figure(&TRIED, text),
        total: figure(&TOTAL, text),
        free: figure(&FREE, text),
        allocated: figure(&ALLOCATED, text),
        reserved: figure(&RESERVED, text),
        reserved_unallocated: figure(&UNALLOCATED, text),
        in_use_by_others: None,
        required: hexadecimal(&REQUIRED, text),
        limit: hexadecimal(&LIMIT, text),
        xid: number(&XID),
        signal: number(&SIGNAL).and_then(|n| i32::try_from(n).ok()),
        rank: number(&RANK),
        gpu_architecture: capability(text).map(|(major, minor)| format!("sm_{major}{minor}")),
    };
    if facts.reserved.is_none()
        && let (Some(allocated), Some(more)) = (facts.allocated, facts.reserved_unallocated)
    {
        facts.reserved = Some(allocated + more);
    }
    if facts.reserved_unallocated.is_none()
        && let (Some(allocated), Some(reserved)) = (facts.allocated, facts.reserved)
    {
        facts.reserved_unallocated = reserved.checked_sub(allocated);
    }
    facts.in_use_by_others = others(text, facts.reserved);
    facts
}

/// Memory of processes that are not this one. In a container this one, too, may appear under a number: it is the one
/// whose size fits what PyTorch says it holds.
fn others(text: &str, reserved: Option<u64>) -> Option<u64> {
    let mut sizes: Vec<u64> =
        PROCESS.captures_iter(text).take(64).filter_map(|found| bytes(&found[1], &found[2])).collect();
    if sizes.is_empty() {
        return None;
    }
    if !OWN.is_match(text) {
        let own = reserved.and_then(|r| (0..sizes.len()).min_by_key(|&i| sizes[i].abs_diff(r)));
        if let Some(own) = own {
            sizes.remove(own);
        }
    }
    (!sizes.is_empty()).then(|| sizes.iter().sum())
}

/// The compute capability that a line names, major and minor.
pub(super) fn capability(text: &str) -> Option<(u32, u32)> {
    let found = CAPABILITY.captures(text)?;
    let number = |i: usize| found.get(i).and_then(|m| m.as_str().parse::<u32>().ok());
    if let (Some(major), Some(minor)) = (number(3), number(4)) {
        return Some((major, minor));
    }
    match (number(1)?, number(2)) {
        (major, Some(minor)) => Some((major, minor)),
        // `sm_120`
        (both, None) => Some((both / 10, both % 10)),
    }
}

#[cfg(test)]
mod tests {
    use super::{capability, facts};

    const MIB: u64 = 1 << 20;

    #[test]
    fn figures_of_four_generations_of_one_message() {
        let old = facts(
            "CUDA out of memory. Tried to allocate 384.00 MiB (GPU 0; 10.76 GiB total capacity; 9.41 GiB already allocated; 9.75 MiB free; 498.02 MiB cached)",
        );
        assert_eq!(old.tried_to_allocate, Some(384 * MIB));
        assert_eq!(old.free, Some(10_223_616));
        let new = facts(
            "CUDA out of memory. Tried to allocate 1.96 GiB. GPU 0 has a total capacity of 23.56 GiB of which 1.21 GiB is free. Including non-PyTorch memory, this process has 22.31 GiB memory in use. Of the allocated memory 14.81 GiB is allocated by PyTorch, and 6.31 GiB is reserved by PyTorch but unallocated.",
        );
        assert_eq!(new.reserved_unallocated, Some(6_775_310_909));
        assert_eq!(new.total.map(|t| t / MIB), Some(24125));
        assert_eq!(new.in_use_by_others, None);
    }

    #[test]
    fn the_own_process_is_the_one_whose_size_fits() {
        let text = "Process 60001 has 14.91 GiB memory in use. Process 60002 has 50.21 GiB memory in use. Of the allocated memory 49.10 GiB is allocated by PyTorch, and 0.32 GiB is reserved by PyTorch but unallocated.";
        assert_eq!(facts(text).in_use_by_others.map(|b| b / MIB), Some(15267));
    }

    #[test]
    fn capabilities_in_words_and_in_architectures() {
        assert_eq!(capability("Tesla V100 which is of cuda capability 7.0."), Some((7, 0)));
        assert_eq!(
            capability("NVIDIA GeForce RTX 5090 with CUDA capability sm_120 is not compatible"),
            Some((12, 0))
        );
        assert_eq!(capability("but your GPU has capability (7, 5) (too old)"), Some((7, 5)));
    }

    #[test]
    fn other_figures() {
        let triton = facts("out of resource: shared memory, Required: 163840, Hardware limit: 101376.");
        assert_eq!((triton.required, triton.limit), (Some(163_840), Some(101_376)));
        assert_eq!(facts("NVRM: Xid (PCI:0000:03:00): 79, GPU has fallen off the bus.").xid, Some(79));
        assert_eq!(
            facts("Out of memory while trying to allocate 4412354232 bytes.").tried_to_allocate,
            Some(4_412_354_232)
        );
        assert_eq!(facts("[rank3]: torch.OutOfMemoryError").rank, Some(3));
    }
}
