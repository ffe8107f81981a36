//! What the control socket answers.

use super::{Control, ServiceParts};
use crate::executor::{Executor, MemberStats, Target};
use crate::lateness::Lateness;
use crate::rebuild::{RebuildError, RebuildRequest, RebuildStart};
use crate::reopen::PathState;
use mirrorball_core::histogram::Histogram;
use mirrorball_core::member::{MemberConfig, MemberIndex, MemberState};
use mirrorball_core::policies::Spec;
use mirrorball_core::units::parse_bytes;
use serde_json::{Value, json};

const NO_POLICY: &str = "the members are served each on its own: there is no policy";
/// What is told of a rebuild that began.
const REBUILT: &str = "being rebuilt";

/// Answers one line of a client; `None` if that takes time.
pub(super) fn answer(
    control: &mut Control,
    client: u32,
    line: &str,
    parts: &mut ServiceParts<'_>,
) -> Option<Value> {
    let executor = &mut *parts.executor;
    let (command, rest) = line.trim().split_once(' ').unwrap_or((line.trim(), ""));
    let result = match (command, rest.trim()) {
        ("status", "") => Ok(status(control, parts)),
        ("members", "") => Ok(executor
            .members()
            .map(|(config, stats)| member(config, stats, state(executor, config)))
            .collect()),
        ("stats", "") => Ok(stats(executor)),
        ("stats", "reset") => {
            let until_now = stats(executor);
            executor.forget_times();
            Ok(until_now)
        }
        ("policy", "") => control.policy.as_ref().map(|name| json!(name)).ok_or(NO_POLICY.into()),
        ("policy", name) => set_policy(control, name, executor),
        ("rebuild", order) => match rebuild(order, client, parts) {
            Ok(RebuildStart::Opening) => return None,
            Ok(RebuildStart::Started) => Ok(json!(format!("it is {REBUILT}"))),
            Err(error) => Err(error),
        },
        _ => Err(format!(
            "`{line}` is not understood: ask status, members, stats, stats reset, policy, \
             policy NAME or rebuild DEVID [RATE]"
        )),
    };
    Some(reply(result))
}

/// The answer to a rebuild whose member had to be opened first: what to tell of that.
pub(super) fn late(result: Result<Vec<String>, RebuildError>) -> Value {
    let said = |notes: Vec<String>| {
        let notes = notes.iter().map(|note| format!("; {note}"));
        json!(format!("it is opened again and {REBUILT}{}", notes.collect::<String>()))
    };
    reply(result.map(said).map_err(|error| error.to_string()))
}

fn reply(result: Result<Value, String>) -> Value {
    match result {
        Ok(answer) => json!({ "answer": answer }),
        Err(error) => json!({ "error": error }),
    }
}

fn status(control: &Control, parts: &ServiceParts<'_>) -> Value {
    let ServiceParts { executor, server, rebuild } = parts;
    let states: Vec<MemberState> =
        executor.members().map(|(config, _)| state(executor, config)).collect();
    let exports = server.exports().iter().map(|export| {
        json!({
            "name": export.name,
            "size_bytes": export.size_bytes,
            "is": match export.target {
                Target::Volume => "volume",
                Target::Member(_) => "member",
            },
        })
    });
    json!({
        "name": control.name,
        "policy": control.policy,
        "profile": executor.volume().map(|volume| volume.map().profile().name()),
        "health": match states.iter().all(|state| *state == MemberState::InSync) {
            true => "in sync",
            false => "degraded",
        },
        "misplaced": misplaced(parts),
        "rebuilds": rebuilds(executor),
        "rebuild_bytes_per_s": rebuild.rate(),
        "connections": server.connections(),
        "exports": exports.collect::<Value>(),
        "backend": executor.driver.backend().to_string(),
        "uptime_s": executor.driver.now().as_secs_f64(),
    })
}

fn set_policy(control: &mut Control, name: &str, executor: &mut Executor) -> Result<Value, String> {
    let Some(volume) = executor.volume_mut() else {
        return Err(NO_POLICY.to_owned());
    };
    let devids: Vec<u64> = volume.members().iter().map(|(_, member)| member.config.devid).collect();
    let spec = Spec::parse(name).map_err(|error| error.to_string())?;
    let policy = spec.build(&devids).map_err(|error| error.to_string())?;
    volume.set_policy(policy);
    control.policy = Some(name.to_owned());
    Ok(json!(name))
}

