//! PyTorch's caching allocator, block by block: what `max_memory_allocated` and `max_memory_reserved` count.
//!
//! Rules and constants: pytorch `c10/cuda/CUDACachingAllocator.cpp` and `c10/core/AllocatorConfig.h` (2.8 to 2.11):
//! sizes round up to 512 B; requests up to 1 MiB are cut from 2 MiB segments, below 10 MiB from 20 MiB segments,
//! larger ones get a segment of their own, rounded to 2 MiB; the smallest free block that is large enough is taken
//! (lowest address among equals) and split when more than 1 MiB is left (large pool) or 512 B (small pool); a freed
//! block merges with its free neighbours in the segment. A block that is not split counts with its whole size.

use std::collections::BTreeSet;

use super::category::{Category, Totals};
use crate::estimate::outcome::Moment;
use crate::units::MIB;

const MIN_BLOCK: u64 = 512;
const SMALL_SIZE: u64 = MIB;
const SMALL_SEGMENT: u64 = 2 * MIB;
const LARGE_SEGMENT: u64 = 20 * MIB;
const MIN_LARGE: u64 = 10 * MIB;
const ROUND_LARGE: u64 = 2 * MIB;
/// Where segments begin, of no meaning beside their order.
const TOP: u64 = 1 << 60;

/// A live allocation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct BlockId(u32);

#[derive(Debug, Clone, Copy)]
struct Block {
    address: u64,
    size: u64,
    small: bool,
    allocated: bool,
    category: Category,
    previous: Option<u32>,
    next: Option<u32>,
}

/// The largest live total of a moment, and what it consisted of.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct High {
    pub(crate) allocated: u64,
    pub(crate) totals: Totals,
}

#[derive(Debug, Default)]
pub(crate) struct Allocator {
    blocks: Vec<Block>,
    recycled: Vec<u32>,
    /// Free blocks of the small and the large pool by size, then address.
    free: [BTreeSet<(u64, u64, u32)>; 2],
    /// The driver places each new segment below the ones before it: which of two equal blocks is the lower one, and so
    /// taken first, depends on it. Of 55 recorded runs replayed, 90 % come within 0.4 % so and within 0.75 % upwards.
    lowest: u64,
    allocated: u64,
    reserved: u64,
    peak_reserved: u64,
    /// The largest request so far.
    largest: u64,
    totals: Totals,
    highs: Vec<(Moment, High)>,
    /// Cap on reserved memory, as `set_per_process_memory_fraction` sets it.
    limit: Option<u64>,
    out_of_memory: bool,
    /// Every request and release, for comparison with a recorded history.
    #[cfg(test)]
    pub(crate) history: Vec<(bool, u32, u64)>,
}

impl Allocator {
    pub(crate) fn new(limit: Option<u64>) -> Allocator {
        Allocator { limit, lowest: TOP, ..Allocator::default() }
    }

    #[cfg(test)]
    pub(crate) fn allocated(&self) -> u64 {
        self.allocated
    }

    #[cfg(test)]
    pub(crate) fn reserved(&self) -> u64 {
        self.reserved
    }

    pub(crate) fn largest(&self) -> u64 {
        self.largest
    }

    pub(crate) fn peak_reserved(&self) -> u64 {
        self.peak_reserved
    }

    /// Whether the cap was ever too small, cached segments freed.
    pub(crate) fn ran_out(&self) -> bool {
        self.out_of_memory
    }

    /// The highs of the moments entered so far, in the order they were first entered.
    pub(crate) fn highs(&self) -> &[(Moment, High)] {
        &self.highs
    }

    /// From here on, live memory counts towards `moment`.
    pub(crate) fn enter(&mut self, moment: Moment) {
        match self.highs.iter().position(|(m, _)| *m == moment) {
            // The current moment is always the last.
            Some(at) => {
                let entry = self.highs.remove(at);
                self.highs.push(entry);
            }
            None => self.highs.push((moment, High::default())),
        }
        self.note();
    }

    /// Forget the highs so far, as `reset_peak_memory_stats` does.
    pub(crate) fn reset_peaks(&mut self) {
        self.highs.clear();
        self.peak_reserved = self.reserved;
    }

