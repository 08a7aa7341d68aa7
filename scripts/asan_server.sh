#!/usr/bin/env bash
# Builds PostgreSQL with assertions and AddressSanitizer into .cache/servers/pg15-asan, for the
# hostile client of extension/test/hostile:
#   scripts/asan_server.sh                 from Debian's source package postgresql-15
#   scripts/asan_server.sh SOURCES [NAME]  from an unpacked source tree, into .cache/servers/NAME
# Needs gcc, make, flex, bison and perl; for the first form Debian and dpkg-dev. The package is
# fetched with lists of our own: the system's apt is not touched, nobody needs to be root. Debian's
# patches are left out: they would install into the folders of its own server. A build that was
# ended in the middle goes on where it was.
set -euo pipefail
cd "$(dirname "$0")/.."
sources=${1:-}
name=${2:-pg15-asan}
prefix=$PWD/.cache/servers/$name
work=$PWD/.cache/$name

if [ -x "$prefix/bin/postgres" ] && [ -e "$prefix/complete" ]; then
    echo "$prefix is there already" >&2
    exit 0
fi

fetch() { # The sources of Debian's package into $work/sources
    local lists=$work/apt
    if ! command -v apt-get >/dev/null; then
        echo "no sources: give an unpacked source tree of PostgreSQL as the first argument" >&2
        return 1
    fi
    mkdir -p "$lists"/{lists,archives}/partial
    # Where the system has its binary packages from, there are the sources too; those of security
    # updates are not in every mirror.
    apt-get indextargets --format 'deb-src $(REPO_URI) $(RELEASE) $(COMPONENT)' \
        'Created-By: Packages' | grep -v -e -security | sort -u >"$lists/sources.list"
    local options=(-qq -o "Dir::Etc::SourceList=$lists/sources.list" -o Dir::Etc::SourceParts=-
        -o "Dir::State::Lists=$lists/lists" -o "Dir::Cache=$lists" -o APT::Sandbox::User=)
    apt-get "${options[@]}" update
    (cd "$lists" && apt-get "${options[@]}" --download-only source postgresql-15)
    mkdir "$work/unpacking"
    tar -C "$work/unpacking" --strip-components=1 -xjf "$lists"/postgresql-15_*.orig.tar.bz2
    mv "$work/unpacking" "$work/sources"
}

mkdir -p "$work/build"
if [ -z "$sources" ]; then
    sources=$work/sources
    [ -d "$sources" ] || fetch
fi
sources=$(cd "$sources" && pwd)

# The programs that the build itself runs don't free everything; that is nobody's business here.
export ASAN_OPTIONS=detect_leaks=0
cd "$work/build"
if ! [ -e config.status ]; then
    echo "configuring $sources" >&2
    "$sources/configure" --quiet --prefix="$prefix" --enable-cassert --without-readline \
        --without-zlib --without-icu \
        CC=gcc CFLAGS="-O1 -g1 -fsanitize=address -fno-omit-frame-pointer"
fi
echo "building" >&2
make -s -j2 all
for module in amcheck pageinspect pg_visibility; do
    make -s -C "contrib/$module" all
done

# Into a root of our own first: whatever the sources think, nothing is written elsewhere.
root=$work/root
rm -rf "$root"
for folder in . contrib/amcheck contrib/pageinspect contrib/pg_visibility; do
    make -s -C "$folder" DESTDIR="$root" install
done
mkdir -p "$prefix"
mv "$root$prefix"/* "$prefix"
if [ -n "$(find "$root" -type f)" ]; then
    echo "these sources install outside of $prefix; the rest is in $root" >&2
    exit 1
fi
touch "$prefix/complete"
cd ..
rm -rf "$work"
echo "$prefix is ready" >&2
