//! The encoder as a `serde` serializer.

use serde::ser::{self, Serialize};

use super::encoding::{AGE_US_MAX, END, Encoder, IDS, PART, Reading, known_reading};

/// A value that no serializer could write.
#[derive(Debug, thiserror::Error)]
#[error("the state cannot be written")]
pub(super) struct Unwritable;

impl ser::Error for Unwritable {
    fn custom<T: std::fmt::Display>(_: T) -> Self {
        Self
    }
}

type Written = Result<(), Unwritable>;

/// A struct, sequence or map that is being written.
pub(super) struct Parts<'a> {
    to: &'a mut Encoder,
    /// How the parts of a sequence are read, and the value of a key that was just written.
    reading: Reading,
}

impl Encoder {
    fn parts(&mut self, len: usize) -> Parts<'_> {
        self.lanes.word(len as u64);
        let reading = self.reading;
        Parts { to: self, reading }
    }
}

impl<'a> ser::Serializer for &'a mut Encoder {
    type Ok = ();
    type Error = Unwritable;
    type SerializeSeq = Parts<'a>;
    type SerializeTuple = Parts<'a>;
    type SerializeTupleStruct = Parts<'a>;
    type SerializeTupleVariant = Parts<'a>;
    type SerializeMap = Parts<'a>;
    type SerializeStruct = Parts<'a>;
    type SerializeStructVariant = Parts<'a>;

    fn serialize_bool(self, v: bool) -> Written {
        self.lanes.word(u64::from(v));
        Ok(())
    }
    fn serialize_i8(self, v: i8) -> Written {
        self.serialize_i64(i64::from(v))
    }
    fn serialize_i16(self, v: i16) -> Written {
        self.serialize_i64(i64::from(v))
    }
    fn serialize_i32(self, v: i32) -> Written {
        self.serialize_i64(i64::from(v))
    }
    fn serialize_i64(self, v: i64) -> Written {
        self.lanes.word(v.cast_unsigned());
        Ok(())
    }
    fn serialize_u8(self, v: u8) -> Written {
        self.serialize_u64(u64::from(v))
    }
    fn serialize_u16(self, v: u16) -> Written {
        self.serialize_u64(u64::from(v))
    }
    fn serialize_u32(self, v: u32) -> Written {
        self.serialize_u64(u64::from(v))
    }
    fn serialize_u64(self, v: u64) -> Written {
        self.number(v);
        Ok(())
    }
    fn serialize_u128(self, v: u128) -> Written {
        self.lanes.word((v >> 64) as u64);
        self.lanes.word(v as u64);
        Ok(())
    }
    fn serialize_f32(self, v: f32) -> Written {
        self.serialize_f64(f64::from(v))
    }
    fn serialize_f64(self, v: f64) -> Written {
        self.lanes.word(v.to_bits());
        Ok(())
    }
    fn serialize_char(self, v: char) -> Written {
        self.lanes.word(u64::from(u32::from(v)));
        Ok(())
    }
    fn serialize_str(self, v: &str) -> Written {
        if let Some(key) = self.key.as_mut() {
            *key = known_reading(v);
        }
        match self.reading {
            Reading::Id => self.id(v),
            _ => self.lanes.bytes(v.as_bytes()),
        }
        Ok(())
    }
    fn serialize_bytes(self, v: &[u8]) -> Written {
        self.lanes.bytes(v);
        Ok(())
    }
    fn serialize_none(self) -> Written {
        self.lanes.word(0);
        Ok(())
    }
    fn serialize_some<T: ?Sized + Serialize>(self, value: &T) -> Written {
        self.lanes.word(1);
        value.serialize(self)
    }
    fn serialize_unit(self) -> Written {
        Ok(())
    }
    fn serialize_unit_struct(self, _: &'static str) -> Written {
        Ok(())
    }
    fn serialize_unit_variant(self, _: &'static str, index: u32, _: &'static str) -> Written {
        self.lanes.word(u64::from(index));
        Ok(())
    }
    fn serialize_newtype_struct<T: ?Sized + Serialize>(
        self,
        name: &'static str,
        value: &T,
    ) -> Written {
        let reading = match (name, self.reading) {
            ("Mono", Reading::Mono(age_max)) => Reading::Mono(age_max),
            ("Mono", _) => Reading::Mono(AGE_US_MAX),
            _ if IDS.contains(&name) => Reading::Id,
            _ => Reading::AsIs,
        };
        self.read_as(reading, value)
    }
    fn serialize_newtype_variant<T: ?Sized + Serialize>(
        self,
        _: &'static str,
        index: u32,
        _: &'static str,
        value: &T,
    ) -> Written {
        self.lanes.word(u64::from(index));
        self.read_as(Reading::AsIs, value)
    }
    fn serialize_seq(self, len: Option<usize>) -> Result<Parts<'a>, Unwritable> {
        Ok(self.parts(len.unwrap_or(usize::MAX)))
    }
    fn serialize_tuple(self, len: usize) -> Result<Parts<'a>, Unwritable> {
        Ok(self.parts(len))
    }
    fn serialize_tuple_struct(self, _: &'static str, len: usize) -> Result<Parts<'a>, Unwritable> {
        Ok(self.parts(len))
    }
    fn serialize_tuple_variant(
        self,
        _: &'static str,
        index: u32,
        _: &'static str,
        len: usize,
    ) -> Result<Parts<'a>, Unwritable> {
        self.lanes.word(u64::from(index));
        Ok(self.parts(len))
    }
    fn serialize_map(self, len: Option<usize>) -> Result<Parts<'a>, Unwritable> {
        Ok(self.parts(len.unwrap_or(usize::MAX)))
    }
    fn serialize_struct(self, _: &'static str, len: usize) -> Result<Parts<'a>, Unwritable> {
        Ok(self.parts(len))
    }
    fn serialize_struct_variant(
        self,
        _: &'static str,
        index: u32,
        _: &'static str,
        len: usize,
    ) -> Result<Parts<'a>, Unwritable> {
        self.lanes.word(u64::from(index));
        Ok(self.parts(len))
    }
}

