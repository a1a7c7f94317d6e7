"""
What a message of Kubernetes means, and who can do what about it.

The tables are data, tried in order: `claims.explain.scheduling` and `claims.explain.events`. What no sign
matches is shown as it came.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from django.utils.functional import Promise

type Actor = Literal["you", "admin", "cluster"]


@dataclass(frozen=True, slots=True)
class Meaning:
    """`means` and `then` may name groups of `sign`, as "%(name)s"; `actor` is who can do what `then` says."""

    sign: re.Pattern[str]
    means: Promise
    actor: Actor
    then: Promise


@dataclass(frozen=True, slots=True)
class Told:
    """
    One thing that Kubernetes said: `text` in its words, `means` in plain ones, `then` what can be done.

    `means`, `actor` and `then` are "" where the words are not known. `count` is of how many nodes it was
    said, None if of none in particular.
    """

    text: str
    means: str = ""
    actor: Actor | Literal[""] = ""
    then: str = ""
    count: int | None = None


def tell(text: str, meanings: Sequence[Meaning], *, count: int | None = None) -> Told:
    """Look a message up."""
    for meaning in meanings:
        if found := meaning.sign.search(text):
            named = found.groupdict(default="")
            means, then = (str(said) % named for said in (meaning.means, meaning.then))
            return Told(text, means, meaning.actor, then, count)
    return Told(text, count=count)


def means(sign: str, words: Promise, actor: Actor, then: Promise) -> Meaning:
    return Meaning(re.compile(sign), words, actor, then)
