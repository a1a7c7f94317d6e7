"""The physical GPUs of a cluster, who uses them or their partitions, and how hard."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from dra.held import key_of, results_of
from simulator import curves
from simulator.resources import CLAIMS, PODS, SLICES, Manifest
from simulator.store import Store
from simulator.world import SILENT_NODES
from simulator.world_models import MODELS, Device, Model

SHARE = re.compile(r"[01](\.[0-9]{1,6})?", re.ASCII)
ACTIVITY = "simulator.dragoman.dev/activity"  # annotation of a pod: the mean of what it does, 0 to 1


@dataclass(frozen=True, slots=True)
class User:
    """
    A claim that has a device, and one container that uses it; without a pod, both names are empty.

    `activity` is what the pod says of itself, None if it says nothing.
    """

    claim: Manifest
    pod: str = ""
    container: str = ""
    activity: float | None = None

    @property
    def namespace(self) -> str:
        return str(self.claim["metadata"]["namespace"])


@dataclass(frozen=True, slots=True)
class Part:
    """A device as its driver publishes it: a whole GPU, or one of its partitions."""

    device: Device
    users: list[User]
    load: curves.Load

    @property
    def profile(self) -> str:
        return text_of(self.device, "profile")

    @property
    def mebibytes(self) -> int:
        return int(str(self.device["capacity"]["memory"]["value"]).removesuffix("Mi"))

    @property
    def share(self) -> float:
        """The part of the board's compute slices that this is."""
        return int(self.profile.partition("g")[0]) / 7 if self.profile else 1.0


@dataclass(frozen=True, slots=True)
class Board:
    """`key` is the uuid of the GPU, or node and device where the driver publishes none."""

    node: str
    driver: str
    pool: str
    number: int
    key: str
    model: Model
    parts: list[Part]

    @property
    def activity(self) -> float:
        return min(1.0, sum(part.load.activity * part.share for part in self.parts))


def boards_of(store: Store, *, seed: int, now: float) -> Iterator[Board]:
    """Yield the boards that an exporter looks at: those of silent nodes are not among them."""
    users = _users(store)
    for (node, driver, pool), devices in _published(store).items():
        boards: dict[str, list[Part]] = {}
        for device in devices:
            using = users.get((driver, pool, device["name"]), [])
            part = Part(device, using, _load(device, using, seed, now))
            boards.setdefault(_key(device, node), []).append(part)
        for number, (key, mine) in enumerate(boards.items()):
            if model := MODELS.get(text_of(mine[0].device, "productName")):
                yield Board(node, driver, pool, number, key, model, _existing(mine))


def _published(store: Store) -> dict[tuple[str, str, str], list[Device]]:
    """Return the devices by node, driver and pool, those of one pool in the order of the bus."""
    found: dict[tuple[str, str, str], list[Device]] = {}
    for resource_slice in store.all(SLICES):
        spec = resource_slice["spec"]
        key = (spec.get("nodeName", ""), spec["driver"], spec["pool"]["name"])
        if key[0] not in SILENT_NODES:
            found.setdefault(key, []).extend(spec.get("devices") or [])
    for devices in found.values():
        devices.sort(key=lambda device: text_of(device, "resource.kubernetes.io/pciBusID"))
    return found


def _existing(parts: list[Part]) -> list[Part]:
    """Of what could be cut from a GPU there is only what somebody holds; uncut, there is the whole."""
    if not parts[0].device.get("consumesCounters"):
        return parts
    return [part for part in parts if part.profile and part.users] or parts[:1]


def text_of(device: Device, attribute: str) -> str:
    return str((device.get("attributes", {}).get(attribute) or {}).get("string", ""))


def _users(store: Store) -> dict[tuple[str, str, str], list[User]]:
    pods = {pod["metadata"]["uid"]: pod for pod in store.unordered(PODS)}
    found: dict[tuple[str, str, str], list[User]] = {}
    for claim in store.unordered(CLAIMS):
        results = [result for result in results_of(claim) if not result.get("adminAccess")]
        if not results:
            continue
        mine = [
            User(claim, user["name"], container["name"], _activity(pods[user["uid"]]))
            for user in (claim.get("status") or {}).get("reservedFor") or []
            if user["uid"] in pods
            for container in pods[user["uid"]]["spec"]["containers"]
        ]
        for result in results:
            found.setdefault(key_of(result), []).extend(mine or [User(claim)])
    return found


def _load(device: Device, users: list[User], seed: int, now: float) -> curves.Load:
    if not users:
        return curves.NOTHING
    key = f"{seed}/{users[0].claim['metadata']['uid']}"
    return curves.load_at(key, device["name"], now, asked=users[0].activity)


def _activity(pod: Manifest) -> float | None:
    said = str((pod["metadata"].get("annotations") or {}).get(ACTIVITY, ""))
    return min(1.0, float(said)) if SHARE.fullmatch(said) else None


def _key(device: Device, node: str) -> str:
    return text_of(device, "parentUUID") or text_of(device, "uuid") or f"{node}/{device['name']}"
