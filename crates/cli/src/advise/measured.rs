//! `--probe`: models fitted to measurements of the disks, in the place of those that were chosen.
//!
//! One disk is read after the other, so that none is measured with the load of another. Everything
//! that can be refused is refused before the first read. Each profile is written when it is
//! complete; Ctrl-C keeps those of the disks before, and what was measured of the one that is read.

use super::question::Question;
use super::target::{self, AdviseTarget};
use super::{Args, ProbeBudget};
use crate::ending::Failure;
use crate::folders;
use crate::output_file::{self, Existing};
use crate::probe::{measure, most_time, whole_seconds};
use crate::progress::stop_at_ctrl_c;
use crate::screen;
use anyhow::{Result, anyhow};
use mirrorball_core::diagnostic::Diagnostic;
use mirrorball_core::units::{Nanos, format_bytes};
use mirrorball_disk::array_file::{
    ArrayEdit, ArraySpec, FittedModel, MemberSource, MemberSpec, ModelConfidence, Partition,
};
use mirrorball_host::detect::{Sysroot, detect_at, disk_below, file_stem, model_of_class};
use mirrorball_host::probe::{
    Budget, DeviceClass, ProbeOptions, ProbeOutcome, ProbeTarget, ProbeVerdict,
};
use mirrorball_lab::experiment::inputs::load_array;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

/// The array with fitted models, and how complete they are.
pub(super) struct Measured {
    /// The array, with the models that were fitted.
    pub(super) target: AdviseTarget,
    /// False if `--probe` left a member in service without a fitted model.
    pub(super) is_complete: bool,
    /// Whether Ctrl-C ended the measurement.
    pub(super) is_interrupted: bool,
}

/// A disk to be read, and the members that are on it.
struct MeasuredDisk {
    target: ProbeTarget,
    members: Vec<MemberOnDisk>,
}

struct MemberOnDisk {
    devid: u64,
    /// Which part of the disk it is, if that is known.
    part: Option<Partition>,
}

/// Devices to read, and those that cannot be read.
#[derive(Default)]
struct Selection {
    disks: Vec<MeasuredDisk>,
    /// Members that have a fitted model already.
    fitted: Vec<u64>,
    /// Members that cannot be measured, and why.
    refused: Vec<(u64, Diagnostic)>,
}

/// Where the array file and the profiles are written.
struct OutputFiles {
    array: PathBuf,
    existing: Existing,
}

/// The target with models fitted to measurements of its disks, if that was asked for. Fails if
/// nothing can be measured, or a file cannot be written.
pub(super) fn with_fitted(
    args: &Args,
    target: AdviseTarget,
    jobs: &[String],
) -> Result<Measured, Failure> {
    let Some(budget) = args.probe else {
        return Ok(Measured { target, is_complete: true, is_interrupted: false });
    };
    let (_, spec) = load_array(&target.array).map_err(Failure::WrongUse)?;
    let file = target::read(&target.array).map_err(Failure::WrongUse)?;
    let edit = ArrayEdit::new(&file);
    Question::check(args, &target, &spec, jobs)?;
    if let Some(work) = background_work(&target, &spec) {
        return Err(Failure::Fault(anyhow!(
            "--probe: {} is not idle ({work}), and a measurement would be of both\n  help: wait \
             until that is done, or leave out --probe",
            spec.name
        )));
    }
    let selection = Selection::of(&spec, &edit);
    selection.check(&spec)?;
    let is_complete = selection.refused.is_empty();
    if selection.disks.is_empty() {
        return Ok(Measured { target, is_complete, is_interrupted: false });
    }
    let files = OutputFiles::new(args, &spec)?;
    files.check(&selection).map_err(Failure::WrongUse)?;
    let options = ProbeOptions { budget: budget.into(), class: args.class.map(DeviceClass::from) };
    let stop = stop_at_ctrl_c("ending the measurement, and keeping what was measured");
    let stop = stop.map_err(Failure::Fault)?;
    let is_guessed = |it: &&MemberSpec| it.confidence == Some(ModelConfidence::Guessed);
    let guessed = spec.members.iter().filter(is_guessed).map(|member| member.devid).collect();
    let mut session = BenchCommand { files, edit, options, stop, guessed };
    let all = session.run(&spec, &selection)?;
    let target = session.save(target)?;
    let is_interrupted = stop.load(Ordering::Relaxed);
    Ok(Measured { target, is_complete: is_complete && all, is_interrupted })
}

