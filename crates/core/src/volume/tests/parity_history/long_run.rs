//! Many random histories one after the other, for `benches/parity-histories.sh`.

use super::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};

/// What one history did.
#[derive(Default)]
struct Counts {
    requests: u64,
    member_ios: u64,
    left_out: u64,
}

/// Plays a history that is drawn from two numbers.
fn history(seed: u64, number: u64, goes_beyond: bool) -> Result<Counts, TestCaseError> {
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    bytes[8..16].copy_from_slice(&number.to_le_bytes());
    let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &bytes);
    let mut runner = TestRunner::new_with_rng(Config::default(), rng);
    let levels = select(&[RmwLevel::Never, RmwLevel::FewerReads, RmwLevel::NoMoreReads][..]);
    let inputs = (select(LAYOUTS), levels, prop::collection::vec(action(), 1..400));
    let ((layout, members), level, actions) =
        inputs.new_tree(&mut runner).expect("the strategies reject nothing").current();
    let mut play = play(layout, members, level, goes_beyond);
    let mut counts = Counts::default();
    for action in actions {
        play.act(action);
        play.check_replies()?;
        counts.member_ios += play.world.handed_out.len() as u64;
        let is_user = |io: &&MemberIo| io.purpose == Purpose::User;
        let recovers = |io: &&MemberIo| io.op == Op::Read && io.role == ReadRole::Stripe;
        counts.left_out +=
            play.world.handed_out.iter().filter(is_user).filter(recovers).count() as u64;
        play.world.handed_out.clear();
    }
    counts.requests = play.replies;
    match goes_beyond {
        true => play.end_beyond()?,
        false => play.end()?,
    }
    Ok(counts)
}

fn number_of(variable: &str, default: u64) -> u64 {
    let text = std::env::var(variable).ok();
    text.map_or(default, |text| text.parse().expect("a whole number"))
}

/// Plays histories until enough requests were replied to; every second one goes beyond the losses
/// that its profile allows. The script asks for more of them.
#[test]
fn many_histories_lose_nothing() {
    let seed = number_of("MIRRORBALL_SEED", 1);
    let requests = number_of("MIRRORBALL_REQUESTS", 3_000);
    let (mut all, mut number) = (Counts::default(), 0);
    while all.requests < requests {
        let goes_beyond = number % 2 == 1;
        let counts = history(seed, number, goes_beyond)
            .unwrap_or_else(|error| panic!("history {number} of seed {seed}: {error}"));
        all.requests += counts.requests;
        all.member_ios += counts.member_ios;
        all.left_out += counts.left_out;
        number += 1;
        if number % 10_000 == 0 {
            println!("{number} histories, {} requests", all.requests);
        }
    }
    println!(
        "seed {seed}: {number} histories, {} requests, {} member I/Os, {} of them reads of full \
         stripes by requests, nothing lost",
        all.requests, all.member_ios, all.left_out
    );
}
