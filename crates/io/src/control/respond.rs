//! Responses to the requests of the control socket.

use super::conditions::{WatchedParts, bad_blocks, reported_state};
use super::member_commands::{fail, last_error, remove, replacement};
use super::policy_change::{ChangeRequest, keep_policy, policy_error};
use super::policy_loader::{LoadedPolicy, PolicyLoader};
use super::protocol::{
    ControlRequest, ControlResponse, LatenessReport, MemberReport, MemberStatsReport,
    PolicyCounter, Quantiles, RequestError, RequestErrorKind, ScrubAction, ServiceStats,
    StateChange,
};
use super::scrub_state::scrub_report;
use super::status::status;
use super::{ClientKey, Control, ServiceParts, spare_commands};
use crate::device_address::DeviceAddress;
use crate::executor::{Executor, MemberStats};
use crate::lateness::Lateness;
use crate::programs::ProgramReference;
use crate::rebuild::{Rebuild, RebuildError, RebuildOpened, RebuildRequest, RebuildStart};
use crate::reopen::MemberPlace;
use crate::scrub::ScrubRequest;
use mirrorball_core::diagnostic::Diagnostic;
use mirrorball_core::histogram::Histogram;
use mirrorball_core::member::{MemberConfig, MemberIndex, MemberState};
use mirrorball_core::policies::Spec;
use mirrorball_core::slab::SlabKey;
use mirrorball_core::units::format_bytes;
use serde::Serialize;

/// Carries out the request in a line; `None` if its response follows later.
pub(super) fn respond(
    control: &mut Control,
    client: ClientKey,
    line: &str,
    parts: &mut ServiceParts<'_>,
) -> Option<String> {
    let request = match serde_json::from_str(line) {
        Ok(request) => request,
        Err(error) => {
            let message = format!("malformed request: {error}");
            return Some(failed(RequestErrorKind::Malformed, message));
        }
    };
    carry_out(control, client, request, parts)
}

fn carry_out(
    control: &mut Control,
    client: ClientKey,
    request: ControlRequest,
    parts: &mut ServiceParts<'_>,
) -> Option<String> {
    Some(match request {
        ControlRequest::Status => encode(Ok(status(control, parts))),
        ControlRequest::Members => encode(Ok(members(parts.executor, parts.rebuild))),
        ControlRequest::Stats { reset } => encode(Ok(stats(parts.executor, parts.rebuild, reset))),
        ControlRequest::Policy => {
            let members = parts.executor.members().count();
            encode(control.policy.clone().ok_or_else(|| no_volume(members)))
        }
        ControlRequest::SetPolicy { name, object, keep } => {
            return policy_request(control, client, PolicyRequest { name, object, keep }, parts);
        }
        ControlRequest::Fail { devid } => {
            let failed = fail(devid, parts);
            control.reply_when_recorded(client, failed, parts.executor);
            return None;
        }
        ControlRequest::Remove { devid } => {
            let removed = remove(devid, parts.executor, parts.rebuild);
            control.reply_when_recorded(client, removed, parts.executor);
            return None;
        }
        ControlRequest::Events { follow } => {
            control.begin_events(client, follow, parts.executor);
            return None;
        }
        ControlRequest::Rebuild { rate_bytes_per_s: Some(0), .. }
        | ControlRequest::Replace { rate_bytes_per_s: Some(0), .. }
        | ControlRequest::Scrub { rate_bytes_per_s: Some(0), .. } => {
            let message = "the rate limit must be greater than zero";
            refused(message.to_owned())
        }
        ControlRequest::Rebuild { devid, device, rate_bytes_per_s: rate } => {
            let client = client.slot();
            match device.as_deref().map(DeviceAddress::parse).transpose() {
                Ok(device) => {
                    let replacement = device.map(MemberPlace::Renamed);
                    return rebuild(RebuildRequest { devid, replacement, rate, client }, parts);
                }
                Err(error) => refused(error.to_string()),
            }
        }
        ControlRequest::Replace { devid, device, occupied, rate_bytes_per_s } => {
            let request = replacement(devid, &device, occupied, parts);
            let (rate, client) = (rate_bytes_per_s, client.slot());
            match request {
                Ok(request) => return rebuild(RebuildRequest { rate, client, ..request }, parts),
                Err(error) => refused(error),
            }
        }
        ControlRequest::AddSpare { device, occupied } => {
            let added = spare_commands::add(&device, occupied, client.slot(), parts);
            return Some(refused(added.err()?));
        }
        ControlRequest::RemoveSpare { device } => {
            let removed = spare_commands::remove(&device, parts).map_err(RequestError::refused);
            control.reply_when_recorded(client, removed, parts.executor);
            return None;
        }
        ControlRequest::Scrub { action, repair, from, rate_bytes_per_s } => {
            let request = ScrubRequest { repairs: repair, from, rate: rate_bytes_per_s };
            scrub(control, action, request, parts)
        }
    })
}

