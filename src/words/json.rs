//! What the JSON reader says, in our words: its own are English.

use super::Message;

/// What is wrong, without the place.
pub fn json_mistake(error: &serde_json::Error) -> Message {
    if error.is_eof() {
        return Message::new("json-ends");
    }
    let full = error.to_string();
    let said = full.rsplit_once(" at line ").map_or(full.as_str(), |(said, _)| said);
    Message::new("json-mistake").with("said", said)
}

/// What is wrong, and where.
pub fn json_mistake_at(error: &serde_json::Error) -> Message {
    Message::new("json-at")
        .with("what", json_mistake(error))
        .with("line", error.line().to_string())
        .with("column", error.column().to_string())
}
