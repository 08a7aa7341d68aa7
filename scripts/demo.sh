#!/usr/bin/env bash
# The main job on the embedded PostgreSQL: TPC-H scale 1, all eight tables, proven equal to COPY.
# In a database of its own, whatever the user's variables name: it drops tables.
set -euo pipefail
unset FULLBORE_TO DATABASE_URL "${!PG@}"
cd "$(dirname "$0")/.."
fullbore=${1:-.venv/bin/fullbore}
data=benchmarks/data/tpch-1
tables="region nation supplier customer part partsupp orders lineitem"

echo "== generating TPC-H scale 1 in 4 streams" >&2
mkdir -p "$data"
"$fullbore" gen tpch --scale 1 --streams 4 --out "$data"

database=fullbore_demo
url=$("$fullbore" server start)
url=${url/\/postgres\?//$database?}
"$fullbore" psql -X -q -c "SET client_min_messages = warning" \
    -c "DROP DATABASE IF EXISTS $database" -c "CREATE DATABASE $database"
sql() { "$fullbore" psql $database -X -q -At -v ON_ERROR_STOP=1 -c "SET client_min_messages = warning" "$@"; }

echo "== loading" >&2
"$fullbore" load demo/tpch.toml --to "$url"

echo "== verifying against TPC-H's own row counts and plain COPY of the same files" >&2
declare -A expected=([region]=5 [nation]=25 [supplier]=10000 [customer]=150000 [part]=200000
    [partsupp]=800000 [orders]=1500000 [lineitem]=6001215)
sum() { sql -c "SELECT count(*), sum(hashtextextended(t::text, 0)) FROM $1 t"; }
for table in $tables; do
    sql -c "CREATE TABLE plain_$table (LIKE $table)"
    sed 's/|$//' "$data/$table".tbl* | sql -c "COPY plain_$table FROM STDIN (DELIMITER '|')"
    ours=$(sum "$table")
    plain=$(sum "plain_$table")
    sql -c "DROP TABLE plain_$table"
    [ "${ours%%|*}" = "${expected[$table]}" ] || { echo "$table: ${ours%%|*} rows, TPC-H has ${expected[$table]}" >&2; exit 1; }
    [ "$ours" = "$plain" ] || { echo "$table differs from plain COPY: $ours, $plain" >&2; exit 1; }
    printf '%-10s %12s rows, checksum %s equals plain COPY\n' "$table" "${ours%%|*}" "${ours##*|}"
done
echo "== all tables are equal; look at them with: $fullbore psql $database" >&2
