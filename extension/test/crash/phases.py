"""The moments of a load at which something is killed.

A load's steps are begin, half (of its stream), rest, COMMIT (or ROLLBACK). A phase is the end of a
step, or a moment within one, at which the shim stops a process.
"""

from __future__ import annotations

from dataclasses import dataclass

ABSENT, COMPLETE, EITHER = "absent", "complete", "either"
HEAP, INDEX = "{heap}", "{index}"


@dataclass(frozen=True)
class Phase:
    """One moment."""

    name: str
    # The last step that is told to the client.
    step: str
    # What becomes of the piece when someone dies here.
    then: str
    # operation, part of the path, action; none: the step's own end is the moment.
    stop: tuple[str, str, str] | None = None
    # The first step during which the stop may come.
    since: str = ""
    # As many matching calls may be let pass before the stop.
    skip_max: int = 0
    who: str = "backend"
    # CHECKPOINT: "between" the halves, or "begun" while the backend stands still.
    checkpoint: str = ""
    levels: tuple[str, ...] = ("minimal", "replica")
    versions: tuple[str, ...] = ("14", "15", "16", "17", "18")
    frozen: bool = False
    instead: str = "COMMIT"


OLDER = ("14", "15", "16")
PHASES = [
    Phase("in the middle of a frame", "half", ABSENT),
    Phase("while WAL is written", "rest", ABSENT, ("write", "/pg_wal/", "before"), "half", 12,
          levels=("replica",)),
    Phase("between logging pages and writing them", "rest", ABSENT,
          ("write", HEAP, "before"), "half", 3),
    Phase("half of a run of pages written", "rest", ABSENT, ("write", HEAP, "half"), "half", 3),
    Phase("pages just written", "rest", ABSENT, ("write", HEAP, "after"), "half", 3),
    Phase("while the visibility map is made", "rest", ABSENT, ("write", HEAP + "_vm", "before"),
          "half", frozen=True),
    Phase("before the load's own sync", "rest", ABSENT, ("sync", HEAP, "before"), "rest",
          levels=("replica",), versions=OLDER),
    Phase("after the load's own sync", "rest", ABSENT, ("sync", HEAP, "after"), "rest",
          levels=("replica",), versions=OLDER),
    # From 17 on the load syncs by itself only when a checkpoint has passed it.
    Phase("before the load's own sync, a checkpoint having passed", "rest", ABSENT,
          ("sync", HEAP, "before"), "rest", levels=("replica",), checkpoint="between"),
    Phase("after the load's own sync, a checkpoint having passed", "rest", ABSENT,
          ("sync", HEAP, "after"), "rest", levels=("replica",), checkpoint="between"),
    Phase("between logging an index's pages and writing them", "rest", ABSENT,
          ("write", INDEX, "before"), "rest", 1),
    Phase("half of a run of an index's pages written", "rest", ABSENT, ("write", INDEX, "half"),
          "rest", 1),
    Phase("an index's pages just written", "rest", ABSENT, ("write", INDEX, "after"), "rest", 1),
    Phase("before an index's own sync", "rest", ABSENT, ("sync", INDEX, "before"), "rest",
          levels=("replica",), versions=OLDER),
    Phase("after an index's own sync", "rest", ABSENT, ("sync", INDEX, "after"), "rest",
          levels=("replica",), versions=OLDER),
    Phase("loaded, not committed", "rest", ABSENT),
    Phase("before the commit's sync of the file", "COMMIT", ABSENT, ("sync", HEAP, "before"),
          "COMMIT", levels=("minimal",)),
    Phase("after the commit's sync of the file", "COMMIT", ABSENT, ("sync", HEAP, "after"),
          "COMMIT", levels=("minimal",)),
    Phase("before the commit's sync of an index", "COMMIT", ABSENT, ("sync", INDEX, "before"),
          "COMMIT", levels=("minimal",)),
    Phase("after the commit's sync of an index", "COMMIT", ABSENT, ("sync", INDEX, "after"),
          "COMMIT", levels=("minimal",)),
    Phase("before the commit's WAL is written", "COMMIT", ABSENT, ("write", "/pg_wal/", "before"),
          "COMMIT"),
    Phase("before the commit's WAL is synced", "COMMIT", EITHER, ("sync", "/pg_wal/", "before"),
          "COMMIT"),
    Phase("after the commit's WAL is synced", "COMMIT", COMPLETE, ("sync", "/pg_wal/", "after"),
          "COMMIT"),
    Phase("committed", "COMMIT", COMPLETE),
    Phase("a checkpoint between the halves, in the middle of a frame", "half", ABSENT,
          checkpoint="between"),
    Phase("a checkpoint between the halves, committed", "COMMIT", COMPLETE, checkpoint="between"),
    Phase("a checkpoint that waits for pages to be written", "rest", ABSENT,
          ("write", HEAP, "before"), "half", 3, checkpoint="begun"),
    Phase("a checkpoint that stands still, loaded", "rest", ABSENT,
          ("sync", "/base/", "before"), "half", who="checkpointer", checkpoint="between"),
    Phase("a checkpoint that stands still, committed", "COMMIT", COMPLETE,
          ("sync", "/base/", "before"), "half", who="checkpointer", checkpoint="between"),
    Phase("a checkpoint after the commit", "COMMIT", COMPLETE, checkpoint="after"),
    Phase("while a rollback removes the file", "COMMIT", ABSENT, ("cut", HEAP, "before"), "COMMIT",
          instead="ROLLBACK"),
    Phase("rolled back", "COMMIT", ABSENT, instead="ROLLBACK"),
]  # fmt: skip
