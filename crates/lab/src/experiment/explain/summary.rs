//! What choices amount to: how often policy and oracle agreed, what it cost where they did not, and
//! how both spread the reads.

use super::ChoiceMade;
use mirrorball_core::units::Nanos;
use serde::Serialize;

/// What the choices of a stretch of time amount to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Summary {
    /// How many there were.
    pub choices: u64,
    /// In how many the oracle could not have done better.
    pub agreed: u64,
    /// By how much longer the others were foreseen to take than the oracle's, in all.
    pub cost_ns: u64,
    /// How many would never have answered where the oracle's would.
    pub hopeless: u64,
    /// What all took that have ended.
    pub took_ns: u64,
    /// How the choices spread over the members.
    pub members: Vec<MemberShare>,
}

/// What a member got of the choices.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct MemberShare {
    /// Who it is.
    pub devid: u64,
    /// Choices in which it could have been read.
    pub eligible: u64,
    /// Those in which the policy read it first.
    pub chosen: u64,
    /// Those in which the oracle would have.
    pub oracle: u64,
    /// How many of the reads that went to it first have ended well.
    pub ended: u64,
    /// What those took.
    pub took_ns: u64,
}

impl Summary {
    pub(crate) fn new(choices: &[ChoiceMade], devids: &[u64]) -> Summary {
        let agreed = choices.iter().filter(|choice| choice.agreed).count();
        let hopeless = choices.iter().filter(|choice| choice.cost_ns.is_none()).count();
        Summary {
            choices: choices.len() as u64,
            agreed: agreed as u64,
            cost_ns: choices.iter().filter_map(|choice| choice.cost_ns).sum(),
            hopeless: hopeless as u64,
            took_ns: choices.iter().filter_map(|choice| choice.took_ns).sum(),
            members: devids.iter().map(|&devid| share(choices, devid)).collect(),
        }
    }

    /// How policy and oracle compare, in sentences.
    pub fn sentences(&self, policy: &str) -> String {
        let &Summary { choices, agreed, cost_ns, hopeless, took_ns, .. } = self;
        if agreed == choices {
            return format!("{policy} chose as well as the oracle every time.");
        }
        let others = match choices - agreed {
            1 => "The other was".to_owned(),
            others => format!("The other {others} were"),
        };
        let mut text = format!(
            "{policy} chose as well as the oracle in {agreed} of {choices} ({}). {others} \
             foreseen to take {} longer in all, {} of the {} that the reads took.",
            percent(agreed, choices),
            Nanos(cost_ns),
            percent(cost_ns, took_ns),
            Nanos(took_ns),
        );
        if hopeless > 0 {
            text += &format!(" Of them {hopeless} went where no answer could come from.");
        }
        text
    }
}

impl MemberShare {
    /// What a read took that went to it first; none if none ended.
    pub fn mean_took(&self) -> Option<Nanos> {
        self.took_ns.checked_div(self.ended).map(Nanos)
    }
}

/// Whole percent, with a decimal where they would say none or all.
fn percent(part: u64, whole: u64) -> String {
    let value = 100.0 * part as f64 / whole.max(1) as f64;
    let decimals = usize::from(value < 1.0 || (value > 99.0 && part < whole));
    format!("{value:.decimals$} %")
}

fn share(choices: &[ChoiceMade], devid: u64) -> MemberShare {
    let of = |choice: &&ChoiceMade| choice.mirrors.iter().any(|mirror| mirror.devid == devid);
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
