//! Layouts for a new array of given disks, side by side: reads, writes, rebuild and space.
//!
//! Each layout has the best setting of its system. Of layouts within 2 % of the best the one that
//! was compared first is named: the simplest.

use super::TIE;
use super::answer::ArrayAnswer;
use super::figure_text::hours_text;
use super::text::{entry, lines};
use crate::report::{self, Column, Grid, Style, draw, left_out, wrapped};
use mirrorball_core::units::format_bytes;
#[cfg(test)]
use schemars::JsonSchema;
use serde::Serialize;

/// Layouts of the same disks, in the order in which they were compared.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct NewLayouts {
    /// The disks, in words.
    pub disks: Vec<String>,
    /// What commands call each disk.
    pub devices: Vec<String>,
    /// The layouts.
    pub layouts: Vec<NewLayout>,
}

/// A layout of a new array, with the best setting of its system.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct NewLayout {
    /// The storage system, as `--system` takes it.
    pub system: String,
    /// The layout, or the profile of btrfs, as array files have it.
    pub layout: String,
    /// The setting with which it is fastest.
    pub setting: String,
    /// Speed under each job that reads.
    pub reads: Vec<JobSpeed>,
    /// Speed under each job that writes.
    pub writes: Vec<JobSpeed>,
    /// Longest time of the rebuild of one disk of an idle array; none if nothing was moved.
    pub rebuild_hours: Option<f64>,
    /// Bytes that it holds.
    pub capacity_bytes: u64,
    /// Failed disks that it survives, whichever they are.
    pub survives: usize,
    /// Commands that make it, as root. They erase the disks.
    pub create: Vec<String>,
}

/// Speed under a job.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct JobSpeed {
    /// Name of the job.
    pub job: String,
    /// The unit of the value.
    pub unit: &'static str,
    /// Mean over the repeats.
    pub value: f64,
}

/// What the best setting of an array reaches under each job.
pub fn best_speeds(answer: &ArrayAnswer) -> impl Iterator<Item = JobSpeed> {
    answer.jobs.iter().filter_map(|job| {
        let (job, best) = answer.best_figure(&job.job)?;
        Some(JobSpeed { job: job.job.clone(), unit: job.unit, value: best.value })
    })
}

/// Geometric mean of the speeds under some jobs.
fn mean(speeds: &[JobSpeed]) -> f64 {
    let logs: f64 = speeds.iter().map(|speed| speed.value.ln()).sum();
    (logs / speeds.len().max(1) as f64).exp()
}

impl NewLayouts {
    /// The first layout within 2 % of the highest value; none if no value is above zero.
    fn best(&self, value: impl Fn(&NewLayout) -> f64) -> Option<&NewLayout> {
        let highest = self.layouts.iter().map(&value).fold(0.0, f64::max);
        self.layouts.iter().find(|it| highest > 0.0 && value(it) >= highest * (1.0 - TIE))
    }

