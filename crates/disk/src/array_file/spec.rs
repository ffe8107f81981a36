//! An array as its file describes it, resolved member by member: plain data that builds a
//! [`ModelArray`].

use super::source::{ArraySource, ModelConfidence};
use crate::cache_tier::CacheSpec;
use crate::cached_disk::CachedDisk;
use crate::controller::ControllerSpec;
use crate::disk_part::DiskPart;
use crate::fault::{Fault, Faulty};
use crate::link::{Link, LinkParameters};
use crate::model::Model;
use crate::model_array::{ModelArray, ModelMember};
use crate::profile::ModelProfile;
use mirrorball_core::diagnostic::Diagnostic;
use mirrorball_core::geometry::{ArrayLayout, ChunkMap, GeometryError, LayoutKind, Profile};
use mirrorball_core::member::{MemberConfig, MemberState};
use mirrorball_core::rng::Rng;
use mirrorball_core::units::{GIB, Nanos};
use mirrorball_core::volume::RmwLevel;
use std::fmt;
use std::path::PathBuf;

#[derive(Clone, Debug)]
pub struct ArraySpec {
    pub name: String,
    /// The file that describes it, for messages.
    pub file_name: String,
    /// How many copies there are and how they lie; follows from the layout unless that is btrfs's.
    pub profile: Profile,
    /// The system whose rules place data on members.
    pub layout: ArrayLayout,
    /// Largest number of members in a striped chunk; all members if not given.
    pub stripe_width_max: Option<usize>,
    /// When a write updates parities; only with parity.
    pub rmw_level: RmwLevel,
    /// The part of the volume that older data fill.
    pub used: Used,
    /// The machine around the disks.
    pub host: Host,
    /// The cache tier in front of the volume, and of the controller, if there is one.
    pub cache: Option<Box<CacheSpec>>,
    /// The controller in front of the volume, if it has a write-back cache.
    pub controller: Option<ControllerSpec>,
    pub source: Option<ArraySource>,
    /// The links that members may use.
    pub links: Vec<LinkParameters>,
    /// The members, in the order of the file, each on its own.
    pub members: Vec<MemberSpec>,
    /// Devices that take the places of members that fail. Simulations do not use them.
    pub spares: Vec<MemberSource>,
}

/// The part of a volume that older data fill. Jobs access only the rest, as on an aged filesystem.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Used {
    Bytes(u64),
    /// A share of the capacity, from 0 to 1.
    Share(f64),
}

/// The machine around the disks.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Host {
    /// Per request, from submission to completion, outside the device.
    pub overhead: HostOverhead,
    /// The read-ahead window of buffered readers, in KiB, as in `read_ahead_kb` of the block queue.
    pub read_ahead_kb: u64,
    /// How many CPUs issue requests.
    pub cpus: u32,
}

/// The time that a request spends in the host, outside the device.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct HostOverhead {
    /// The mean over requests.
    pub mean: Nanos,
    /// The largest deviation of one request from the mean, as a fraction of the mean: 0.1 spreads
    /// requests evenly from 0.9 to 1.1 times the mean. At least 0, at most 1.
    pub jitter: f64,
}

