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
    CORDONED = "cordoned", "Cordoned"
    BLOCKED = "blocked", "Blocked by another partition"


class EndPolicy(models.TextChoices):
    """What happens to pods that still hold devices when their claim ends; the default of a cluster."""

    RUN = "run", "pods keep running"
    ASK = "ask", "ask before eviction"
    EVICT = "evict", "evict pods"


class DeviceUse(models.TextChoices):
    """What telemetry says of a held device, where that is not simply "in use"."""

    IDLE = "idle", "Idle"
    NO_TELEMETRY = "no-telemetry", "No telemetry"


# state or use → (colour family, icon, letter in a cell of the map, shape of that cell)
LOOK: dict[str, tuple[str, str, str, str]] = {
    DeviceState.IN_USE: ("held", "cpu", "U", "U"),
    DeviceUse.IDLE: ("wait", "zzz", "I", "I"),
    DeviceUse.NO_TELEMETRY: ("over", "help", "?", "Q"),
    DeviceState.FREE: ("over", "circle", "F", "F"),
    DeviceState.TAINTED: ("over", "ban", "T", "T"),
    DeviceState.UNHEALTHY: ("bad", "alert-triangle", "!", "X"),
    DeviceState.INCOMPLETE: ("wait", "progress-down", "P", "N"),
    DeviceState.NOT_READY: ("wait", "server-off", "N", "N"),
    DeviceState.CORDONED: ("wait", "tool", "C", "N"),
    DeviceState.BLOCKED: ("over", "layers-intersect", "B", "N"),
}


class DeviceStateStyle:
    """How a state, or a use of a held device, is drawn; by name for templates."""

    def __init__(self, state: DeviceState | DeviceUse) -> None:
        self.state, self.label = state.value, str(state.label)
        self.family, self.icon, self.letter, self.cell = LOOK[state]


STATES_AND_USES = (*DeviceState, *DeviceUse)
# In the order of LOOK, in which the figures of the fleet stand.
LOOKS: dict[str, DeviceStateStyle] = {
    state.value: DeviceStateStyle(state) for state in sorted(STATES_AND_USES, key=list(LOOK).index)
}


@dataclass(frozen=True, slots=True)
class Holder:
    """A claim that holds a device, in words for one reader; `url` is its page, if there is one."""

    text: str
    url: str = ""
    masked: bool = False