/// Background work of the array, which would disturb a measurement.
fn background_work(target: &AdviseTarget, spec: &ArraySpec) -> Option<String> {
    if target.is_detected {
        return target.activity.clone();
    }
    let source = spec.source.as_ref()?;
    // The file says what was going on when it was written. The machine knows better, if it has the
    // array.
    let name = source.name.as_deref().unwrap_or_default();
    if let Ok(found) = detect_at(&Sysroot::live(), name)
        && found.system.name() == source.system
    {
        return found.condition.activity;
    }
    let states = source.condition.iter().flat_map(|condition| condition.split("; "));
    let mut work = states.filter(|state| !state.starts_with("degraded"));
    work.next().map(|work| format!("{work}, as its file says"))
}

impl Selection {
    fn of(spec: &ArraySpec, edit: &ArrayEdit) -> Selection {
        let mut selection = Selection::default();
        for member in spec.members.iter().filter(|member| member.is_in_service()) {
            if member.confidence == Some(ModelConfidence::Fitted) {
                selection.fitted.push(member.devid);
                continue;
            }
            match open(member, edit.stated_bytes(member.devid)) {
                Ok((target, part)) => selection.add(target, member.devid, part),
                Err(error) => selection.refused.push((member.devid, error)),
            }
        }
        selection
    }

    /// Adds a member; two that are on one disk are measured together.
    fn add(&mut self, target: ProbeTarget, devid: u64, part: Option<Partition>) {
        let member = MemberOnDisk { devid, part };
        match self.disks.iter_mut().find(|disk| disk.target.path == target.path) {
            Some(disk) => disk.members.push(member),
            None => self.disks.push(MeasuredDisk { target, members: vec![member] }),
        }
    }

    /// Says what is left out.
    fn check(&self, spec: &ArraySpec) -> Result<(), Failure> {
        if let ([], [(_, first), ..], []) = (&self.disks[..], &self.refused[..], &self.fitted[..]) {
            let reasons: Vec<&str> =
                self.refused.iter().map(|(_, error)| error.message.as_str()).collect();
            let help = first.help.as_deref().unwrap_or("leave out --probe");
            return Err(Failure::WrongUse(anyhow!(
                "--probe: no disk of {} can be measured: {}\n  help: {help}",
                spec.name,
                reasons.join("; ")
            )));
        }
        if !self.fitted.is_empty() {
            let devids: Vec<String> = self.fitted.iter().map(ToString::to_string).collect();
            screen::say(format_args!(
                "measured before, and not again: devid {}",
                devids.join(", ")
            ));
        }
        for (devid, error) in &self.refused {
            screen::say(format_args!("warning: devid {devid} is not measured: {error}"));
        }
        Ok(())
    }
}

/// Opens the disk of a member for reading, with the part of it that the member is.
fn open(
    member: &MemberSpec,
    stated_bytes: Option<u64>,
) -> Result<(ProbeTarget, Option<Partition>), Diagnostic> {
    let devid = member.devid;
    let device = match (&member.source, &member.device) {
        (MemberSource::Path(path), _) => path.display().to_string(),
        (MemberSource::Model(_), Some(device)) => device.clone(),
        (MemberSource::Uri(uri), _) => {
            let error = Diagnostic::new(format!("`{uri}` is on another machine"));
            return Err(error.with_help("probe its disk there, and name the profile as its model"));
        }
        (MemberSource::Model(_), None) => {
            let error = Diagnostic::new(format!("the array names no device of devid {devid}"));
            let help = "add it to the array file, for example device = \"/dev/sda\"";
            return Err(error.with_help(help));
        }
    };
    let below = disk_below(&Sysroot::live(), &device);
    let disk = match &below {
        None => device.clone(),
        Some(below) => below.disk.clone().ok_or_else(|| {
            let error = Diagnostic::new(format!("`{device}` lies on several disks"));
            error.with_help("probe one of them, and name the profile as the model of the member")
        })?,
    };
    let target = ProbeTarget::open(Path::new(&disk), &Sysroot::live())?;
    if let Some(stated) = stated_bytes.filter(|stated| *stated != target.size_bytes) {
        let (size, stated) = (format_bytes(target.size_bytes), format_bytes(stated));
        let error = Diagnostic::new(format!(
            "`{disk}` has {size} ({} bytes), but the array file says {stated}: it is another disk",
            target.size_bytes
        ));
        return Err(error.with_help("detect the array again: devices change their names"));
    }
    let part = below.and_then(|below| {
        let length_bytes = below.size_bytes?;
        Some(Partition { begin_bytes: below.begin_bytes.unwrap_or(0), length_bytes })
    });
    Ok((target, part))
}

