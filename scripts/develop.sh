#!/usr/bin/env bash
# Builds the command and the native module of the Python package, and puts both where the virtual environment
# finds them: develop.sh VENV debug|release.
set -euo pipefail
cd "$(dirname "$0")/.."
venv=$1
profile=$2
[ "$profile" = release ] && release=--release
cargo build --quiet ${release:+$release} -p fullbore-cli -p fullbore-python
built=${CARGO_TARGET_DIR:-target}/$profile
# Beside it and renamed: a process that runs keeps what it has loaded.
place() {
    cp "$1" "$2.new"
    mv "$2.new" "$2"
}
place "$built/fullbore" "$venv/bin/fullbore"
place "$built/lib_native.so" python/fullbore/_native.abi3.so
packages=$("$venv/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
echo "$PWD/python" > "$packages/fullbore.pth"
