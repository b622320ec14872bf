//! Gather the documents, judge them, write the report in every form asked for.

use std::path::{Path, PathBuf};

use super::Reporter;
use crate::adapters::{files, gather};
use crate::cli::VerdictArgs;
use crate::document::{Body, Document};
use crate::exit::Exit;
use crate::render::{self, pages};
use crate::verdict::evidence::{Env, Estimate, Evidence, Held, Probe};
use crate::verdict::{self, Asked, Length, Price, Verdict, VerdictReport, example};
use crate::words::{Lang, Message, Problem};

/// Where `onecard probe` writes when nothing else is said.
const DEFAULT_PROBE: &str = "onecard-probe.json";

pub(super) fn run(args: &VerdictArgs, reporter: &mut Reporter<'_, '_>) -> anyhow::Result<Exit> {
    let reports = args.reports.iter().map(|path| ReportKind::of(path)).collect::<Result<Vec<_>, _>>()?;
    let asked = asked(args)?;
    let evidence = if args.example { recorded() } else { gather(args)? };
    let body = verdict::verdict(&evidence, &asked);
    let exit = exit_of(body.verdict);
    let document = Document::new(body, None);
    for (path, kind) in args.reports.iter().zip(reports) {
        let text = kind.text(&document, &evidence, reporter.lang);
        files::write_atomically(path, text.as_bytes())?;
    }
    let page = pages::verdict::page(&document.body);
    reporter.result(&document, &page)?;
    Ok(exit)
}

fn exit_of(verdict: Verdict) -> Exit {
    match verdict {
        Verdict::Pass => Exit::Yes,
        Verdict::Fail => Exit::No,
        Verdict::Undetermined => Exit::CannotTell,
    }
}

fn asked(args: &VerdictArgs) -> Result<Asked, Problem> {
    let length = match (args.steps, args.epochs.zip(args.samples), args.tokens) {
        (Some(steps), _, _) => Some(Length::Steps(steps)),
        (_, Some((epochs, samples)), _) => Some(Length::Epochs { epochs, samples }),
        (_, _, Some(tokens)) => Some(Length::Tokens(tokens)),
        _ => None,
    };
    let price = match (&args.price, &args.currency) {
        (Some(price), Some(currency)) => Some(Price::parse(price, currency).ok_or_else(|| {
            Problem::new(Message::new("verdict-bad-price").with("price", price.clone()))
                .hint(Message::new("verdict-bad-price-hint"))
        })?),
        _ => None,
    };
    Ok(Asked {
        deadline_seconds: args.deadline.map(|deadline| deadline.as_secs_f64()),
        length,
        samples_per_step: args.samples_per_step,
        extra_seconds: args.extra.map(|extra| extra.as_secs_f64()),
        need: args.need,
        memory_limit: args.memory_limit,
        min_steps: args.min_steps,
        price,
        accept: args.accept.clone(),
    })
}

/// The embedded run. Its own deadline, length and price are in its estimate's plan.
fn recorded() -> Evidence {
    fn held<B: Body + serde::de::DeserializeOwned>(name: &str, text: &str) -> Held<B> {
        let document = Document::<B>::from_json(text).expect("the embedded documents are read by a test");
        Held {
            name: name.to_owned(),
            tool_version: document.tool_version,
            created_at: document.created_at,
            body: document.body,
        }
    }
    Evidence {
        env: Some(held("env", example::ENV)),
        estimate: Some(held("estimate", example::ESTIMATE)),
        probes: vec![held("probe", example::PROBE)],
    }
}

