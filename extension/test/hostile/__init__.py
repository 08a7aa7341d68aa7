"""A hostile client: mutated streams of direct loads against a live server.

From this folder's parent, on the server that scripts/asan_server.sh builds:

    python -m hostile --count 100000 --seed 1

Each mutant is one COPY of its own. What is proven of it is in ``judge``, what is changed in
``mutants``, what is changed from in ``streams``.
"""