#[derive(Clone, Debug)]
pub struct MemberSpec {
    /// As in btrfs: 1, 2, …
    pub devid: u64,
    pub source: MemberSource,
    pub link: Option<usize>,
    pub faults: Vec<Fault>,
    pub cache: Option<Box<CacheSpec>>,
    /// A policy that uses priorities prefers the higher one.
    pub priority: u32,
    /// Whether it is read only if no other mirror can serve the read.
    pub write_mostly: bool,
    /// Whether the kernel reports it as rotational; what its model or device says if not given.
    pub rotational: Option<bool>,
    /// The optimal I/O size it reports, in bytes; what its model or device says if not given.
    pub optimal_io_bytes: Option<u64>,
    pub state: MemberState,
    /// The part of its file or device that a real member is.
    pub range: DevicePart,
    /// The part of its disk that a modelled member is; the whole disk if not given.
    pub partition: Option<Partition>,
    pub device: Option<String>,
    /// The name of the kernel for that device, where it is not the end of its path.
    pub kernel_name: Option<String>,
    /// State of that device as the system writes it, such as `OFFLINE`, if it is not in service.
    pub system_state: Option<String>,
    /// Errors that the system has counted for that device, in words.
    pub errors: Option<String>,
    /// How well its model is known to fit that device.
    pub confidence: Option<ModelConfidence>,
    pub line: usize,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct DevicePart {
    pub begin_bytes: u64,
    /// Size; up to the end if not given.
    pub size_bytes: Option<u64>,
}

/// A part of a modelled disk, less than all of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Partition {
    pub begin_bytes: u64,
    pub length_bytes: u64,
}

/// A model, or the address of a real member.
#[derive(Clone, Debug)]
pub enum MemberSource {
    /// A modelled disk, with its overrides applied.
    Model(Box<ModelProfile>),
    /// A real file or block device.
    Path(PathBuf),
    /// An export of another machine.
    Uri(String),
}

impl Default for Host {
    fn default() -> Host {
        Host {
            overhead: HostOverhead::with_default_jitter(HostOverhead::MEAN_DEFAULT),
            read_ahead_kb: 128,
            cpus: 8,
        }
    }
}

impl HostOverhead {
    /// The mean if an array gives none. Published figures are compared with models behind a host of
    /// this overhead (`characterise`), because data sheets and reviews measure through a host.
    pub const MEAN_DEFAULT: Nanos = Nanos::from_micros(15);

    /// The jitter if an array gives none. A constant overhead would keep requests in lockstep: all
    /// that complete at one instant are issued again at one instant, which no kernel does.
    pub const JITTER_DEFAULT: f64 = 0.1;

    pub const fn with_default_jitter(mean: Nanos) -> HostOverhead {
        HostOverhead { mean, jitter: HostOverhead::JITTER_DEFAULT }
    }
}

impl ArraySpec {
    /// The configuration of each member for the volume. Fails if a member is real.
    pub fn member_configs(&self) -> Result<Vec<MemberConfig>, Diagnostic> {
        self.modelled().map(|member| Ok(member?.0)).collect()
    }

    /// The layout of the volume. Fails if a member is real, or the members do not fit the profile.
    pub fn chunk_map(&self) -> Result<ChunkMap, Diagnostic> {
        let configs = self.member_configs()?;
        self.allocate(&configs).map_err(|error| self.error(None, error.to_string()))
    }

    /// The modelled members, idle, with their links and faults. The random numbers of a member
    /// follow from `seed` and its devid, so that adding members does not change the others. Fails
    /// if a member is real.
    pub fn model_array(&self, seed: u64) -> Result<ModelArray, Diagnostic> {
        let links = self.links.iter().map(|link| Link::new(link.clone(), seed)).collect();
        let members = self.modelled().map(|member| {
            let (config, member, profile) = member?;
            let mut rng = Rng::stream(seed, &format!("member {}", config.devid));
            let model = profile.build(rng.next_u64());
            let model: Box<dyn Model> = match member.partition {
                Some(part) => Box::new(DiskPart::new(model, part.begin_bytes)),
                None => model,
            };
            let model: Box<dyn Model> = match &member.cache {
                Some(cache) => {
                    // A stream of its own, so that a cache does not change the draws of the disk.
                    let stream = format!("cache of member {}", config.devid);
                    let seed = Rng::stream(seed, &stream).next_u64();
                    Box::new(CachedDisk::new(model, cache, seed))
                }
                None => model,
            };
            let model = match member.faults[..] {
                [] => model,
                _ => Box::new(Faulty::new(model, &member.faults, rng.next_u64())),
            };
            Ok(ModelMember { model, link: member.link })
        });
        Ok(ModelArray::new(members.collect::<Result<_, Diagnostic>>()?, links))
    }

