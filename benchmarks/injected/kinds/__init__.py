"""Kinds of injected bottlenecks, a module per part of the machine."""

from kinds import after, disks, locks, networks, processors, shapes

KINDS = {
    "server_quota": processors.server_quota,
    "server_one_core": processors.server_one_core,
    "client_quota": processors.client_quota,
    "busy_neighbour": processors.busy_neighbour,
    "many_indexes": processors.many_indexes,
    "slow_trigger": processors.slow_trigger,
    "source_throttled": disks.source_throttled,
    "one_slow_file": disks.one_slow_file,
    "slow_pipe": disks.slow_pipe,
    "wal_throttled": disks.wal_throttled,
    "data_throttled": disks.data_throttled,
    "full_link": networks.full_link,
    "full_wan": networks.full_wan,
    "lossy_wan": networks.lossy_wan,
    "small_receive_window": networks.small_receive_window,
    "small_send_buffer": networks.small_send_buffer,
    "capped_flow": networks.capped_flow,
    "held_lock": locks.held_lock,
    "trigger_lock": locks.trigger_lock,
    "extension_lock": locks.extension_lock,
    "one_stream": shapes.one_stream,
    "one_large_piece": shapes.one_large_piece,
    "indexes_after": after.indexes_after,
    "little_memory": after.little_memory,
    "many_partitions": after.many_partitions,
    "foreign_keys": after.foreign_keys,
}
