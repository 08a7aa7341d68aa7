#!/usr/bin/env bash
# The parser's tests on 64-bit ARM, under qemu: its NEON level must give what all levels give.
# Installs what is missing where it may (Debian as root, a toolchain of rustup's), else says that
# it skips. A file that is named is touched where they have passed.
set -euo pipefail
cd "$(dirname "$0")/.."
target=aarch64-unknown-linux-gnu

skip() {
    echo "SKIPPED: the parser's NEON tests: $1" >&2
    exit 0
}

if [ "$(uname -m)" = aarch64 ]; then
    exit 0 # The ordinary tests have run them.
fi
for program in qemu-aarch64 aarch64-linux-gnu-gcc; do
    if ! command -v "$program" >/dev/null; then
        if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
            echo "installing qemu-user and gcc-aarch64-linux-gnu" >&2
            { apt-get update && apt-get install -y qemu-user gcc-aarch64-linux-gnu; } >/dev/null 2>&1 ||
                skip "qemu-user and gcc-aarch64-linux-gnu could not be installed"
        else
            skip "they need $program (packages qemu-user and gcc-aarch64-linux-gnu)"
        fi
    fi
done
if ! [ -d "$(rustc --print sysroot)/lib/rustlib/$target/lib" ]; then
    command -v rustup >/dev/null || skip "they need Rust's standard library for $target"
    timeout 300 rustup target add "$target" >&2 ||
        skip "rustup target add $target did not succeed"
fi

export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER=aarch64-linux-gnu-gcc
export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUNNER="qemu-aarch64 -L /usr/aarch64-linux-gnu"
# Emulated, a case takes ten times as long: a quarter of them, or all under `make test-all`.
[ "${FULLBORE_TEST_ALL:-}" = 1 ] || export FULLBORE_TEST_CASES=0.25
cargo test --quiet --package fullbore-parse --target "$target"
if [ $# -gt 0 ]; then
    mkdir -p "$(dirname "$1")" && touch "$1"
fi
