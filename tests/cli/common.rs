//! What holds for every command.

use crate::support::Run;

#[test]
fn the_version_is_the_packages() {
    Run::new("--version").expect(0, &format!("onecard {}\n", env!("CARGO_PKG_VERSION")), "");
}

#[test]
fn an_unknown_command_is_usage() {
    let outcome = Run::new("estimat").run();
    assert_eq!(outcome.status, 2);
    assert_eq!(outcome.stdout, "");
    assert!(outcome.stderr.contains("'estimate'"), "{}", outcome.stderr);
}
