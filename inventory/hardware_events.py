"""
Errors of the hardware in words: XID codes of NVIDIA's driver and errors of memory, for device and claim
pages.

The meanings summarize NVIDIA's catalogue of XID errors (https://docs.nvidia.com/deploy/xid-errors/). A code
that is usually the fault of a program says so; every other one, and one that is not in the table, is for an
admin.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from core.text import counted
from inventory.models import Device, HardwareEvent

CATALOGUE = "https://docs.nvidia.com/deploy/xid-errors/"
KEEP = timedelta(days=400)
MAX_LINES = 20


class Cause(StrEnum):
    PROGRAM = "program"
    DEVICE = "device"


NEXT = {
    Cause.PROGRAM: "Check the program first; the device is usable.",
    Cause.DEVICE: "Tell a platform admin: the device may need a reset or a repair.",
}
XIDS: dict[int, tuple[str, Cause]] = {
    13: (
        "Graphics engine exception: an access outside of an array, or an illegal instruction",
        Cause.PROGRAM,
    ),
    31: ("GPU memory page fault: the program accessed an illegal address", Cause.PROGRAM),
    32: ("Invalid or corrupted push buffer stream", Cause.DEVICE),
    38: ("Driver firmware error", Cause.DEVICE),
    43: ("GPU stopped processing: a fault of the program ended its context", Cause.PROGRAM),
    45: ("Preemptive cleanup: the program was stopped or another error ended it", Cause.PROGRAM),
    48: ("Double-bit ECC error: memory could not be corrected", Cause.DEVICE),
    61: ("Breakpoint or warning of the internal micro-controller", Cause.DEVICE),
    62: ("The internal micro-controller stopped", Cause.DEVICE),
    63: ("A row of memory is remapped, or a page retired, at the next reset", Cause.DEVICE),
    64: ("A row of memory could not be remapped, or a page not retired", Cause.DEVICE),
    68: ("NVDEC exception of the video decoder", Cause.PROGRAM),
    69: ("Graphics engine class error", Cause.PROGRAM),
    74: ("NVLink error", Cause.DEVICE),
    79: ("The GPU has fallen off the bus", Cause.DEVICE),
    92: ("High rate of single-bit ECC errors", Cause.DEVICE),
    94: ("Contained memory error: only the program that met it ended", Cause.DEVICE),
    95: ("Uncontained memory error: all programs on the GPU ended", Cause.DEVICE),
    109: ("Context switch timeout", Cause.PROGRAM),
    119: ("The GPU system processor (GSP) did not answer", Cause.DEVICE),
    120: ("Error of the GPU system processor (GSP)", Cause.DEVICE),
    121: ("Error of the link between GPU and CPU (C2C)", Cause.DEVICE),
    140: ("ECC error without recovery", Cause.DEVICE),
    143: ("The GPU could not be initialized", Cause.DEVICE),
    **dict.fromkeys(range(144, 151), ("NVLink error of a Blackwell GPU", Cause.DEVICE)),
    154: ("The GPU needs a recovery action", Cause.DEVICE),
}


@dataclass(frozen=True, slots=True)
class HardwareError:
    """One event in words: what it is, what it means and the next step; `url` explains an XID."""

    at: datetime
    device: str
    title: str
    meaning: str
    next_step: str
    url: str = ""


def in_words(event: HardwareEvent) -> HardwareError:
    if event.kind == HardwareEvent.Kind.XID:
        meaning, cause = XIDS.get(event.code or 0, ("See NVIDIA's catalogue", Cause.DEVICE))
        return HardwareError(event.at, event.device, f"XID {event.code}", meaning, NEXT[cause], CATALOGUE)
    title, meaning = {
        HardwareEvent.Kind.ECC: (
            counted(event.count, "uncorrected ECC error"),
            "Memory could not be corrected; results since then may be wrong",
        ),
        HardwareEvent.Kind.REMAPPED: (
            f"{counted(event.count, 'row')} of memory remapped",
            "Spare memory replaced a row with uncorrectable errors",
        ),
        HardwareEvent.Kind.REMAP_FAILED: (
            "Row of memory not remapped",
            "No spare memory is left for a row with errors",
        ),
    }[HardwareEvent.Kind(event.kind)]
    return HardwareError(event.at, event.device, title, meaning, NEXT[Cause.DEVICE])


def errors_of(events: Iterable[HardwareEvent]) -> list[HardwareError]:
    return [in_words(event) for event in events]


def device_errors(device: Device) -> list[HardwareError]:
    """Return the last errors of a device, newest first; one query."""
    events = HardwareEvent.objects.filter(
        cluster=device.cluster_id, driver=device.driver, pool=device.pool, device=device.name
    )
    return errors_of(events[:MAX_LINES])


def prune_events(now: datetime) -> int:
    """Delete events older than `KEEP`; return their number."""
    return HardwareEvent.objects.filter(at__lt=now - KEEP).delete()[0]
