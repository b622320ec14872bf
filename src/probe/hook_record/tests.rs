//! Records of real runs (`tests/fixtures/hook`), and lines no run would write.

use std::fmt::Write as _;

use proptest::prelude::*;

use super::{HookLog, HookReport, POINT_LIMIT, StepConfidence};
use crate::units::Bytes;

fn report(files: &[&str]) -> HookReport {
    let mut log = HookLog::new(0);
    for (number, text) in files.iter().enumerate() {
        log.take(&format!("{number}.jsonl"), text.as_bytes());
    }
    log.finish(None, None)
}

macro_rules! recorded {
    ($name:literal) => {
        include_str!(concat!("../../../tests/fixtures/hook/", $name, ".jsonl"))
    };
}

#[test]
fn nothing_loaded_is_a_gap_with_its_reason() {
    let report = HookLog::new(0).finish(None, None);
    assert_eq!(report.torch, None);
    assert_eq!(report.gaps[0].reason, "hook absent: no Python interpreter of the child loaded it");
    let report = HookLog::new(0).finish(Some(crate::words::Message::verbatim("python -I")), None);
    assert_eq!(report.gaps[0].reason, "hook absent: python -I");
}

#[test]
fn a_trainer_run_is_told_by_its_own_counter() {
    let report = report(&[recorded!("trainer")]);
    let steps = report.steps.expect("steps");
    assert_eq!((steps.count, steps.last_step, steps.total_declared), (6, Some(6), Some(6)));
    assert_eq!(steps.confidence, Some(StepConfidence::Framework));
    assert!(steps.points.windows(2).all(|pair| pair[0].at_seconds < pair[1].at_seconds));
    assert!(steps.points.iter().all(|point| point.loss.is_some() && point.learning_rate.is_some()));
    assert_eq!(steps.points[0].learning_rate, Some(5e-5));
    assert_eq!(steps.logs.iter().filter(|log| log.values.contains_key("loss")).count(), 6);
    let torch = report.torch.expect("torch");
    assert_eq!(torch.version.as_deref(), Some("2.11.0+cu130"));
    assert!(torch.forward_backward_optimizer);
    assert_eq!((torch.gradient_accumulation, torch.backward_passes), (Some(2), 12));
    assert_eq!(
        (torch.param_dtypes, torch.autocast_dtypes),
        (vec!["fp32".to_owned()], vec!["bf16".to_owned()])
    );
    assert_eq!(torch.matmul_dtypes, ["bf16"]);
    assert_eq!((torch.micro_batch, torch.sequence, torch.tokens_per_step), (Some(2), Some(16), Some(64)));
    // Files inside of a Trainer folder are part of it, not checkpoints of their own.
    let saves: Vec<_> = torch.checkpoints.iter().map(|save| (save.step, save.files)).collect();
    assert_eq!(saves, [(Some(3), Some(8)), (Some(6), Some(8))]);
    assert!(torch.hook.step_seconds.is_some_and(|seconds| seconds > 0.0));
}

#[test]
fn scaler_saves_ranks_and_old_torch() {
    let scaler = report(&[recorded!("scaler")]).torch.and_then(|torch| torch.grad_scaler).expect("a scaler");
    assert_eq!((scaler.scale, scaler.skipped_steps), (Some(256.0), 2));

    let saves = report(&[recorded!("saves")]).torch.expect("torch").checkpoints;
    let told: Vec<_> = saves.iter().map(|save| (save.path.as_deref(), save.atomic, save.complete)).collect();
    assert_eq!(
        told,
        [
            (Some("/job/inplace.pt"), Some(false), true),
            (Some("/job/aside.pt"), Some(true), true),
            (Some("/job/ckpt/model.pt"), Some(true), true),
            (Some("/job/bad.pt"), None, false),
        ]
    );

    let ddp = report(&[recorded!("ddp-0"), recorded!("ddp-1"), recorded!("ddp-2")]);
    let torch = ddp.torch.expect("torch");
    assert_eq!((torch.world_size, torch.hook.interpreters), (Some(2), 3));
    let ranks: Vec<_> = torch.processes.iter().map(|process| (process.rank, process.steps)).collect();
    assert_eq!(ranks, [(Some(0), 6), (Some(1), 6)]);
    assert_eq!(ddp.steps.map(|steps| steps.count), Some(6), "ranks step together");

    let old = report(&[recorded!("old-torch")]);
    assert_eq!(
        old.steps.map(|steps| (steps.count, steps.confidence)),
        Some((5, Some(StepConfidence::Burst)))
    );
    assert_eq!(old.torch.and_then(|torch| torch.gradient_accumulation), Some(4));
}

