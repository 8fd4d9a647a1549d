//! What a request says, whichever API it came by: the conversation so far and the tools on offer.
//!
//! Three wire shapes are read into one. Reading is lenient: a field that is missing or of another
//! shape counts as absent, because agents differ and the stub only needs the texts, their roles,
//! and the tools' names.

use std::fmt;

use serde_json::{Map, Value};

/// The model APIs the stub speaks.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Api {
    /// OpenAI chat completions.
    Chat,
    /// Gemini `generateContent` and `streamGenerateContent`.
    Gemini,
    /// OpenAI responses.
    Responses,
}

/// Who said an entry.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Role {
    /// The model.
    Assistant,
    /// Instructions.
    System,
    /// The result of a tool.
    Tool,
    /// The user.
    User,
}

/// One message of a conversation.
#[derive(Clone, Eq, PartialEq)]
pub struct Entry {
    /// Who said it.
    pub role: Role,
    /// Its text parts, joined by line feeds.
    pub text: String,
    /// True when the model called a tool with it.
    pub calls_tool: bool,
}

impl fmt::Debug for Entry {
    /// Without the text: a prompt is nobody's business in a log.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut entry = f.debug_struct("Entry");
        entry.field("role", &self.role).field("text_bytes", &self.text.len());
        entry.field("calls_tool", &self.calls_tool).finish()
    }
}

/// A tool the agent offers to the model.
#[derive(Clone, Debug, PartialEq)]
pub struct Tool {
    /// Its name.
    pub name: String,
    /// The properties of its parameters, as JSON Schema.
    pub properties: Map<String, Value>,
}

/// A request, read.
#[derive(Clone, Debug)]
pub struct Conversation {
    /// The API it came by.
    pub api: Api,
    /// The messages, oldest first.
    pub entries: Vec<Entry>,
    /// True when the agent wants one JSON value instead of prose: its own classifiers, not a turn.
    pub wants_json: bool,
    /// True when the agent wants an event stream.
    pub wants_stream: bool,
    /// The tools on offer.
    pub tools: Vec<Tool>,
}

impl Conversation {
    /// Reads a request; `None` when the path belongs to no model API.
    #[must_use]
    pub fn read(path: &str, body: &Value) -> Option<Self> {
        let path = path.split('?').next().unwrap_or_default();
        if path.ends_with("/chat/completions") {
            return Some(Self::chat(body));
        }
        if path.ends_with("/responses") {
            return Some(Self::responses(body));
        }
        let streams = path.ends_with(":streamGenerateContent");
        (streams || path.ends_with(":generateContent")).then(|| Self::gemini(body, streams))
    }

    /// The text of the last user message.
    #[must_use]
    pub fn last_user_text(&self) -> &str {
        self.last_user_at().map_or("", |at| &self.entries[at].text)
    }

    /// How often the model called a tool since the last user message.
    #[must_use]
    pub fn tool_rounds(&self) -> u64 {
        let from = self.last_user_at().map_or(0, |at| at + 1);
        self.entries[from..].iter().filter(|entry| entry.calls_tool).count() as u64
    }

    /// True when a message before the last user message contains the word.
    #[must_use]
    pub fn recalls(&self, word: &str) -> bool {
        let before = self.last_user_at().unwrap_or(0);
        self.entries[..before].iter().any(|entry| entry.text.contains(word))
    }

    fn last_user_at(&self) -> Option<usize> {
        self.entries.iter().rposition(|entry| entry.role == Role::User)
    }

    fn chat(body: &Value) -> Self {
        let entry = |message: &Value| Entry {
            role: role(&message["role"]),
            text: text_of(&message["content"]),
            calls_tool: items(&message["tool_calls"]).next().is_some(),
        };
        Self {
            api: Api::Chat,
            entries: items(&body["messages"]).map(entry).collect(),
            wants_json: false,
            wants_stream: body["stream"] == true,
            tools: items(&body["tools"]).map(|tool| offered(&tool["function"])).collect(),
        }
    }

    fn responses(body: &Value) -> Self {
        let mut entries: Vec<Entry> = items(&body["input"]).filter_map(response_item).collect();
        if let Some(text) = body["input"].as_str() {
            entries.push(Entry { role: Role::User, text: text.to_owned(), calls_tool: false });
        }
        Self {
            api: Api::Responses,
            entries,
            wants_json: false,
            wants_stream: body["stream"] == true,
            tools: items(&body["tools"]).map(offered).collect(),
        }
    }

    fn gemini(body: &Value, wants_stream: bool) -> Self {
        let declarations =
            items(&body["tools"]).flat_map(|group| items(&group["functionDeclarations"]));
        let mime = body["generationConfig"]["responseMimeType"].as_str().unwrap_or_default();
        Self {
            api: Api::Gemini,
            entries: items(&body["contents"]).map(gemini_content).collect(),
            wants_json: mime.contains("json"),
            wants_stream,
            tools: declarations.map(offered).collect(),
        }
    }
}

