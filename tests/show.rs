//! Prints what a log reads as: `LOG=file cargo test --test show -- --ignored --nocapture`.
use onecard::probe::failure::End;
use onecard::probe::scanner::{LogScanner, ScanConfig, Stream};
use onecard::probe::steps::{self, Warmup};

#[test]
#[ignore = "a tool: prints one reading"]
#[expect(clippy::print_stdout, reason = "it is there to print")]
fn show() {
    for path in std::env::var("LOG").expect("LOG=file").split(' ') {
        let bytes = std::fs::read(path).expect("readable");
        let mut scanner = LogScanner::new(ScanConfig::default());
        scanner.feed(Stream::Stdout, None, &bytes);
        let code = std::env::var("CODE").ok().and_then(|c| c.parse().ok()).unwrap_or(0);
        let mut log = scanner.finish(&End { code: Some(code), ..End::default() });
        let times = log.steps.as_ref().and_then(|s| steps::of_log(s, &log.pauses, Warmup::Auto));
        if let Some(steps) = &mut log.steps {
            steps.points.truncate(2);
        }
        log.pauses.truncate(2);
        println!("== {path}\n{}", serde_json::to_string(&log).expect("plain"));
        println!(
            "{}",
            serde_json::to_string(&times.map(|t| (t.step_seconds, t.basis, t.windows))).expect("plain")
        );
    }
}
