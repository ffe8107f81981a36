//! NVMe multipath: the subsystem of a namespace and the paths of its controllers.

use super::array::{
    ArrayCondition, DetectError, DetectedArray, DetectedMember, DetectedPolicy, StorageSystem,
};
use super::block::BlockDevice;
use super::lun::guess_if_lun;
use super::members::{
    COPIES_HELP, complete, is_kernel_since, kernel_release, layout_of_copies, mount_point,
    no_mirror, read_member, unreadable,
};
use super::paths::{PATHS_NOTE, standby};
use super::stack::StackLayer;
use super::sysroot::{Sysroot, base_name};
use mirrorball_core::policies::Spec;

/// A namespace with several paths.
pub(super) struct NvmePaths<'a> {
    sysroot: &'a Sysroot,
    device: BlockDevice,
    subsystem: String,
    /// The block devices of the paths, which have no node in `/dev`.
    paths: Vec<BlockDevice>,
}

struct PathState {
    is_usable: bool,
    /// True if its controller is not connected, or has lost the namespace.
    is_down: bool,
    /// By asymmetric namespace access, the best first: a path serves if none is better.
    rank: u8,
    /// The network over which the namespace is reached, such as `tcp`.
    fabric: Option<String>,
    text: String,
}

impl PathState {
    /// A note on the network of a path that has one.
    fn network(&self) -> Option<String> {
        let fabric = self.fabric.as_ref()?;
        Some(format!(
            "NVMe over a network ({fabric}): a path is as fast as the network and the storage \
             behind it, so the figures are of made-up paths; `mirrorball bench` measures the \
             settings"
        ))
    }
}

/// The rank of a path that the storage does not let serve.
const INACCESSIBLE: u8 = 2;

