#!/usr/bin/env bash
# Runs the tests of the driver and of the executor on it, where the unsafe code of `io` is, under
# the address sanitizer of LLVM, which also reports memory that is not given back.
#
#   benches/address-sanitizer.sh
#
# Needs a nightly toolchain (`rustup toolchain install nightly`), so it is no part of `./test`.
# Miri cannot run them: the system calls of rustix, which map the memory of buffers, are inline
# assembly.

set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
target=$(rustc -vV | sed -n 's/^host: //p')
RUSTFLAGS=-Zsanitizer=address cargo +nightly test --locked -p mirrorball-io --lib \
    --target "$target" --target-dir "${CARGO_TARGET_DIR:-target}/asan" -- driver:: executor::
