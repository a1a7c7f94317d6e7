"""
Several idle claims at once: snooze them, ask their owners, or release them, with a preview of each.

Each claim is changed by its own service in its own transaction, so a refusal for one does not stop the
others.
Repeating it changes nothing: a snooze is refused while one lasts, an owner is asked once a day.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from functools import partial

from django.db import models

from claims.access import reason_not_to_release
from claims.claim_list import bulk
from claims.claim_list.bulk import BulkPreview, BulkResult
from claims.models import Claim
from claims.states import MAY_HOLD_DEVICES
from core.times import duration as in_words
from core.times import moment
from notify.services import already_notified
from teams.models import User
from usage.idle import reminders, services
from usage.models import IdlePeriod, IdlePolicy
from usage.waste import Amounts, amounts_text


class WasteAction(models.TextChoices):
    SNOOZE = "snooze", "Snooze"
    ASK = "ask", "Ask the owner"
    RELEASE = "release", "Release"


@dataclass(frozen=True, slots=True)
class WastePreview:
    """What an action would do to each claim, and what those for which it is possible cost per hour."""

    rows: list[BulkPreview]
    per_hour: str

    @property
    def possible(self) -> list[BulkPreview]:
        return [row for row in self.rows if not row.obstacle]

    @property
    def devices(self) -> int:
        return sum(row.devices for row in self.possible)


def preview(user: User, claims: Sequence[Claim], action: WasteAction, *, now: datetime) -> WastePreview:
    """Return the preview; the number of queries does not depend on the number of claims."""
    found = {row.claim_id: row for row in IdlePeriod.objects.lasting().filter(claim__in=claims)}
    if action == WasteAction.RELEASE:
        rows = bulk.preview(user, claims, bulk.BulkRequest(bulk.BulkAction.RELEASE))
    elif action == WasteAction.ASK:
        asked = already_notified([reminders.key_of(claim, now) for claim in claims])
        keys = {key for key, _person in asked}
        rows = [_asking(user, claim, found.get(claim.pk), keys, now) for claim in claims]
    else:
        policy, roles = IdlePolicy.load(), bulk.team_roles(user, {claim.team for claim in claims})
        rows = [
            _snoozing(
                claim,
                found.get(claim.pk),
                reason_not_to_release(user, claim, roles.get(claim.team_id)),
                policy,
                now,
            )
            for claim in claims
        ]
    prices: Amounts = {}
    for row in rows:
        period = found.get(row.claim.pk)
        if period is not None and not row.obstacle and period.per_hour is not None:
            prices[period.currency] = prices.get(period.currency, Decimal(0)) + period.per_hour
    return WastePreview(sorted(rows, key=lambda row: bool(row.obstacle)), amounts_text(prices.items()))


NOT_IDLE = "It is not idle any more."


def _snoozing(
    claim: Claim, period: IdlePeriod | None, forbidden: str, policy: IdlePolicy, now: datetime
) -> BulkPreview:
    devices = period.devices if period else 0
    if period is None or forbidden:
        return BulkPreview(claim, "", forbidden or NOT_IDLE, devices)
    if reason := services.reason_not_to_snooze(period, policy, now):
        return BulkPreview(claim, "", f"{reason[:1].upper()}{reason[1:]}", devices)
    effect = (
        f"Snoozed for {in_words(policy.snooze_for)}, until {moment(now + policy.snooze_for)}: nobody else is "
        f"notified and nothing is released before. That is snooze {period.snoozes + 1} of {policy.snoozes}."
    )
    return BulkPreview(claim, effect, "", devices)


def _asking(
    user: User, claim: Claim, period: IdlePeriod | None, asked: set[str], now: datetime
) -> BulkPreview:
    devices, owner = period.devices if period else 0, claim.requested_by.label
    if forbidden := reminders.reason_not_to_remind(user, claim):
        return BulkPreview(claim, "", forbidden, devices)
    if claim.state not in MAY_HOLD_DEVICES:
        return BulkPreview(claim, "", "It holds no device any more.", devices)
    if reminders.key_of(claim, now) in asked:
        return BulkPreview(claim, "", f"{owner} was already asked today.", devices)
    return BulkPreview(
        claim,
        f"{owner} is notified that you ask whether it is still needed. It keeps its devices.",
        "",
        devices,
    )


def run(
    user: User, claims: Sequence[Claim], action: WasteAction, *, now: datetime, reason: str = ""
) -> list[BulkResult]:
    """Act on each claim and return what came of it; a refusal stops none of the others."""
    if action == WasteAction.RELEASE:
        return bulk.run(user, claims, bulk.BulkRequest(bulk.BulkAction.RELEASE, reason=reason))
    act = partial(_snooze if action == WasteAction.SNOOZE else _ask, by=user, now=now)
    return [bulk.result_of(claim, partial(act, claim)) for claim in claims]


def _snooze(claim: Claim, *, by: User, now: datetime) -> str:
    return f"Snoozed until {moment(services.snooze(claim=claim, by=by, now=now))}."


def _ask(claim: Claim, *, by: User, now: datetime) -> str:
    people = reminders.remind_owner(claim=claim, by=by, now=now)
    return f"{', '.join(person.label for person in people)} is notified."
