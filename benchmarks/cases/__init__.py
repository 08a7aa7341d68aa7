"""The cases, a family a module: each is a context in which its ways can be run."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager

from lab import Case

from cases import databases
from cases.copied import copied
from cases.direct import direct, direct_replica
from cases.frames import frames
from cases.lineitem import one_file, one_table, partitions, slow_tools
from cases.memory import memory
from cases.network import direct_network, network, network_1gbit
from cases.objects import objects
from cases.ordered import ordered
from cases.parse import parse_only, parse_wide
from cases.ready import ready, ready_replica, ready_tables
from cases.routed import routed
from cases.setting import Setting
from cases.tables import all_tables
from cases.texts import text_types
from cases.transformed import transformed, transformed_slow
from cases.upsert import upsert
from cases.verified import verified
from cases.wide import wide_csv

CASES: dict[str, Callable[[Setting], AbstractContextManager[Case]]] = {
    "partitions": partitions,
    "one-table": one_table,
    "frames": frames,
    "objects": objects,
    "slow-tools": slow_tools,
    "one-file": one_file,
    "all-tables": all_tables,
    "wide-csv": wide_csv,
    "text-types": text_types,
    "parse-only": parse_only,
    "parse-wide": parse_wide,
    "memory": memory,
    "network": network,
    "network-1gbit": network_1gbit,
    "direct": direct,
    "direct-replica": direct_replica,
    "direct-network": direct_network,
    "verified": verified,
    "ready": ready,
    "ready-replica": ready_replica,
    "ready-tables": ready_tables,
    "transformed": transformed,
    "transformed-slow": transformed_slow,
    "upsert": upsert,
    "copied": copied,
    "routed": routed,
    "ordered": ordered,
    "duckdb": databases.duckdb,
    "sqlite": databases.sqlite,
    "mariadb": databases.mariadb,
}
