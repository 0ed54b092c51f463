//! Signed statements: JSON with an Ed25519 signature, about any subject.
//!
//! Invariants:
//! 1. The signature is over the statement as compact JSON, with the fields in the order of `T`.
//! 2. A text that says more than the signature covers is refused, and the error names the field.

#[cfg(test)]
mod tests;

use crate::base::hex::{hex, unhex};
use ring::signature::{ED25519, Ed25519KeyPair, KeyPair, UnparsedPublicKey};
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;

/// An Ed25519 key that signs.
#[derive(Debug)]
pub struct SigningKey(Ed25519KeyPair);

impl SigningKey {
    /// The key made from a secret `seed`.
    #[must_use]
    pub fn from_seed(seed: &[u8; 32]) -> Self {
        Self(Ed25519KeyPair::from_seed_unchecked(seed).expect("every seed of 32 bytes is a key"))
    }

    /// The public part.
    #[must_use]
    pub fn public(&self) -> Vec<u8> {
        self.0.public_key().as_ref().to_vec()
    }
}

/// A statement with its signature.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Signed<T> {
    /// The statement that is signed.
    pub statement: T,
    /// The Ed25519 key, in hexadecimal.
    pub public_key: String,
    /// The signature over the statement, in hexadecimal.
    pub signature: String,
}

/// A part of a statement as it was signed, whatever version of the program did that.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(transparent, bound = "")]
pub struct AsSigned<T>(Value, PhantomData<T>);

impl<T: Serialize + DeserializeOwned> AsSigned<T> {
    /// The part, as this version signs it.
    #[must_use]
    pub fn new(part: &T) -> Self {
        Self(serde_json::to_value(part).unwrap_or_default(), PhantomData)
    }

    /// The part, if this version understands it.
    #[must_use]
    pub fn read(&self) -> Option<T> {
        T::deserialize(&self.0).ok()
    }
}

impl<T> fmt::Display for AsSigned<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl<T: JsonSchema> JsonSchema for AsSigned<T> {
    fn schema_name() -> Cow<'static, str> {
        T::schema_name()
    }

    fn schema_id() -> Cow<'static, str> {
        T::schema_id()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        T::json_schema(generator)
    }
}

/// Reason why a text is no signed statement.
#[derive(Debug, thiserror::Error)]
pub enum SignedError {
    /// The text has another form.
    #[error("cannot read the signed statement: {0}; check that this is the file that was written")]
    Form(#[from] serde_json::Error),
    /// The signature covers less than the text says.
    #[error("cannot trust field `{0}`: the signature does not cover it; use the file as it was written")]
    Uncovered(String),
    /// The public key is malformed.
    #[error("cannot check field `public_key`: {0:?} is not 64 hexadecimal digits")]
    Key(String),
    /// The signature is malformed.
    #[error("cannot check field `signature`: {0:?} is not 128 hexadecimal digits")]
    Signature(String),
    /// The key given to check with is malformed.
    #[error("cannot check against the given key: {0:?} is not 64 hexadecimal digits; give the file key.pub")]
    KnownKey(String),
    /// Another key signed.
    #[error(
        "field `public_key` is {found}, and the given key is {known}: another key signed the statement; give the signer's key.pub"
    )]
    OtherKey {
        /// The key of the statement.
        found: String,
        /// The key that was given.
        known: String,
    },
    /// The statement, the key or the signature was changed.
    #[error("field `signature` does not match field `statement`: one of them was changed after signing")]
    Forged,
}

impl<T: Serialize> Signed<T> {
    /// Signs `statement` with `key`.
    #[must_use]
    pub fn sign(statement: T, key: &SigningKey) -> Self {
        let signature = hex(key.0.sign(covered(&statement).as_bytes()).as_ref());
        Self { statement, public_key: hex(&key.public()), signature }
    }

    /// The bytes that the signature covers.
    #[must_use]
    pub fn covered(&self) -> String {
        covered(&self.statement)
    }

    /// Checks the signature against the statement's own key and, if given, against `known_key`
    /// in hexadecimal.
    pub fn verify(&self, known_key: Option<&str>) -> Result<(), SignedError> {
        let key = unhex::<32>(&self.public_key).ok_or_else(|| SignedError::Key(self.public_key.clone()))?;
        let signature =
            unhex::<64>(&self.signature).ok_or_else(|| SignedError::Signature(self.signature.clone()))?;
        if let Some(known) = known_key.map(str::trim) {
            let bytes = unhex::<32>(known).ok_or_else(|| SignedError::KnownKey(known.into()))?;
            if bytes != key {
                return Err(SignedError::OtherKey { found: hex(&key), known: hex(&bytes) });
            }
        }
        let verified = UnparsedPublicKey::new(&ED25519, key).verify(self.covered().as_bytes(), &signature);
        verified.map_err(|_| SignedError::Forged)
    }
}

impl<T: Serialize + DeserializeOwned> Signed<T> {
    /// Reads a signed statement, and checks it as [`Signed::verify`] does.
    pub fn parse(text: &str, known_key: Option<&str>) -> Result<Self, SignedError> {
        let signed: Self = serde_json::from_str(text)?;
        if let Some(field) = difference(&serde_json::from_str(text)?, &serde_json::to_value(&signed)?) {
            return Err(SignedError::Uncovered(field));
        }
        signed.verify(known_key)?;
        Ok(signed)
    }
}

fn covered(statement: &impl Serialize) -> String {
    serde_json::to_string(statement).expect("a statement is plain data")
}

/// The first field that differs between `told` and `read`.
fn difference(told: &Value, read: &Value) -> Option<String> {
    if told == read {
        return None;
    }
    let (Value::Object(told), Value::Object(read)) = (told, read) else { return Some(String::new()) };
    let inner = told.iter().find_map(|(name, value)| {
        let inner = difference(value, read.get(name).unwrap_or(&Value::Null))?;
        Some(if inner.is_empty() { name.clone() } else { format!("{name}.{inner}") })
    });
    Some(inner.unwrap_or_default())
}