    /// First byte that jobs access on a volume of this capacity: after the older data, on a whole
    /// GiB, the length of a chunk.
    pub fn used_bytes(&self, capacity_bytes: u64) -> u64 {
        let used = match self.used {
            Used::Bytes(bytes) => bytes,
            Used::Share(share) => (capacity_bytes as f64 * share) as u64,
        };
        used - used % GIB
    }

    /// The layout for these members. Fails if they do not fit the profile or the layout.
    pub fn allocate(&self, configs: &[MemberConfig]) -> Result<ChunkMap, GeometryError> {
        match self.layout.kind() {
            LayoutKind::Btrfs => ChunkMap::allocate(self.profile, self.stripe_width_max, configs),
            _ => ChunkMap::arrange(self.layout, configs),
        }
    }

    /// Each member with its configuration and its model, or an error for a real one.
    fn modelled(
        &self,
    ) -> impl Iterator<Item = Result<(MemberConfig, &MemberSpec, &ModelProfile), Diagnostic>> {
        self.members.iter().map(|member| match &member.source {
            MemberSource::Model(profile) => Ok((member.config(profile), member, profile.as_ref())),
            MemberSource::Path(path) => Err(self.not_modelled(member, "path", &path.display())),
            MemberSource::Uri(uri) => Err(self.not_modelled(member, "uri", uri)),
        })
    }

    /// The error for a member that `key` makes a real one.
    fn not_modelled(&self, member: &MemberSpec, key: &str, real: &dyn fmt::Display) -> Diagnostic {
        let what = if key == "uri" { "an NBD export" } else { "a real file or device" };
        let message = format!(
            "cannot simulate the member `{real}`: its `{key}` names {what}, not a disk model"
        );
        self.error(Some(member.line), message).with_help(format!(
            "write `model = \"hdd-5k4\"` instead of `{key}`, or use the array with `mirrorball \
             serve`"
        ))
    }

    fn error(&self, line: Option<usize>, message: String) -> Diagnostic {
        let error = Diagnostic::new(message).in_file(&self.file_name);
        match line {
            Some(line) => error.at_line(line),
            None => error,
        }
    }
}

impl MemberSpec {
    /// True unless the member has failed.
    pub fn is_in_service(&self) -> bool {
        self.state != MemberState::Failed
    }

    /// True if the kernel reports it as rotational. Linux reports the devices of bcache as not
    /// rotational, whatever the disk is.
    pub fn is_rotational(&self) -> bool {
        let is_of_model = match &self.source {
            MemberSource::Model(profile) => profile.rotational && self.cache.is_none(),
            MemberSource::Path(_) | MemberSource::Uri(_) => false,
        };
        self.rotational.unwrap_or(is_of_model)
    }

    /// Bytes of writes that fit into the caches of the modelled disk; zero for a real member.
    pub fn write_cache_bytes(&self) -> u64 {
        match &self.source {
            MemberSource::Model(profile) => {
                let tier = self.cache.as_ref().map_or(0, |cache| cache.write_cache_bytes());
                profile.write_cache_bytes().saturating_add(tier)
            }
            MemberSource::Path(_) | MemberSource::Uri(_) => 0,
        }
    }

    /// The configuration of the member for the volume, if it has this model.
    fn config(&self, profile: &ModelProfile) -> MemberConfig {
        MemberConfig {
            devid: self.devid,
            size_bytes: self.partition.map_or(profile.capacity_bytes, |part| part.length_bytes),
            rotational: self.is_rotational(),
            optimal_io_bytes: self.optimal_io_bytes.unwrap_or(profile.optimal_io_bytes),
            queue_depth: profile.queue_depth(),
            priority: self.priority,
            write_mostly: self.write_mostly,
            state: self.state,
        }
    }
}