/// Does something with the scrub; a start is what the request says.
fn scrub(
    control: &Control,
    action: ScrubAction,
    request: ScrubRequest,
    parts: &mut ServiceParts<'_>,
) -> String {
    let ServiceParts { executor, scrub, .. } = parts;
    let done = match action {
        ScrubAction::Start => scrub.start(request, executor),
        ScrubAction::Pause => scrub.pause(executor),
        ScrubAction::Resume => scrub.resume(executor),
        ScrubAction::Cancel => scrub.cancel(executor),
        ScrubAction::Status => Ok(()),
    };
    match done {
        Ok(()) => encode(Ok(scrub_report(control, scrub, executor))),
        Err(error) => refused(error.to_string()),
    }
}

/// Starts a rebuild; `None` if the member has to be opened first.
fn rebuild(request: RebuildRequest, parts: &mut ServiceParts<'_>) -> Option<String> {
    let volume = parts.executor.volume();
    let volume = volume.filter(|it| !it.is_read_only() && request.replacement.is_none());
    let member = volume.and_then(|volume| volume.members().find(request.devid));
    if let Some(condition) = member.and_then(|it| WatchedParts::of(parts).without_device(it)) {
        return Some(refused(condition.to_string()));
    }
    let limit = match request.rate {
        Some(rate) => format!("at most {}/s", format_bytes(rate)),
        None => "without a rate limit".to_owned(),
    };
    let devid = request.devid;
    match parts.rebuild.begin(request, parts.executor) {
        Ok(RebuildStart::Opening) => None,
        Ok(RebuildStart::Started) => Some(encode(Ok(format!("devid {devid} is being rebuilt")))),
        Ok(RebuildStart::Continued) => {
            Some(encode(Ok(format!("devid {devid} was being rebuilt already, now {limit}"))))
        }
        Err(error) => Some(refused(error.to_string())),
    }
}

/// The response to a rebuild whose member had to be opened first: the notes of opening it, or why
/// it failed.
pub(super) fn rebuild_opened(
    result: Result<RebuildOpened, RebuildError>,
) -> Result<String, RequestError> {
    let opened = result.map_err(|error| RequestError::refused(error.to_string()))?;
    let RebuildOpened { devid, place, is_copied, notes } = opened;
    let done = match place {
        MemberPlace::New(address, _) | MemberPlace::Spare(address, _) => match is_copied {
            true => format!(
                "devid {devid} is being copied to `{address}`, and stays in use until that takes \
                 its place"
            ),
            false => format!("`{address}` took the place of devid {devid} and is being rebuilt"),
        },
        MemberPlace::Original | MemberPlace::Moved(_) | MemberPlace::Renamed(_) => {
            format!("devid {devid} is being rebuilt")
        }
    };
    Ok(notes.iter().fold(done, |text, note| format!("{text}; {note}")))
}

fn refused(error: String) -> String {
    failed(RequestErrorKind::Refused, error)
}

fn failed(kind: RequestErrorKind, error: String) -> String {
    encode::<()>(Err(RequestError { error, kind }))
}

fn no_volume(members: usize) -> RequestError {
    let error = match members {
        1 => {
            "the server exports one disk without a mirror, which has no policy\n  help: policies \
             are for volumes: those of `serve`, and of `emulate` with an array"
        }
        _ => {
            "the members are served as separate disks, which have no policy\n  help: start \
             `emulate` without --members to serve a volume"
        }
    };
    RequestError { error: error.to_owned(), kind: RequestErrorKind::NoVolume }
}

/// The line that carries a response.
pub(super) fn encode<T: Serialize>(result: Result<T, RequestError>) -> String {
    let json = serde_json::to_string(&ControlResponse::from(result));
    json.expect("responses have keys that are strings") + "\n"
}

/// The response to a client whose program was loaded, or could not be.
pub(super) fn policy_loaded(
    control: &mut Control,
    loaded: LoadedPolicy,
    executor: &mut Executor,
) -> Result<String, RequestError> {
    let LoadedPolicy { request, spec } = loaded;
    match superseded(control, &request) {
        Some(error) => Err(error),
        None => set_policy(control, spec, request, executor),
    }
}

/// The error of a request after which another one has set the policy.
fn superseded(control: &Control, request: &ChangeRequest) -> Option<RequestError> {
    (request.number < control.policy_set_by).then(|| {
        RequestError::refused(format!(
            "the policy was set to {} while the program was loaded, and stays\n  help: run the \
             command again to change it",
            control.policy.as_deref().unwrap_or_default()
        ))
    })
}

/// The fields of [`ControlRequest::SetPolicy`].
struct PolicyRequest {
    name: String,
    object: Option<String>,
    keep: bool,
}