impl Parts<'_> {
    fn element<T: ?Sized + Serialize>(&mut self, value: &T) -> Written {
        self.to.lanes.word(PART);
        self.to.read_as(self.reading, value)
    }

    fn close(self) -> Written {
        self.to.lanes.word(END);
        Ok(())
    }
}

/// Parts that are written one like the other.
macro_rules! elements {
    ($($kind:ident::$one:ident)*) => {$(
        impl ser::$kind for Parts<'_> {
            type Ok = ();
            type Error = Unwritable;
            fn $one<T: ?Sized + Serialize>(&mut self, value: &T) -> Written {
                self.element(value)
            }
            fn end(self) -> Written {
                self.close()
            }
        }
    )*};
}

elements! {
    SerializeSeq::serialize_element
    SerializeTuple::serialize_element
    SerializeTupleStruct::serialize_field
    SerializeTupleVariant::serialize_field
}

/// Parts that have names.
macro_rules! fields {
    ($($kind:ident)*) => {$(
        impl ser::$kind for Parts<'_> {
            type Ok = ();
            type Error = Unwritable;
            fn serialize_field<T: ?Sized + Serialize>(
                &mut self,
                name: &'static str,
                value: &T,
            ) -> Written {
                self.to.field(name, value)
            }
            fn end(self) -> Written {
                self.close()
            }
        }
    )*};
}

fields! { SerializeStruct SerializeStructVariant }

impl ser::SerializeMap for Parts<'_> {
    type Ok = ();
    type Error = Unwritable;
    fn serialize_key<T: ?Sized + Serialize>(&mut self, key: &T) -> Written {
        self.to.lanes.word(PART);
        // A flattened struct comes as a map, with the names of its fields for keys.
        let outer = self.to.reading;
        self.to.key = Some(Reading::AsIs);
        let reading = if outer == Reading::Seq { outer } else { Reading::AsIs };
        let written = self.to.read_as(reading, key);
        self.reading = self.to.key.take().unwrap_or(Reading::AsIs);
        written
    }
    fn serialize_value<T: ?Sized + Serialize>(&mut self, value: &T) -> Written {
        self.to.read_as(self.reading, value)
    }
    fn end(self) -> Written {
        self.close()
    }
}
