"""
For which price bases the expressions of rates hold: evaluated once for each pair, and stored.

Pages read the stored rows. What they say of a rate that applies never changes, whatever becomes of its
devices, because neither the rate nor a basis does.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from contextlib import suppress
from uuid import UUID

from django.db import connection, transaction

from core.errors import Invalid
from dra.cel import CelError
from dra.price_condition import PriceCondition, compile_condition
from dra.price_facts import PriceFacts
from inventory.models import Cluster, PriceBasis
from usage.models import Rate, RateMatch

PLACE = re.compile(r"ERROR: <input>:(\d+):(\d+): (.+)")  # of the API server's messages
LOCK = 0x52617465  # of PostgreSQL, the same in all processes


def require_expression(text: str) -> None:
    """Raise Invalid, with the place of the mistake, for an expression that is no condition of a rate."""
    try:
        compile_condition(text)
    except CelError as error:
        places = PLACE.findall(error.message)
        problems = [f"line {line}, column {column}: {text}" for line, column, text in places]
        raise Invalid(f"The expression is refused: {'; '.join(problems) or error.message}.") from error


@transaction.atomic
def match_rate(rate: Rate) -> None:
    """Store where the expression of a new or changed rate holds."""
    lock_matches()
    RateMatch.objects.filter(rate=rate).delete()
    if rate.expression:
        _store([rate], PriceBasis.objects.all())


@transaction.atomic
def match_bases(bases: Collection[UUID]) -> None:
    """Store which expressions hold for new price bases."""
    lock_matches()
    _store(Rate.objects.exclude(expression=""), PriceBasis.objects.filter(pk__in=bases))


def lock_matches() -> None:
    """
    Hold up other matches until the transaction ends: a rate and a basis that are added at the same time would
    miss each other. It is taken before the row of `StoredDays`, as an allocation with a new basis does.
    """
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_xact_lock(%s)", [LOCK])


def _store(rates: Iterable[Rate], bases: Iterable[PriceBasis]) -> None:
    conditions = {rate.pk: compile_condition(rate.expression) for rate in rates}
    if not conditions:
        return
    names = dict(Cluster.objects.values_list("pk", "name"))
    facts = {row.pk: row.facts(names[row.cluster_id]) for row in bases}
    RateMatch.objects.bulk_create(
        (
            RateMatch(rate_id=rate, basis_id=basis)
            for rate, condition in conditions.items()
            for basis, of_basis in facts.items()
            if holds(condition, of_basis)
        ),
        2000,
        ignore_conflicts=True,
    )


def holds(condition: PriceCondition, facts: PriceFacts) -> bool:
    """Return whether a condition holds; one that fails, as for a label that the node lacks, does not."""
    with suppress(CelError):
        return condition.holds(facts)
    return False
