"""Random choices that a seed repeats."""

import random
from collections.abc import Mapping, Sequence


class Dice(random.Random):
    def chance(self, share: float) -> bool:
        return self.random() < share

    def weighted[T](self, weights: Mapping[T, float]) -> T:
        return self.choices(list(weights), list(weights.values()))[0]

    def some[T](self, things: Sequence[T], least: int = 0) -> list[T]:
        """Return some of the things, in random order."""
        return self.sample(things, self.randint(min(least, len(things)), len(things)))
