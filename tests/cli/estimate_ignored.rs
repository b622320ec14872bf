//! Flags that mean nothing for the model or the method at hand: refused or said, never passed by.

use crate::support::Run;

fn notes(args: &str) -> Vec<String> {
    let document = Run::new(args).json();
    let notes = document["body"]["notes"].as_array().expect("notes").clone();
    notes.iter().filter_map(|note| note.as_str().map(str::to_owned)).collect()
}

fn says(args: &str, begins: &str) {
    let notes = notes(&format!("estimate --format json {args}"));
    let said = notes.iter().filter(|note| note.starts_with(begins)).count();
    assert_eq!(said, 1, "{args}: {notes:?}");
}

#[test]
fn a_flag_without_effect_is_said() {
    says("unet --gradient-checkpointing", "`--gradient-checkpointing` has no effect: neither torchvision");
    says("vit-b-16 --gradient-checkpointing", "`--gradient-checkpointing` is counted block by block");
    says("resnet-50 --attention eager", "`--attention` has no effect: image networks");
    says("bloom-560m --attention sdpa", "`--attention` has no effect: this family's code");
    says("bert-base-uncased --loss chunked", "`--loss` has no effect");
    says("gpt2 --no-double-quant", "`--no-double-quant` has no effect");
    says("gpt2 --deadline 3h", "`--deadline` needs the length");
    says("gpt2 --currency EUR", "`--currency` has no effect");
    let inference = "gpt2 --method inference --optimizer sgd --grad-accum 2 --loss fused --stack trl \
                     --gradient-checkpointing --gpus 2 --zero 3";
    for flag in ["optimizer", "grad-accum", "loss", "stack", "gradient-checkpointing", "zero"] {
        says(inference, &format!("`--{flag}` has no effect"));
    }
    assert_eq!(notes("estimate --format json gpt2 --loss chunked --attention eager"), Vec::<String>::new());
}

#[test]
fn a_flag_that_no_run_could_mean_is_refused() {
    for (args, error) in [
        ("gpt2 --generate 9", "`--generate` has no meaning in training"),
        ("resnet-50 --method inference --generate 9", "`--generate` has no meaning for an image network"),
        ("resnet-50 --stack unsloth", "`--stack unsloth` does not train image models"),
        ("resnet-50 --tokens 1M", "`--tokens` has no meaning for images"),
        (
            "gpt2 --method lora --lora-targets foo",
            "no linear layer of this model is named by `--lora-targets foo`",
        ),
        (
            "gpt2 --attention flash --autocast none",
            "`--attention flash` computes in half precision only, and this plan computes in fp32",
        ),
    ] {
        let out = Run::new(&format!("estimate {args}")).run();
        assert_eq!((out.status, out.stdout.as_str()), (2, ""), "{args}");
        assert!(out.stderr.starts_with(&format!("error: {error}\nhint: ")), "{args}: {}", out.stderr);
    }
}

#[test]
fn recomputing_blocks_of_an_image_network_lowers_its_peak() {
    let peak = |args: &str| {
        let document = Run::new(&format!("estimate --format json vit-b-16 --batch 64 {args}")).json();
        document["body"]["peak"]["allocated"]["expected"].as_u64().expect("bytes")
    };
    // Twelve blocks of activations become one and twelve inputs.
    assert!(peak("--gradient-checkpointing") * 2 < peak(""));
}
