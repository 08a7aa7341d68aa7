"""Options of a load: the keys of a job file. Generated from the code."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from os import PathLike
from typing import Literal, TypedDict


class Options(TypedDict, total=False):
    """Options of a load."""

    # Ceilings to compare with: a file that `fullbore preflight` wrote.
    ceilings: str | PathLike[str]
    # Directory for rejected rows. Default: the current one.
    reject_dir: str | PathLike[str]
    # Resume the unfinished run of this job.
    resume: bool
    # Changes to a job file, each `key=value`.
    set: Sequence[str]
    # Load although a publication covers all tables.
    allow_publication: bool
    # Send rows as COPY text even where a binary form exists.
    as_text: bool
    # Append or upsert in one transaction.
    atomic: bool
    # Conditions that each row must meet; others are rejected.
    check: Sequence[Mapping[str, str | bool]]
    # Target columns in the order of the fields; `-` skips a field.
    columns: Sequence[str]
    # Character that begins a comment line.
    comment: str
    # Compress rows in transit, under method direct. `auto`: if the network is the bottleneck; rows
    # sent by COPY are sent as text if that is shorter.
    compress: Literal["none", "lz4", "zstd"] | str
    # Congestion control of the connections, by the kernel's name: `cubic`, `bbr`.
    congestion: str
    # Control totals, compared before rows are published: `rows = 12345`, `sum(column) = 99.10`, a
    # file with such lines, or `trailer rows = 2` for a field of each file's last line.
    control: Sequence[str]
    # Create the table if it does not exist.
    create: bool
    # Delete rows of the table whose key is not in the sources.
    delete_missing: bool
    # Field delimiter; `tab` for a tab.
    delimiter: str
    # How the server writes pages under method direct.
    direct_io: Literal["auto", "buffered", "direct"]
    # Encoding of the sources. Default: UTF-8.
    encoding: str
    # How pieces are divided among the endpoints.
    endpoint_policy: Literal["least-queue", "round-robin", "weighted"]
    # Addresses of the server that streams connect to:
    # `HOST[:PORT][,source=ADDRESS|INTERFACE][,weight=N]`. Default: that of `to`.
    endpoints: Sequence[str]
    # Character that escapes a quote.
    escape: str
    # Types that expressions have of fields, instead of inferred ones: `field=type`.
    field_types: Sequence[str]
    # Format of the sources. Default: detected.
    format: Literal["csv", "tsv", "tbl", "parquet"] | str
    # Whether the first line is a header.
    header: Literal["none", "true", "match", "skip"]
    # Hosts that have files of their own: a label of the engine's (`key=value`) or a resource, and
    # the directories there to which sources are relative. Without hosts, all can read all sources.
    hosts: Mapping[str, str | Sequence[str]]
    # What to do with files that are already loaded into the same table.
    if_loaded: Literal["fail", "skip", "again"]
    # Keep the replaced table.
    keep_old: bool
    # Columns that tell rows apart, for `publish = "upsert"`.
    key: Sequence[str]
    # Schema of the ledger. Default: `fullbore_ledger`.
    ledger_schema: str
    # What ends a record. Default: detected.
    line_end: Literal["lf", "crlf"] | str
    # Columns that record the origin of a row: `run=column`, `loaded_at=column`, `file=column`,
    # `line=column`.
    lineage: Sequence[str]
    # How long one attempt waits for a lock: `2s`, `500ms`, or `0` for no limit.
    lock_timeout: str
    # Block writers of a table while its replacement is loaded.
    lock_writers: bool
    # Rows of other tables, found by a key, whose columns expressions use.
    lookup: Sequence[Mapping[str, str | bool]]
    # Longest field accepted, in bytes.
    max_field_bytes: int
    # Limit of what all streams together send, in bytes a second: `50MB/s`.
    max_rate: str | int
    # How many rows may be rejected: a number, or a share such as `0.5%`.
    max_rejects: str | int
    # Size of a COPY message. Default: about 256 kB.
    message_size: str | int
    # How rows enter the server.
    method: Literal["copy"] | str
    # Keep no ledger; the run cannot be resumed.
    no_ledger: bool
    # String, or list of strings, read as NULL. Default: that of the format.
    null: str | Sequence[str]
    # Engine that runs the load on several hosts: `ray` for the cluster of this machine, or
    # `ray://HOST:PORT`.
    on: str
    # What a row does whose key the table has: `update`, `nothing`, or `newest:COLUMN`. Default:
    # `update`.
    on_conflict: str
    # Columns by which rows are put in order before they are loaded: `column`, or `column desc`.
    order_by: Sequence[str]
    # Number of parser threads, or `auto`.
    parsers: str | int
    # The share of this host when several hosts load together: `2/5`.
    part: str
    # Bounds of the new partitions, ascending: n + 1 bounds for n partitions.
    partition_bounds: Sequence[str | int]
    # Column to partition the new table by.
    partition_by: str
    # Pause while a limit is exceeded: `replica-lag=10s,free-disk=50GB`.
    pause_when: str
    # Size of a piece, the unit of commit: bytes, or such as `64MB`. Default: by the size of the
    # table and the number of streams.
    piece_size: str | int
    # Memory nodes that threads run on, on machines with several: `auto`, `none`, or nodes such as
    # `streams=1,parsers=0`.
    placement: str
    # Leave the network to others, and use what they leave.
    polite: bool
    # How rows are published.
    publish: Literal["append", "replace", "partitions", "upsert"]
    # SQL query whose rows are loaded, of a source that is a database.
    query: str
    # Quote character.
    quote: str
    # Where a quote opens a field.
    quotes: Literal["lenient", "strict"]
    # What to do with records of another number of fields.
    ragged: Literal["reject", "pad", "cut"]
    # Replace a table although others wrote to it during the run; their rows are lost.
    replace_anyway: bool
    # Seconds to retry when the server is unavailable.
    retry_for: int
    # Read all keys before loading instead of those at the cuts.
    scan_keys: bool
    # Count all quotes of an object before loading, instead of guessing where records begin from
    # those near a place; every guess is checked.
    scan_quotes: bool
    # File with the CREATE TABLE statement for `create`.
    schema_file: str
    # Columns that are computed: `column = "SQL expression"` over the fields. An empty expression
    # leaves a field out.
    select: Mapping[str, str]
    # Size of a connection's send buffer. Default: it grows as the kernel decides.
    send_buffer: str | int
    # Lines to skip at the end of each file.
    skip_footer: int
    # Lines to skip at the beginning of each file.
    skip_lines: int
    # Load directly although `wal_level` is `logical`: logical decoding does not see these rows.
    skip_logical_decoding: bool
    # Directory for rows that are put in order and do not fit in memory. Default: `$TMPDIR`, or
    # `/var/tmp`.
    sort_dir: str
    # Memory that rows take while they are put in order; at most 2.6GB per stream is used. Default:
    # `512MB`.
    sort_memory: str | int
    # Who makes the statistics of what is loaded.
    statistics: Literal["auto", "client", "analyze", "none"]
    # How object stores are reached. Default: as each cloud's own tools reach them.
    store: Mapping[str, str | bool]
    # Number of sessions, or `auto`.
    streams: str | int
    # Load all tables at the same time instead of one after the other.
    tables_at_once: bool
    # Tablespaces for new tables, used in turn.
    tablespaces: Sequence[str]
    # Types that override inferred ones: `column=type`.
    types: Sequence[str] | Mapping[str, str]
    # How much of the loaded data is compared with its source.
    verify: Literal["quick", "count", "full"]
    # SQL condition: only rows for which it holds are loaded.
    where: str
    # Characters of each field, for `format = "fixed"`.
    widths: Sequence[int]
