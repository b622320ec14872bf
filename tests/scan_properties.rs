//! The log reader on any bytes: no panic, bounded memory, the same reading in whatever pieces the bytes arrive.

use std::fs;
use std::path::Path;
use std::time::Instant;

use onecard::probe::failure::End;
use onecard::probe::scanner::{LogReading, LogScanner, ScanConfig, Stream};
use onecard::probe::steps::{self, Warmup};
use proptest::prelude::*;

fn pieces(bytes: &[u8], cuts: &[usize], end: &End) -> (LogReading, usize) {
    let mut scanner = LogScanner::new(ScanConfig::default());
    let mut most = 0;
    let mut from = 0;
    let mut cuts: Vec<usize> = cuts.iter().map(|c| c % (bytes.len() + 1)).collect();
    cuts.sort_unstable();
    for cut in cuts {
        scanner.feed(Stream::Stdout, Some(1.5), &bytes[from..cut]);
        // Looking must not change what is seen.
        let _ = scanner.progress();
        most = most.max(scanner.retained_bytes());
        from = cut;
    }
    scanner.feed(Stream::Stdout, Some(1.5), &bytes[from..]);
    most = most.max(scanner.retained_bytes());
    (scanner.finish(end), most)
}

fn fixtures() -> Vec<Vec<u8>> {
    let mut all = Vec::new();
    for folder in ["logs", "failures"] {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(folder);
        let mut paths: Vec<_> =
            fs::read_dir(folder).expect("a folder").map(|e| e.expect("an entry").path()).collect();
        paths.retain(|p| p.extension().is_some_and(|e| e == "log" || e == "stderr"));
        paths.sort();
        all.extend(paths.iter().map(|p| fs::read(p).expect("readable")));
    }
    all
}

/// Bytes that look like logs: words, numbers and terminal controls in any order.
fn confetti() -> impl Strategy<Value = Vec<u8>> {
    let scraps = prop::sample::select(vec![
        "loss",
        "step",
        "epoch",
        " 10/300 [00:41<19:49,  4.10s/it]",
        "\r",
        "\n",
        "\x1b[A",
        "\x08\x08",
        "\x1b[2K",
        "1e999",
        "nan",
        "-inf",
        ": ",
        "=",
        "{'",
        "'}",
        "18446744073709551615",
        "0/0",
        "99999999999999999999/1",
        "第",
        "步",
        "█━╸",
        "\x1b]0;",
        "\x07",
        "[1/",
        "/10]",
        "100%|",
        "it/s",
        " of ",
        "2024-06-11 10:00:00,5",
        "CUDA out of memory. Tried to allocate 1e99 GiB",
        "NVRM: Xid",
        "Traceback (most recent call last)",
        "\0",
        "\u{feff}",
        "1,234,567",
        "0.5ms",
        " 1h 2m 3s",
        "[10]\ttrain-rmse:0.5",
        "|",
        "\t",
        " - ",
    ]);
    let scrap = prop_oneof![4 => scraps.prop_map(|s| s.as_bytes().to_vec()), 1 => prop::collection::vec(any::<u8>(), 0..6)];
    prop::collection::vec(scrap, 0..80).prop_map(|all| all.concat())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn any_bytes_in_any_pieces_read_the_same(bytes in confetti(), cuts in prop::collection::vec(any::<usize>(), 0..8), code in -70..260_i32) {
        let end = End { code: Some(code), ..End::default() };
        let (whole, _) = pieces(&bytes, &[], &end);
        let (cut, _) = pieces(&bytes, &cuts, &end);
        prop_assert_eq!(&whole, &cut);
        let text = serde_json::to_string(&whole).expect("plain data");
        prop_assert_eq!(serde_json::from_str::<LogReading>(&text).map_err(|e| e.to_string()).map(|r| r.steps), Ok(whole.steps.clone()));
        if let Some(times) = whole.steps.as_ref().and_then(|s| steps::of_log(s, &whole.pauses, Warmup::Auto)) {
            prop_assert!(times.step_seconds.mean.is_finite() && times.step_seconds.mean >= 0.0);
        }
    }

    #[test]
    fn a_damaged_log_is_still_read(which in any::<usize>(), damage in prop::collection::vec((any::<usize>(), any::<u8>()), 1..20), cuts in prop::collection::vec(any::<usize>(), 0..4)) {
        let all = fixtures();
        let mut bytes = all[which % all.len()].clone();
        for (at, byte) in damage {
            let length = bytes.len();
            bytes[at % length] = byte;
        }
        let end = End { code: Some(1), ..End::default() };
        prop_assert_eq!(pieces(&bytes, &[], &end).0, pieces(&bytes, &cuts, &end).0);
    }
}

