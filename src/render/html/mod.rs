//! The verdict as one HTML file that needs nothing else: no script, no font, no image from elsewhere.

mod figures;
mod ledger;

use std::fmt::Write as _;

use crate::render::pages::verdict as page;
use crate::verdict::{Cite, Criterion, Evidence, Fact, Figure, Status, Verdict, VerdictReport};
use crate::words::{Lang, Message};

const STYLE: &str = include_str!("report.css");

pub fn render(report: &VerdictReport, evidence: &Evidence, tool_version: &str, lang: Lang) -> String {
    let mut html = String::new();
    let title = page::title(report.verdict).text(lang);
    let _ = write!(
        html,
        "<!doctype html>\n<html lang=\"{}\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\n\
         <title>{}</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n",
        lang.tag(),
        escaped(&title)
    );
    header(&mut html, report, lang);
    cards(&mut html, report, lang);
    html.push_str("<main>\n");
    figures::sections(&mut html, evidence, report, lang);
    ledger::section(&mut html, evidence, lang);
    for criterion in &report.criteria {
        criterion_section(&mut html, criterion, lang);
    }
    next_steps(&mut html, report, lang);
    record(&mut html, report, lang);
    let made = Message::new("verdict-made-by").with("version", tool_version).text(lang);
    let _ = write!(html, "</main>\n<footer>{}</footer>\n</body>\n</html>\n", marked(&made));
    html
}

fn header(html: &mut String, report: &VerdictReport, lang: Lang) {
    let class = match report.verdict {
        Verdict::Pass => "pass",
        Verdict::Fail => "fail",
        Verdict::Undetermined => "unknown",
    };
    let _ = write!(
        html,
        "<header>\n<p class=\"question\">{}</p>\n<h1 class=\"{class}\">{}</h1>\n",
        marked(&Message::new("verdict-question").text(lang)),
        marked(&page::verdict_name(report.verdict).text(lang))
    );
    if let Some(command) = &report.record.command {
        let _ = writeln!(html, "<p><code>{}</code></p>", escaped(command));
    }
    let mut about: Vec<&str> = report.record.gpus.iter().map(String::as_str).collect();
    about.extend(report.record.started_at.as_deref());
    if !about.is_empty() {
        let _ = writeln!(html, "<p class=\"soft\">{}</p>", escaped(&about.join(" · ")));
    }
    html.push_str("</header>\n");
}

fn cards(html: &mut String, report: &VerdictReport, lang: Lang) {
    html.push_str("<section class=\"cards\">\n");
    for criterion in &report.criteria {
        let _ = writeln!(
            html,
            "<a class=\"card {}\" href=\"#{}\"><h2>{}</h2>{}<p>{}</p></a>",
            criterion.status.key(),
            criterion.id,
            marked(&page::name(criterion.id).text(lang)),
            badge(criterion.status, lang),
            marked(&page::why(criterion).text(lang))
        );
    }
    html.push_str("</section>\n");
}

fn badge(status: Status, lang: Lang) -> String {
    let sign = match status {
        Status::Pass => "✓",
        Status::Fail => "✗",
        Status::Unknown => "?",
        Status::Accepted => "!",
    };
    let name = page::status_name(status).text(lang);
    let key = status.key();
    format!("<span class=\"badge {key}\"><span aria-hidden=\"true\">{sign}</span> {}</span>", marked(&name))
}

