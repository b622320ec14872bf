use super::HookLog;

#[test]
fn nothing_loaded_is_a_gap_with_its_reason() {
    let report = HookLog::new(0).finish(None);
    assert_eq!(report.torch, None);
    assert_eq!(report.gaps[0].reason, "hook absent: no Python interpreter of the child loaded it");
    let report = HookLog::new(0).finish(Some("python -I".to_owned()));
    assert_eq!(report.gaps[0].reason, "hook absent: python -I");
}
