#!/bin/sh
# Installs the object stores that tests load from: moto (S3) into .venv, azurite (Azure) into
# .cache/azurite where there is npm. Does nothing, quickly, when they are there. What can't be had is said
# loudly, and the tests that need it skip.
set -u

cd "$(dirname "$0")/.." || exit 1
python=.venv/bin/python

"$python" -c "import moto.server" 2> /dev/null ||
    "$python" -m pip install --quiet --disable-pip-version-check -r requirements-stores.txt ||
    echo "SKIP the tests of S3: pip can't install moto" >&2

if [ ! -x .cache/azurite/node_modules/.bin/azurite-blob ]; then
    if command -v npm > /dev/null; then
        mkdir -p .cache/azurite
        npm install --silent --no-audit --no-fund --omit=optional --prefix .cache/azurite azurite@3.37.0 > /dev/null ||
            echo "SKIP the tests of Azure: npm can't install azurite" >&2
    else
        echo "SKIP the tests of Azure: there is no npm" >&2
    fi
fi
exit 0