#[test]
fn every_log_reads_the_same_byte_by_byte() {
    for bytes in fixtures() {
        let end = End { code: Some(1), ..End::default() };
        let each: Vec<usize> = (0..bytes.len()).collect();
        let mut scanner = LogScanner::new(ScanConfig::default());
        for &at in &each {
            scanner.feed(Stream::Stdout, Some(1.5), &bytes[at..=at]);
        }
        assert_eq!(scanner.finish(&end), pieces(&bytes, &[], &end).0);
    }
}

#[test]
fn memory_is_bounded_whatever_comes() {
    let limit = 24 << 20;
    let mut scanner = LogScanner::new(ScanConfig::default());
    // A line without end, then a counter for each of many names, then failures without end.
    for _ in 0..500 {
        scanner.feed(Stream::Stdout, None, &vec![b'x'; 65536]);
    }
    for name in 0..100 {
        for step in 0..100 {
            scanner.feed(
                Stream::Stdout,
                Some(f64::from(step)),
                format!("\nloop{name}-step {step} loss 0.5 of the {name}. step: {step}").as_bytes(),
            );
        }
    }
    for step in 0..30_000 {
        scanner.feed(
            Stream::Stderr,
            Some(f64::from(step)),
            format!("\rtrain: 1%| | {step}/90000 [00:01<00:02, 3.0it/s, loss=0.5]").as_bytes(),
        );
    }
    for n in 0..5_000 {
        scanner.feed(
            Stream::Stderr,
            None,
            format!("RuntimeError: CUDA out of memory. Tried to allocate {n}.00 MiB\n").as_bytes(),
        );
    }
    assert!(scanner.retained_bytes() < limit, "{} bytes", scanner.retained_bytes());
    let reading = scanner.finish(&End { code: Some(1), ..End::default() });
    let steps = reading.steps.expect("the bar");
    assert_eq!(steps.last_step, 29_999);
    assert!(steps.points.len() <= 8193 && steps.thinned >= 4);
    assert!(serde_json::to_string(&reading.failures).expect("plain").len() < 10_000);
}

/// `cargo test --release --test scan_properties -- --ignored --nocapture`
#[test]
#[ignore = "a measurement"]
#[expect(clippy::print_stdout, reason = "it is there to print")]
fn throughput() {
    let plain = "2024-06-11 10:00:00,123 DEBUG request 4711 answered GET /v1/items/42 with 200 after 12 and more words\n";
    let spam = "ERROR worker 7: could not reach the memory cache on node 12, limit exceeded, trying again in 5 seconds\n";
    let bar = "\r 42%|████▏     | 421/1001 [02:17<03:08,  3.07it/s, loss=0.123, lr=1e-4]";
    let keys = "iteration     100/  500000 | consumed samples: 25600 | elapsed time per iteration (ms): 3911.7 | learning rate: 1.2E-05 | lm loss: 8.8E+00 | grad norm: 1.8 |\n";
    for (name, line) in [("plain", plain), ("errors", spam), ("bars", bar), ("records", keys)] {
        let block = line.repeat(65536 / line.len());
        let mut scanner = LogScanner::new(ScanConfig::default());
        scanner.feed(Stream::Stdout, Some(0.0), block.as_bytes());
        let start = Instant::now();
        let mut bytes = 0;
        while start.elapsed().as_secs_f64() < 1.0 {
            scanner.feed(Stream::Stdout, Some(1.0), block.as_bytes());
            bytes += block.len();
        }
        println!("{name}: {:.0} MB/s", bytes as f64 / start.elapsed().as_secs_f64() / 1e6);
    }
}
