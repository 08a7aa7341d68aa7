#!/bin/sh
# Installs Airflow, dlt and Dagster, into .cache/orchestrators: what they need does not go with the rest. Does
# nothing, quickly, when they are there. What can't be had is said loudly, and the tests that need it skip.
set -u

cd "$(dirname "$0")/.." || exit 1
theirs=.cache/orchestrators

"$theirs/bin/python" -c "import airflow, dlt, dagster, pyarrow" > /dev/null 2>&1 && exit 0
mkdir -p .cache
{ scripts/venv.sh .venv/bin/python "$theirs" &&
    "$theirs/bin/python" -m pip install --quiet --disable-pip-version-check -r requirements-orchestrators.txt; } ||
    echo "SKIP the tests of Airflow, dlt and Dagster: pip can't install them" >&2
exit 0