    pub(crate) fn allocate(&mut self, bytes: u64, category: Category) -> BlockId {
        let size = bytes.max(1).div_ceil(MIN_BLOCK) * MIN_BLOCK;
        let small = size <= SMALL_SIZE;
        self.largest = self.largest.max(size);
        let pool = usize::from(!small);
        let found = self.free[pool].range((size, 0, 0)..).next().copied();
        let id = match found {
            Some(entry) => {
                self.free[pool].remove(&entry);
                entry.2
            }
            None => self.grow(size, small),
        };
        let left = self.block(id).size - size;
        if if small { left >= MIN_BLOCK } else { left > SMALL_SIZE } {
            self.split(id, size);
        }
        let block = &mut self.blocks[id as usize];
        block.allocated = true;
        block.category = category;
        let held = block.size;
        self.allocated += held;
        self.totals.add(category, held);
        self.note();
        #[cfg(test)]
        self.history.push((true, id, bytes));
        BlockId(id)
    }

    pub(crate) fn free(&mut self, BlockId(id): BlockId) {
        #[cfg(test)]
        self.history.push((false, id, 0));
        let block = &mut self.blocks[id as usize];
        block.allocated = false;
        let (held, category) = (block.size, block.category);
        self.allocated -= held;
        self.totals.take(category, held);
        if let Some(previous) = self.block(id).previous.filter(|p| !self.block(*p).allocated) {
            self.forget(previous);
            let (address, size, before) = {
                let b = self.block(previous);
                (b.address, b.size, b.previous)
            };
            let block = &mut self.blocks[id as usize];
            block.address = address;
            block.size += size;
            block.previous = before;
            if let Some(before) = before {
                self.blocks[before as usize].next = Some(id);
            }
            self.recycled.push(previous);
        }
        if let Some(next) = self.block(id).next.filter(|n| !self.block(*n).allocated) {
            self.forget(next);
            let (size, after) = (self.block(next).size, self.block(next).next);
            let block = &mut self.blocks[id as usize];
            block.size += size;
            block.next = after;
            if let Some(after) = after {
                self.blocks[after as usize].previous = Some(id);
            }
            self.recycled.push(next);
        }
        let block = *self.block(id);
        self.free[usize::from(!block.small)].insert((block.size, block.address, id));
    }

    /// A live block changes its meaning: a gradient handed to its parameter, say.
    pub(crate) fn retag(&mut self, BlockId(id): BlockId, category: Category) {
        let block = &mut self.blocks[id as usize];
        let (held, before) = (block.size, block.category);
        block.category = category;
        self.totals.take(before, held);
        self.totals.add(category, held);
    }

    /// Hand segments without a live block back to the driver, as `empty_cache` does.
    pub(crate) fn empty_cache(&mut self) {
        for pool in 0..2 {
            let whole: Vec<_> = self.free[pool]
                .iter()
                .filter(|(_, _, id)| {
                    let block = self.block(*id);
                    block.previous.is_none() && block.next.is_none()
                })
                .copied()
                .collect();
            for entry in whole {
                self.free[pool].remove(&entry);
                self.reserved -= entry.0;
                self.recycled.push(entry.2);
            }
        }
    }

    fn block(&self, id: u32) -> &Block {
        &self.blocks[id as usize]
    }

    fn forget(&mut self, id: u32) {
        let block = *self.block(id);
        self.free[usize::from(!block.small)].remove(&(block.size, block.address, id));
    }

    fn insert(&mut self, block: Block) -> u32 {
        if let Some(id) = self.recycled.pop() {
            self.blocks[id as usize] = block;
            return id;
        }
        self.blocks.push(block);
        self.blocks.len() as u32 - 1
    }

    fn grow(&mut self, size: u64, small: bool) -> u32 {
        let segment = match size {
            _ if small => SMALL_SEGMENT,
            s if s < MIN_LARGE => LARGE_SEGMENT,
            s => s.div_ceil(ROUND_LARGE) * ROUND_LARGE,
        };
        if self.limit.is_some_and(|limit| self.reserved + segment > limit) {
            self.empty_cache();
            self.out_of_memory |= self.limit.is_some_and(|limit| self.reserved + segment > limit);
        }
        self.reserved += segment;
        self.peak_reserved = self.peak_reserved.max(self.reserved);
        self.lowest -= segment;
        let address = self.lowest;
        self.insert(Block {
            address,
            size: segment,
            small,
            allocated: false,
            category: Category::Temporaries,
            previous: None,
            next: None,
        })
    }

