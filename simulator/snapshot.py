"""A cluster on disk: one JSON file, replaced as a whole, so that a kill leaves the old one or the new one."""

import json
import os
from pathlib import Path

from simulator.cluster import Cluster


def save(cluster: Cluster, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    target = folder / f"{cluster.name}.json"
    fresh = target.with_suffix(".new")
    with fresh.open("w") as file:
        file.write(json.dumps(cluster.dump()))
        file.flush()
        os.fsync(file.fileno())
    fresh.replace(target)


def load(cluster: Cluster, folder: Path) -> bool:
    """Fill `cluster` from its file; return False if there is none."""
    path = folder / f"{cluster.name}.json"
    if not path.exists():
        return False
    cluster.restore(json.loads(path.read_text()))
    return True
