"""
The devices of each node as ranges of the device index, for questions about all nodes at once.

A loop over five thousand nodes takes longer than the question about one of them. So a column with a value per
device is read node by node in one call, and devices are counted on all nodes by adding up masks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import zip_longest
from operator import itemgetter

from dra.nodes import name_of
from dra.objects import Json
from dra.selector_results import DeviceMask, pack, unpack

MAX_RUN = 64  # devices of a node; where one has more, they are counted in slices


@dataclass(frozen=True)
class NodeRuns:
    """Nodes, and the ascending index ranges of the devices that each of them reaches, of `length` devices."""

    nodes: Sequence[tuple[Json, Sequence[range]]]
    length: int

    @cached_property
    def names(self) -> list[str]:
        return [name_of(node) for node, _ in self.nodes]

    def rows(self, columns: Sequence[tuple[bytes, int]]) -> list[tuple[bytes, ...]]:
        """Return per node what the columns say of its devices; each column has its width per device."""
        parts = [
            map(column.__getitem__, ranges) for column, width in columns for ranges in self._slices(width)
        ]
        return list(zip(*parts, strict=True)) if parts else [()] * len(self.nodes)

    def _slices(self, width: int) -> list[list[slice]]:
        """Return the first ranges of all nodes, then the second ones and so on; a node may have none."""
        if width not in self._slices_by_width:
            bounds = [[(run.start * width, run.stop * width) for run in runs] for _, runs in self.nodes]
            self._slices_by_width[width] = [
                [slice(start, stop) for start, stop in column]
                for column in zip_longest(*bounds, fillvalue=(0, 0))
            ]
        return self._slices_by_width[width]

    @cached_property
    def _slices_by_width(self) -> dict[int, list[list[slice]]]:
        return {}

    def counts(self, mask: DeviceMask) -> Sequence[int]:
        """Return the number of devices in the mask per node."""
        if self._longer is None or self._numbers is None:
            rows = self.rows([(unpack(mask, self.length), 1)])
            number_by_row = {row: sum(part.count(1) for part in row) for row in set(rows)}
            return [number_by_row[row] for row in rows]
        total = 0
        for distance, starts in enumerate(self._longer):
            total += mask >> 8 * distance & starts
        return bytes(self._numbers(unpack(total, self.length) + b"\x00"))

    @cached_property
    def _longer(self) -> list[DeviceMask] | None:
        """
        Per distance, the first devices of the ranges that are longer than it.

        The sum of the masks, each moved by its distance, is then a number per range, at its first device.
        """
        merged = [_merged(runs) for _, runs in self.nodes]
        longest = max((len(run) for runs in merged for run in runs), default=0)
        if longest > MAX_RUN or any(len(runs) > 1 for runs in merged):
            return None
        masks = []
        for distance in range(longest):
            flags = bytearray(self.length)
            for runs in merged:
                if runs and len(runs[0]) > distance:
                    flags[runs[0].start] = 1
            masks.append(pack(flags))
        return masks

    @cached_property
    def _numbers(self) -> Callable[[bytes], Iterable[int]] | None:
        """Reads the number of each node; that of a node without devices is a zero at the end."""
        starts = [runs[0].start if runs else self.length for _, runs in self.nodes]
        return itemgetter(*starts) if len(starts) > 1 else None  # of one index, it returns no tuple


def _merged(runs: Sequence[range]) -> list[range]:
    """Return the ranges with adjacent ones joined."""
    merged: list[range] = []
    for run in runs:
        if merged and merged[-1].stop == run.start:
            merged[-1] = range(merged[-1].start, run.stop)
        else:
            merged.append(run)
    return merged
