"""
Other people's work in the demo clusters: seats at which one workload after the other comes, runs and goes.

A seat is a wish for devices of one tenant. Its rounds are drawn from the seed, the seat and the number of the
round alone, so that what a person does in the cluster never changes what the tenants want next.
"""

from dataclasses import dataclass
from random import Random

from simulator.world import CUT_ON_DEMAND, SILENT_NODES, TENANTS

SHORTEST_RUN, LONGEST_RUN = 240, 2400  # simulated seconds
SHORTEST_PAUSE, LONGEST_PAUSE = 30, 420
HELD_AT_FIRST = 0.85
KINDS_OF_WORK = ("train", "finetune", "eval", "serve", "notebook", "render", "embed")


@dataclass(frozen=True, slots=True)
class Seat:
    """`shared` pods use one claim. With a `node`, the pods run nowhere else."""

    key: str
    tenant: str
    device_class: str
    expression: str
    devices: int
    shared: int = 1
    node: str = ""


@dataclass(frozen=True, slots=True)
class Round:
    work: str
    run: int
    pause: int
    named: bool
    busy_at_first: bool
    done_at_first: float  # how far the first workload has come when the cluster starts


def product(name: str, driver: str = "gpu.nvidia.com") -> str:
    return f'device.attributes["{driver}"].?productName.orValue("").startsWith("{name}")'


def profile(name: str) -> str:
    return f'device.attributes["gpu.nvidia.com"].?profile.orValue("") == "{name}"'


def cut_before(name: str) -> str:
    """Partitions that are there for good: what is cut on demand is left to the seats of that node."""
    return f"{product('NVIDIA A100')} && {profile(name)}"


# Class, selector, and the devices of each seat; a negative number is one device that two pods share.
DEMANDS: dict[str, tuple[tuple[str, str, tuple[int, ...]], ...]] = {
    "fra-1": (
        ("gpu.nvidia.com", product("NVIDIA H100"), (8, 8, 4, 4, 4, 2, 2, 2, 2, 1, 1, 1, 1)),
        ("gpu.nvidia.com", product("NVIDIA A100"), (4, 4, 2, 2, 2, 1, 1, 1, 1, 1)),
        ("gpu.nvidia.com", product("NVIDIA L40S"), (4, 2, 2, 1, 1, 1, 1, 1, -1)),
        (
            "gpu.nvidia.com",
            'device.attributes["gpu.nvidia.com"].?productName.orValue("") == "NVIDIA L4"',
            (2, 2, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, -1, -1, -1),
        ),
    ),
    "lab-2": (
        ("gpu.nvidia.com", product("Tesla T4"), (4, 2, 1, 1, 1, 1, 1, 1, -1, -1)),
        ("gpu.amd.com", product("AMD Instinct", "gpu.amd.com"), (4, 2, 1, 1, 1)),
        ("mig.nvidia.com", cut_before("1g.10gb"), (1, 1, 1, 1, 1, 1, 1, 1)),
        ("mig.nvidia.com", cut_before("1g.20gb"), (2, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1)),
        ("mig.nvidia.com", cut_before("3g.40gb"), (2, 1, 1, 1, 1, 1, 1, 1)),
    ),
}


# Somebody works where no exporter runs, so that there are devices in use without telemetry.
UNSEEN = Seat("seat-99", TENANTS[0], "gpu.nvidia.com", product("Tesla T4"), 2, node=min(SILENT_NODES))

# What is held of the GPUs that are cut on demand: enough is left, but not in one piece.
CUTTING = tuple(
    Seat(f"seat-{number}", tenant, "mig.nvidia.com", profile(name), 1, node=CUT_ON_DEMAND)
    for number, tenant, name in zip((96, 97, 98), TENANTS, ("3g.40gb", "1g.10gb", "2g.20gb"), strict=True)
)


def seats_of(cluster: str) -> list[Seat]:
    seats: list[Seat] = []
    for device_class, expression, sizes in DEMANDS.get(cluster, ()):
        for size in sizes:
            tenant = TENANTS[len(seats) % len(TENANTS)]
            key = f"seat-{len(seats):02d}"
            seats.append(Seat(key, tenant, device_class, expression, abs(size), 2 if size < 0 else 1))
    if cluster == "lab-2":
        seats += [*CUTTING, UNSEEN]
    return seats


def drawn(seed: int, seat: Seat, number: int) -> Round:
    """Return what happens at a seat in its n-th round."""
    random = Random(f"{seed}/{seat.key}/{number}")  # noqa: S311 – a repeatable world, no secrets
    return Round(
        work=random.choice(KINDS_OF_WORK),
        run=random.randint(SHORTEST_RUN, LONGEST_RUN),
        pause=random.randint(SHORTEST_PAUSE, LONGEST_PAUSE),
        named=seat.shared > 1 or random.random() < 0.4,
        busy_at_first=random.random() < HELD_AT_FIRST,
        done_at_first=random.random(),
    )
