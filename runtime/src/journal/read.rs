//! Reading rows in one pass.
//!
//! A row is written with its tag before what the tag decides, so a reader that meets them in that order needs no second
//! look and no buffer. Any other order is legal JSON and is read too, through a buffer.

use serde::de::value::MapAccessDeserializer;
use serde::de::{Error, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};

use super::{
    ChildRow, Cut, DispatchRow, EpochReason, ItemBody, ItemRow, Mark, Mutation, Row, RowKind,
    SendMode, StreamedText,
};
use crate::ids::{EpochId, Fence, ItemKey, MessageId, SessionId};

/// Reads `text`, when its envelope stands before its tag; `None` sends it the long way.
pub(super) fn in_one_pass(text: &str) -> Option<Row> {
    let mut deserializer = serde_json::Deserializer::from_str(text);
    let row = deserializer.deserialize_map(RowVisitor).ok()?;
    deserializer.end().ok()?;
    Some(row)
}

#[derive(Deserialize)]
#[serde(field_identifier, rename_all = "snake_case")]
enum Field {
    V,
    Epoch,
    Seq,
    Fence,
    AtMs,
    Recovered,
    Kind,
}

#[derive(Deserialize)]
#[serde(field_identifier, rename_all = "snake_case")]
enum Kind {
    Epoch,
    Item,
    Text,
    Tombstone,
    Mark,
    Submission,
    Dispatch,
    Batch,
    Child,
}

#[derive(Deserialize)]
struct EpochFields {
    session: SessionId,
    reason: EpochReason,
}

#[derive(Deserialize)]
struct TextFields {
    item: ItemKey,
    revision: u64,
    at: u64,
    text: StreamedText,
    #[serde(default)]
    cut: Option<Cut>,
}

#[derive(Deserialize)]
struct TombstoneFields {
    item: ItemKey,
    revision: u64,
}

#[derive(Deserialize)]
struct MarkFields {
    mark: Mark,
}

#[derive(Deserialize)]
struct SubmissionFields {
    message_id: MessageId,
    fingerprint: String,
    text: StreamedText,
    #[serde(default)]
    mode: SendMode,
    requested_ms: u64,
}

#[derive(Deserialize)]
struct BatchFields {
    settlement: String,
    mutations: Vec<Mutation>,
}

struct RowVisitor;

impl<'de> Visitor<'de> for RowVisitor {
    type Value = Row;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a row with its envelope before its kind")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Row, A::Error> {
        let (mut v, mut seq, mut fence, mut at_ms) = (None, None, None, None);
        let mut epoch: Option<EpochId> = None;
        let mut recovered = false;
        while let Some(field) = map.next_key()? {
            match field {
                Field::V => v = Some(map.next_value()?),
                Field::Epoch => epoch = Some(map.next_value()?),
                Field::Seq => seq = Some(map.next_value()?),
                Field::Fence => fence = Some(map.next_value::<Fence>()?),
                Field::AtMs => at_ms = Some(map.next_value()?),
                Field::Recovered => recovered = map.next_value()?,
                Field::Kind => {
                    let kind = map.next_value()?;
                    let (Some(v), Some(epoch), Some(seq), Some(fence), Some(at_ms)) =
                        (v, epoch, seq, fence, at_ms)
                    else {
                        return Err(A::Error::custom("the envelope does not stand first"));
                    };
                    let kind = row_kind(&kind, map)?;
                    return Ok(Row { v, epoch, seq, fence, at_ms, recovered, kind });
                }
            }
        }
        Err(A::Error::missing_field("kind"))
    }
}

fn row_kind<'de, A: MapAccess<'de>>(kind: &Kind, map: A) -> Result<RowKind, A::Error> {
    let rest = MapAccessDeserializer::new(map);
    Ok(match kind {
        Kind::Epoch => {
            let EpochFields { session, reason } = Deserialize::deserialize(rest)?;
            RowKind::Epoch { session, reason }
        }
        Kind::Item => RowKind::Item(ItemRow::deserialize(rest)?),
        Kind::Text => {
            let TextFields { item, revision, at, text, cut } = Deserialize::deserialize(rest)?;
            RowKind::Text { item, revision, at, text, cut }
        }
        Kind::Tombstone => {
            let TombstoneFields { item, revision } = Deserialize::deserialize(rest)?;
            RowKind::Tombstone { item, revision }
        }
        Kind::Mark => {
            let MarkFields { mark } = Deserialize::deserialize(rest)?;
            RowKind::Mark { mark }
        }
        Kind::Submission => {
            let SubmissionFields { message_id, fingerprint, text, mode, requested_ms } =
                Deserialize::deserialize(rest)?;
            RowKind::Submission { message_id, fingerprint, text, mode, requested_ms }
        }
        Kind::Dispatch => RowKind::Dispatch(DispatchRow::deserialize(rest)?),
        Kind::Batch => {
            let BatchFields { settlement, mutations } = Deserialize::deserialize(rest)?;
            RowKind::Batch { settlement, mutations }
        }
        Kind::Child => RowKind::Child(ChildRow::deserialize(rest)?),
    })
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "snake_case")]
enum BodyType {
    Turn,
    User,
    Message,
    Tool,
    Plan,
    Approval,
    Status,
    Raw,
}

impl<'de> Deserialize<'de> for ItemBody {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(BodyVisitor)
    }
}

struct BodyVisitor;

impl<'de> Visitor<'de> for BodyVisitor {
    type Value = ItemBody;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("an item's body")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<ItemBody, A::Error> {
        let mut buffered = serde_json::Map::new();
        while let Some(key) = map.next_key::<String>()? {
            if key == TYPE && buffered.is_empty() {
                let body = map.next_value()?;
                return body_of(body, MapAccessDeserializer::new(map));
            }
            buffered.insert(key, map.next_value()?);
        }
        let body = buffered.remove(TYPE).ok_or_else(|| A::Error::missing_field(TYPE))?;
        let body = BodyType::deserialize(body).map_err(A::Error::custom)?;
        body_of(body, serde_json::Value::Object(buffered)).map_err(A::Error::custom)
    }
}

const TYPE: &str = "type";

fn body_of<'de, D: Deserializer<'de>>(body: BodyType, rest: D) -> Result<ItemBody, D::Error> {
    Ok(match body {
        BodyType::Turn => ItemBody::Turn(Deserialize::deserialize(rest)?),
        BodyType::User => ItemBody::User(Deserialize::deserialize(rest)?),
        BodyType::Message => ItemBody::Message(Deserialize::deserialize(rest)?),
        BodyType::Tool => ItemBody::Tool(Deserialize::deserialize(rest)?),
        BodyType::Plan => ItemBody::Plan(Deserialize::deserialize(rest)?),
        BodyType::Approval => ItemBody::Approval(Deserialize::deserialize(rest)?),
        BodyType::Status => ItemBody::Status(Deserialize::deserialize(rest)?),
        BodyType::Raw => ItemBody::Raw(Deserialize::deserialize(rest)?),
    })
}
