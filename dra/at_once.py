"""
How many devices can be held at once where some exclude others, as the partitions of one GPU do (KEP 4815).

Each takes of counters that the partitions of a GPU share, so more of them are published than can be held.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache

from dra.pools import Amounts, CounterKey

STEPS = 20_000  # ways to place partitions that are tried; seven places of MIG have 128

type Take = tuple[tuple[int, int], ...]  # (number of a counter, billionths of it)


def most_at_once(takes: Sequence[Amounts], counters: Mapping[CounterKey, int]) -> int:
    """
    Return how many devices of a pool fit beside each other into counters of so many billionths.

    `takes` says what each takes of them: one that takes nothing always fits, one that takes of a counter that
    is not there never does. Where more than `STEPS` ways would have to be tried, it is the best of those.
    """
    free = sum(not amounts for amounts in takes)
    return free + sum(_most(*_shape(board, counters)) for board in _boards(filter(None, takes)))


def _boards(takes: Iterable[Amounts]) -> list[list[Amounts]]:
    """Put together what takes of the same counter sets, which is one GPU as a rule."""
    boards: list[tuple[set[str], list[Amounts]]] = []
    for amounts in takes:
        sets, alike = {counter_set for (counter_set, _counter), _amount in amounts}, [amounts]
        for board in [board for board in boards if board[0] & sets]:
            boards.remove(board)
            sets |= board[0]
            alike = [*board[1], *alike]
        boards.append((sets, alike))
    return [alike for _sets, alike in boards]


def _shape(board: Sequence[Amounts], counters: Mapping[CounterKey, int]) -> tuple[tuple[Take, ...], Take]:
    """Number the counters of a GPU by their names, so that GPUs that are alike are worked out once."""
    keys = sorted({key for amounts in board for key, _amount in amounts})
    number = {key: place for place, key in enumerate(keys)}
    takes = [tuple(sorted((number[key], amount.nano) for key, amount in amounts)) for amounts in board]
    takes.sort(key=lambda take: (sum(amount for _counter, amount in take), take))  # small ones first
    return tuple(takes), tuple((number[key], counters.get(key, 0)) for key in keys)


@lru_cache(maxsize=1000)
def _most(takes: tuple[Take, ...], counters: Take) -> int:
    return _Packing(takes, dict(counters)).best


class _Packing:
    """The largest set of devices that counters allow, found by taking or leaving one after the other."""

    def __init__(self, takes: Sequence[Take], left: dict[int, int]) -> None:
        self.takes, self.left = takes, left
        self.best = self.steps = 0
        self._from(0, 0)

    def _from(self, at: int, taken: int) -> None:
        self.best = max(self.best, taken)
        self.steps += 1
        if taken + len(self.takes) - at <= self.best or self.steps > STEPS:
            return
        take = self.takes[at]
        if all(amount <= self.left[counter] for counter, amount in take):
            for counter, amount in take:
                self.left[counter] -= amount
            self._from(at + 1, taken + 1)
            for counter, amount in take:
                self.left[counter] += amount
        self._from(at + 1, taken)
