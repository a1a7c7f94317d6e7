"""What deciding on several wishes would do: to each as things are now, and together in each quota."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from uuid import UUID

from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from claims.approval.approvals import Desk, stage_of
from claims.approval.inbox import Inbox, Item
from claims.approval.reserved import reserved_in
from claims.approval.several import Chosen, Wish
from claims.life.extensions import reason_not_to_extend
from claims.models import Approval, Claim, Extension, QuotaRequest
from claims.quota.asks import impact_of, until_words
from claims.quota.quotas import standing
from claims.states import RUNNING
from core.templatetags.ui import moment
from core.times import duration


@dataclass(frozen=True, slots=True)
class Line:
    """
    What deciding would do to one wish: `will` says what approving does, `warning` what speaks against it, and
    `reason_not` why this person may not decide at all.
    """

    item: Item
    wish: Wish
    will: tuple[str, ...] = ()
    warning: str = ""
    reason_not: str = ""


def preview(inbox: Inbox, wishes: Chosen) -> list[Line]:
    """Say what deciding would do to each, as things are now."""
    return [_line(inbox, wishes.items[wish.pk], wish) for wish in wishes]


def together(lines: Iterable[Line]) -> list[str]:
    """Say what the wishes that can be decided come to in each quota."""
    ready = [line.wish for line in lines if not line.reason_not]
    claims = [wish for wish in ready if isinstance(wish, Claim)]
    return [
        *_of_claims(claims),
        *_of_extensions([wish for wish in ready if isinstance(wish, Extension)]),
        *_of_quota_requests([wish for wish in ready if isinstance(wish, QuotaRequest)]),
    ]


def _line(inbox: Inbox, item: Item, wish: Wish) -> Line:
    if reason := _why_not(inbox, item, wish):
        return Line(item, wish, reason_not=reason)
    if isinstance(wish, Claim):
        return Line(item, wish, tuple(_will_claim(inbox.desk, wish)))
    if isinstance(wish, Extension):
        return _line_of_extension(item, wish)
    return _line_of_quota_request(item, wish)


def _why_not(inbox: Inbox, item: Item, wish: Wish) -> str:
    if item.answer:
        return _("Decided already: %(answer)s.") % {"answer": item.answer}
    if isinstance(wish, Claim):
        return inbox.desk.reason_not_to_decide(wish)
    if isinstance(wish, Extension):
        return inbox.desk.reason_not_to_decide(wish.claim, asked_by=wish.asked_by_id)
    return "" if inbox.user.is_superuser else _("Only a platform admin decides on quota.")


def _will_claim(desk: Desk, claim: Claim) -> Iterable[str]:
    ruling = desk.rules.on(claim)
    stage, consent = stage_of(claim, ruling)
    if ruling.approval == Approval.BOTH and stage == Approval.LEAD:
        yield _("You consent; then a platform admin decides.")
    elif consent is not None:
        yield _("Approved: a lead has consented.")
    for row in reserved_in(claim):
        yield row.sentence


def _line_of_extension(item: Item, wish: Extension) -> Line:
    claim = wish.claim
    end = claim.expires_at or wish.was
    values = {
        "until": moment(wish.until),
        "end": moment(end),
        "span": duration(wish.until - end),
        "whole": duration(wish.whole),
        "profile": claim.profile_version.profile,
        "longest": duration(claim.profile_version.max_duration),
    }
    will = _("Ends on %(until)s instead of %(end)s: %(span)s longer.") % values
    if claim.state not in RUNNING or wish.until <= timezone.now():
        return Line(item, wish, warning=_("It has ended; there is nothing left to extend."))
    if wish.until <= end:
        return Line(item, wish, warning=_("It ends on %(end)s anyway.") % values)
    warning = reason_not_to_extend(claim)
    if not warning and wish.is_beyond:
        warning = _("%(whole)s in all; %(profile)s allows %(longest)s.") % values
    return Line(item, wish, (will,), warning)


def _line_of_quota_request(item: Item, wish: QuotaRequest) -> Line:
    impact = impact_of(wish)
    values = {
        "label": impact.label,
        "before": impact.before,
        "after": impact.after,
        "until": until_words(wish.until),
    }
    will = _("Limit of %(label)s: %(before)d → %(after)d, %(until)s.") % values
    warning = ""
    if impact.more <= 0:
        warning = _("The team may have %(before)d already; there is nothing left to approve.") % values
    elif impact.overcommitted:
        warning = ngettext(
            "%(n)d device more is promised to all teams than there is.",
            "%(n)d devices more are promised to all teams than there are.",
            impact.overcommitted,
        ) % {"n": impact.overcommitted}
    return Line(item, wish, (will,), warning)


def _of_claims(claims: Sequence[Claim]) -> Iterable[str]:
    charged: dict[tuple[UUID, str], int] = {}
    for claim in claims:
        for row in claim.charges.all():
            key = (claim.team_id, row.device_class)
            charged[key] = charged.get(key, 0) + row.devices
    for each in standing({claim.team for claim in claims}) if claims else ():
        if count := charged.get((each.quota.team_id, each.quota.device_class), 0):
            values = {
                "team": each.team,
                "label": each.label,
                "count": count,
                "used": each.used,
                "limit": each.limit,
            }
            yield _("%(team)s: %(count)d of the %(used)d taken of %(limit)d %(label)s are these.") % values


def _of_extensions(extensions: Sequence[Extension]) -> Iterable[str]:
    kept: dict[tuple[str, str], tuple[int, float]] = {}
    for one in extensions:
        longer = max((one.until - (one.claim.expires_at or one.was)).total_seconds() / 3600, 0)
        for row in one.claim.charges.all():
            key = (one.claim.team.slug, row.device_class)
            devices, hours = kept.get(key, (0, 0.0))
            kept[key] = (devices + row.devices, hours + row.devices * longer)
    for (team, label), (devices, hours) in sorted(kept.items()):
        yield ngettext(
            "%(team)s: %(n)d device of %(label)s is kept longer, %(hours).0f device-hours in all.",
            "%(team)s: %(n)d devices of %(label)s are kept longer, %(hours).0f device-hours in all.",
            devices,
        ) % {"team": team, "label": label, "n": devices, "hours": hours}


def _of_quota_requests(requests: Sequence[QuotaRequest]) -> Iterable[str]:
    for one in requests:
        impact = impact_of(one)
        yield _("%(team)s: the limit of %(label)s goes from %(before)d to %(after)d.") % {
            "team": one.team,
            "label": impact.label,
            "before": impact.before,
            "after": impact.after,
        }
