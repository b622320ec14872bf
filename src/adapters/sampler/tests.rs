use super::{Sampler, Settings};
use crate::adapters::proc_tree::ProcTree;
use crate::adapters::supervise::now;
use crate::document::Gap;
use crate::gpu::{GpuProcess, GpuReading, GpuSource, Inventory, Wants};
use crate::probe::event::ProbeEvent;
use crate::units::Bytes;
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// A card whose memory is a function of time.
struct Card {
    began: f64,
    used: fn(f64) -> Option<u64>,
}

impl GpuSource for Card {
    fn inventory(&self) -> Inventory {
        Inventory::default()
    }

    fn sample(&self, wants: Wants) -> Vec<GpuReading> {
        let used = (self.used)(now() - self.began);
        let process = GpuProcess { pid: std::process::id(), used: Some(Bytes(70)), ..GpuProcess::default() };
        vec![GpuReading {
            uuid: "GPU-1".to_owned(),
            memory_used: used.map(Bytes),
            processes: wants.processes.then(|| vec![process]),
            utilization: wants.slow.then_some(0.5),
            gaps: if used.is_none() { vec![Gap::new("memory_used", "gone")] } else { Vec::new() },
            ..GpuReading::default()
        }]
    }
}

fn sampled(used: fn(f64) -> Option<u64>, interval: u64, run: u64) -> Vec<ProbeEvent> {
    let (send, events) = channel();
    let began = now();
    let sampler = Sampler::start(Settings {
        source: Some(Arc::new(Card { began, used })),
        watched: vec!["GPU-1".to_owned()],
        interval: Duration::from_millis(interval),
        tree: Arc::new(Mutex::new(ProcTree::new(std::process::id(), 0, []))),
        origin: began,
        send,
    });
    std::thread::sleep(Duration::from_millis(run));
    sampler.stop(Duration::from_secs(5));
    events.try_iter().collect()
}

fn points(events: &[ProbeEvent]) -> (u64, Vec<(f64, u64)>) {
    let mut all = (0, Vec::new());
    for event in events {
        if let ProbeEvent::Memory { n, points, .. } = event {
            all.0 += n;
            all.1.extend(points);
        }
    }
    all
}

#[test]
fn memory_at_rest_is_told_once_a_second_and_read_all_the_time() {
    let events = sampled(|_| Some(100), 20, 500);
    let (n, points) = points(&events);
    assert!(n >= 10, "{n} readings");
    assert!(points.len() <= 3 && points.iter().all(|(_, used)| *used == 100), "{points:?}");
}

#[test]
fn both_ends_of_a_step_are_kept_and_reading_is_faster_while_memory_moves() {
    // Moves for half of the time; the period of 100 ms alone would give 10 readings a second.
    let moving = |t: f64| Some(if t < 0.6 { 100 } else { 200 + (t * 50.0) as u64 });
    let (_, points) = points(&sampled(moving, 100, 1300));
    let moved = points.windows(2).filter(|pair| pair[0].1 > 100).map(|pair| pair[1].0 - pair[0].0);
    // The closest two: on a loaded machine the others may be late.
    let closest = moved.fold(f64::INFINITY, f64::min);
    assert!(closest < 0.075, "{closest} s apart: {points:?}");
    let last_low = points.iter().rposition(|(_, used)| *used == 100).expect("the level before");
    let gap = points[last_low + 1].0 - points[last_low].0;
    assert!((0.0..0.4).contains(&gap), "{points:?}");
}

#[test]
fn the_process_list_comes_at_once_and_is_told_apart() {
    let events = sampled(|_| Some(100), 50, 200);
    let own = events.iter().find_map(|event| match event {
        ProbeEvent::Processes { who, used, .. } => Some((who.own, who.own_processes, *used)),
        _ => None,
    });
    assert_eq!(own, Some((Some(70), 1, Some(100))));
    assert!(events.iter().any(|event| matches!(event, ProbeEvent::Host { .. })));
    assert!(events.iter().any(|event| matches!(event, ProbeEvent::Slow { .. })));
}

#[test]
fn a_card_that_falls_off_the_bus_is_a_gap_told_once() {
    let events = sampled(|t| (t < 0.1).then_some(100), 10, 400);
    let missing = |event: &&ProbeEvent| matches!(event, ProbeEvent::Missing { gap } if gap.field == "gpus[0].memory_used" && gap.reason == "gone");
    // Once by each of the two threads.
    assert!((1..=2).contains(&events.iter().filter(missing).count()), "{events:?}");
    assert!(points(&events).0 > 2);
}

#[test]
fn a_bug_in_the_driver_layer_is_a_gap() {
    let events = sampled(|t| if t > 0.05 { panic!("planted") } else { Some(1) }, 10, 300);
    let died = |event: &ProbeEvent| matches!(event, ProbeEvent::Missing { gap } if gap.field == "sampling");
    assert!(events.iter().any(died), "{events:?}");
}
