//! Summary of explained choices: how often policy and oracle agreed, the cost of the other choices,
//! and how both distributed the reads.

use mirrorball_core::units::Nanos;
use mirrorball_sim::explain::ExplainedChoice;
use serde::Serialize;

/// Summary of the choices of a window.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Summary {
    pub choices: u64,
    /// Choices that were as good as those of the oracle.
    pub agreed: u64,
    /// Sum of the expected additional time of the other choices.
    pub cost_ns: u64,
    /// Choices of a mirror that never answers, where the one of the oracle does.
    pub without_answer: u64,
    /// Reads that were sent to another mirror later, as by a hedge.
    pub later: u64,
    /// Sum of the times of the reads that ended.
    pub took_ns: u64,
    /// Distribution of the choices over the members.
    pub members: Vec<MemberShare>,
}

/// A member's share of the choices.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct MemberShare {
    pub devid: u64,
    pub eligible: u64,
    /// Choices in which the policy read it first.
    pub chosen: u64,
    /// Choices in which the oracle would have read it.
    pub oracle: u64,
    /// Reads that went to it first and succeeded.
    pub ended: u64,
    /// Sum of their times.
    pub took_ns: u64,
}

impl Summary {
    pub(crate) fn new(choices: &[ExplainedChoice], devids: &[u64]) -> Summary {
        let agreed = choices.iter().filter(|choice| choice.agreed).count();
        let without_answer = choices.iter().filter(|choice| choice.cost_ns.is_none()).count();
        let is_later =
            |it: &&ExplainedChoice| it.mirrors.iter().any(|mirror| mirror.later_ns.is_some());
        Summary {
            choices: choices.len() as u64,
            agreed: agreed as u64,
            cost_ns: choices.iter().filter_map(|choice| choice.cost_ns).sum(),
            without_answer: without_answer as u64,
            later: choices.iter().filter(is_later).count() as u64,
            took_ns: choices.iter().filter_map(|choice| choice.took_ns).sum(),
            members: devids.iter().map(|&devid| share(choices, devid)).collect(),
        }
    }

    /// The comparison of policy and oracle, in sentences.
    pub fn sentences(&self, policy: &str) -> String {
        let &Summary { choices, agreed, cost_ns, without_answer, took_ns, .. } = self;
        if agreed == choices {
            return format!("Every choice of {policy} was as good as that of the oracle.");
        }
        let others = match choices - agreed {
            1 => "The other choice was".to_owned(),
            others => format!("The other {others} choices were"),
        };
        let mut text = format!(
            "{agreed} of {choices} choices of {policy} ({}) were as good as those of the oracle. \
             {others} estimated to take {} longer in total than those of the oracle. That is {} of \
             the {} that all reads took.",
            percent(agreed, choices),
            Nanos(cost_ns),
            percent(cost_ns, took_ns),
            Nanos(took_ns),
        );
        if self.later > 0 {
            text += &format!(
                " The estimate leaves out that {} of the reads went to another mirror later.",
                self.later
            );
        }
        if without_answer > 0 {
            text += &format!(" {without_answer} of them read from a disk that does not answer.");
        }
        text
    }
}

impl MemberShare {
    /// Mean time of the reads that went to the member first; none if none ended.
    pub fn mean_took(&self) -> Option<Nanos> {
        self.took_ns.checked_div(self.ended).map(Nanos)
    }
}

/// Percent, with a decimal if the rounded value would be 0 or 100.
fn percent(part: u64, whole: u64) -> String {
    let value = 100.0 * part as f64 / whole.max(1) as f64;
    let decimals = usize::from(value < 1.0 || (value > 99.0 && part < whole));
    format!("{value:.decimals$} %")
}

fn share(choices: &[ExplainedChoice], devid: u64) -> MemberShare {
    let of = |choice: &&ExplainedChoice| choice.mirrors.iter().any(|mirror| mirror.devid == devid);
    let chosen = || choices.iter().filter(|choice| choice.first().devid == devid);
    MemberShare {
        devid,
        eligible: choices.iter().filter(of).count() as u64,
        chosen: chosen().count() as u64,
        oracle: choices.iter().filter(|choice| choice.of_oracle().devid == devid).count() as u64,
        ended: chosen().filter(|choice| choice.took_ns.is_some()).count() as u64,
        took_ns: chosen().filter_map(|choice| choice.took_ns).sum(),
    }
}