/// Recorded on an H200; the figures are what the scripts themselves read (`torch.cuda.max_memory_allocated`, their own
/// skipped steps, `memory_stats`).
#[test]
fn on_the_gpu_peaks_losses_replays_and_skips_are_exact() {
    let run = report(&[recorded!("h200-nosync")]);
    let torch = run.torch.expect("torch");
    assert_eq!(torch.peak_allocated, Some(Bytes(169_852_928)));
    assert_eq!((torch.tf32_matmul, torch.autocast_dtypes), (Some(true), vec!["bf16".to_owned()]));
    assert_eq!((torch.param_dtypes, torch.matmul_dtypes), (vec!["fp32".to_owned()], vec!["bf16".to_owned()]));
    assert_eq!(torch.attention.keys().collect::<Vec<_>>(), ["ScaledDotProductCudnnAttention"]);
    assert_eq!((torch.micro_batch, torch.sequence), (Some(8), Some(128)));
    let gpu = torch.gpu.expect("a GPU");
    assert_eq!((gpu.name.as_deref(), gpu.capability.as_deref()), (Some("NVIDIA H200"), Some("9.0")));
    assert_eq!(gpu.memory_total, Some(Bytes(150_109_880_320)));
    let steps = run.steps.expect("steps");
    assert_eq!(steps.points.iter().filter(|point| point.loss.is_some()).count(), 12, "none was waited for");

    let graph = report(&[recorded!("h200-graph")]);
    assert_eq!(graph.steps.map(|steps| steps.count), Some(15), "three eager, twelve replayed");
    assert_eq!(graph.torch.and_then(|torch| torch.graph_replays), Some(12));

    let fused = report(&[recorded!("h200-scaler-fused")]).torch.expect("torch");
    let scaler = fused.grad_scaler.expect("a scaler");
    assert_eq!((scaler.skipped_steps, scaler.scale), (2, Some(1024.0)), "the fused kernel skips by itself");

    let oom = report(&[recorded!("h200-oom")]).torch.expect("torch").ooms;
    assert_eq!((oom[0].requested, oom[0].allocated), (Some(Bytes(1 << 40)), Some(Bytes(126_910_976))));
    assert_eq!((oom[0].step, oom[0].alloc_retries, oom[0].in_backward), (3, Some(1), Some(false)));

    let compile =
        report(&[recorded!("h200-compile")]).torch.and_then(|torch| torch.compile).expect("compiled");
    assert_eq!((compile.graphs, compile.recompiles), (Some(2), Some(1)));
}

#[test]
fn a_killed_process_keeps_what_it_wrote_and_a_torn_line_is_counted() {
    let whole = recorded!("killed");
    let cut = whole.rfind("\"k\":\"s\"").expect("a step") + 20;
    let report = report(&[&whole[..cut]]);
    assert_eq!(report.steps.map(|steps| steps.count), Some(5));
    assert_eq!(report.torch.map(|torch| torch.hook.torn_lines), Some(1));
}

#[test]
fn a_loss_that_arrives_later_finds_its_step_and_nan_is_no_number() {
    let lines = "{\"k\":\"torch\",\"t\":0,\"pid\":7}\n\
        {\"k\":\"s\",\"t\":1000000000,\"c\":1,\"b\":1,\"m\":1,\"lr\":0.5,\"pa\":10,\"pr\":20}\n\
        {\"k\":\"s\",\"t\":2000000000,\"c\":2,\"b\":2,\"m\":1,\"ll\":[[1,1.5,1]],\"pa\":30,\"pr\":40,\"re\":2}\n\
        {\"k\":\"s\",\"t\":3000000000,\"c\":3,\"b\":3,\"m\":1,\"ll\":[[2,\"nan\",1]],\"pa\":5}\n\
        {\"k\":\"news from a later version\",\"t\":4}\n\
        {\"k\":\"late\",\"t\":4,\"ll\":[[3,\"inf\",1]]}\n";
    let report = report(&[lines]);
    let steps = report.steps.expect("steps");
    let losses: Vec<_> =
        steps.points.iter().map(|point| (point.step, point.at_seconds, point.loss)).collect();
    assert_eq!(losses, [(1, 1.0, Some(1.5)), (2, 2.0, None), (3, 3.0, None)]);
    assert_eq!(steps.nonfinite_losses, 2);
    let torch = report.torch.expect("torch");
    assert_eq!((torch.peak_allocated, torch.peak_reserved), (Some(Bytes(30)), Some(Bytes(40))));
    assert_eq!(torch.alloc_retries, Some(2));
    assert_eq!(torch.hook.torn_lines, 0, "an unknown kind is not a torn line");
}