fn response_item(item: &Value) -> Option<Entry> {
    let kind = item["type"].as_str().unwrap_or("message");
    if kind == "message" {
        let text = text_of(&item["content"]);
        return Some(Entry { role: role(&item["role"]), text, calls_tool: false });
    }
    if kind.ends_with("_output") {
        let text = text_of(&item["output"]);
        return Some(Entry { role: Role::Tool, text, calls_tool: false });
    }
    let call = Entry { role: Role::Assistant, text: String::new(), calls_tool: true };
    kind.ends_with("_call").then_some(call)
}

fn gemini_content(content: &Value) -> Entry {
    let parts = || items(&content["parts"]);
    let has = |key: &str| parts().any(|part| part.get(key).is_some());
    let role = match content["role"].as_str() {
        Some("model") => Role::Assistant,
        // A tool's result travels under the user's name.
        _ if has("functionResponse") => Role::Tool,
        _ => Role::User,
    };
    let texts = parts().map(|part| match part.get("functionResponse") {
        Some(answer) => answer["response"].to_string(),
        None => text_of(part),
    });
    Entry { role, text: texts.collect::<Vec<_>>().join("\n"), calls_tool: has("functionCall") }
}

fn role(name: &Value) -> Role {
    match name.as_str() {
        Some("assistant" | "model") => Role::Assistant,
        Some("tool" | "function") => Role::Tool,
        Some("system" | "developer") => Role::System,
        _ => Role::User,
    }
}

/// The text of a string, of a part, or of a list of parts.
fn text_of(content: &Value) -> String {
    match content {
        Value::String(text) => text.clone(),
        Value::Array(parts) => parts.iter().map(text_of).collect::<Vec<_>>().join("\n"),
        Value::Object(part) => ["text", "content"]
            .iter()
            .find_map(|key| part.get(*key))
            .map_or_else(String::new, text_of),
        _ => String::new(),
    }
}

fn offered(function: &Value) -> Tool {
    let name = function["name"].as_str().or_else(|| function["type"].as_str());
    let schemas = ["parameters", "parametersJsonSchema"].iter();
    let schema = schemas.filter_map(|key| function.get(*key)).find(|schema| schema.is_object());
    let properties = schema.and_then(|schema| schema["properties"].as_object());
    Tool {
        name: name.unwrap_or_default().to_owned(),
        properties: properties.cloned().unwrap_or_default(),
    }
}

fn items(list: &Value) -> impl Iterator<Item = &Value> {
    list.as_array().into_iter().flatten()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_three_apis_read_as_the_same_conversation() {
        let chat = json!({"stream": true, "messages": [
            {"role": "system", "content": "be good"},
            {"role": "user", "content": [{"type": "text", "text": "go"}]},
            {"role": "assistant", "content": null, "tool_calls": [{"id": "c"}]},
            {"role": "tool", "content": "done"}],
            "tools": [{"function":
                {"name": "bash", "parameters": {"properties": {"command": {}}}}}]});
        let responses = json!({"stream": true, "input": [
            {"type": "message", "role": "developer", "content": "be good"},
            {"role": "user", "content": [{"type": "input_text", "text": "go"}]},
            {"type": "function_call", "name": "bash", "arguments": "{}"},
            {"type": "function_call_output", "output": "done"}, {"type": "reasoning"}],
            "tools": [{"name": "bash", "parameters": {"properties": {"command": {}}}}]});
        let gemini = json!({"contents": [
            {"role": "user", "parts": [{"text": "go"}]},
            {"role": "model", "parts": [{"functionCall": {}}]},
            {"role": "user", "parts": [{"functionResponse": {"response": "done"}}]}],
            "tools": [{"functionDeclarations": [
                {"name": "bash", "parametersJsonSchema": {"properties": {"command": {}}}}]}]});
        let cases = [
            ("/v1/chat/completions", chat),
            ("/v1/responses", responses),
            ("/v1beta/models/m:streamGenerateContent?alt=sse", gemini),
        ];
        for (path, body) in cases {
            let read = Conversation::read(path, &body).unwrap();
            assert_eq!((read.last_user_text(), read.tool_rounds()), ("go", 1), "{path}");
            assert!(
                read.wants_stream && read.tools[0].properties.contains_key("command"),
                "{path}"
            );
            let last = read.entries.last().unwrap();
            assert!(last.role == Role::Tool && last.text.contains("done"), "{path}");
        }
    }

    #[test]
    fn recall_looks_only_before_the_last_user_message() {
        let body = json!({"messages": [{"role": "user", "content": "apple"},
            {"role": "assistant", "content": "yes"}, {"role": "user", "content": "pear"}]});
        let read = Conversation::read("/chat/completions", &body).unwrap();
        assert!(read.recalls("apple") && !read.recalls("pear"));
    }

    #[test]
    fn another_path_is_no_conversation() {
        assert!(Conversation::read("/v1/embeddings", &json!({})).is_none());
    }

    #[test]
    fn debug_does_not_print_the_prompt() {
        let body = json!({"messages": [{"role": "user", "content": "my secret"}]});
        let read = Conversation::read("/chat/completions", &body).unwrap();
        assert!(!format!("{read:?}").contains("secret"));
    }
}
