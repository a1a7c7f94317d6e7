"""
What the scheduler says of a pod, taken apart.

"0/4 nodes are available: 1 node(s) were unschedulable, 3 cannot allocate all claims. preemption: 0/4 nodes
are available: 4 Preemption is not helpful for scheduling." (FitError in pkg/scheduler/framework/types.go)
"""

import re
from dataclasses import dataclass

from claims.explain.meaning import Told, tell
from claims.explain.scheduling import OF_A_NODE, OF_A_POD

NODES = re.compile(
    r"^(?P<fit>\d+)/(?P<all>\d+) nodes are available: (?P<why>.*?)"
    r"(?:\. (?:still not schedulable, )?preemption: (?P<preemption>.*?))?\.?$",
    re.DOTALL,
)
COUNTED = re.compile(r"^(?P<count>\d+) (?P<why>.+)$", re.DOTALL)
BETWEEN = re.compile(r", (?=\d+ )")
DEVICES = re.compile(r"cannot allocate all claims|invalid resource pools|resourceclaim")


@dataclass(frozen=True, slots=True)
class Said:
    """
    A message of the scheduler. `nodes` is how many there are, None where the message counts none; `parts`
    are the reasons, those with the most nodes first; `preemption` is what it says of putting others off.
    """

    message: str
    nodes: int | None = None
    parts: tuple[Told, ...] = ()
    preemption: tuple[Told, ...] = ()

    @property
    def out_for_devices(self) -> int:
        """How many nodes are out because of devices and claims."""
        return sum(part.count or 0 for part in self.parts if DEVICES.match(part.text))

    @property
    def out_for_other(self) -> int:
        """How many nodes are out for what has nothing to do with devices."""
        return sum(part.count or 0 for part in self.parts if not DEVICES.match(part.text))

    @property
    def main(self) -> Told | None:
        """The reason to tell first: one about devices, for others the portal can do nothing."""
        about = [part for part in self.parts if part.count is None or DEVICES.match(part.text)]
        return next(iter((*about, *self.parts)), None)


def read(message: str) -> Said:
    """Take a message apart; one of another form is a single part."""
    found = NODES.match(message)
    if found is None:
        return Said(message, parts=(tell(message, OF_A_POD),) if message else ())
    preemption = NODES.match(found["preemption"] or "")
    helpless = preemption["why"] if preemption else found["preemption"] or ""
    return Said(message, int(found["all"]), _parts(found["why"]), _parts(helpless))


def _parts(text: str) -> tuple[Told, ...]:
    parts = [_part(part) for part in BETWEEN.split(text) if part]
    return tuple(sorted(parts, key=lambda part: -(part.count or 0)))


def _part(text: str) -> Told:
    counted = COUNTED.match(text)
    if counted is None:
        return tell(text, (*OF_A_POD, *OF_A_NODE))
    return tell(counted["why"], (*OF_A_NODE, *OF_A_POD), count=int(counted["count"]))
