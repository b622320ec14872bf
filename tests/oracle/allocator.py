"""PyTorch's caching allocator without a device: a block that is left whole counts whole, as `memory_allocated` does.

Source: pytorch `c10/cuda/CUDACachingAllocator.cpp` (`round_size`, `get_allocation_size`, `should_split`, `free_block`).
"""
import bisect

MIB = 1 << 20


class Allocator:
    def __init__(self):
        self.pools = {True: [], False: []}
        self.blocks, self.free_at, self.ends = {}, {}, {}
        self.top, self.allocated, self.reserved, self.segments = 0, 0, 0, {}

    def take(self, size):
        """Address of a block for so many bytes."""
        if size == 0:
            return None
        need = max(512, -(-size // 512) * 512)
        small = need <= MIB
        pool = self.pools[small]
        at = bisect.bisect_left(pool, (need, -1))
        if at < len(pool):
            have, address = pool.pop(at)
            del self.free_at[address], self.ends[address + have]
            segment = self.segments[address]
        else:
            have = 2 * MIB if small else 20 * MIB if need < 10 * MIB else -(-need // (2 * MIB)) * 2 * MIB
            address = segment = self.top
            self.top += have + 512
            self.reserved += have
        rest = have - need
        if rest >= 512 if small else rest > MIB:
            self._give(address + need, rest, small, segment)
            have = need
        self.blocks[address] = (have, small, segment)
        self.segments[address] = segment
        self.allocated += have
        return address

    def _give(self, address, size, small, segment):
        self.free_at[address] = size
        self.ends[address + size] = address
        self.segments[address] = segment
        bisect.insort(self.pools[small], (size, address))

    def drop(self, address):
        if address is None:
            return
        size, small, segment = self.blocks.pop(address)
        self.allocated -= size
        after = address + size
        if after in self.free_at:
            more = self.free_at.pop(after)
            del self.ends[after + more]
            self.pools[small].remove((more, after))
            size += more
        if address in self.ends:
            before = self.ends.pop(address)
            more = self.free_at.pop(before)
            self.pools[small].remove((more, before))
            address, size = before, size + more
        self._give(address, size, small, segment)

    def empty_cache(self):
        """Hand back segments that are free as a whole."""
        for small, pool in self.pools.items():
            for size, address in list(pool):
                if self.segments[address] == address and address + size not in self.blocks:
                    pool.remove((size, address))
                    del self.free_at[address], self.ends[address + size]
                    self.reserved -= size
