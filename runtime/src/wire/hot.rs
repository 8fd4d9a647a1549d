//! The hot shape: one text chunk of a running turn, decoded in one borrowed pass.
//!
//! This reads exactly the frames that need no tolerance and gives up (`None`) at anything else,
//! which then takes the general path. Whatever it accepts, the general path must read the same; a
//! test compares the two.
use std::borrow::Cow;

use super::event::{ChunkRole, Event};
use super::json::{Cursor, Quoted};

/// A text chunk, borrowed from its line.
pub(super) struct TextChunk<'a> {
    pub(super) session: &'a str,
    pub(super) role: ChunkRole,
    pub(super) text: Cow<'a, str>,
    pub(super) message_id: Option<&'a str>,
}

impl<'a> TextChunk<'a> {
    pub(super) fn into_event(self) -> Event<'a> {
        Event::TextChunk {
            session: Cow::Borrowed(self.session),
            role: self.role,
            text: self.text,
            message_id: self.message_id.map(Cow::Borrowed),
        }
    }
}

/// Members of the update that the hot shape uses.
#[derive(Default)]
struct Chunk<'a> {
    role: Option<ChunkRole>,
    text: Option<Quoted<'a>>,
    message_id: Option<&'a str>,
}

pub(super) fn text_chunk(line: &str) -> Option<TextChunk<'_>> {
    let mut cursor = Cursor::new(line);
    let mut version = None;
    let mut method = None;
    let mut params = None;
    members(&mut cursor, |cursor, name| match name {
        "jsonrpc" => once(&mut version, expect(cursor, "2.0")?),
        "method" => once(&mut method, expect(cursor, "session/update")?),
        "params" => once(&mut params, update_params(cursor)?),
        "error" | "id" | "result" => None,
        _ => cursor.value(1).ok().map(drop),
    })?;
    cursor.space();
    if !cursor.rest().is_empty() || cursor.lone_surrogate {
        return None;
    }
    version?;
    method?;
    let (session, chunk) = params?;
    let (role, text) = (chunk.role?, chunk.text?.text());
    Some(TextChunk { session, role, text, message_id: chunk.message_id })
}

fn update_params<'a>(cursor: &mut Cursor<'a>) -> Option<(&'a str, Chunk<'a>)> {
    let mut session = None;
    let mut update = None;
    members(cursor, |cursor, name| match name {
        "sessionId" => once(&mut session, plain(cursor)?),
        "update" => once(&mut update, chunk(cursor)?),
        _ => cursor.value(2).ok().map(drop),
    })?;
    Some((session?, update?))
}

fn chunk<'a>(cursor: &mut Cursor<'a>) -> Option<Chunk<'a>> {
    let mut chunk = Chunk::default();
    members(cursor, |cursor, name| match name {
        "sessionUpdate" => once(&mut chunk.role, ChunkRole::of_kind(plain(cursor)?)?),
        "content" => once(&mut chunk.text, text_block(cursor)?),
        "messageId" => once(&mut chunk.message_id, plain(cursor)?),
        _ => cursor.value(3).ok().map(drop),
    })?;
    Some(chunk)
}

fn text_block<'a>(cursor: &mut Cursor<'a>) -> Option<Quoted<'a>> {
    let mut kind = None;
    let mut text = None;
    members(cursor, |cursor, name| match name {
        "type" => once(&mut kind, expect(cursor, "text")?),
        "text" => once(&mut text, cursor.string().ok()?),
        _ => cursor.value(4).ok().map(drop),
    })?;
    kind?;
    text
}

/// Walks one object; each member is handed over with the cursor on its value.
fn members<'a>(
    cursor: &mut Cursor<'a>,
    mut member: impl FnMut(&mut Cursor<'a>, &'a str) -> Option<()>,
) -> Option<()> {
    cursor.space();
    if !cursor.eat(b'{') {
        return None;
    }
    cursor.space();
    if cursor.eat(b'}') {
        return Some(());
    }
    loop {
        let name = cursor.member_name().ok()?;
        if name.escaped {
            return None;
        }
        member(cursor, name.inner)?;
        cursor.space();
        if cursor.eat(b'}') {
            return Some(());
        }
        if !cursor.eat(b',') {
            return None;
        }
        cursor.space();
    }
}

fn once<T>(slot: &mut Option<T>, value: T) -> Option<()> {
    slot.replace(value).is_none().then_some(())
}

fn plain<'a>(cursor: &mut Cursor<'a>) -> Option<&'a str> {
    let quoted = cursor.string().ok()?;
    if quoted.escaped { None } else { Some(quoted.inner) }
}

fn expect(cursor: &mut Cursor<'_>, word: &str) -> Option<()> {
    (plain(cursor)? == word).then_some(())
}