impl<'a> NvmePaths<'a> {
    /// The namespace on this device, if it has several paths.
    pub(super) fn at(sysroot: &'a Sysroot, device: &BlockDevice) -> Option<NvmePaths<'a>> {
        let (subsystem, namespace) = device.name.strip_prefix("nvme")?.split_once('n')?;
        let subsystem: u32 = subsystem.parse().ok()?;
        let namespace: u32 = namespace.parse().ok()?;
        let folder = format!("/sys/class/nvme-subsystem/nvme-subsys{subsystem}");
        let is_path = |name: &String| {
            let rest = name.strip_prefix(&format!("nvme{subsystem}c"));
            let numbers = rest.and_then(|rest| rest.split_once('n'));
            numbers.is_some_and(|(controller, of)| {
                controller.parse::<u32>().is_ok() && of.parse() == Ok(namespace)
            })
        };
        let names = sysroot.names("/sys/block");
        let paths: Vec<BlockDevice> = names
            .iter()
            .filter(|name| is_path(name))
            .filter_map(|name| BlockDevice::by_name(sysroot, name))
            .collect();
        let has_subsystem = sysroot.exists(&folder);
        (has_subsystem && paths.len() > 1).then(|| NvmePaths {
            sysroot,
            device: device.clone(),
            subsystem: base_name(&folder).to_owned(),
            paths,
        })
    }

    fn text(&self, file: &str) -> Option<String> {
        self.sysroot.text(&format!("/sys/class/nvme-subsystem/{}/{file}", self.subsystem))
    }

    /// Describes it. Fails if no profile has as many members as there are paths.
    pub(super) fn array(&self) -> Result<DetectedArray, DetectError> {
        let states: Vec<PathState> = self.paths.iter().map(|path| self.state(path)).collect();
        let usable = states.iter().filter(|state| state.is_usable);
        let best = usable.map(|state| state.rank).min().unwrap_or(INACCESSIBLE);
        let serves = |state: &PathState| state.rank <= best;
        let all = || self.paths.iter().zip(&states);
        let others = all().filter(|(_, state)| !serves(state));
        let (down, standing): (Vec<_>, Vec<_>) = others.partition(|(_, state)| state.is_down);
        let (standing, ranks): (Vec<&str>, Vec<u8>) =
            standing.into_iter().map(|(path, state)| (path.name.as_str(), state.rank)).unzip();
        let serving: Vec<_> = all().filter(|(_, state)| serves(state)).collect();
        let mut notes = vec![PATHS_NOTE.to_owned()];
        notes.extend(states.iter().find_map(PathState::network));
        let help = "the storage decides which paths may serve";
        let is_closed = |rank: &u8| *rank >= INACCESSIBLE;
        let why = match (ranks.iter().any(is_closed), ranks.iter().all(is_closed)) {
            (false, _) => "not optimized",
            (true, false) => "not optimized or inaccessible",
            (true, true) => "inaccessible",
        };
        let name = &self.device.name;
        let standby = standby(serving.len(), &standing, why);
        if let (1, Some(text)) = (serving.len(), &standby) {
            return Err(no_mirror(format!("{name}: {text}"), help));
        }
        notes.extend(standby);
        let down: Vec<&str> = down.iter().map(|(path, _)| path.name.as_str()).collect();
        if !down.is_empty() {
            notes.push(format!("down among those that would stand by: {}", down.join(", ")));
        }
        let (profile, layout) = layout_of_copies(serving.len())
            .map_err(|reason| unreadable(format!("{name}: {reason}"), COPIES_HELP))?;
        let mut members: Vec<DetectedMember> = (1..)
            .zip(serving)
            .map(|(devid, (path, state))| self.member(devid, path, state))
            .collect();
        complete(&mut members);
        let failed = members.iter().filter(|member| member.is_failed).count();
        let missing = failed + down.len();
        let mut array = DetectedArray {
            system: StorageSystem::Nvme,
            version: kernel_release(self.sysroot),
            name: self.subsystem.clone(),
            id: self.text("subsysnqn"),
            profile,
            layout,
            mount: mount_point(self.sysroot, &self.device),
            read_ahead_kb: self.sysroot.number(&self.device.file("queue/read_ahead_kb")),
            limit: None,
            policy: self.policy(),
            members,
            condition: ArrayCondition { degraded: missing > 0, missing, ..Default::default() },
            stack: vec![StackLayer::mirrored(
                self.device.device_path(self.sysroot),
                "nvme multipath",
            )],
            notes,
            not_known: Vec::new(),
        };
        if array.policy.text.is_none() {
            let note = "`iopolicy` cannot be read: taken for the default".to_owned();
            array.add_not_known("the read policy", note);
        }
        Ok(array)
    }

    fn member(&self, devid: u64, path: &BlockDevice, state: &PathState) -> DetectedMember {
        let mut member = read_member(self.sysroot, devid, Some(path));
        // A path has no node in /dev.
        member.device = Some(path.name.clone());
        member.is_failed = !state.is_usable;
        member.state.clone_from(&state.text);
        if let Some(fabric) = &state.fabric {
            guess_if_lun(&mut member);
            member.model.reason =
                format!("a namespace of NVMe over a network ({fabric}), whose speed is not known");
        }
        member
    }

    fn state(&self, path: &BlockDevice) -> PathState {
        let controller = path.folder().rsplit_once('/').map_or("", |(folder, _)| folder);
        let state = self.sysroot.text(&format!("{controller}/state"));
        let ana_state = self.sysroot.text(&path.file("ana_state"));
        let transport = self.sysroot.text(&format!("{controller}/transport"));
        let rank = match ana_state.as_deref() {
            Some("non-optimized") => 1,
            // The storage does not let these serve: nothing on this machine is broken.
            Some("inaccessible" | "change") => INACCESSIBLE,
            _ => 0,
        };
        let is_down = state.as_deref().is_some_and(|state| state != "live")
            || ana_state.as_deref() == Some("persistent-loss");
        let texts: Vec<String> = [state, ana_state.clone()].into_iter().flatten().collect();
        PathState {
            is_usable: !is_down && rank < INACCESSIBLE,
            is_down,
            rank,
            fabric: transport.filter(|transport| transport != "pcie"),
            text: if texts.is_empty() { "not known".to_owned() } else { texts.join(", ") },
        }
    }

    fn policy(&self) -> DetectedPolicy {
        let text = self.text("iopolicy");
        let mut offered = vec!["numa".to_owned(), "round-robin".to_owned()];
        if is_kernel_since(self.sysroot, (6, 11)) == Some(true) {
            offered.push("queue-depth".to_owned());
        }
        // `latency` and `adaptive` are names of one rule, which only patched kernels have.
        let spec = text.as_ref().and_then(|name| Spec::parse(&format!("nvme/{name}")).ok());
        let spec = spec.map(|spec| spec.to_string());
        DetectedPolicy { text, spec, offered, settings: Vec::new() }
    }
}
