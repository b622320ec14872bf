//! The verdict as JUnit XML, in the form that Jenkins, GitLab and GitHub actions read: one suite of four cases.
//! What cannot be told is an error, never a skip: a skip would turn a pipeline green.

use std::io::Cursor;

use quick_xml::Writer;
use quick_xml::events::{BytesDecl, BytesEnd, BytesStart, BytesText, Event};

use crate::render::pages;
use crate::verdict::{Criterion, Fact, Figure, Finding, Note, Status, VerdictReport};
use crate::words::{Lang, Message};

/// XML with a final newline.
pub fn render(report: &VerdictReport, lang: Lang) -> String {
    let mut xml = Xml { writer: Writer::new_with_indent(Cursor::new(Vec::new()), b' ', 2) };
    xml.put(Event::Decl(BytesDecl::new("1.0", Some("UTF-8"), None)));
    let count = |status| report.criteria.iter().filter(|c| c.status == status).count().to_string();
    let (failures, errors) = (count(Status::Fail), count(Status::Unknown));
    let counts = [
        ("name", "onecard verdict"),
        ("tests", &report.criteria.len().to_string()),
        ("failures", &failures),
        ("errors", &errors),
        ("skipped", "0"),
    ];
    xml.open("testsuites", &counts);
    xml.open("testsuite", &counts);
    xml.open("properties", &[]);
    for (name, cell) in pages::verdict::record_facts(&report.record) {
        xml.property(&name.text(lang), &cell.shown(lang));
    }
    xml.close("properties");
    for criterion in &report.criteria {
        case(&mut xml, criterion, lang);
    }
    xml.close("testsuite");
    xml.close("testsuites");
    let mut text = String::from_utf8(xml.writer.into_inner().into_inner()).expect("only text was written");
    text.push('\n');
    text
}

fn case(xml: &mut Xml, criterion: &Criterion, lang: Lang) {
    xml.open("testcase", &[("classname", "onecard.verdict"), ("name", criterion.id.key())]);
    xml.open("properties", &[]);
    for finding in &criterion.findings {
        xml.property(&format!("{}.status", finding.id), finding.status.key());
        properties(xml, finding.id, &finding.fact);
    }
    for note in &criterion.notes {
        properties(xml, note.id, &note.fact);
    }
    xml.close("properties");
    let why = pages::verdict::why(criterion).text(lang);
    let element = match criterion.status {
        Status::Fail => Some("failure"),
        Status::Unknown => Some("error"),
        Status::Pass | Status::Accepted => None,
    };
    let findings = criterion.findings.iter().map(|finding| line(finding, lang));
    let notes = criterion.notes.iter().map(|note| note_line(note, lang));
    let lines = findings.chain(notes).collect::<Vec<String>>().join("\n");
    if let Some(element) = element {
        xml.open(element, &[("message", &why), ("type", criterion.status.key())]);
        xml.text(&lines);
        xml.close(element);
    } else {
        xml.open("system-out", &[]);
        xml.text(&format!("{why}\n{lines}"));
        xml.close("system-out");
    }
    xml.close("testcase");
}

fn properties(xml: &mut Xml, id: &str, fact: &Fact) {
    let figures = [("value", fact.value.as_ref()), ("limit", fact.limit.as_ref())];
    let interval = fact.interval.as_ref().map(|[low, high]| [("low", Some(low)), ("high", Some(high))]);
    for (name, figure) in figures.into_iter().chain(interval.into_iter().flatten()) {
        if let Some(figure) = figure {
            xml.property(&format!("{id}.{name}"), &figure.bare());
        }
    }
    if let Some(unit) = fact.value.as_ref().or(fact.limit.as_ref()).map(Figure::unit) {
        xml.property(&format!("{id}.unit"), unit);
    }
}

fn line(finding: &Finding, lang: Lang) -> String {
    let cites: Vec<String> = finding.fact.cites.iter().map(pages::verdict::cite_text).collect();
    let status = pages::verdict::status_name(finding.status).text(lang);
    format!("{status} {}: {} [{}]", finding.id, finding.fact.text.text(lang), cites.join("; "))
}

fn note_line(note: &Note, lang: Lang) -> String {
    let cites: Vec<String> = note.fact.cites.iter().map(pages::verdict::cite_text).collect();
    let text = Message::new("verdict-note-line").with("text", note.fact.text.clone()).text(lang);
    format!("{text} ({}) [{}]", note.id, cites.join("; "))
}

struct Xml {
    writer: Writer<Cursor<Vec<u8>>>,
}

impl Xml {
    fn put(&mut self, event: Event<'_>) {
        self.writer.write_event(event).expect("memory can be written to");
    }

    fn open(&mut self, name: &str, attributes: &[(&str, &str)]) {
        let mut element = BytesStart::new(name.to_owned());
        for (key, value) in attributes {
            element.push_attribute((*key, legal(value).as_str()));
        }
        self.put(Event::Start(element));
    }

    fn close(&mut self, name: &str) {
        self.put(Event::End(BytesEnd::new(name.to_owned())));
    }

    fn text(&mut self, text: &str) {
        self.put(Event::Text(BytesText::new(&legal(text))));
    }

    fn property(&mut self, name: &str, value: &str) {
        let mut element = BytesStart::new("property");
        element.push_attribute(("name", legal(name).as_str()));
        element.push_attribute(("value", legal(value).as_str()));
        self.put(Event::Empty(element));
    }
}

/// Without the characters that XML 1.0 cannot hold even escaped (section 2.2, `Char`).
fn legal(text: &str) -> String {
    text.chars()
        .filter(|c| {
            matches!(c, '\t' | '\n' | '\r' | '\u{20}'..='\u{D7FF}' | '\u{E000}'..='\u{FFFD}' | '\u{10000}'..)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::legal;

    #[test]
    fn what_xml_cannot_hold_is_left_out() {
        assert_eq!(legal("a\u{0}\u{1b}[31mb\u{FFFE}\u{1F600}\t"), "a[31mb\u{1F600}\t");
    }
}
