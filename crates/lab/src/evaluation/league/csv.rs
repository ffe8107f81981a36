//! Standings by line, for spreadsheets and plots. No name of the league holds a comma.

use super::standings::{Pairing, Standings};

/// One line for each policy under each pairing.
pub fn render(standings: &Standings) -> String {
    let mut text = "array,job,half,best,policy,iops,mib_per_s,mean_us,p99_9_us,ratio,\
                    p99_9_ratio,of_oracle\n"
        .to_owned();
    for pairing in &standings.pairings {
        let Pairing { array, job, half, best, .. } = pairing;
        for entry in &pairing.entries {
            text += &format!(
                "{array},{job},{},{best},{},{:.1},{:.2},{:.1},{:.1},{:.4},{:.4},{:.4}\n",
                half.name(),
                entry.policy,
                entry.iops,
                entry.mib_per_s,
                entry.mean_us,
                entry.p99_9_us,
                entry.ratio,
                entry.p99_9_ratio,
                entry.of_oracle,
            );
        }
    }
    text
}
