"""How long to wait before the next try, so that workers do not all return to a sick cluster at once."""

import random


def delay(attempt: int, *, first: float = 0.5, longest: float = 60.0) -> float:
    """
    Return the seconds to wait before try number `attempt` (0 is the first one after a failure).

    Doubles each time up to `longest`; drawn evenly from the upper half, so that no wait is ever near zero.
    """
    ceiling = min(longest, first * 2.0 ** min(attempt, 32))
    return random.uniform(ceiling / 2, ceiling)  # noqa: S311, no secret depends on it
