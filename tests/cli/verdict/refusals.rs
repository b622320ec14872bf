//! Input that cannot be judged: one line, a hint, status 2.

use serde_json::json;

use super::{GIB, good_probe, with};
use crate::support::Run;

#[test]
fn bad_input_gets_one_line() {
    let hint = "hint: onecard writes such a file with `onecard probe --output FILE`\n";
    let with_file = |content: &str| Run::new("verdict --probe p.json").file("p.json", content);
    Run::new("verdict").refuses(
        "error: nothing to judge: no `onecard-probe.json` here and no document named\n\
         hint: run `onecard probe -- COMMAND` first, name documents with --probe, --estimate or --env, or look at `onecard verdict --example`\n",
    );
    Run::new("verdict --probe none.json").refuses(
        "error: cannot read `none.json`: no such file\n\
         hint: onecard writes such a file with `onecard probe --output FILE`\n",
    );
    Run::new("verdict --probe .").refuses(&format!("error: cannot read `.`: it is a folder\n{hint}"));
    with_file("").refuses(&format!(
        "error: `p.json`: not JSON: it ends before it is complete (line 1, column 0)\n{hint}"
    ));
    with_file("{\"kind\": NaN}")
        .refuses(&format!("error: `p.json`: not JSON: expected value (line 1, column 10)\n{hint}"));
    with_file("{\"kind\": 1e999}")
        .refuses(&format!("error: `p.json`: not JSON: number out of range (line 1, column 14)\n{hint}"));
    with_file("{}").refuses(&format!(
        "error: `p.json`: not a onecard document: `kind`, `schema` and `body` are missing\n{hint}"
    ));
    with_file(r#"{"kind":"env","schema":1,"tool_version":"0.1.0","body":{}}"#).refuses(&format!(
        "error: `p.json`: a document of kind `env`, but a `probe` document is needed here\n{hint}"
    ));
    with_file(r#"{"kind":"probe","schema":9,"tool_version":"9.0.0","body":{}}"#).refuses(
        "error: `p.json`: written in schema 9; this onecard reads up to schema 1\n\
         hint: update onecard, or write the document again with this version\n",
    );
    let absurd = with("/body/gpus/0/peak_used", json!(200 * GIB)).to_string();
    with_file(&absurd).refuses(
        "error: `p.json`: /body/gpus/0/peak_used is more than the card has\n\
         hint: the document was damaged or not written by onecard; probe again\n",
    );
    let good = good_probe().to_string();
    Run::new("verdict --report a.doc").file("onecard-probe.json", &good).refuses(
        "error: cannot tell the format of the report `a.doc`\nhint: name it .html, .md, .json or .xml\n",
    );
    Run::new("verdict --price 1,5 --currency EUR")
        .file("onecard-probe.json", &good)
        .refuses("error: `1,5` is not a price\nhint: give a decimal number such as `2.99`\n");
    for usage in [
        "--accept speed=x",
        "--accept recovery=",
        "--currency dollars",
        "--memory-limit 0",
        "--min-steps 0",
        "--steps 0",
        "--epochs 1",
        "--epochs -1 --samples 5",
        "--deadline soon",
        "--steps 5 --tokens 5",
        "--need int8",
    ] {
        let outcome = Run::new(&format!("verdict {usage}")).file("onecard-probe.json", &good).run();
        assert_eq!((outcome.status, outcome.stdout.as_str()), (2, ""), "{usage}");
        assert!(outcome.stderr.starts_with("error: "), "{usage}: {}", outcome.stderr);
    }
}
