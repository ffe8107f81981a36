//! `--new`: which layout to give a new array of some disks.
//!
//! Every layout that btrfs, md and ZFS offer on the disks is asked about as an array of its own,
//! each with the best setting of its system. The simplest layout of each system comes first. Where
//! the order of unlike disks decides which are copies of each other, several orders are tried, and
//! the best counts.

mod pairings;

use super::Args;
use super::question::Question;
use super::target;
use crate::ending::{Ending, Failure};
use crate::progress::stop_at_ctrl_c;
use crate::screen;
use anyhow::{Result, anyhow};
use mirrorball_core::units::{Nanos, parse_bytes};
use mirrorball_disk::array_file::{ArraySpec, MemberSource, model_name};
use mirrorball_host::detect::{Sysroot, disk_at, model_of_product};
use mirrorball_lab::evaluation::advice::answer::ArrayAnswer;
use mirrorball_lab::evaluation::advice::chosen_system::ChosenSystem;
use mirrorball_lab::evaluation::advice::maintenance::{MaintenanceOptions, rebuild_time};
use mirrorball_lab::evaluation::advice::new_layouts::{
    JobSpeed, NewLayout, NewLayouts, best_speeds,
};
use mirrorball_lab::evaluation::advice::question::Share;

/// Jobs that read, and jobs that write.
const READS: [&str; 4] = ["rand-4k-qd1", "rand-4k-qd32", "seq-read", "four-streams"];
const WRITES: [&str; 2] = ["rand-write-4k", "seq-write"];
/// Most disks: as many copies as a read chooses among.
const DISKS_MAX: usize = 16;

struct NewDisk {
    /// In words.
    name: String,
    /// In commands: its device, or a word in capitals.
    device: String,
    /// Keys of its table in an array file.
    table: String,
}

struct OfferedLayout {
    system: &'static str,
    /// A layout of array files, or a profile of btrfs.
    layout: String,
}

/// Answers `--new`. Fails if a disk is not known, or a cell fails.
pub(super) fn run(args: &Args) -> Result<Ending, Failure> {
    let disks = disks(args).map_err(Failure::WrongUse)?;
    let jobs: Vec<String> = [&READS[..], &WRITES].concat().into_iter().map(str::to_owned).collect();
    let candidates = candidates(disks.len(), args.system.as_ref());
    let orders: Vec<Vec<Vec<usize>>> =
        candidates.iter().map(|it| pairings::orders(&kinds(&disks), &it.layout)).collect();
    let share = Share::OneOf(orders.iter().map(Vec::len).sum());
    let mut layouts = Vec::new();
    for (candidate, orders) in candidates.iter().zip(&orders) {
        let mut best: Option<NewLayout> = None;
        for (number, order) in orders.iter().enumerate() {
            let disks: Vec<&NewDisk> = order.iter().map(|&index| &disks[index]).collect();
            let Some(layout) = in_order(args, &disks, (candidate, number), share, &jobs)? else {
                return Ok(Ending::Interrupted);
            };
            if best.as_ref().is_none_or(|best| layout.is_better_than(best)) {
                best = Some(layout);
            }
        }
        layouts.extend(best);
    }
    if layouts.is_empty() {
        let system = args.system.as_ref().map_or("", ChosenSystem::as_written);
        let error = anyhow!(
            "--new: {system} has no layout of {} disks with copies\n  help: give more disks, or \
             another --system: md, lvm, zfs, btrfs, gmirror",
            disks.len()
        );
        return Err(Failure::WrongUse(error));
    }
    let (disks, devices) = disks.into_iter().map(|disk| (disk.name, disk.device)).unzip();
    let answer = NewLayouts { disks, devices, layouts };
    screen::print(&match args.format {
        super::AnswerFormat::Json => screen::json(&answer),
        super::AnswerFormat::Table => answer.text(screen::style()),
    })?;
    Ok(Ending::Done)
}

