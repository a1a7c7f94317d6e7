"""The cluster of the portal that is measured: its objects, and a gateway that lists them from memory."""

from __future__ import annotations

import json
import random
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import cast
from uuid import UUID

from bench.portal.size import Size, team_slug
from bench.world import Kind as Devices
from bench.world import World, world
from claims.plans.plan import CLAIM_LABEL
from cluster.protocol import (
    DEVICE_CLASS,
    DEVICE_TAINT_RULE_VERSIONS,
    MIRRORED,
    NAMESPACE,
    NODE,
    POD,
    RESOURCE_CLAIM,
    RESOURCE_SLICE,
    Discovery,
    Gateway,
    Kind,
    Manifest,
    Page,
    Permission,
)

FOREIGN = 12  # one claim in so many belongs to nobody in the portal
UID = str(uuid.uuid5(uuid.NAMESPACE_DNS, "bench"))
RULES = DEVICE_TAINT_RULE_VERSIONS[0]

type Pages = dict[str, list[bytes]]
type Owners = list[tuple[UUID, int, str]]


@dataclass(slots=True)
class ListedCluster:
    """
    Pages of listings as a server sends them, by plural. Implements what a listing needs of `Gateway`.

    `holding` and `waiting` are the claims of the portal that have a device, and that wait for a pod: id,
    number of the team, and name.
    """

    pages: Pages
    holding: Owners = field(default_factory=list)
    waiting: Owners = field(default_factory=list)

    def identity(self) -> str:
        return UID

    def discover(self) -> Discovery:
        kinds = frozenset(f"{kind.api_version}/{kind.plural}" for kind in (*MIRRORED, RULES))
        return Discovery("v1.37.1", (1, 37), RULES, kinds)

    def allowed(self, permission: Permission) -> bool:
        return bool(permission)

    def list(self, kind: Kind) -> Iterator[Page]:
        pages = self.pages.get(kind.plural) or [b"[]"]
        for number, page in enumerate(pages, 1):
            yield Page(json.loads(page), "1000000000", (len(pages) - number) or None)


def gateway_to(cluster: ListedCluster) -> Gateway:
    return cast(Gateway, cluster)


def listed_cluster(size: Size) -> ListedCluster:
    """Return the cluster; of its claims nearly all carry the label of a claim of the portal."""
    generated = world(Devices.WHOLE, size.devices)
    rng = random.Random(size.devices)  # noqa: S311, nothing secret
    listing = ListedCluster({})
    pods = []
    holders = rng.choices(range(size.teams), size.team_weights(), k=len(generated.claims))
    for number, (claim, team) in enumerate(zip(generated.claims, holders, strict=True)):
        _assign(claim, team, listing.holding if number % FOREIGN else None, rng)
        pods.append(_pod(claim))
    without_pod = [
        _claim_without_pod(generated, number % size.teams, listing, rng) for number in range(size.waiting)
    ]
    names = ("kube-system", "default", *(team_slug(team) for team in range(size.teams)))
    parts: list[tuple[Kind, list[Manifest]]] = [
        (NAMESPACE, [_namespace(name, rng) for name in names]),
        (NODE, generated.nodes),
        (DEVICE_CLASS, [_with_metadata(manifest, rng) for manifest in generated.classes]),
        (RESOURCE_SLICE, generated.slices),
        (RESOURCE_CLAIM, [*generated.claims, *without_pod]),
        (POD, pods),
        (RULES, [_with_metadata(manifest, rng) for manifest in generated.taint_rules]),
    ]
    for kind, objects in parts:
        listing.pages[kind.plural] = [
            json.dumps(objects[at : at + 500]).encode() for at in range(0, len(objects), 500)
        ]
    return listing


def _assign(claim: Manifest, team: int, owners: Owners | None, rng: random.Random) -> None:
    metadata = claim["metadata"]
    metadata["namespace"] = team_slug(team)
    metadata.pop("labels", None)
    if owners is not None:
        claim_id = _id(rng)
        metadata["labels"] = {CLAIM_LABEL: str(claim_id)}
        owners.append((claim_id, team, metadata["name"]))


def _claim_without_pod(generated: World, team: int, listing: ListedCluster, rng: random.Random) -> Manifest:
    """Return a claim that no pod uses yet."""
    claim: Manifest = json.loads(json.dumps({**generated.claims[0], "status": {}}))
    claim["metadata"] |= {"name": f"waits-{rng.randrange(16**8):08x}", "uid": str(_id(rng))}
    _assign(claim, team, listing.waiting, rng)
    return claim


def _pod(claim: Manifest) -> Manifest:
    user = claim["status"]["reservedFor"][0]
    results = claim["status"]["allocation"]["devices"]["results"]
    name = claim["metadata"]["name"]
    return {
        "metadata": {
            "name": user["name"],
            "namespace": claim["metadata"]["namespace"],
            "uid": user["uid"],
            "resourceVersion": claim["metadata"]["resourceVersion"],
            "creationTimestamp": claim["metadata"]["creationTimestamp"],
        },
        "spec": {
            "nodeName": results[0]["pool"],
            "resourceClaims": [{"name": "gpu", "resourceClaimName": name}],
            "containers": [{"name": "main", "image": "example.test/train:1"}],
        },
        "status": {"phase": "Running"},
    }


def _namespace(name: str, rng: random.Random) -> Manifest:
    uid = UID if name == "kube-system" else str(_id(rng))
    return {"metadata": {"name": name, "uid": uid, "resourceVersion": "1"}}


def _with_metadata(manifest: Manifest, rng: random.Random) -> Manifest:
    return manifest | {"metadata": manifest["metadata"] | {"uid": str(_id(rng)), "resourceVersion": "1"}}


def _id(rng: random.Random) -> UUID:
    return UUID(int=rng.getrandbits(128), version=4)
