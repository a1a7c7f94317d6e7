"""What a cluster is and serves."""

import json
import re
from collections.abc import Iterator
from typing import Any

from cluster.answers import ApiCall, error_of
from cluster.errors import ClusterInvalid, Refused
from cluster.kinds import DEVICE_TAINT_RULE_VERSIONS, DRA, OPTIONAL, RESOURCE_CLAIM, Kind
from cluster.protocol import Discovery
from cluster.transport import Transport

OLDEST = (1, 34)  # the first to serve resource.k8s.io/v1
NUMBERS = re.compile(r"v?(\d+)\.(\d+)")
NOTHING: dict[str, Any] = {"resources": []}
VERSION = Kind("", "", "Version", "version", namespaced=False)


def discover(transport: Transport) -> Discovery:
    """Raise `ClusterInvalid` for a cluster that is too old, or that serves no resource.k8s.io/v1."""
    version = str(_get(transport, "/version").get("gitVersion", ""))
    numbers = NUMBERS.match(version)
    minor = (int(numbers[1]), int(numbers[2])) if numbers else (0, 0)
    if minor < OLDEST:
        raise ClusterInvalid(f"The cluster runs Kubernetes {version or '?'}; the portal needs 1.34 or newer.")
    kinds = frozenset(_served(transport))
    if f"{RESOURCE_CLAIM.api_version}/{RESOURCE_CLAIM.plural}" not in kinds:
        told = "The cluster runs Kubernetes %s and serves no resource.k8s.io/v1: the API is switched off."
        raise ClusterInvalid(told % version)
    rules = next(
        (kind for kind in DEVICE_TAINT_RULE_VERSIONS if f"{kind.api_version}/{kind.plural}" in kinds), None
    )
    optional = frozenset(_optional(transport))
    return Discovery(version, minor, rules, kinds | optional, simulated="simulated" in version)


def _served(transport: Transport) -> list[str]:
    """Return "resource.k8s.io/v1/resourceclaims" … of every served version, and what core serves."""
    group = _get(transport, f"/apis/{DRA}", missing={"versions": []})
    versions = [str(version["groupVersion"]) for version in group["versions"]]
    roots = {"v1": "/api/v1", **{version: f"/apis/{version}" for version in versions}}
    return [
        f"{version}/{resource['name']}"
        for version, root in roots.items()
        for resource in _get(transport, root)["resources"]
    ]


def _optional(transport: Transport) -> Iterator[str]:
    """
    Yield those of `OPTIONAL` that are served; one request per group version.

    What an operator brings is no condition of anything, so a refusal counts as not served.
    """
    for version in dict.fromkeys(kind.api_version for kind in OPTIONAL):
        try:
            found = _get(transport, f"/apis/{version}", missing=NOTHING)["resources"]
        except Refused:
            continue
        wanted = {kind.plural for kind in OPTIONAL if kind.api_version == version}
        yield from (f"{version}/{one['name']}" for one in found if one["name"] in wanted)


def _get(transport: Transport, path: str, *, missing: dict[str, Any] | None = None) -> dict[str, Any]:
    code, answer = transport.send("GET", path)
    if code == 404 and missing:
        return missing
    if code >= 400:
        raise error_of(code, answer.data, ApiCall("get", VERSION))
    try:
        found = json.loads(answer.data)
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise ClusterInvalid(f"What answers at {transport.address} is not a Kubernetes API server.")
    return found
