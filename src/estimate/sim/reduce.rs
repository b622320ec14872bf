//! Scratch memory of column sums (bias gradients): when a sum over rows is divided among thread blocks, the partial
//! results are staged in global memory. Source: pytorch `aten/src/ATen/native/cuda/Reduce.cuh` (`setReduceConfig`,
//! `global_memory_size`): 512 threads a block, 16 to 256 values a thread, vectors of four outputs.

/// Bytes staged while `rows` rows of `columns` columns are summed on a GPU with so many multiprocessors.
pub(crate) fn staged(rows: u64, columns: u64, multiprocessors: u64) -> u64 {
    const THREADS: u64 = 512;
    const WARP: u64 = 32;
    const THREADS_PER_MULTIPROCESSOR: u64 = 2048;
    if rows == 0 || columns == 0 {
        return 0;
    }
    let mut vector = 4;
    while !columns.is_multiple_of(vector) {
        vector /= 2;
    }
    let limit = THREADS / vector;
    let power = |n: u64| if n < limit { 1 << n.max(1).ilog2() } else { limit };
    let (wide, high) = (power(columns / vector), power(rows));
    let height = high.min(limit / wide.min(WARP));
    let width = wide.min(limit / height);
    let across = rows >= (height * 16).min(256);
    let values = if across { rows.div_ceil(height) } else { rows };
    let step = if across { width } else { width * height };
    let grid = (columns / vector).div_ceil(step);
    let target = multiprocessors * (THREADS_PER_MULTIPROCESSOR / (width * height));
    if !across || values < 256 || grid > target {
        return 0;
    }
    let blocks = target.div_ceil(grid).min(values.div_ceil(16)).max(values.div_ceil(256));
    if blocks < 2 {
        return 0;
    }
    4 * columns * blocks * width * vector
}

#[cfg(test)]
mod tests {
    use super::staged;

    #[test]
    fn a_recorded_sum_is_reproduced() {
        // 8192 x 3072 on an H200 (132 multiprocessors): 138,412,032 bytes were recorded.
        assert_eq!(staged(8192, 3072, 132), 138_412_032);
        assert_eq!(staged(768, 1024, 132), 0);
    }
}
