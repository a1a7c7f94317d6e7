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
from cluster.kinds import (
    DEVICE_CLASS,
    DEVICE_TAINT_RULE_VERSIONS,
    MIRRORED,
    NAMESPACE,
    NODE,
    POD,
    RESOURCE_CLAIM,
    RESOURCE_SLICE,
    Kind,
)
from cluster.protocol import Discovery, Gateway, Manifest, Page, Permission

FOREIGN = 12  # one claim in so many is of nobody in the portal
UID = str(uuid.uuid5(uuid.NAMESPACE_DNS, "bench"))
RULES = DEVICE_TAINT_RULE_VERSIONS[0]

type Pages = dict[str, list[bytes]]
type Owners = list[tuple[UUID, int]]


@dataclass(slots=True)
class Shelf:
    """
    Pages of listings as a server sends them, by plural. Only what a listing needs of `cluster.protocol`.

    `holding` and `waiting` are the claims of the portal that have a device, and that wait for a pod: the id
    and the number of the team.
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


def gateway_of(shelf: Shelf) -> Gateway:
    return cast(Gateway, shelf)


def shelf_of(size: Size) -> Shelf:
    """Return the cluster; of its claims nearly all carry the label of a claim of the portal."""
    made = world(Devices.WHOLE, size.devices)
    chance = random.Random(size.devices)  # noqa: S311, nothing secret
    shelf = Shelf({})
    pods = []
    holders = chance.choices(range(size.teams), size.team_weights(), k=len(made.claims))
    for number, (claim, team) in enumerate(zip(made.claims, holders, strict=True)):
        _give(claim, team, shelf.holding if number % FOREIGN else None, chance)
        pods.append(_pod(claim))
    unused = [_unused(made, number % size.teams, shelf, chance) for number in range(size.waiting)]
    names = ("kube-system", "default", *(team_slug(team) for team in range(size.teams)))
    parts: list[tuple[Kind, list[Manifest]]] = [
        (NAMESPACE, [_named(name, chance) for name in names]),
        (NODE, made.nodes),
        (DEVICE_CLASS, [_dressed(one, chance) for one in made.classes]),
        (RESOURCE_SLICE, made.slices),
        (RESOURCE_CLAIM, [*made.claims, *unused]),
        (POD, pods),
        (RULES, [_dressed(one, chance) for one in made.taint_rules]),
    ]
    for kind, objects in parts:
        shelf.pages[kind.plural] = [
            json.dumps(objects[at : at + 500]).encode() for at in range(0, len(objects), 500)
        ]
    return shelf


def _give(claim: Manifest, team: int, ours: Owners | None, chance: random.Random) -> None:
    metadata = claim["metadata"]
    metadata["namespace"] = team_slug(team)
    metadata.pop("labels", None)
    if ours is not None:
        owner = _id(chance)
        metadata["labels"] = {CLAIM_LABEL: str(owner)}
        ours.append((owner, team))


def _unused(made: World, team: int, shelf: Shelf, chance: random.Random) -> Manifest:
    """Return a claim that no pod uses yet."""
    claim: Manifest = json.loads(json.dumps({**made.claims[0], "status": {}}))
    claim["metadata"] |= {"name": f"waits-{chance.randrange(16**8):08x}", "uid": str(_id(chance))}
    _give(claim, team, shelf.waiting, chance)
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


def _named(name: str, chance: random.Random) -> Manifest:
    uid = UID if name == "kube-system" else str(_id(chance))
    return {"metadata": {"name": name, "uid": uid, "resourceVersion": "1"}}


def _dressed(one: Manifest, chance: random.Random) -> Manifest:
    return one | {"metadata": one["metadata"] | {"uid": str(_id(chance)), "resourceVersion": "1"}}


def _id(chance: random.Random) -> UUID:
    return UUID(int=chance.getrandbits(128), version=4)
