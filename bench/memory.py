"""
Memory of one cluster snapshot: `python -m bench.memory FILE` reads a mirrored cluster, evaluates its claims,
and prints by how many MiB its resident set has grown.

Each measurement needs a fresh process, because a process keeps the memory that it has freed.
"""

from __future__ import annotations

import gc
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bench.world import World

MIB = 2**20


def added(cluster: World) -> float:
    """Return the MiB that a snapshot of the cluster adds to a fresh process."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "objects.jsonl"
        with path.open("w") as file:
            for part in ("classes", "slices", "claims", "taint_rules", "nodes"):
                file.writelines(json.dumps([part, manifest]) + "\n" for manifest in getattr(cluster, part))
        command = [sys.executable, "-m", "bench.memory", str(path)]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
    return float(done.stdout)


def resident() -> int:
    """Return the bytes of this process that are in memory (Linux)."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def main(path: str) -> None:
    """Print the growth in MiB."""
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "portal.settings")
    import django

    django.setup()
    from bench.allocator import matched
    from bench.specs import MATCHED
    from dra.cluster_snapshot import ClusterSnapshot
    from dra.held import Interner
    from inventory.cluster_snapshot import CHUNK, PARTS

    matched(ClusterSnapshot(), {"devices": {"requests": []}})
    gc.collect()
    before = resident()
    shared = Interner()
    parts: dict[str, list[Any]] = {part: [] for part in PARTS}
    with Path(path).open() as file:
        for number, line in enumerate(file):
            if number % CHUNK == 0:
                shared.drop_singletons()
            part, raw = json.loads(line)
            parts[part].append(
                shared(PARTS[part].make(*(_column(raw, name) for name in PARTS[part].columns)))
            )
    shared.drop_singletons()
    classes, slices, claims, taint_rules, nodes = (parts[part] for part in PARTS)
    snapshot = ClusterSnapshot(classes, slices, claims, taint_rules, nodes)
    matched(snapshot, {"devices": MATCHED.spec["devices"]} if snapshot.class_by_name else {})
    assert snapshot.available or not snapshot.devices  # noqa: S101
    gc.collect()
    print((resident() - before) / MIB)  # noqa: T201


def _column(raw: Mapping[str, Any], name: str) -> Any:
    """Return a column of the row that the mirror has of an object, or the value under a path of `raw`."""
    if name in ("name", "namespace", "labels"):
        return raw["metadata"].get(name)
    value: Any = {"raw": raw}
    for step in name.split("__"):
        value = (value or {}).get(step)
    return value


if __name__ == "__main__":
    main(sys.argv[1])
