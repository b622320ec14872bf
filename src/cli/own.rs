//! What the program writes about itself: completions for a shell and man pages, made from the same flags that it parses.

use clap::builder::{PossibleValue, PossibleValuesParser};
use clap::{Arg, Command};

use super::command;
use crate::gpu::Catalog;
use crate::model::presets;
use crate::words::Lang;

pub use clap_complete::Shell;

/// The name under which it is installed.
const NAME: &str = "onecard";

/// The script for a shell. Names of GPUs and models complete; anything else may still be typed.
pub fn completions(shell: Shell, lang: Lang) -> String {
    let mut all = with_names(command(lang, None));
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut all, NAME, &mut script);
    let script = String::from_utf8_lossy(&script).into_owned();
    let models: Vec<&str> = presets::all().iter().map(|preset| preset.id.as_str()).collect();
    let models = models.join(" ");
    match shell {
        // Zsh offers the listed names and nothing else; a model may be a file, too.
        Shell::Zsh => script.replace(
            &format!(":({models})'"),
            &format!(":{{_alternative \"models:model:({models})\" \"files:file:_files\"}}'"),
        ),
        // What clap writes for fish completes no positional arguments.
        Shell::Fish => {
            script
                + &format!(
                    "complete -c {NAME} -n \"__fish_{NAME}_using_subcommand estimate\" -a \"{models}\"\n"
                )
        }
        _ => script,
    }
}

/// Files of section 1 with their content: the program's own and one for each command.
pub fn man_pages(lang: Lang) -> std::io::Result<Vec<(String, Vec<u8>)>> {
    let mut all = command(lang, None);
    all.build();
    let shown = |sub: &&Command| !sub.is_hide_set() && sub.get_name() != "help";
    let mut pages = vec![page(NAME, all.clone())?];
    for sub in all.get_subcommands().filter(shown) {
        pages.push(page(&format!("{NAME}-{}", sub.get_name()), sub.clone())?);
    }
    Ok(pages)
}

fn page(name: &str, command: Command) -> std::io::Result<(String, Vec<u8>)> {
    let mut text = Vec::new();
    // The title is the file's name; `onecard env` stays the command's name in the synopsis.
    clap_mangen::Man::new(command.display_name(name.to_owned()))
        .title(name.to_uppercase())
        .render(&mut text)?;
    Ok((format!("{name}.1"), text))
}

/// Where a name of the catalogue is one of the answers, the script should know all of them. Parsing never sees this.
fn with_names(all: Command) -> Command {
    let gpus = || Catalog::builtin().gpus.iter().map(|gpu| gpu.id.as_str());
    let offer = |arg: Arg, names: Vec<&'static str>| {
        arg.hide_possible_values(true)
            .value_parser(PossibleValuesParser::new(names.into_iter().map(PossibleValue::new)))
    };
    let of_catalogue: Vec<&'static str> = gpus().collect();
    let of_estimate: Vec<&'static str> = ["all", "local"].into_iter().chain(gpus()).collect();
    let models: Vec<&'static str> = presets::all().iter().map(|preset| preset.id.as_str()).collect();
    all.mut_subcommand("env", |env| env.mut_arg("expect", |arg| offer(arg, of_catalogue))).mut_subcommand(
        "estimate",
        |estimate| {
            estimate.mut_arg("gpu", |arg| offer(arg, of_estimate)).mut_arg("model", |arg| offer(arg, models))
        },
    )
}

#[cfg(test)]
mod tests {
    use clap::ValueEnum as _;

    use super::{Shell, completions, man_pages};
    use crate::words::Lang;

    #[test]
    fn every_shell_knows_commands_flags_and_names() {
        for shell in Shell::value_variants() {
            let script = completions(*shell, Lang::En);
            let names = ["rtx-5090", "h200-sxm", "llama-3.1-8b", "unsloth"];
            // Elvish and PowerShell complete flags only, in what clap writes for them.
            let values = !matches!(shell, Shell::Elvish | Shell::PowerShell);
            for word in ["estimate", "memory-limit"].into_iter().chain(names.into_iter().filter(|_| values)) {
                assert!(script.contains(word), "{shell}: {word}");
            }
            assert!(!script.contains("probe-relay --"), "{shell}: the hidden command offers nothing");
        }
    }

    #[test]
    fn each_command_has_its_page() {
        let pages = man_pages(Lang::En).expect("rendered");
        let names: Vec<&str> = pages.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(
            names,
            ["onecard.1", "onecard-env.1", "onecard-estimate.1", "onecard-probe.1", "onecard-verdict.1"]
        );
        for (name, text) in &pages {
            let text = String::from_utf8_lossy(text);
            assert!(text.contains(".SH NAME") && text.contains(".SH OPTIONS"), "{name}");
        }
        let estimate = String::from_utf8_lossy(&pages[2].1).into_owned();
        assert!(estimate.contains("\\-\\-gradient\\-checkpointing"), "{estimate}");
    }
}
