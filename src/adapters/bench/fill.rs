//! Numbers to multiply: random in -1..1, in the format of the task, the same in every run.

use crate::gpu::bench::Task;

/// Numbers in one pattern; repeated over the matrix.
const COUNT: usize = 1 << 18;

pub(super) fn bytes_of(task: Task) -> u64 {
    match task {
        Task::Fp64 => 8,
        Task::Fp16 | Task::Bf16 => 2,
        Task::Fp8 => 1,
        _ => 4,
    }
}

pub(super) fn pattern(task: Task) -> Vec<u8> {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut bytes = Vec::with_capacity(COUNT * bytes_of(task) as usize);
    for _ in 0..COUNT {
        // xorshift64* (Vigna 2016).
        state ^= state >> 12;
        state ^= state << 25;
        state ^= state >> 27;
        let random = state.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 40;
        let value = random as f32 / (1_u32 << 23) as f32 - 1.0;
        match task {
            Task::Fp64 => bytes.extend(f64::from(value).to_le_bytes()),
            Task::Bf16 => bytes.extend(((value.to_bits() >> 16) as u16).to_le_bytes()),
            Task::Fp16 => bytes.extend(half(value).to_le_bytes()),
            Task::Fp8 => bytes.push(e4m3(value)),
            _ => bytes.extend(value.to_le_bytes()),
        }
    }
    bytes
}

/// Truncated to IEEE half precision; what is too small for a normal number becomes zero.
fn half(value: f32) -> u16 {
    let bits = value.to_bits();
    let sign = (bits >> 16) as u16 & 0x8000;
    let exponent = ((bits >> 23) & 0xff).cast_signed() - 127 + 15;
    if exponent <= 0 { sign } else { sign | (exponent as u16) << 10 | ((bits >> 13) as u16 & 0x3ff) }
}

/// Truncated to fp8 with four exponent bits (bias 7) and three of mantissa.
fn e4m3(value: f32) -> u8 {
    let bits = value.to_bits();
    let sign = (bits >> 24) as u8 & 0x80;
    let exponent = ((bits >> 23) & 0xff).cast_signed() - 127 + 7;
    if exponent <= 0 { sign } else { sign | (exponent as u8) << 3 | ((bits >> 20) as u8 & 7) }
}

#[cfg(test)]
mod tests {
    use super::{COUNT, bytes_of, e4m3, half, pattern};
    use crate::gpu::bench::Task;

    #[test]
    fn numbers_in_short_formats() {
        assert_eq!((half(1.0), half(-0.5), half(0.0)), (0x3c00, 0xb800, 0));
        assert_eq!((e4m3(1.0), e4m3(-0.5), e4m3(0.001)), (0x38, 0xb0, 0));
    }

    #[test]
    fn a_pattern_is_finite_and_within_one() {
        for task in [Task::Fp32, Task::Fp64, Task::Fp16, Task::Bf16, Task::Fp8] {
            assert_eq!(pattern(task).len() as u64, COUNT as u64 * bytes_of(task));
        }
        let singles = pattern(Task::Fp32);
        let values =
            singles.chunks(4).map(|bytes| f32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]));
        let (mut low, mut high) = (0.0_f32, 0.0_f32);
        for value in values {
            assert!(value.abs() <= 1.0);
            low = low.min(value);
            high = high.max(value);
        }
        assert!(low < -0.99 && high > 0.99);
    }
}
