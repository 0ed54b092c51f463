//! Arrays and pairs of the code, told by names in reports: a reader of JSON need not know their order.

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A fact with its name.
#[derive(Serialize, Deserialize, JsonSchema)]
pub struct Named<T> {
    /// The name.
    name: String,
    /// The fact.
    value: T,
}

/// A part of some work.
#[derive(Serialize, Deserialize, JsonSchema)]
pub struct Progress {
    /// Bytes that are done.
    done_bytes: u64,
    /// Bytes of all the work.
    of_bytes: u64,
}

/// Facts with their names.
pub mod pairs {
    use crate::base::named::{Deserialize, Deserializer, Named, Serialize, Serializer};

    /// # Errors
    /// The error of `serializer`.
    pub fn serialize<T: Serialize, S: Serializer>(
        pairs: &[(String, T)],
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(pairs.iter().map(|(name, value)| Named { name: name.clone(), value }))
    }

    /// # Errors
    /// The error of `deserializer`, or input that is not a list of names and facts.
    pub fn deserialize<'de, T: Deserialize<'de>, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Vec<(String, T)>, D::Error> {
        let all = Vec::<Named<T>>::deserialize(deserializer)?;
        Ok(all.into_iter().map(|it| (it.name, it.value)).collect())
    }
}

/// How much of some work is done, and all of it.
pub(crate) mod progress {
    use crate::base::named::{Deserialize, Deserializer, Progress, Serialize, Serializer};

    pub(crate) fn serialize<S: Serializer>(
        progress: &Option<(u64, u64)>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        progress.map(|(done_bytes, of_bytes)| Progress { done_bytes, of_bytes }).serialize(serializer)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<(u64, u64)>, D::Error> {
        let progress = Option::<Progress>::deserialize(deserializer)?;
        Ok(progress.map(|it| (it.done_bytes, it.of_bytes)))
    }
}