impl OutputFiles {
    fn new(args: &Args, spec: &ArraySpec) -> Result<OutputFiles, Failure> {
        if let Some(array) = &args.output {
            let existing = Existing::from_force(args.force, Some(array), "-o FILE")?;
            return Ok(OutputFiles { array: array.clone(), existing });
        }
        folders::create(folders::results()).map_err(Failure::WrongUse)?;
        let stem = format!("{}-fitted", file_stem(&spec.name));
        let is_free = |files: &OutputFiles| {
            let profiles = spec.members.iter().map(|member| files.profile(member.devid));
            [files.array.clone()].into_iter().chain(profiles).all(|path| !path.exists())
        };
        let names = std::iter::once(stem.clone()).chain((2..).map(|it| format!("{stem}-{it}")));
        let mut all = names.map(|name| OutputFiles {
            array: folders::results().join(format!("{name}.toml")),
            existing: Existing::Stays,
        });
        Ok(all.find(is_free).expect("some number is free"))
    }

    /// The profile of a member, next to the array file.
    fn profile(&self, devid: u64) -> PathBuf {
        let stem = self.array.file_stem().unwrap_or_default().display().to_string();
        self.array.with_file_name(format!("{stem}-devid{devid}.toml"))
    }

    /// Checks that the files can be written, before minutes of reading.
    fn check(&self, selection: &Selection) -> Result<()> {
        let profiles = selection.disks.iter().map(|disk| self.profile(disk.members[0].devid));
        for path in [self.array.clone()].into_iter().chain(profiles) {
            output_file::check(&path, self.existing)?;
        }
        Ok(())
    }
}

struct BenchCommand<'a> {
    files: OutputFiles,
    edit: ArrayEdit,
    options: ProbeOptions,
    stop: &'a AtomicBool,
    /// Members whose class of disks was guessed.
    guessed: Vec<u64>,
}

impl BenchCommand<'_> {
    /// Measures each disk, and returns true if all have a model that can be used.
    fn run(&mut self, spec: &ArraySpec, selection: &Selection) -> Result<bool, Failure> {
        let most = most_time(self.options.budget);
        let disks = &selection.disks;
        let what = match disks.len() {
            1 => "1 disk".to_owned(),
            many => format!("{many} disks, one after the other"),
        };
        let all = whole_seconds(Nanos(most.0 * disks.len() as u64));
        screen::say(format_args!("measuring {}: {what}, at most {all}, reads only", spec.name));
        let mut is_complete = true;
        for (index, disk) in disks.iter().enumerate() {
            if self.stop.load(Ordering::Relaxed) {
                screen::say(format_args!("{}: not measured", named(disk)));
                is_complete = false;
                continue;
            }
            let size = format_bytes(disk.target.size_bytes);
            screen::say(format_args!("{}: {size}", named(disk)));
            let later = Nanos(most.0 * (disks.len() - index - 1) as u64);
            let class = self.options.class.or(class_found(spec, disk.members[0].devid));
            let options = ProbeOptions { class, ..self.options };
            is_complete &= match measure(&disk.target, options, self.stop, later) {
                Ok(outcome) => self.take(&named(disk), &disk.members, &outcome)?,
                Err(error) => {
                    screen::say(format_args!("warning: {}: {error}", named(disk)));
                    false
                }
            };
        }
        Ok(is_complete)
    }

    /// Writes the profile of a disk, and takes it for the members that are on it unless it is
    /// doubtful.
    fn take(
        &mut self,
        name: &str,
        members: &[MemberOnDisk],
        outcome: &ProbeOutcome,
    ) -> Result<bool, Failure> {
        let path = self.files.profile(members[0].devid);
        output_file::write(&path, &outcome.profile_text(), self.files.existing)
            .map_err(Failure::Fault)?;
        screen::say(format_args!("{name}: {}", outcome.verdict));
        let confidence = match &outcome.verdict {
            ProbeVerdict::Doubtful(_) => {
                self.take_class(members, outcome.class);
                let shown = path.display();
                screen::say(format_args!("  it is not used; what was measured is in {shown}"));
                return Ok(false);
            }
            ProbeVerdict::Late(_) => {
                screen::say(
                    "  it is used, and doubtful: stop what else runs on this machine, and measure \
                     again",
                );
                ModelConfidence::FittedLate
            }
            ProbeVerdict::Good | ProbeVerdict::UsableForRanking(_) => ModelConfidence::Fitted,
        };
        let file = path.file_name().unwrap_or_default().display().to_string();
        for member in members {
            let link = outcome.link.clone().map(|link| mirrorball_disk::link::LinkParameters {
                name: format!("to-devid-{}", member.devid),
                ..link
            });
            let fitted = FittedModel { file: file.clone(), confidence, link, part: member.part };
            self.edit.fit(member.devid, &fitted);
        }
        Ok(true)
    }

    /// Puts the model of the class that was found in the place of one that was guessed.
    fn take_class(&mut self, members: &[MemberOnDisk], class: DeviceClass) {
        let is_rotational = match class {
            DeviceClass::Hdd => true,
            DeviceClass::Ssd => false,
            DeviceClass::Network => return,
        };
        let is_guessed = |devid| self.guessed.contains(&devid);
        for devid in members.iter().map(|it| it.devid).filter(|&devid| is_guessed(devid)) {
            let model = model_of_class(is_rotational);
            screen::say(format_args!("  found by its reads: {model} stands for devid {devid}"));
            self.edit.state_class(devid, model, is_rotational);
        }
    }

    /// Writes the array file, and returns the target that it describes.
    fn save(&self, target: AdviseTarget) -> Result<AdviseTarget, Failure> {
        let text = format!(
            "# Written by `mirrorball advise --probe`. The comments of the profiles say how well \
             each model fits.\n{}",
            self.edit.text()
        );
        let (path, existing) = (&self.files.array, self.files.existing);
        output_file::write(path, &text, existing).map_err(Failure::Fault)?;
        let path = path.display().to_string();
        screen::say(format_args!("the array with what was measured is described in {path}"));
        Ok(AdviseTarget { array: path, ..target })
    }
}

