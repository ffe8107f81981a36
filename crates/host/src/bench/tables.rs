//! Activity of the members, as `iostat -x` shows it.

use super::outcome::BenchOutcome;
use super::request::Bench;
use mirrorball_core::units::Nanos;
use mirrorball_health::counters::DiskCounters;
use mirrorball_lab::report::{Column, Emphasis, Grid, GridRow};

impl BenchOutcome {
    /// The members under each setting during a job, all rounds together; none without counters.
    pub fn member_grid(&self, bench: &Bench, job: usize) -> Option<Grid> {
        let mut rows = Vec::new();
        for (arm, policy) in bench.plan.policies.iter().enumerate() {
            rows.extend(self.rows(bench, job, arm, policy));
        }
        let columns = vec![
            Column::left("setting"),
            Column::left("device"),
            Column::right("reads"),
            Column::right("r/s"),
            Column::right("rkB/s"),
            Column::right("r_await"),
            Column::right("rareq-sz"),
            Column::right("w/s"),
            Column::right("wkB/s"),
            Column::right("w_await"),
            Column::right("aqu-sz"),
            Column::right("%util"),
        ];
        (!rows.is_empty()).then_some(Grid { columns, rows })
    }

    fn rows(&self, bench: &Bench, job: usize, arm: usize, policy: &str) -> Vec<GridRow> {
        let runs = || self.runs.iter().filter(|run| (run.job, run.arm) == (job, arm));
        let time = Nanos(runs().map(|run| run.conditions.window.time_ns).sum());
        let sum = |devid: u64| {
            let of_runs = runs().flat_map(|run| &run.conditions.window.members);
            let of_member = of_runs.filter(|member| member.0 == devid);
            of_member.map(|member| member.1).reduce(|sum, counted| sum.plus(&counted))
        };
        let members = bench.array.members.iter();
        let sums: Vec<(&str, DiskCounters)> =
            members.filter_map(|it| Some((it.kernel_name.as_deref()?, sum(it.devid)?))).collect();
        let all: u64 = sums.iter().map(|(_, counted)| counted.reads).sum();
        let row = |(place, (name, counted)): (usize, &(&str, DiskCounters))| {
            let it = counted.iostat(time);
            let share = 100.0 * counted.reads as f64 / all.max(1) as f64;
            let texts = vec![
                if place == 0 { policy.to_owned() } else { String::new() },
                (*name).to_owned(),
                format!("{share:.1} %"),
                format!("{:.1}", it.reads_per_s),
                format!("{:.1}", it.read_kib_per_s),
                format!("{:.2}", it.read_wait_ms),
                format!("{:.1}", it.read_size_kib),
                format!("{:.1}", it.writes_per_s),
                format!("{:.1}", it.write_kib_per_s),
                format!("{:.2}", it.write_wait_ms),
                format!("{:.2}", it.queue),
                format!("{:.1}", it.utilisation_percent),
            ];
            GridRow { emphasis: Emphasis::None, texts }
        };
        sums.iter().enumerate().map(row).collect()
    }
}
