//! The table of fio's I/O engines, with the facts about each that decide a simulation.
//!
//! The names are those of fio 3.42 and of engines that were removed before it. **To add an engine,
//! add one row.**

use super::error::job_error;
use mirrorball_core::diagnostic::Diagnostic;
use mirrorball_core::suggest::closest_name;

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
    /// Files, never through a page cache.
    Uncached,
    /// One block device or export, never through a page cache.
    Device,
    /// No block I/O, for this reason.
    None(&'static str),
}

/// An I/O engine of fio.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Engine {
    pub(super) name: &'static str,
    pub(super) depth: EngineDepth,
    pub(super) path: EnginePath,
}

const NETWORK: &str = "it sends data to another host, and does no block I/O";
const METADATA: &str = "it creates, queries or deletes files, and does no block I/O";
const OBJECTS: &str = "it stores objects in a service, and does no block I/O";
const EXTENTS: &str = "it changes where a file system has its blocks, and transfers no data";
const MEMORY: &str = "it touches pages of memory, and does no block I/O";
const ZONED: &str = "it writes zoned devices by their own commands, which are not modelled";
const FLASH: &str = "it erases and writes raw flash chips, which are not modelled";

const TABLE: &[Engine] = &[
    row("psync", EngineDepth::One, EnginePath::PageCache),
    row("sync", EngineDepth::One, EnginePath::PageCache),
    row("vsync", EngineDepth::One, EnginePath::PageCache),
    row("pvsync", EngineDepth::One, EnginePath::PageCache),
    row("pvsync2", EngineDepth::One, EnginePath::PageCache),
    row("mmap", EngineDepth::One, EnginePath::PageCache),
    row("splice", EngineDepth::One, EnginePath::PageCache),
    row("libcufile", EngineDepth::One, EnginePath::PageCache),
    row("libhipfile", EngineDepth::One, EnginePath::PageCache),
    row("fusion-aw-sync", EngineDepth::One, EnginePath::PageCache),
    row("libaio", EngineDepth::DirectOnly, EnginePath::PageCache),
    row("io_uring", EngineDepth::Full, EnginePath::PageCache),
    row("posixaio", EngineDepth::Full, EnginePath::PageCache),
    row("windowsaio", EngineDepth::Full, EnginePath::PageCache),
    row("solarisaio", EngineDepth::Full, EnginePath::PageCache),
    row("guasi", EngineDepth::Full, EnginePath::PageCache),
    row("syslet-rw", EngineDepth::Full, EnginePath::PageCache),
    row("sg", EngineDepth::CharacterDevice, EnginePath::Device),
    row("io_uring_cmd", EngineDepth::Full, EnginePath::Device),
    row("nbd", EngineDepth::Full, EnginePath::Device),
    row("rbd", EngineDepth::Full, EnginePath::Device),
    row("libiscsi", EngineDepth::Full, EnginePath::Device),
    row("libblkio", EngineDepth::Full, EnginePath::Device),
    row("xnvme", EngineDepth::Full, EnginePath::Device),
    row("spdk", EngineDepth::Full, EnginePath::Device),
    row("spdk_bdev", EngineDepth::Full, EnginePath::Device),
    row("dev-dax", EngineDepth::One, EnginePath::Device),
    row("libpmem", EngineDepth::One, EnginePath::Uncached),
    row("pmemblk", EngineDepth::One, EnginePath::Uncached),
    row("null", EngineDepth::Full, EnginePath::Uncached),
    row("cpp_null", EngineDepth::Full, EnginePath::Uncached),
    row("gfapi", EngineDepth::One, EnginePath::Uncached),
    row("gfapi_async", EngineDepth::Full, EnginePath::Uncached),
    row("nfs", EngineDepth::Full, EnginePath::Uncached),
    row("dfs", EngineDepth::Full, EnginePath::Uncached),
    row("ime_psync", EngineDepth::One, EnginePath::Uncached),
    row("ime_psyncv", EngineDepth::One, EnginePath::Uncached),
    row("ime_aio", EngineDepth::Full, EnginePath::Uncached),
    refused("cpuio", "it only uses the CPU, and does no block I/O"),
    refused("exec", "it runs a program, and does no block I/O"),
    refused("net", NETWORK),
    refused("netsplice", NETWORK),
    refused("rdma", NETWORK),
    refused("librpma_apm_client", NETWORK),
    refused("librpma_apm_server", NETWORK),
    refused("librpma_gpspm_client", NETWORK),
    refused("librpma_gpspm_server", NETWORK),
    refused("ftruncate", METADATA),
    refused("filecreate", METADATA),
    refused("filestat", METADATA),
    refused("filedelete", METADATA),
    refused("dircreate", METADATA),
    refused("dirstat", METADATA),
    refused("dirdelete", METADATA),
    refused("falloc", EXTENTS),
    refused("e4defrag", EXTENTS),
    refused("rados", OBJECTS),
    refused("http", OBJECTS),
    refused("libhdfs", OBJECTS),
    refused("page_fault", MEMORY),
    refused("libzbc", ZONED),
    refused("mtd", FLASH),
];

const fn row(name: &'static str, depth: EngineDepth, path: EnginePath) -> Engine {
    Engine { name, depth, path }
}

const fn refused(name: &'static str, reason: &'static str) -> Engine {
    row(name, EngineDepth::One, EnginePath::None(reason))
}

impl Engine {
    /// fio's default on Linux.
    pub(super) const DEFAULT: Engine = TABLE[0];

    /// The engine that fio would load for a value of `ioengine`.
    pub(super) fn find(text: &str) -> Result<Engine, Diagnostic> {
        let name = Engine::name_in(text);
        let found = TABLE.iter().find(|engine| engine.name == name);
        let engine = *found.ok_or_else(|| {
            let known = TABLE.iter().map(|engine| engine.name);
            let help = match closest_name(name, known) {
                Some(near) => format!("did you mean `{near}`?"),
                None => "write the engine that it resembles, for example io_uring if it keeps \
                         `iodepth` requests in flight, else psync"
                    .to_owned(),
            };
            job_error(format!("`{name}` is no engine of fio 3.42"), help)
        })?;
        match engine.path {
            EnginePath::None(reason) => Err(job_error(
                format!("`{name}` is not supported: {reason}"),
                "remove the section, or name an engine that reads and writes blocks, such as \
                 io_uring",
            )),
            _ => Ok(engine),
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

    /// Whether its requests may go through a page cache.
    pub(super) fn has_page_cache(self) -> bool {
        self.path == EnginePath::PageCache
    }
}