/// The class of the disk of a member, if it was found by reading what the machine says.
fn class_found(spec: &ArraySpec, devid: u64) -> Option<DeviceClass> {
    let member = spec.members.iter().find(|member| member.devid == devid)?;
    let is_found = [ModelConfidence::KnownModel, ModelConfidence::ClassDefault];
    let rotates = if member.is_rotational() { DeviceClass::Hdd } else { DeviceClass::Ssd };
    member.confidence.filter(|it| is_found.contains(it)).map(|_| rotates)
}

/// `devid 1, /dev/sda`.
fn named(disk: &MeasuredDisk) -> String {
    let devids: Vec<String> = disk.members.iter().map(|it| it.devid.to_string()).collect();
    format!("devid {}, {}", devids.join(" and "), disk.target.path.display())
}

impl From<ProbeBudget> for Budget {
    fn from(budget: ProbeBudget) -> Budget {
        match budget {
            ProbeBudget::Quick => Budget::Quick,
            ProbeBudget::Full => Budget::Full,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mirrorball_disk::array_file::ArrayFile;
    use mirrorball_disk::profile::ModelProfile;
    use mirrorball_host::probe::probe_model;

    #[test]
    fn late_models_are_taken_and_of_doubtful_ones_the_class() {
        let folder = tempfile::tempdir().unwrap();
        let text = "layout = \"md-raid1\"\n[[member]]\nmodel = \"hdd-7k2-ent\"\n\
            confidence = \"class default\"\nsize = \"300GB\"\n[[member]]\n\
            model = \"ssd-sata-plp\"\nconfidence = \"guessed\"\nrotational = false\n";
        let file = ArrayFile::parse(text, "pair.toml").unwrap();
        let files =
            OutputFiles { array: folder.path().join("a.toml"), existing: Existing::Keep(None) };
        let options = ProbeOptions { budget: Budget::Quick, class: None };
        let (edit, stop) = (ArrayEdit::new(&file), AtomicBool::new(false));
        let mut session = BenchCommand { files, edit, options, stop: &stop, guessed: vec![2] };
        let member = |devid| [MemberOnDisk { devid, part: None }];
        let profile = ModelProfile::builtin("hdd-15k").unwrap();
        let mut outcome = probe_model(&profile, None, options).unwrap();
        outcome.verdict = ProbeVerdict::Doubtful(vec!["3 reads failed".to_owned()]);
        assert!(!session.take("devid 2", &member(2), &outcome).unwrap());
        outcome.verdict = ProbeVerdict::Late(vec!["the host was late".to_owned()]);
        assert!(session.take("devid 1", &member(1), &outcome).unwrap());
        let error = session.take("devid 1", &member(1), &outcome).unwrap_err();
        assert!(error.cause().to_string().contains("already exists"), "{}", error.cause());
        let target = session.save(AdviseTarget::file("b.toml".to_owned())).unwrap();
        assert_eq!(target.array, folder.path().join("a.toml").display().to_string());
        let (_, spec) = load_array(&target.array).unwrap();
        let stated = [Some(ModelConfidence::FittedLate), Some(ModelConfidence::ClassDefault)];
        assert_eq!(spec.members.iter().map(|it| it.confidence).collect::<Vec<_>>(), stated);
        let MemberSource::Model(model) = &spec.members[0].source else { panic!("it is a model") };
        assert_eq!((model.kind, model.capacity_bytes), ("hdd", 300_000_000_000));
        assert!(spec.members[1].is_rotational(), "as it was found");
        let kept = std::fs::read_to_string(folder.path().join("a-devid2.toml")).unwrap();
        assert!(kept.contains("# Verdict: doubtful\n#   3 reads failed"), "{kept}");
    }
}
