//! Workflows and actions as GitHub runs them: each `run:` block in a file of its own, by the shell that it names, with the
//! expressions put in.

use std::ffi::OsString;
use std::fs;
use std::path::Path;
use std::process::Command;

use yaml_rust2::{Yaml, YamlLoader};

use crate::top;

pub(crate) fn yaml(file: &str) -> Yaml {
    let text = fs::read_to_string(top().join(file)).unwrap();
    yaml_of(&text)
}

pub(crate) fn yaml_of(text: &str) -> Yaml {
    YamlLoader::load_from_str(text).unwrap().remove(0)
}

/// One step that runs something.
pub(crate) struct Step {
    run: String,
    shell: Option<String>,
    env: Vec<(String, String)>,
}

pub(crate) struct Done {
    pub(crate) status: i32,
    pub(crate) said: String,
}

/// The steps with a `run:` under these keys, such as `jobs`, `publish`, `steps`.
pub(crate) fn steps(file: &str, keys: &[&str]) -> Vec<Step> {
    let document = yaml(file);
    let list = keys.iter().fold(&document, |at, key| &at[*key]);
    let found: Vec<Step> = list.as_vec().unwrap().iter().filter_map(Step::of).collect();
    assert!(!found.is_empty(), "{file}: {keys:?}");
    found
}

impl Step {
    fn of(step: &Yaml) -> Option<Step> {
        let text = |value: &Yaml| value.as_str().unwrap().to_owned();
        let env = step["env"].as_hash().into_iter().flatten();
        Some(Step {
            run: step["run"].as_str()?.to_owned(),
            shell: step["shell"].as_str().map(str::to_owned),
            env: env.map(|(name, value)| (text(name), text(value))).collect(),
        })
    }

    pub(crate) fn says(&self, part: &str) -> bool {
        self.run.contains(part)
    }

    /// `context` are the values of expressions, such as `matrix.target`: one that is not named here stops the test.
    pub(crate) fn run(&self, folder: &Path, context: &[(&str, &str)], env: &[(&str, OsString)]) -> Done {
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(file.path(), expanded(&self.run, context)).unwrap();
        // "Using a specific shell" in GitHub's workflow syntax: what each name means, and what none means.
        let mut command = match self.shell.as_deref() {
            Some("bash") => words("bash --noprofile --norc -eo pipefail"),
            Some("sh") => words("sh -e"),
            None => words("bash -e"),
            Some(other) => panic!("{other}"),
        };
        let own = self.env.iter().map(|(name, value)| (name, expanded(value, context)));
        let done = command.arg(file.path()).envs(own).current_dir(folder);
        let done = done.envs(env.iter().map(|(name, value)| (name, value))).output().unwrap();
        let said = [done.stdout, done.stderr].concat();
        Done { status: done.status.code().unwrap(), said: String::from_utf8_lossy(&said).into_owned() }
    }
}

fn words(line: &str) -> Command {
    let mut words = line.split(' ');
    let mut command = Command::new(words.next().unwrap());
    command.args(words).env("LC_ALL", "C");
    command
}

fn expanded(text: &str, context: &[(&str, &str)]) -> String {
    let mut parts = text.split("${{");
    let mut all = parts.next().unwrap().to_owned();
    for part in parts {
        let (expression, rest) = part.split_once("}}").unwrap();
        let known = context.iter().find(|(name, _)| *name == expression.trim());
        all += known.unwrap_or_else(|| panic!("what is `{}`?", expression.trim())).1;
        all += rest;
    }
    all
}