/// Has a member that failed rebuilt from its mirrors: a devid, and perhaps a rate.
fn rebuild(order: &str, client: u32, parts: &mut ServiceParts<'_>) -> Result<RebuildStart, String> {
    let (devid, rate) = order.split_once(' ').map_or((order, None), |(a, b)| (a, Some(b)));
    let devid = devid.parse().map_err(|_| format!("`{devid}` is no devid"))?;
    let rate = rate.map(parse_bytes).transpose().map_err(|error| error.to_string())?;
    if rate == Some(0) {
        return Err("at a rate of 0 it would never be done".to_owned());
    }
    let begun = parts.rebuild.begin(RebuildRequest { devid, rate, client: client }, parts.executor);
    begun.map_err(|error| error.to_string())
}

/// Members that work and whose file is not the one at their path: what is written to them is lost
/// when the service ends.
fn misplaced(parts: &ServiceParts<'_>) -> Value {
    let Some(volume) = parts.executor.volume() else { return json!([]) };
    let working = volume.members().iter().filter(|(_, it)| it.state != MemberState::Failed);
    let misplaced = working.filter_map(|(index, member)| {
        let at_path = match parts.rebuild.path_state(index, parts.executor) {
            PathState::Same => return None,
            PathState::Replaced => "another file",
            PathState::Missing(_) => "nothing",
        };
        Some(json!({ "devid": member.config.devid, "at_path": at_path }))
    });
    misplaced.collect()
}

/// How far each member that is being rebuilt has come.
fn rebuilds(executor: &Executor) -> Value {
    let Some(volume) = executor.volume() else { return json!([]) };
    let rebuilt = volume.members().iter().filter_map(|(index, member)| {
        let MemberState::Rebuilding { recovered_bytes } = member.state else { return None };
        // Behind the last chunk there is nothing to copy.
        let total_bytes = volume.map().allocated_end(index);
        let recovered_bytes = recovered_bytes.min(total_bytes);
        let devid = member.config.devid;
        Some(json!({
            "devid": devid, "recovered_bytes": recovered_bytes, "total_bytes": total_bytes,
        }))
    });
    rebuilt.collect()
}

pub(super) fn state(executor: &Executor, config: &MemberConfig) -> MemberState {
    let Some(volume) = executor.volume() else { return config.state };
    let index = volume.members().find(config.devid).unwrap_or(MemberIndex(0));
    volume.members()[index].state
}

fn member(config: &MemberConfig, stats: &MemberStats, state: MemberState) -> Value {
    let (state, recovered_bytes) = match state {
        MemberState::InSync => ("in sync", None),
        MemberState::Rebuilding { recovered_bytes } => ("rebuilding", Some(recovered_bytes)),
        MemberState::Failed => ("failed", None),
    };
    json!({
        "devid": config.devid,
        "state": state,
        "recovered_bytes": recovered_bytes,
        "size_bytes": config.size_bytes,
        "in_flight": stats.in_flight,
        "reads": stats.reads,
        "read_bytes": stats.read_bytes,
        "writes": stats.writes,
        "written_bytes": stats.written_bytes,
        "flushes": stats.flushes,
        "errors": stats.errors,
    })
}

fn stats(executor: &Executor) -> Value {
    let members = executor.members().map(|(config, stats)| {
        let mut value = member(config, stats, state(executor, config));
        value["read_wait"] = quantiles(&stats.read_wait);
        value["write_wait"] = quantiles(&stats.write_wait);
        if let Some(lateness) = Lateness::of(config, stats, &executor.clock()) {
            value["lateness"] = quantiles(&stats.lateness);
            value["lateness"]["bound_p99_ns"] = json!(lateness.bound.0);
            value["lateness"]["within_bound"] = json!(lateness.is_within_bound());
        }
        value
    });
    let members: Value = members.collect();
    let counters = executor.volume().map(|volume| {
        let devid = |index| volume.members()[index].config.devid;
        let counters = volume.counters().into_iter().map(|counter| {
            json!({
                "devid": counter.member.map(devid),
                "name": counter.name,
                "value": counter.value,
            })
        });
        counters.collect::<Value>()
    });
    json!({ "members": members, "policy_counters": counters })
}

fn quantiles(histogram: &Histogram) -> Value {
    json!({
        "count": histogram.count(),
        "mean_ns": histogram.mean().0,
        "p50_ns": histogram.quantile(0.5).0,
        "p99_ns": histogram.quantile(0.99).0,
        "p99_9_ns": histogram.quantile(0.999).0,
        "max_ns": histogram.max().map(|max| max.0),
    })
}
