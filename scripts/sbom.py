"""
The bill of materials of a release: `python -m scripts.sbom FILE` writes it as CycloneDX 1.5.

It has Python packages, packages of npm and images, and is not committed: a copy would be stale after each
change of the lock files. Releases and images carry one; a test makes it and holds it against the lock files.
`uv.lock`, `package-lock.json` and the Dockerfile are the only sources; nothing here reads what happens to be
installed, except the licenses, which only the packages themselves name.
"""

from __future__ import annotations

import binascii
import json
import re
import shutil
import subprocess
import sys
from importlib import metadata
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
IMAGE = re.compile(r"^(?:FROM|COPY --from=)\s*([\w./-]+:[\w.-]+)(@sha256:[0-9a-f]{64})?", re.MULTILINE)
EXTRAS = ("parquet",)  # optional, and in the list all the same


def uv() -> str:
    return shutil.which("uv") or str(ROOT / ".tools" / "uv" / "bin" / "uv")


def python_document() -> dict[str, Any]:
    """Return what uv says of the packages of an installation, as CycloneDX."""
    extras = [part for extra in EXTRAS for part in ("--extra", extra)]
    command = [
        uv(),
        "export",
        "--frozen",
        "--no-default-groups",
        *extras,
        "--format",
        "cyclonedx1.5",
        "--quiet",
    ]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    document: dict[str, Any] = json.loads(done.stdout)
    return document


def python_packages() -> list[tuple[str, str]]:
    """Return name and version of each Python package of an installation."""
    return sorted((one["name"], one["version"]) for one in python_document()["components"])


def npm_components() -> list[dict[str, Any]]:
    """Return the packages of npm of which something is served to browsers, with the hash of the lock file."""
    lock = json.loads((ROOT / "package-lock.json").read_text())
    found = []
    for path, package in lock["packages"].items():
        name = path.rpartition("node_modules/")[2]
        if not name or package.get("dev"):
            continue
        algorithm, _dash, digest = package["integrity"].partition("-")
        found.append(
            {
                "type": "library",
                "bom-ref": f"npm:{name}@{package['version']}",
                "name": name,
                "version": package["version"],
                "purl": f"pkg:npm/{name.replace('@', '%40')}@{package['version']}",
                "licenses": [{"expression": package["license"]}],
                "hashes": [{"alg": algorithm.upper().replace("SHA", "SHA-"), "content": hexadecimal(digest)}],
            }
        )
    return found


def hexadecimal(base64: str) -> str:
    return binascii.a2b_base64(base64).hex()


def images() -> list[dict[str, Any]]:
    """Return the images that the Dockerfile builds on."""
    found = {(name, digest or "") for name, digest in IMAGE.findall((ROOT / "Dockerfile").read_text())}
    return [
        {
            "type": "container",
            "bom-ref": f"image:{name}",
            "name": name.partition(":")[0],
            "version": f"{name.partition(':')[2]}{digest}",
        }
        for name, digest in sorted(found)
    ]


def license_of(package: str) -> str:
    """Return the license that an installed package names, "" if it is not installed or names none."""
    try:
        found = metadata.metadata(package)
    except metadata.PackageNotFoundError:
        return ""
    if found.get("License-Expression"):
        return str(found["License-Expression"])
    names = [line.rpartition(" :: ")[2] for line in found.get_all("Classifier") or () if "License ::" in line]
    return " OR ".join(names) or (found.get("License") or "").partition("\n")[0]


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
