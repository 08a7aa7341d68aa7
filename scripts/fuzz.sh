#!/usr/bin/env bash
# Runs every fuzz target for so many seconds each. Needs a nightly compiler and cargo-fuzz.
set -euo pipefail
cd "$(dirname "$0")/.."
seconds=${1:-60}
cargo +nightly fuzz --version >/dev/null 2>&1 || {
    echo "make fuzz needs: rustup toolchain install nightly; cargo install cargo-fuzz" >&2
    exit 1
}
for target in $(cargo +nightly fuzz list); do
    echo "== $target, $seconds s" >&2
    cargo +nightly fuzz run "$target" -- -max_total_time="$seconds" -max_len=4096
done