    fn split(&mut self, id: u32, size: u64) {
        let block = *self.block(id);
        let rest = self.insert(Block {
            address: block.address + size,
            size: block.size - size,
            previous: Some(id),
            ..block
        });
        if let Some(next) = block.next {
            self.blocks[next as usize].previous = Some(rest);
        }
        let cut = &mut self.blocks[id as usize];
        cut.size = size;
        cut.next = Some(rest);
        let rest_block = *self.block(rest);
        self.free[usize::from(!block.small)].insert((rest_block.size, rest_block.address, rest));
    }

    fn note(&mut self) {
        if let Some((_, high)) = self.highs.last_mut()
            && self.allocated > high.allocated
        {
            *high = High { allocated: self.allocated, totals: self.totals };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Allocator, Category};
    use crate::estimate::outcome::Moment;
    use crate::units::MIB;

    fn live(allocator: &mut Allocator, bytes: u64) -> super::BlockId {
        allocator.allocate(bytes, Category::Temporaries)
    }

    #[test]
    fn small_requests_share_a_segment_of_two_mebibytes() {
        let mut a = Allocator::new(None);
        let first = live(&mut a, 1);
        live(&mut a, 513);
        assert_eq!((a.allocated(), a.reserved()), (512 + 1024, 2 * MIB));
        a.free(first);
        live(&mut a, 512);
        assert_eq!((a.allocated(), a.reserved()), (1536, 2 * MIB));
    }

    #[test]
    fn a_remainder_of_up_to_one_mebibyte_stays_with_its_block() {
        let mut a = Allocator::new(None);
        let first = live(&mut a, 12 * MIB + 512 * 1024);
        // Its own segment, 14 MiB; 1.5 MiB is left over and split off.
        assert_eq!((a.allocated(), a.reserved()), (12 * MIB + 512 * 1024, 14 * MIB));
        a.free(first);
        live(&mut a, 13 * MIB);
        assert_eq!(a.allocated(), 14 * MIB, "1 MiB is not more than 1 MiB");
    }

    #[test]
    fn neighbours_merge_and_are_found_again() {
        let mut a = Allocator::new(None);
        let blocks: Vec<_> = (0..4).map(|_| live(&mut a, 5 * MIB)).collect();
        assert_eq!(a.reserved(), 20 * MIB);
        for at in [1, 3, 2, 0] {
            a.free(blocks[at]);
        }
        live(&mut a, 9 * MIB);
        live(&mut a, 9 * MIB);
        assert_eq!(a.reserved(), 20 * MIB);
    }

    #[test]
    fn the_smallest_sufficient_block_is_taken() {
        let mut a = Allocator::new(None);
        let big = live(&mut a, 40 * MIB);
        let fit = live(&mut a, 30 * MIB);
        a.free(big);
        a.free(fit);
        live(&mut a, 29 * MIB + 1);
        live(&mut a, 40 * MIB);
        assert_eq!(a.reserved(), 70 * MIB);
    }

    #[test]
    fn at_a_cap_cached_segments_are_given_back_first() {
        let mut a = Allocator::new(Some(100 * MIB));
        let first = live(&mut a, 60 * MIB);
        a.free(first);
        live(&mut a, 80 * MIB);
        assert_eq!((a.ran_out(), a.reserved()), (false, 80 * MIB));
        live(&mut a, 40 * MIB);
        assert!(a.ran_out());
    }

    #[test]
    fn highs_are_kept_by_moment() {
        let mut a = Allocator::new(None);
        a.enter(Moment::Forward);
        let first = live(&mut a, 30 * MIB);
        a.free(first);
        a.enter(Moment::Backward);
        live(&mut a, 10 * MIB);
        a.enter(Moment::Forward);
        let highs: Vec<_> = a.highs().iter().map(|(m, h)| (*m, h.allocated)).collect();
        assert_eq!(highs, vec![(Moment::Backward, 10 * MIB), (Moment::Forward, 30 * MIB)]);
    }
}
