"""What is injected, and which verdicts are right: written before the run, not changed after it."""

EXPECTED: dict[str, tuple[str, list[str]]] = {
    "server_quota": (
        "the server's processes get 0.4 to 0.9 cores (cgroup)",
        ["database_cpu"],
    ),
    "server_one_core": (
        "the server's processes are bound to one processor of two",
        ["database_cpu"],
    ),
    "client_quota": (
        "the client gets 0.1 to 0.25 cores (cgroup), rows go by the direct method",
        ["client_cpu"],
    ),
    "busy_neighbour": (
        "6 to 10 other programs compute without end",
        ["neighbour"],
    ),
    "many_indexes": (
        "the table has 3 to 5 indexes, kept up row by row",
        ["database_cpu"],
    ),
    "slow_trigger": (
        "the table has a trigger that computes for each row",
        ["database_cpu"],
    ),
    "source_throttled": (
        "the source lies on a disk that reads 15 to 50 MB/s (blkio), not in memory",
        ["source_disk", "read_depth"],
    ),
    "one_slow_file": (
        "one of six source files lies on a disk that reads 3 to 5 MB/s",
        ["source_disk", "long_tail"],
    ),
    "slow_pipe": (
        "the source is a pipe that is fed 10 to 40 MB/s",
        ["source_disk"],
    ),
    "wal_throttled": (
        "the disk of the log writes 15 to 40 MB/s (blkio), all rows are logged",
        ["wal"],
    ),
    "data_throttled": (
        "the disk of the data writes 20 to 50 MB/s (blkio), no row is logged",
        ["database_disk"],
    ),
    "full_link": (
        "the link carries 60 to 180 Mb/s (tbf)",
        ["congestion"],
    ),
    "full_wan": (
        "10 to 60 ms, 80 to 200 Mb/s, a queue of one round trip",
        ["congestion"],
    ),
    "lossy_wan": (
        "10 to 40 ms, 0.3 to 0.8% of packets lost",
        ["congestion"],
    ),
    "small_receive_window": (
        "20 to 60 ms, tcp_rmem of 128 to 256 KiB at the server",
        ["receive_cap"],
    ),
    "small_send_buffer": (
        "20 to 60 ms, tcp_wmem of 256 to 512 KiB at the client",
        ["send_window"],
    ),
    "capped_flow": (
        "20 to 60 ms, 40 to 120 segments on the way at most (a locked cwnd of the route)",
        ["flow_cap"],
    ),
    "held_lock": (
        "another session locks the table for 6 to 10 s",
        ["lock_wait"],
    ),
    "trigger_lock": (
        "a trigger takes one advisory lock in each COPY",
        ["lock_wait"],
    ),
    "extension_lock": (
        "8 to 16 sessions append long rows to one unlogged table of PostgreSQL 14",
        ["extension_lock"],
    ),
    "one_stream": (
        "--streams 1 on two processors",
        ["too_few_streams"],
    ),
    "one_large_piece": (
        "partitions of fixed ranges, one of which holds nearly all rows",
        ["long_tail"],
    ),
    "indexes_after": (
        "a table with 4 or 5 indexes is replaced by COPY",
        ["indexes"],
    ),
    "little_memory": (
        "the same with five indexes and 1 to 4 MB of maintenance_work_mem",
        ["indexes"],
    ),
    "many_partitions": (
        "100 to 145 MB in partitions of 2 MB, each analyzed",
        ["statistics"],
    ),
    "foreign_keys": (
        "a replaced table refers to two or three others, of 10,000 to 6,000,000 rows",
        ["foreign_keys"],
    ),
}
