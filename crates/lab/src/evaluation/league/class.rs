//! Classes of arrays and jobs, by which a sample is broken down.

#[cfg(test)]
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What an array or a job is, by dimension, such as `disks`: `equal HDDs`. A dimension can have
/// several values: a job can have both random reads and streams.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct Classes(pub Vec<Class>);

/// One value of one dimension.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct Class {
    /// The dimension.
    pub dimension: String,
    /// The value.
    pub value: String,
}

impl Classes {
    /// Adds a value, unless it is there.
    pub(super) fn add(&mut self, dimension: &str, value: impl Into<String>) {
        let class = Class { dimension: dimension.to_owned(), value: value.into() };
        if !self.0.contains(&class) {
            self.0.push(class);
        }
    }

    /// The values of a dimension, in the order they were added.
    pub fn values(&self, dimension: &str) -> impl Iterator<Item = &str> {
        let of = move |class: &&Class| class.dimension == dimension;
        // The lifetime of `dimension` is that of the iterator.
        let found: Vec<&str> = self.0.iter().filter(of).map(|class| &*class.value).collect();
        found.into_iter()
    }

    pub fn joined(&self, dimension: &str) -> String {
        self.values(dimension).collect::<Vec<&str>>().join(", ")
    }
}
