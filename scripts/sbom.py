"""
The bill of materials of a release: `python -m scripts.sbom FILE` writes it as CycloneDX 1.5.

It follows from the lock files and is not committed: a copy would be stale after each change of them. Releases
and images carry one; a test makes it and holds it against the lock files.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from scripts.packages import images, license_of, npm_components, python_document


def document() -> dict[str, Any]:
    """Return Python packages, what browsers get of npm, and the images that the Dockerfile builds on."""
    found = python_document()
    for component in found["components"]:
        if name := license_of(component["name"]):
            component["licenses"] = [{"license": {"name": name}}]
    found["components"] += [*npm_components(), *images()]
    found["metadata"]["component"] |= {"type": "application", "licenses": [{"license": {"id": "Apache-2.0"}}]}
    return found


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("Name the file to write: python -m scripts.sbom dragoman.cdx.json")
    Path(sys.argv[1]).write_text(json.dumps(document(), indent=1) + "\n")