/// The answer for a layout of disks in this order; `None` if the run was interrupted.
fn in_order(
    args: &Args,
    disks: &[&NewDisk],
    (candidate, number): (&OfferedLayout, usize),
    share: Share,
    jobs: &[String],
) -> Result<Option<NewLayout>, Failure> {
    let text = array_text(disks, candidate);
    let order = if number == 0 { String::new() } else { format!("-order{}", number + 1) };
    let name = format!("new-{}{order}", candidate.layout);
    let path = target::save(&name, &text).map_err(Failure::WrongUse)?.display().to_string();
    let chosen = match &args.system {
        Some(chosen) => chosen.clone(),
        None => ChosenSystem::found(candidate.system, None).map_err(Failure::Fault)?,
    };
    let question = Question::about(args, &path, &chosen, jobs, share, &[])?;
    let Some((answer, _)) = question.answer(args)? else { return Ok(None) };
    let array = &question.asked.inputs.array;
    let Some(hours) = longest_rebuild(args, &question, &answer)? else { return Ok(None) };
    new_layout(disks, candidate, array, &answer, hours).map(Some)
}

/// For each disk the first one that is like it, but for its device.
fn kinds(disks: &[NewDisk]) -> Vec<usize> {
    let kind = |disk: &NewDisk| -> Vec<String> {
        let lines = disk.table.lines().filter(|line| !line.starts_with("device"));
        lines.map(str::to_owned).collect()
    };
    let all: Vec<Vec<String>> = disks.iter().map(kind).collect();
    all.iter().map(|it| all.iter().position(|other| other == it).unwrap_or(0)).collect()
}

/// The disks that were named: models, with a size or without, and devices.
fn disks(args: &Args) -> Result<Vec<NewDisk>> {
    let sysroot = crate::detect::sysroot(args.sysroot.as_deref());
    let sysroot = sysroot.map_err(|failure| anyhow!("{}", failure.cause()))?;
    let named = (1..).zip(args.new.iter().flat_map(|it| repeated(it)));
    let disks = named.map(|(number, name)| new_disk(&sysroot, number, name));
    let disks = disks.collect::<Result<Vec<NewDisk>>>()?;
    if !(2..=DISKS_MAX).contains(&disks.len()) {
        let error = format!("--new: an array with copies has 2 to {DISKS_MAX} disks");
        let help = "name each, or write '4*MODEL', as in --new '2*hdd-7k2-4tb' ssd-sata-plp";
        return Err(anyhow!("{error}, not {}\n  help: {help}", disks.len()));
    }
    Ok(disks)
}

/// `4*MODEL` as four times MODEL.
fn repeated(name: &str) -> impl Iterator<Item = &str> {
    let (count, name) = match name.split_once('*') {
        Some((count, model)) => (count.parse().unwrap_or(1), model),
        None => (1, name),
    };
    std::iter::repeat_n(name, usize::min(count, DISKS_MAX + 1))
}

fn new_disk(sysroot: &Sysroot, number: usize, name: &str) -> Result<NewDisk> {
    let device = name.strip_prefix("/dev/").unwrap_or(name);
    if let Some(disk) = disk_at(sysroot, &format!("/dev/{device}")) {
        let model = &disk.model;
        let mut table = format!(
            "model = {:?}\nconfidence = {:?}\ndevice = \"/dev/{device}\"\n",
            model.profile,
            model.confidence.name()
        );
        if let Some(bytes) = disk.size_bytes {
            table += &format!("size = \"{bytes}\"\n");
        }
        let name = format!("{} ({})", model.profile, model.confidence.name());
        return Ok(NewDisk { name, device: format!("/dev/{device}"), table });
    }
    if let Some((model, size)) = model_of_product(name) {
        let size = size.map_or_else(String::new, |bytes| format!("size = \"{bytes}\"\n"));
        let table = format!("model = {model:?}\nconfidence = \"known model\"\n{size}");
        let name = format!("{name} ({model})");
        return Ok(NewDisk { name, device: format!("DISK{number}"), table });
    }
    let (model, size) = match name.split_once(':') {
        Some((model, size)) => (model, Some(size)),
        None => (name, None),
    };
    let model = model_name(model).map_err(|error| {
        let help = "a disk of --new is a model, a model with a size such as hdd-smr:8TB, a product \
                    such as WD40EFRX, or a device of this machine such as /dev/sda";
        if name.starts_with("/dev/") {
            return anyhow!("--new: there is no disk {name}\n  help: {help}");
        }
        let near = error.help.map_or_else(String::new, |near| near + "; ");
        anyhow!("--new: {}\n  help: {near}{help}", error.message)
    })?;
    let mut table = format!("model = {model:?}\n");
    if let Some(size) = size {
        parse_bytes(size).map_err(|error| anyhow!("--new: {error}"))?;
        table += &format!("size = {size:?}\n");
    }
    Ok(NewDisk { name: name.to_owned(), device: format!("DISK{number}"), table })
}