fn gather(args: &VerdictArgs) -> Result<Evidence, Problem> {
    let paths = probe_paths(args)?;
    let mut evidence = Evidence {
        env: args.env.as_deref().map(|path| read::<Env>(path, "env".to_owned())).transpose()?,
        estimate: args
            .estimate
            .as_deref()
            .map(|path| read::<Estimate>(path, "estimate".to_owned()))
            .transpose()?,
        probes: Vec::new(),
    };
    for (at, path) in paths.iter().enumerate() {
        let name = if paths.len() == 1 { "probe".to_owned() } else { format!("probe[{at}]") };
        let held = read::<Probe>(path, name)?;
        if let Some(absurd) = verdict::absurdity(&held.body) {
            let what = Message::new("verdict-absurd")
                .with("path", path.display().to_string())
                .with("pointer", absurd.pointer)
                .with("why", absurd.why);
            return Err(Problem::new(what).hint(Message::new("verdict-absurd-hint")));
        }
        evidence.probes.push(held);
        if let Some((_, rank)) = verdict::duplicate_rank(&evidence) {
            let what = Message::new("verdict-same-rank")
                .with("path", path.display().to_string())
                .with("rank", rank.to_string());
            return Err(Problem::new(what).hint(Message::new("verdict-same-rank-hint")));
        }
    }
    if evidence.env.is_none() && evidence.probes.iter().all(|probe| probe.body.env.is_none()) {
        evidence.env = read_now(&evidence.probes);
    }
    Ok(evidence)
}

/// This machine, where it is the one in question: nothing was probed, or the probed GPU is here.
fn read_now(probes: &[Held<Probe>]) -> Option<Held<Env>> {
    let folder = std::env::current_dir().unwrap_or_else(|_| Path::new("/").to_owned());
    let (body, _) = gather::env_body(&folder);
    let value = serde_json::to_value(body).expect("documents hold only JSON-representable data");
    let body: Env = serde_json::from_value(value).expect("what env writes, verdict reads");
    let here = |uuid: &String| body.gpus.iter().flatten().any(|gpu| gpu.uuid.as_ref() == Some(uuid));
    let mut probed = probes.iter().flat_map(|probe| probe.body.gpus.iter().flatten());
    let in_question = if probes.is_empty() {
        body.gpus.as_ref().is_some_and(|gpus| !gpus.is_empty())
    } else {
        probed.any(|gpu| gpu.uuid.as_ref().is_some_and(here))
    };
    let held = Held {
        name: "env".to_owned(),
        tool_version: env!("CARGO_PKG_VERSION").to_owned(),
        created_at: None,
        body,
    };
    in_question.then_some(held)
}

/// Those named; without any, the default one if it is there. It need not be when another document is.
fn probe_paths(args: &VerdictArgs) -> Result<Vec<PathBuf>, Problem> {
    if !args.probes.is_empty() {
        return Ok(args.probes.clone());
    }
    let default = Path::new(DEFAULT_PROBE);
    if files::exists(default) {
        return Ok(vec![default.to_owned()]);
    }
    if args.env.is_some() || args.estimate.is_some() {
        return Ok(Vec::new());
    }
    let what = Message::new("verdict-nothing-to-judge").with("path", DEFAULT_PROBE);
    Err(Problem::new(what).hint(Message::new("verdict-nothing-to-judge-hint")))
}

fn read<B: Body + serde::de::DeserializeOwned>(path: &Path, name: String) -> Result<Held<B>, Problem> {
    let document = files::read_document::<B>(path)?;
    Ok(Held {
        name,
        tool_version: document.tool_version,
        created_at: document.created_at,
        body: document.body,
    })
}

/// What a report file holds, by its ending.
#[derive(Clone, Copy)]
enum ReportKind {
    Html,
    Json,
    Junit,
    Markdown,
}

impl ReportKind {
    fn of(path: &Path) -> Result<ReportKind, Problem> {
        let ending = path.extension().map(|ending| ending.to_string_lossy().to_ascii_lowercase());
        match ending.as_deref() {
            Some("html" | "htm") => Ok(ReportKind::Html),
            Some("json") => Ok(ReportKind::Json),
            Some("xml") => Ok(ReportKind::Junit),
            Some("md" | "markdown") => Ok(ReportKind::Markdown),
            _ => {
                let what = Message::new("verdict-report-extension").with("path", path.display().to_string());
                Err(Problem::new(what).hint(Message::new("verdict-report-extension-hint")))
            }
        }
    }

    fn text(self, document: &Document<VerdictReport>, evidence: &Evidence, lang: Lang) -> String {
        match self {
            ReportKind::Html => render::html::render(&document.body, evidence, &document.tool_version, lang),
            ReportKind::Json => document.to_json(),
            ReportKind::Junit => render::junit::render(&document.body, lang),
            ReportKind::Markdown => render::markdown::render(&pages::verdict::page(&document.body), lang),
        }
    }
}