/// Changes the policy; `None` if the response follows later, because the policy is a program that
/// has to be loaded.
fn policy_request(
    control: &mut Control,
    client: ClientKey,
    request: PolicyRequest,
    parts: &mut ServiceParts<'_>,
) -> Option<String> {
    let PolicyRequest { name, object, keep } = request;
    control.policy_requests += 1;
    let number = control.policy_requests;
    let request = ChangeRequest { client: client.slot(), number, kept: keep.then(|| name.clone()) };
    if let Some(reference) = ProgramReference::parse(&name) {
        let loader = control.loader.as_mut();
        let loading = PolicyLoader::load(loader, request, reference, object.as_deref());
        return Some(encode::<String>(Err(loading.err()?)));
    }
    let set = set_policy(control, Spec::parse(&name), request, parts.executor);
    if !keep {
        return Some(encode(set));
    }
    control.reply_when_recorded(client, set, parts.executor);
    None
}

/// Changes the policy of the volume, and returns its canonical string.
fn set_policy(
    control: &mut Control,
    parsed: Result<Spec, Diagnostic>,
    request: ChangeRequest,
    executor: &mut Executor,
) -> Result<String, RequestError> {
    let members = executor.members().count();
    let volume = executor.volume_mut().ok_or_else(|| no_volume(members))?;
    let devids: Vec<u64> = volume.members().iter().map(|(_, it)| it.config.devid).collect();
    let built = parsed.and_then(|spec| Ok((spec.build(&devids)?, spec)));
    let (policy, spec) = built.map_err(policy_error)?;
    if let Some(reference) = &request.kept {
        keep_policy(&spec, reference, volume)?;
    }
    let name = spec.to_string();
    volume.set_policy(policy);
    control.policy = Some(name.clone());
    control.policy_set_by = request.number;
    let change = StateChange::PolicyChanged { policy: name.clone() };
    control.events.record(change, executor);
    Ok(name)
}

fn members(executor: &Executor, rebuild: &Rebuild) -> Vec<MemberReport> {
    let members = (0..).map(MemberIndex).zip(executor.members());
    members.map(|(index, counted)| member(index, counted, executor, rebuild)).collect()
}

fn member(
    index: MemberIndex,
    (config, stats): (&MemberConfig, &MemberStats),
    executor: &Executor,
    rebuild: &Rebuild,
) -> MemberReport {
    let volume = executor.volume();
    let checksummed = volume.filter(|volume| volume.has_checksums());
    MemberReport {
        devid: config.devid,
        state: reported_state(executor, index),
        device: rebuild.device(index, executor).map(|device| device.absolute()),
        recovered_bytes: match volume.map_or(config.state, |volume| volume.members()[index].state) {
            MemberState::Rebuilding { recovered_bytes } => Some(recovered_bytes),
            MemberState::InSync | MemberState::Failed => None,
        },
        size_bytes: config.size_bytes,
        in_flight: stats.in_flight,
        reads: stats.reads,
        read_bytes: stats.read_bytes,
        writes: stats.writes,
        written_bytes: stats.written_bytes,
        flushes: stats.flushes,
        errors: stats.errors,
        last_error: last_error(index, executor),
        mismatched_blocks: checksummed
            .map(|volume| volume.gate().map_or(0, |store| store.mismatched_blocks(index))),
        bad_blocks: bad_blocks(index, executor),
    }
}

/// Counters and times, which may be cleared then.
fn stats(executor: &mut Executor, rebuild: &Rebuild, is_reset: bool) -> ServiceStats {
    let members = (0..).map(MemberIndex).zip(executor.members());
    let members = members.map(|(index, (config, stats))| MemberStatsReport {
        member: member(index, (config, stats), executor, rebuild),
        read_wait: quantiles(&stats.read_wait),
        write_wait: quantiles(&stats.write_wait),
        lateness: Lateness::of(config, stats, &executor.clock()).map(|lateness| LatenessReport {
            times: quantiles(&stats.lateness),
            bound_p99_ns: lateness.bound.0,
            within_bound: lateness.is_within_bound(),
        }),
    });
    let members = members.collect();
    let policy_counters = executor.volume().map(|volume| {
        let devid = |index| volume.members()[index].config.devid;
        let counters = volume.counters().into_iter().map(|counter| PolicyCounter {
            devid: counter.member.map(devid),
            name: counter.name.to_owned(),
            value: counter.value,
        });
        counters.collect()
    });
    if is_reset {
        executor.reset_times();
    }
    ServiceStats { members, policy_counters }
}

fn quantiles(histogram: &Histogram) -> Quantiles {
    Quantiles {
        count: histogram.count(),
        mean_ns: histogram.mean().0,
        p50_ns: histogram.quantile(0.5).0,
        p99_ns: histogram.quantile(0.99).0,
        p99_9_ns: histogram.quantile(0.999).0,
        max_ns: histogram.max().map(|max| max.0),
    }
}
