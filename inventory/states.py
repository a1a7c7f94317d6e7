"""The states of a device, as the cluster reports them, and how each is drawn."""

from dataclasses import dataclass

from django.db import models


class DeviceState(models.TextChoices):
    IN_USE = "in-use", "In use"
    FREE = "free", "Free"
    TAINTED = "tainted", "Tainted"
    UNHEALTHY = "unhealthy", "Unhealthy"
    INCOMPLETE = "incomplete", "Pool incomplete"
    NOT_READY = "not-ready", "Node not ready"
    BLOCKED = "blocked", "Taken by partitions"


# state → (colour family, icon, letter in a cell of the map, shape of that cell)
LOOK: dict[str, tuple[str, str, str, str]] = {
    DeviceState.IN_USE: ("held", "cpu", "U", "U"),
    DeviceState.FREE: ("over", "circle", "F", "F"),
    DeviceState.TAINTED: ("over", "ban", "T", "T"),
    DeviceState.UNHEALTHY: ("bad", "alert-triangle", "!", "X"),
    DeviceState.INCOMPLETE: ("wait", "progress-down", "P", "N"),
    DeviceState.NOT_READY: ("wait", "server-off", "N", "N"),
    DeviceState.BLOCKED: ("over", "layers-intersect", "B", "N"),
}


class DeviceStateStyle:
    """How a state is drawn, by name for templates."""

    def __init__(self, state: str) -> None:
        self.state = DeviceState(state)
        self.family, self.icon, self.letter, self.cell = LOOK[state]

    @property
    def label(self) -> str:
        return str(self.state.label)


LOOKS: dict[str, DeviceStateStyle] = {state.value: DeviceStateStyle(state.value) for state in DeviceState}


@dataclass(frozen=True, slots=True)
class Holder:
    """A claim that holds a device, in words for one reader; `url` is its page, if there is one."""

    text: str
    url: str = ""
    masked: bool = False