/// The layouts of the systems on this many disks.
fn candidates(count: usize, only: Option<&ChosenSystem>) -> Vec<OfferedLayout> {
    let is_whole = |copies: usize| count.is_multiple_of(copies) && count > copies;
    let all = [
        ("md", "md-raid1".to_owned(), true),
        ("md", "md-raid10-near:2".to_owned(), count > 2),
        ("md", "md-raid10-far:2".to_owned(), true),
        ("md", "md-raid10-offset:2".to_owned(), true),
        ("zfs", format!("zfs-mirror:{count}"), true),
        ("zfs", "zfs-mirror:2".to_owned(), is_whole(2)),
        ("zfs", "zfs-mirror:3".to_owned(), is_whole(3)),
        ("btrfs", "raid1".to_owned(), true),
        ("btrfs", "raid10".to_owned(), count >= 4),
        ("btrfs", "raid1c3".to_owned(), count >= 3),
        ("btrfs", "raid1c4".to_owned(), count >= 4),
        ("lvm", "lvm-raid1".to_owned(), only.is_some()),
        ("gmirror", "gmirror".to_owned(), only.is_some()),
    ];
    let is_asked = |system: &str| only.is_none_or(|it| it.system.name == system);
    let fitting = all.into_iter().filter(|(system, _, fits)| *fits && is_asked(system));
    fitting.map(|(system, layout, _)| OfferedLayout { system, layout }).collect()
}

fn array_text(disks: &[&NewDisk], candidate: &OfferedLayout) -> String {
    let OfferedLayout { system, layout } = candidate;
    let key = if *system == "btrfs" { "profile" } else { "layout" };
    let members: String =
        disks.iter().map(|disk| format!("\n[[member]]\n{}", disk.table)).collect();
    let head = format!("name = \"new-{layout}\"\n{key} = \"{layout}\"\n");
    format!("{head}\n[source]\nsystem = \"{system}\"\n{members}")
}

/// The longest time in which the first disk of each kind is rebuilt; the inner is none if nothing
/// was moved, the outer if the run was interrupted.
fn longest_rebuild(
    args: &Args,
    question: &Question,
    answer: &ArrayAnswer,
) -> Result<Option<Option<f64>>, Failure> {
    let array = &question.asked.inputs.array;
    let mut kinds: Vec<(&str, u64)> = Vec::new();
    let mut longest: Option<f64> = None;
    for member in &array.members {
        let MemberSource::Model(profile) = &member.source else { continue };
        let kind = (profile.name.as_str(), profile.capacity_bytes);
        if kinds.contains(&kind) {
            continue;
        }
        kinds.push(kind);
        let options = MaintenanceOptions {
            policies: vec![answer.best_setting().to_owned()],
            has_copies: true,
            has_cursors: false,
            limit: question.asked.limit(),
            rebuilt_devid: Some(member.devid),
            recovered_bytes: 0,
            duration: args.duration.unwrap_or(Nanos::from_secs(1)),
            seed: args.seed,
            threads: args.threads,
            stop: stop_at_ctrl_c("finishing the running cells").map_err(Failure::Fault)?,
        };
        let Some(time) = rebuild_time(array, &options).map_err(Failure::Fault)? else {
            return Ok(None);
        };
        let Some(hours) = time.hours else { return Ok(Some(None)) };
        longest = Some(longest.map_or(hours, |longest| longest.max(hours)));
    }
    Ok(Some(longest))
}

