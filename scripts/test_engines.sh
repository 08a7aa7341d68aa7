#!/bin/sh
# Installs the engines that tests load on: Ray and Spark into .venv, and as root on Debian the Java that Spark
# needs. Does nothing, quickly, when they are there. What can't be had is said loudly, and the tests that need
# it skip.
set -u

cd "$(dirname "$0")/.." || exit 1
python=.venv/bin/python

"$python" -c "import ray, pyspark" 2> /dev/null ||
    "$python" -m pip install --quiet --disable-pip-version-check -r requirements-engines.txt ||
    echo "SKIP the tests of Ray and Spark: pip can't install them" >&2

if ! java -version 2>&1 | grep -Eq '"(17|21|25)'; then
    if [ "$(id -u)" = 0 ] && command -v apt-get > /dev/null; then
        { apt-get update -qq && apt-get install -y -qq --no-install-recommends openjdk-17-jre-headless; } \
            > /dev/null 2>&1 || echo "SKIP the tests of Spark: Java 17 can't be installed" >&2
    else
        echo "SKIP the tests of Spark: it needs Java 17 or later (Debian: openjdk-17-jre-headless)" >&2
    fi
fi
exit 0
