#!/bin/sh
# Installs the drivers of other databases that tests load into: those of pip into .venv, DuckDB's library into
# .cache/drivers where there is npm; and MariaDB's server, as root on Debian. Does nothing, quickly, when they are
# there. What can't be had is said loudly, and the tests that need it skip.
set -u

cd "$(dirname "$0")/.." || exit 1
python=.venv/bin/python

"$python" -c "import adbc_driver_sqlite, adbc_driver_postgresql" 2> /dev/null ||
    "$python" -m pip install --quiet --disable-pip-version-check -r requirements-databases.txt ||
    echo "SKIP the tests of ADBC drivers: pip can't install them" >&2

if [ ! -e .cache/drivers/libduckdb.so ]; then
    if command -v npm > /dev/null && [ "$(uname -sm)" = "Linux x86_64" ]; then
        mkdir -p .cache/drivers
        if npm pack --silent --pack-destination .cache/drivers @duckdb/node-bindings-linux-x64@1.5.6-r.1 > /dev/null; then
            tar -xzf .cache/drivers/*.tgz -C .cache/drivers --strip-components=1 package/libduckdb.so &&
                rm .cache/drivers/*.tgz
        else
            echo "SKIP the tests of DuckDB: npm can't fetch its library" >&2
        fi
    else
        echo "SKIP the tests of DuckDB: its library comes by npm, for Linux on x86_64" >&2
    fi
fi
# The bare server, without a service of the system's own.
if ! command -v mariadb-install-db > /dev/null; then
    if [ "$(id -u)" = 0 ] && command -v apt-get > /dev/null; then
        apt-get update -qq > /dev/null
        DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends \
            mariadb-server-core mariadb-client-core > /dev/null ||
            echo "SKIP the tests of MariaDB: apt-get can't install its server" >&2
    else
        echo "SKIP the tests of MariaDB: it is not there, and only root on Debian can install it" >&2
    fi
fi
exit 0
