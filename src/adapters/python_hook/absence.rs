//! Why the hook could not load, as far as the command itself shows it.

use std::ffi::OsString;

use crate::words::Message;

/// A reason for a command whose Python was told not to look at its environment, or that is wrapped in
/// something that does not pass the environment on.
pub(super) fn reason(command: &[OsString]) -> Option<Message> {
    let words: Vec<_> = command.iter().map(|word| word.to_string_lossy()).collect();
    for (at, word) in words.iter().enumerate() {
        let name = word.rsplit('/').next().unwrap_or(word);
        let mut flags = words[at + 1..].iter().take_while(|word| word.starts_with('-'));
        if let Some(flag) = is_python(name).then(|| closing(flags.clone())).flatten() {
            return Some(Message::new("hook-absent-flag").with("flag", flag));
        }
        let wrapper = match name {
            "env" if flags.any(|word| *word == "-i" || *word == "-") => Some(Message::new("hook-absent-env")),
            "sudo" => Some(Message::new("hook-absent-sudo")),
            "docker" | "podman" | "apptainer" | "singularity" => Some(Message::new("hook-absent-container")),
            "ssh" | "srun" | "kubectl" => Some(Message::new("hook-absent-elsewhere")),
            _ => None,
        };
        if wrapper.is_some() {
            return wrapper;
        }
    }
    None
}

/// The first flag that closes Python to us. What follows `-c` or `-m` belongs to the program.
fn closing<T: AsRef<str>>(flags: impl Iterator<Item = T>) -> Option<&'static str> {
    for flag in flags {
        let found = closing_flag(flag.as_ref());
        if found.is_some() || ends_flags(flag.as_ref()) {
            return found;
        }
    }
    None
}

/// The same of a running process, whose first word is its program.
pub(super) fn closing_flags_of(words: &[String]) -> Option<&'static str> {
    let (program, rest) = words.split_first()?;
    let name = program.rsplit('/').next().unwrap_or(program);
    is_python(name).then(|| closing(rest.iter().take_while(|word| word.starts_with('-')))).flatten()
}

fn is_python(name: &str) -> bool {
    let rest = name.strip_prefix("python").or_else(|| name.strip_prefix("pypy"));
    rest.is_some_and(|rest| rest.chars().all(|c| c.is_ascii_digit() || c == '.'))
}

/// `-I`, `-E` or `-S`, alone or among others (`-Iu`); flags that take a value end the search.
fn closing_flag(word: &str) -> Option<&'static str> {
    let letters = word.strip_prefix('-').filter(|letters| !letters.starts_with('-'))?;
    for letter in letters.chars() {
        match letter {
            'I' => return Some("-I"),
            'E' => return Some("-E"),
            'S' => return Some("-S"),
            'c' | 'm' | 'W' | 'X' => return None,
            _ => {}
        }
    }
    None
}

/// Whether the rest of the command line is the program's own.
fn ends_flags(word: &str) -> bool {
    !word.starts_with("--") && word.contains(['c', 'm'])
}

#[cfg(test)]
mod tests {
    use super::reason;

    #[test]
    fn the_command_tells_why() {
        let of = |line: &str| {
            reason(&line.split(' ').map(Into::into).collect::<Vec<_>>()).map(|why| why.to_string())
        };
        let flag = |flag: &str| {
            Some(format!("python {flag} does not look at PYTHONPATH or does not run sitecustomize"))
        };
        assert_eq!(of("python -I train.py"), flag("-I"));
        assert_eq!(of("/usr/bin/python3.11 -uE train.py"), flag("-E"));
        assert_eq!(of("uv run python3 -S -m train"), flag("-S"));
        assert_eq!(of("python train.py -I"), None);
        assert_eq!(of("python -mEmbed"), None);
        assert_eq!(of("python -c -I"), None);
        assert_eq!(of("pythonic -I x"), None);
        assert_eq!(of("sudo python train.py").as_deref(), Some("sudo clears the environment"));
        assert_eq!(of("env -i python train.py").as_deref(), Some("env -i clears the environment"));
        assert_eq!(of("env A=1 python train.py"), None);
        assert_eq!(of("bash run.sh"), None);
    }
}
