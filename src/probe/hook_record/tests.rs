use super::HookLog;

#[test]
fn nothing_loaded_is_a_gap_with_its_reason() {
    let report = HookLog::new(0).finish();
    assert_eq!(report.torch, None);
    assert_eq!(report.gaps[0].reason, "no Python interpreter loaded the hook");
}