fn new_layout(
    disks: &[&NewDisk],
    candidate: &OfferedLayout,
    array: &ArraySpec,
    answer: &ArrayAnswer,
    rebuild_hours: Option<f64>,
) -> Result<NewLayout, Failure> {
    let map = array.chunk_map().map_err(|error| Failure::WrongUse(error.into()))?;
    let speeds = |jobs: &[&str]| -> Vec<JobSpeed> {
        best_speeds(answer).filter(|it| jobs.contains(&it.job.as_str())).collect()
    };
    let setting = answer.best_setting().to_owned();
    Ok(NewLayout {
        system: candidate.system.to_owned(),
        layout: candidate.layout.clone(),
        reads: speeds(&READS),
        writes: speeds(&WRITES),
        rebuild_hours,
        capacity_bytes: map.capacity_bytes(),
        survives: map.copies() - 1,
        create: commands(disks, candidate, array, &setting, answer),
        setting,
    })
}

/// Commands that make the array with its setting.
fn commands(
    disks: &[&NewDisk],
    candidate: &OfferedLayout,
    array: &ArraySpec,
    setting: &str,
    answer: &ArrayAnswer,
) -> Vec<String> {
    let count = disks.len();
    let names: Vec<&str> = disks.iter().map(|disk| disk.device.as_str()).collect();
    let copies = candidate.layout.rsplit_once(':').map_or("", |(_, copies)| copies);
    let create = match candidate.system {
        "md" if candidate.layout == "md-raid1" => {
            // Flags are of the devices behind the option.
            let is_flagged = |index: usize| {
                let flag = format!("write-mostly:{}", array.members[index].devid);
                setting.split('+').any(|part| part == flag)
            };
            let part = |flagged: bool| {
                let own = (0..count).filter(move |index| is_flagged(*index) == flagged);
                own.map(|index| names[index]).collect::<Vec<_>>()
            };
            let flag = if part(true).is_empty() { &[][..] } else { &["--write-mostly"] };
            let devices = [&part(false)[..], flag, &part(true)].concat().join(" ");
            format!("mdadm --create /dev/md0 --level=1 --raid-devices={count} {devices}")
        }
        "md" => {
            let kind = candidate.layout.trim_start_matches("md-raid10-");
            let layout = format!("{}{copies}", &kind[..1]);
            let devices = names.join(" ");
            format!(
                "mdadm --create /dev/md0 --level=10 --layout={layout} --raid-devices={count} \
                 {devices}"
            )
        }
        "zfs" => {
            let vdevs = names.chunks(copies.parse().unwrap_or(count));
            let vdevs: Vec<String> = vdevs.map(|it| format!("mirror {}", it.join(" "))).collect();
            format!("zpool create tank {}", vdevs.join(" "))
        }
        "lvm" => {
            let devices = names.join(" ");
            let mirrors = count - 1;
            return vec![
                format!("vgcreate vg0 {devices}"),
                format!("lvcreate --type raid1 -m {mirrors} -l 100%FREE -n data vg0"),
            ];
        }
        "gmirror" => format!("gmirror label gm0 {}", names.join(" ")),
        _ => {
            let profile = &candidate.layout;
            format!("mkfs.btrfs -d {profile} -m {profile} {}", names.join(" "))
        }
    };
    let is_new = setting != answer.advice.now && candidate.system != "md";
    let set = answer.advice.offered.iter().filter(|it| it.spec == setting && is_new);
    let set = set.flat_map(|it| it.commands.set.clone());
    [create].into_iter().chain(set).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layouts_are_those_that_fit_the_number_of_disks() {
        let names = |count| -> Vec<String> {
            candidates(count, None).into_iter().map(|it| it.layout).collect()
        };
        let two = ["md-raid1", "md-raid10-far:2", "md-raid10-offset:2", "zfs-mirror:2", "raid1"];
        assert_eq!(names(2), two);
        assert!(names(3).contains(&"raid1c3".to_owned()) && names(3).len() == 7, "{:?}", names(3));
        let six = names(6);
        for layout in ["zfs-mirror:2", "zfs-mirror:3", "zfs-mirror:6", "raid10", "raid1c4"] {
            assert!(six.contains(&layout.to_owned()), "{six:?}");
        }
        let only = "gmirror".parse().unwrap();
        assert_eq!(candidates(4, Some(&only)).len(), 1);
    }
}