#[test]
fn an_oom_carries_the_allocators_figures() {
    let lines = "{\"k\":\"torch\",\"t\":0,\"pid\":7}\n\
        {\"k\":\"oom\",\"t\":5000000000,\"device\":0,\"requested\":100,\"total\":80,\"free\":3,\"alloc\":60,\
        \"reserved\":70,\"peak_alloc\":61,\"peak_reserved\":70,\"retries\":1,\"ooms\":1,\"step\":4,\"in_backward\":true}\n";
    let torch = report(&[lines]).torch.expect("torch");
    let oom = &torch.ooms[0];
    assert_eq!((oom.at_seconds, oom.step, oom.in_backward), (5.0, 4, Some(true)));
    assert_eq!(
        (oom.requested, oom.allocated, oom.device_free),
        (Some(Bytes(100)), Some(Bytes(60)), Some(Bytes(3)))
    );
    assert_eq!(torch.peak_allocated, Some(Bytes(61)));
    assert!(!torch.forward_backward_optimizer);
}

#[test]
fn a_long_run_stays_small_and_keeps_its_ends() {
    let mut log = HookLog::new(0);
    log.take("1.jsonl", b"{\"k\":\"torch\",\"t\":0,\"pid\":7}\n");
    let count = 3 * POINT_LIMIT as u64 + 7;
    for step in 1..=count {
        let line = format!("{{\"k\":\"s\",\"t\":{step},\"c\":{step},\"b\":{step},\"m\":1,\"l\":{step}}}\n");
        log.take("1.jsonl", line.as_bytes());
    }
    assert_eq!((log.live().steps, log.live().last_loss), (count, Some(count as f64)));
    let steps = log.finish(None, None).steps.expect("steps");
    assert!(steps.points.len() <= POINT_LIMIT);
    assert_eq!((steps.count, steps.stride), (count, 4));
    assert_eq!(steps.points.first().map(|point| point.step), Some(1));
    assert_eq!(steps.points.last().map(|point| (point.step, point.loss)), Some((count, Some(count as f64))));
    assert!(steps.points.windows(2).all(|pair| pair[0].step < pair[1].step));
}

#[test]
fn many_checkpoints_keep_the_first_and_the_newest() {
    let mut lines = String::from("{\"k\":\"torch\",\"t\":0,\"pid\":7}\n");
    for id in 1..=500 {
        writeln!(
            lines,
            "{{\"k\":\"ckpt\",\"t\":1,\"id\":{id},\"by\":\"torch.save\",\"ns\":5,\"step\":{id},\"ok\":true}}"
        )
        .expect("written");
    }
    let torch = report(&[&lines]).torch.expect("torch");
    assert_eq!(torch.checkpoints.len() as u64 + torch.checkpoints_unlisted, 500);
    assert_eq!(torch.checkpoints.first().and_then(|save| save.step), Some(1));
    assert_eq!(torch.checkpoints.last().and_then(|save| save.step), Some(500));
}

proptest! {
    #[test]
    fn any_bytes_in_any_portions_are_survived(
        bytes in proptest::collection::vec(any::<u8>(), 0..400),
        cuts in proptest::collection::vec(0usize..4000, 0..6),
    ) {
        let mut text = recorded!("trainer").as_bytes().to_vec();
        for (cut, byte) in cuts.iter().zip(&bytes) {
            let at = cut % text.len();
            text[at] = *byte;
        }
        text.extend(&bytes);
        let mut log = HookLog::new(0);
        log.take("x", &text);
        let _ = log.live();
        let report = log.finish(None, None);
        let text = serde_json::to_string(&report.torch).expect("JSON");
        let back: Option<super::TorchFacts> = serde_json::from_str(&text).expect("read back");
        prop_assert_eq!(back, report.torch);
    }
}
