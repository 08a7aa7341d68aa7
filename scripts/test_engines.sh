#!/bin/sh
# Installs the engines that tests load on into .venv: Ray. Does nothing, quickly, when they are there. What
# can't be had is said loudly, and the tests that need it skip.
set -u

cd "$(dirname "$0")/.." || exit 1
python=.venv/bin/python

"$python" -c "import ray" 2> /dev/null ||
    "$python" -m pip install --quiet --disable-pip-version-check -r requirements-engines.txt ||
    echo "SKIP the tests of Ray: pip can't install it" >&2
exit 0
