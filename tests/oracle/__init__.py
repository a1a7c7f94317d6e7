"""
Our allocator held to the one of Kubernetes: the same random cases through both, and every difference shown.

`python -m tests.oracle --help`; `docs/oracle.md` explains it.
"""