fn criterion_section(html: &mut String, criterion: &Criterion, lang: Lang) {
    let _ = write!(
        html,
        "<section id=\"{}\">\n<h2>{} {}</h2>\n<table class=\"findings\">\n<thead><tr>",
        criterion.id,
        marked(&page::name(criterion.id).text(lang)),
        badge(criterion.status, lang)
    );
    if let Some(reason) = &criterion.accepted_because {
        let text = Message::new("verdict-accepted-because").with("reason", reason.clone()).text(lang);
        // Before the table's head in reading order, since it explains what follows.
        let at = html.rfind("<table").unwrap_or(html.len());
        html.insert_str(at, &format!("<p>{}</p>\n", marked(&text)));
    }
    let columns = [
        Message::new("verdict-column-status"),
        Message::new("verdict-column-finding"),
        Message::new("verdict-column-value"),
        Message::new("verdict-column-limit"),
        Message::new("verdict-column-evidence"),
    ]
    .map(|column| marked(&column.text(lang)));
    for column in &columns {
        let _ = write!(html, "<th scope=\"col\">{column}</th>");
    }
    html.push_str("</tr></thead>\n<tbody>\n");
    for finding in &criterion.findings {
        let cells = [
            badge(finding.status, lang),
            format!("{}<br><small>{}</small>", marked(&finding.fact.text.text(lang)), escaped(finding.id)),
            value(&finding.fact),
            finding.fact.limit.as_ref().map_or_else(String::new, |limit| escaped(&limit.shown())),
            cites(&finding.fact.cites),
        ];
        html.push_str("<tr>");
        for (column, cell) in columns.iter().zip(&cells) {
            let empty = if cell.is_empty() { " class=\"empty\"" } else { "" };
            let _ = write!(html, "<td data-label=\"{column}\"{empty}>{cell}</td>");
        }
        html.push_str("</tr>\n");
    }
    html.push_str("</tbody>\n</table>\n");
    if !criterion.notes.is_empty() {
        html.push_str("<ul class=\"notes\">\n");
        for note in &criterion.notes {
            let _ = writeln!(html, "<li>{}</li>", marked(&note.fact.text.text(lang)));
        }
        html.push_str("</ul>\n");
    }
    html.push_str("</section>\n");
}

fn value(fact: &Fact) -> String {
    let shown = page::value(fact).unwrap_or_default();
    match &fact.interval {
        Some([low, high]) => {
            let between = format!("{} – {}", Figure::shown(low), Figure::shown(high));
            format!("{}<br><small>{}</small>", escaped(&shown), escaped(&between))
        }
        None => escaped(&shown),
    }
}

fn cites(cites: &[Cite]) -> String {
    let all: Vec<String> =
        cites.iter().map(|cite| format!("<code>{}</code>", breakable(&page::cite_text(cite)))).collect();
    all.join("<br>")
}

/// A path may be broken before each of its parts rather than anywhere.
fn breakable(path: &str) -> String {
    escaped(path).replace('/', "<wbr>/")
}

fn next_steps(html: &mut String, report: &VerdictReport, lang: Lang) {
    if report.next_steps.is_empty() {
        return;
    }
    let heading = Message::new("verdict-heading-next").text(lang);
    let _ = write!(html, "<section>\n<h2>{}</h2>\n<ol>\n", marked(&heading));
    for step in &report.next_steps {
        let _ = writeln!(html, "<li>{}</li>", marked(&page::next_line(step).text(lang)));
    }
    html.push_str("</ol>\n</section>\n");
}

fn record(html: &mut String, report: &VerdictReport, lang: Lang) {
    let heading = Message::new("verdict-heading-record").text(lang);
    let _ = write!(html, "<section>\n<h2>{}</h2>\n<dl>\n", marked(&heading));
    for (name, cell) in page::record_facts(&report.record) {
        let _ =
            writeln!(html, "<dt>{}</dt><dd>{}</dd>", marked(&name.text(lang)), escaped(&cell.shown(lang)));
    }
    html.push_str("</dl>\n</section>\n");
}

/// Text of a user's run, harmless as text and as an attribute's value.
pub(super) fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            // Controls have no place in HTML, and escape sequences begin with one.
            c if c.is_control() && c != '\n' && c != '\t' => {}
            c => out.push(c),
        }
    }
    out
}

/// A sentence: escaped, with what stands in backquotes as code.
fn marked(text: &str) -> String {
    let parts: Vec<&str> = text.split('`').collect();
    // An odd backquote is the user's own.
    if parts.len().is_multiple_of(2) {
        return escaped(text);
    }
    let mut out = String::new();
    for (at, part) in parts.iter().enumerate() {
        let part = escaped(part);
        if at % 2 == 1 {
            let _ = write!(out, "<code>{part}</code>");
        } else {
            out.push_str(&part);
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::{escaped, marked};

    #[test]
    fn nothing_of_a_run_becomes_markup() {
        assert_eq!(escaped("<b a=\"'\">&\u{1b}[0m"), "&lt;b a=&quot;&#39;&quot;&gt;&amp;[0m");
        assert_eq!(marked("run `a <b>` now"), "run <code>a &lt;b&gt;</code> now");
        assert_eq!(marked("one ` only"), "one ` only");
    }
}
