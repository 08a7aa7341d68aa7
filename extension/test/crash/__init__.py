"""The crash matrix: kill -9 of client, backend and postmaster at every phase of a direct load.

From this folder's parent:

    python -m crash --times 20 --seed 1 --server 18

``phases`` says at which moments, ``matrix`` what is killed and what has to hold afterwards,
``shim.c`` is how a process is stopped exactly there.
"""
