//! A layer of a stack of block devices and file systems.

use serde::Serialize;

/// A layer of a stack of block devices and file systems.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct StackLayer {
    /// Device or file system.
    pub name: String,
    /// Kind: `xfs`, `luks`, `lvm`, `md raid1`, ….
    pub kind: String,
    /// Whether it chooses among copies or paths.
    pub is_mirrored: bool,
}

impl StackLayer {
    /// A layer that passes data through.
    pub(super) fn plain(name: impl Into<String>, kind: impl Into<String>) -> StackLayer {
        StackLayer { name: name.into(), kind: kind.into(), is_mirrored: false }
    }

    pub(super) fn mirrored(name: impl Into<String>, kind: impl Into<String>) -> StackLayer {
        StackLayer { name: name.into(), kind: kind.into(), is_mirrored: true }
    }
}