    /// The layouts as text: the best for reads, for writes and for a rebuild, with the commands
    /// that make them, then all.
    pub fn text(&self, style: Style) -> String {
        let width = style.width_columns;
        let reads = |it: &NewLayout| mean(&it.reads);
        let writes = |it: &NewLayout| mean(&it.writes);
        let rebuild = |it: &NewLayout| it.rebuild_hours.map_or(0.0, |hours| 1.0 / hours);
        let Some(first) = self.layouts.first() else { return String::new() };
        let mut text = format!("{}\n", wrapped(&first_line(&self.disks), width));
        text += &format!("{}\n", wrapped(&self.named_disks(), width));
        let percent = |value: f64, all: f64| format!("{:.0}", value / all * 100.0);
        let mut made: Vec<String> = Vec::new();
        let is_more = |value: f64, best: f64| value > best && percent(best, value) != "100";
        let values: [&dyn Fn(&NewLayout) -> f64; 3] = [&reads, &writes, &rebuild];
        for (name, value) in ["Best reads", "Best writes", "Least rebuild"].into_iter().zip(values)
        {
            let Some(best) = self.best(value) else { continue };
            let is_made = made.contains(&best.name());
            let others = self.layouts.iter().filter(|it| is_more(value(it), value(best)));
            let fastest = others.max_by(|a, b| value(a).total_cmp(&value(b)));
            let tie = fastest.map(|it| format!(", within 2 % of {}", it.name()));
            let described = best.described(value(best) / value(first), first);
            text += &entry(name, &(described + &tie.unwrap_or_default()), width);
            if !is_made {
                text += &lines("create", &best.create, width);
            }
            made.push(best.name());
        }
        let highest =
            |value: &dyn Fn(&NewLayout) -> f64| self.layouts.iter().map(value).fold(0.0, f64::max);
        let (most_reads, most_writes) = (highest(&reads), highest(&writes));
        let grid = Grid::of(&self.layouts)
            .column(Column::left("layout"), |it| it.name())
            .column(Column::right("reads"), |it| percent(reads(it), most_reads))
            .column(Column::right("writes"), |it| percent(writes(it), most_writes))
            .column(Column::right("rebuild"), |it| it.rebuild_hours.map_or("-".into(), hours_text))
            .column(Column::right("space").droppable(2), |it| format_bytes(it.capacity_bytes))
            .column(Column::right("survives").droppable(3), |it| it.survives.to_string())
            .column(Column::left("setting").droppable(1), |it| it.setting.clone());
        let note = "reads, writes: % of the fastest, geometric mean over the jobs; rebuild: of one \
                    disk, the slowest kind, idle, at the default limit; survives: failed disks, \
                    whichever they are. Writes are simulated in place: btrfs and ZFS write to new \
                    places, so compare their random writes with each other only. Unlike disks are \
                    paired for the most reads with as much space. `create` erases the disks";
        let (grid, titles) = grid.build().fitted(width);
        text += &format!("\n{}{}", draw(&grid, style), left_out(&titles, "json", style));
        text + &report::note(note, width) + "\n"
    }
}

impl NewLayout {
    /// True if the same layout of the same disks in another order reads faster, and holds as much.
    pub fn is_better_than(&self, other: &NewLayout) -> bool {
        let is_faster = mean(&self.reads) > mean(&other.reads) * (1.0 + TIE);
        is_faster && self.capacity_bytes >= other.capacity_bytes
    }

    /// The layout, with the name of its system if that is not a part of it.
    fn name(&self) -> String {
        match self.layout.contains(&self.system) {
            true => self.layout.clone(),
            false => format!("{} {}", self.system, self.layout),
        }
    }

    /// The layout, and how much faster it is than the simplest.
    fn described(&self, factor: f64, simplest: &NewLayout) -> String {
        let name = format!("{} under {}", self.name(), self.setting);
        match self.name() == simplest.name() {
            true => name,
            false => format!("{name}: {factor:.2} times as fast as {}", simplest.name()),
        }
    }
}

impl NewLayouts {
    /// `DISK1 and DISK2 are hdd-7k2-desktop, DISK3 is ssd-sata-plp`.
    fn named_disks(&self) -> String {
        let mut kinds: Vec<(&String, Vec<&str>)> = Vec::new();
        for (disk, device) in self.disks.iter().zip(&self.devices) {
            match kinds.iter_mut().find(|(other, _)| *other == disk) {
                Some((_, devices)) => devices.push(device),
                None => kinds.push((disk, vec![device])),
            }
        }
        let named = |(disk, devices): &(&String, Vec<&str>)| match &devices[..] {
            [first @ .., last] if !first.is_empty() => {
                format!("{} and {last} are {disk}", first.join(", "))
            }
            devices => format!("{} is {disk}", devices.join("")),
        };
        kinds.iter().map(named).collect::<Vec<_>>().join("; ")
    }
}

