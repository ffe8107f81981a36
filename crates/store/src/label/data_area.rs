//! Where the data of a labelled volume are on its members: what labels and tables of checksums
//! leave.

use super::checksum_page::{checksum_table_bytes, tail_begin};
use super::contents::LabelledArray;
use crc32c::crc32c;
use mirrorball_core::geometry::{ArrayLayout, ChunkMap, GeometryError};
use mirrorball_core::member::MemberConfig;

impl LabelledArray {
    /// The chunk map over members of these devids and sizes. Fails if the profile does not fit the
    /// members.
    pub fn chunk_map(&self, members: &[MemberConfig]) -> Result<ChunkMap, GeometryError> {
        let members = self.data_configs(members);
        match self.layout {
            ArrayLayout::BTRFS => {
                let width = self.stripe_width_max.map(|width| width as usize);
                ChunkMap::allocate(self.profile, width, &members)
            }
            layout => ChunkMap::arrange(layout, &members),
        }
    }

    /// The members without what the tables of checksums take of them.
    pub fn data_configs(&self, members: &[MemberConfig]) -> Vec<MemberConfig> {
        let sizes = members.iter().map(|member| member.size_bytes);
        let begins = self.checksum_tables(sizes);
        let mut members = members.to_vec();
        for (member, begin) in members.iter_mut().zip(begins.into_iter().flatten()) {
            assert!(begin <= member.size_bytes, "a table at {begin} is on the member");
            member.size_bytes = begin;
        }
        members
    }

    /// Where the table of checksums begins on each of the members, which have these sizes; `None`
    /// without checksums. The table goes to the end of the member, but for less than a MiB.
    pub fn checksum_tables(&self, sizes: impl Iterator<Item = u64> + Clone) -> Option<Vec<u64>> {
        let table_bytes = checksum_table_bytes(self.profile, sizes.clone());
        let begins = sizes.map(|size_bytes| tail_begin(size_bytes, table_bytes));
        self.has_checksums.then(|| begins.collect())
    }
}

/// The checksum of a chunk map: of each chunk with the member, offset and rows of its stripes.
pub fn map_checksum(map: &ChunkMap) -> u32 {
    let mut bytes = Vec::new();
    for chunk in map.chunks() {
        bytes.extend(chunk.volume_offset.to_le_bytes());
        bytes.extend(chunk.length.to_le_bytes());
        for stripe in chunk.stripes {
            bytes.extend(stripe.member.0.to_le_bytes());
            bytes.extend(stripe.rows.to_le_bytes());
            bytes.extend(stripe.offset.to_le_bytes());
        }
    }
    crc32c(&bytes)
}
