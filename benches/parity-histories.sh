#!/usr/bin/env bash
# Plays random histories of volumes with parity: requests, members that fail, return and are
# rebuilt, writes that fail midway, unreadable sectors, and a policy that leaves any columns out of
# reads. Nothing acknowledged may be lost, and nothing else may be read. The default is ten million
# requests; a failure names the history, which the same seed plays again.
#
# Usage: benches/parity-histories.sh [REQUESTS [SEED]]
set -euo pipefail
cd "$(dirname "$0")/.."
export MIRRORBALL_REQUESTS=${1:-10000000} MIRRORBALL_SEED=${2:-1}
test=volume::tests::parity_history::long_run::many_histories_lose_nothing
exec cargo test --release --package mirrorball-core --lib -- --exact --nocapture "$test"