/// `A new array of 2 × hdd-7k2-desktop and ssd-sata-plp`.
fn first_line(disks: &[String]) -> String {
    let mut counted: Vec<(&String, usize)> = Vec::new();
    for disk in disks {
        match counted.iter_mut().find(|(other, _)| *other == disk) {
            Some((_, count)) => *count += 1,
            None => counted.push((disk, 1)),
        }
    }
    let named = |(disk, count): &(&String, usize)| match count {
        1 => (*disk).clone(),
        count => format!("{count} × {disk}"),
    };
    let named: Vec<String> = counted.iter().map(named).collect();
    match &named[..] {
        [all @ .., last] if !all.is_empty() => {
            format!("A new array of {} and {last}", all.join(", "))
        }
        named => format!("A new array of {}", named.join("")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn layout(name: &str, read: f64, write: f64, hours: f64) -> NewLayout {
        let speed = |value| vec![JobSpeed { job: "j".to_owned(), unit: "requests/s", value }];
        NewLayout {
            system: "md".to_owned(),
            layout: name.to_owned(),
            setting: "md/raid10".to_owned(),
            reads: speed(read),
            writes: speed(write),
            rebuild_hours: Some(hours),
            capacity_bytes: 2_000_000_000_000,
            survives: 1,
            create: vec![format!("make {name}")],
        }
    }

    #[test]
    fn the_best_of_each_is_named_once_with_its_command_and_of_equals_the_simplest() {
        let layouts = vec![
            layout("simple", 100.0, 80.0, 4.0),
            layout("far", 200.0, 40.0, 3.99),
            layout("other", 201.0, 81.0, 8.0),
        ];
        let disks = ["hdd", "hdd", "ssd"].map(str::to_owned).to_vec();
        let style = Style { width_columns: 80, ..Style::FILE };
        let devices = ["DISK1", "DISK2", "/dev/sda"].map(str::to_owned).to_vec();
        let text = NewLayouts { disks, devices, layouts }.text(style);
        let mut lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], "A new array of 2 × hdd and ssd");
        assert_eq!(lines.remove(1), "DISK1 and DISK2 are hdd; /dev/sda is ssd");
        assert_eq!(
            lines[1],
            "Best reads    md far under md/raid10: 2.00 times as fast as md simple"
        );
        assert_eq!(lines[2], "              create make far");
        let writes = "Best writes   md simple under md/raid10, within 2 % of md other";
        assert_eq!(lines[3], writes);
        assert_eq!(lines[5], "Least rebuild md simple under md/raid10");
        assert!(text.contains("  md far       100      49    4.0 h"), "{text}");
        assert!(!text.contains("left out"), "{text}");
    }

    #[test]
    fn commands_fit_the_terminal_and_a_shell_joins_their_lines() {
        let command =
            "mdadm --create /dev/md0 --level=1 --raid-devices=2 DISK2 --write-mostly DISK1";
        for width in [40, 60, 80] {
            let text = lines("create", &[command.to_owned()], width);
            assert!(text.lines().all(|line| line.chars().count() <= width), "{text}");
            let words: Vec<&str> = text.split_whitespace().filter(|it| *it != "\\").collect();
            assert!(text.contains(" \\\n") && words.join(" ") == format!("create {command}"));
        }
    }

    #[test]
    fn rows_fit_a_narrow_terminal_and_what_is_left_out_is_named() {
        let names = ["md-raid10-near:2", "md-raid10-far:2", "md-raid10-offset:2"];
        let layouts = names.map(|name| layout(name, 100.0, 80.0, 4.0)).to_vec();
        let style = Style { width_columns: 40, ..Style::FILE };
        let (disks, devices) = (vec!["hdd".to_owned(); 2], vec!["DISK1".to_owned(); 2]);
        let text = NewLayouts { disks, devices, layouts }.text(style);
        let table = text.lines().skip_while(|line| !line.starts_with("  layout"));
        assert!(table.clone().all(|line| line.chars().count() <= 40), "{text}");
        let table = table.flat_map(|line| line.split_whitespace()).collect::<Vec<_>>().join(" ");
        for word in ["near:2", "far:2", "offset:2"] {
            assert!(table.contains(&format!(" md-r..{word} ")), "{text}");
        }
        assert!(table.contains("left out of 40 columns: survives; space; setting"), "{text}");
        assert!(table.contains("or take --format json"), "{text}");
    }
}
