//! The table of fio's I/O engines, with the facts about each that decide a simulation.
//!
//! The names are those of fio 3.42 and of engines that were removed before it. **To add an engine,
//! add its name to one row.**

use super::error::job_error;
use mirrorball_core::diagnostic::Diagnostic;
use mirrorball_core::suggest::did_you_mean;

/// Requests that an engine keeps in flight.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum EngineDepth {
    /// One: each request is a call that returns when it is done.
    One,
    /// `iodepth` with `direct=1`; one without, because submission itself reads and waits.
    DirectOnly,
    /// `iodepth` on a character device `/dev/sg…`; one on a block device.
    CharacterDevice,
    /// `iodepth`.
    Full,
}

/// Path of an engine's requests to the volume.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum EnginePath {
    /// Files or devices, through the page cache unless `direct=1`.
    PageCache,
    /// Files or devices, always through the page cache.
    PageCacheOnly,
    /// Files, never through a page cache.
    Uncached,
    /// One block device or export, never through a page cache.
    Device,
    /// To no place: fio ends each request at once.
    Nowhere,
    /// No block I/O, for this reason.
    None(&'static str),
}

/// An I/O engine of fio.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Engine {
    pub(super) depth: EngineDepth,
    pub(super) path: EnginePath,
}

/// Names with the same facts, separated by blanks.
const TABLE: [(&str, EngineDepth, EnginePath); 19] = [
    (
        "psync sync vsync pvsync pvsync2 splice libcufile libhipfile fusion-aw-sync",
        EngineDepth::One,
        EnginePath::PageCache,
    ),
    ("mmap", EngineDepth::One, EnginePath::PageCacheOnly),
    ("libaio", EngineDepth::DirectOnly, EnginePath::PageCache),
    (
        "io_uring posixaio windowsaio solarisaio guasi syslet-rw",
        EngineDepth::Full,
        EnginePath::PageCache,
    ),
    ("sg", EngineDepth::CharacterDevice, EnginePath::Device),
    (
        "io_uring_cmd nbd rbd libiscsi libblkio xnvme spdk spdk_bdev",
        EngineDepth::Full,
        EnginePath::Device,
    ),
    ("dev-dax", EngineDepth::One, EnginePath::Device),
    ("libpmem pmemblk gfapi ime_psync ime_psyncv", EngineDepth::One, EnginePath::Uncached),
    ("null cpp_null", EngineDepth::Full, EnginePath::Nowhere),
    ("gfapi_async nfs dfs ime_aio", EngineDepth::Full, EnginePath::Uncached),
    refused("cpuio", "it only uses the CPU, and does no block I/O"),
    refused("exec", "it runs a program, and does no block I/O"),
    refused(
        "net netsplice rdma librpma_apm_client librpma_apm_server librpma_gpspm_client \
         librpma_gpspm_server",
        "it sends data to another host, and does no block I/O",
    ),
    refused(
        "ftruncate filecreate filestat filedelete dircreate dirstat dirdelete",
        "it creates, queries or deletes files, and does no block I/O",
    ),
    refused(
        "falloc e4defrag",
        "it changes where a file system has its blocks, and transfers no data",
    ),
    refused("rados http libhdfs", "it stores objects in a service, and does no block I/O"),
    refused("page_fault", "it touches pages of memory, and does no block I/O"),
    refused("libzbc", "it writes zoned devices by their own commands, which are not modelled"),
    refused("mtd", "it erases and writes raw flash chips, which are not modelled"),
];

const fn refused(
    names: &'static str,
    reason: &'static str,
) -> (&'static str, EngineDepth, EnginePath) {
    (names, EngineDepth::One, EnginePath::None(reason))
}

/// fio's default on Linux.
impl Default for Engine {
    fn default() -> Engine {
        Engine { depth: EngineDepth::One, path: EnginePath::PageCache }
    }
}

impl Engine {
    /// The engine that fio would load for a value of `ioengine`.
    pub(super) fn find(text: &str) -> Result<Engine, Diagnostic> {
        let name = Engine::name_in(text);
        let names = |row: &(&'static str, _, _)| row.0.split(' ');
        let found = TABLE.iter().find(|row| names(row).any(|known| known == name));
        let &(_, depth, path) = found.ok_or_else(|| {
            let help = did_you_mean(name, TABLE.iter().flat_map(names)).unwrap_or_else(|| {
                "write the engine that it resembles, for example io_uring if it keeps `iodepth` \
                 requests in flight, else psync"
                    .to_owned()
            });
            job_error(format!("`{name}` is no engine of fio 3.42"), help)
        })?;
        match path {
            EnginePath::None(reason) => Err(job_error(
                format!("`{name}` is not supported: {reason}"),
                "remove the section, or name an engine that reads and writes blocks, such as \
                 io_uring",
            )),
            _ => Ok(Engine { depth, path }),
        }
    }

    /// The name of an engine: that of its file for an external one.
    fn name_in(text: &str) -> &str {
        let text = text.strip_prefix("external:").unwrap_or(text);
        if text.contains("spdk") {
            return "spdk";
        }
        // As fio does, by the beginning of the name.
        if text.starts_with("linuxaio") || text.starts_with("aio") {
            return "libaio";
        }
        let file = text.rsplit('/').next().unwrap_or(text);
        file.split('.').next().unwrap_or(file)
    }

    /// Whether it keeps `iodepth` requests in flight.
    pub(super) fn has_depth(self, is_direct: bool, filename: Option<&str>) -> bool {
        match self.depth {
            EngineDepth::One => false,
            EngineDepth::DirectOnly => is_direct,
            EngineDepth::CharacterDevice => {
                filename.is_none_or(|name| name.starts_with("/dev/sg") || name.contains("/bsg/"))
            }
            EngineDepth::Full => true,
        }
    }

    /// Requests that fio issues at this `iodepth` before it takes the end of one. It takes one at a
    /// time, when all places are in use; libaio without `direct=1` keeps ended ones until then.
    pub(super) fn uncounted(self, depth: u32, keeps_depth: bool) -> u64 {
        let takes_late = keeps_depth || self.depth == EngineDepth::DirectOnly;
        // The null engine gives all ends at once.
        match takes_late && self.path != EnginePath::Nowhere {
            true => u64::from(depth.saturating_sub(1)),
            false => 0,
        }
    }

    /// Whether its requests may go through a page cache.
    pub(super) fn has_page_cache(self) -> bool {
        matches!(self.path, EnginePath::PageCache | EnginePath::PageCacheOnly)
    }
}
