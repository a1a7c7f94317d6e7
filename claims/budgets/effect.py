"""What setting, changing or ending a budget does now, in sentences, before it is done."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from claims.budgets.use import compute, day_words, limit_words, run_out_sentence, use_sentence, utc_day
from claims.models import AtLimit, Budget, BudgetUse, Claim
from claims.states import RUNNING
from core.text import counted

AT_LIMIT = {
    AtLimit.NOTIFY: "At 100 %, its leads and platform admins are notified; nothing stops.",
    AtLimit.APPROVAL: (
        "A request or an extension that may cost more than is left needs the approval of a lead, whatever "
        "the rules approve by themselves. Running claims continue."
    ),
    AtLimit.RECLAIM: (
        "At 100 %, platform admins see its running claims first among those whose release would free "
        "devices for others. Nothing ends by itself."
    ),
    AtLimit.BLOCK: (
        "A request or an extension that may cost more than is left is refused. Running claims continue "
        "until they end."
    ),
}


def running_claims(budget: Budget) -> int:
    return Claim.objects.filter(team=budget.team_id, state__in=RUNNING).count()


def effect_of(budget: Budget, *, now: datetime) -> list[str]:
    """Return what these terms, saved or not, mean now; a fixed number of queries."""
    (use,) = compute([budget], now=now)
    running = counted(running_claims(budget), "running claim")
    sentences = [_period_sentence(budget, use, now=now)]
    if utc_day(now) >= use.first:
        sentences.append(f"{use_sentence(budget, use)} It has {running}.")
        sentences.append(run_out_sentence(use, now=now))
    sentences.append(AT_LIMIT[AtLimit(budget.at_limit)])
    if use.share >= 1:
        sentences.append(USED_UP_NOW[AtLimit(budget.at_limit)])
    if use.unpriced_hours and use.amount is not None:
        sentences.append(
            f"{use.unpriced_hours:,} GPU-hours of this period have no rate and are in no amount: add a "
            "rate, or limit GPU-hours."
        )
    return sentences


USED_UP_NOW = {
    AtLimit.NOTIFY: "It is used up already: leads and platform admins are notified within five minutes.",
    AtLimit.APPROVAL: (
        "It is used up already: every new request or extension needs approval as soon as you save."
    ),
    AtLimit.RECLAIM: "It is used up already: platform admins see its claims first as soon as you save.",
    AtLimit.BLOCK: "It is used up already: every new request or extension is refused as soon as you save.",
}


def _period_sentence(budget: Budget, use: BudgetUse, *, now: datetime) -> str:
    limit = limit_words(budget)
    if budget.is_monthly:
        if utc_day(now) < budget.first:
            return f"{budget.team} may use {limit} in each month from {day_words(budget.first)} on (UTC)."
        return f"{budget.team} may use {limit} in each month, this one included (UTC)."
    return f"{budget.team} may use {limit} from {day_words(use.first)} to {day_words(use.last)} (UTC)."


def effect_of_ending(budget: Budget, use: BudgetUse, *, now: datetime) -> Sequence[tuple[str, str]]:
    """Return what ending does, as icons and sentences."""
    running = running_claims(budget)
    continued = f"Its {counted(running, 'running claim')} continue{'s' if running == 1 else ''}."
    return [
        ("coin-euro", f"{use_sentence(budget, use)} {continued if running else 'None of its claims runs.'}"),
        (
            "circle-minus",
            "From now on the budget limits nothing: no notices, no approvals and no refusals because of it.",
        ),
        ("history", "Its history stays. A new budget can be set at any time."),
    ]
