"""
Ends by the clock: undecided requests, wishes for more time that nobody answered, and claims that have had
their time and their grace.
"""

from collections.abc import Callable
from datetime import datetime
from uuid import UUID

from django.db import transaction
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from claims.life.extensions import deleted_at, started
from claims.models import Answer, Claim, Extension
from claims.observed.sightings import look
from claims.states import RUNNING, ClaimState
from core.times import duration as in_words
from teams.access import people_in
from teams.models import Role
from teams.notices import tell

RELATED = ("team", "cluster", "requested_by", "profile_version__profile")


def end_overdue(now: datetime) -> list[UUID]:
    """
    Move everything overdue on; return the ids of the claims whose objects are now to be deleted.

    One that cannot be ended holds up no other; what was wrong is raised in the end.
    """
    failed: list[Exception] = []
    undecided = Claim.objects.filter(state=ClaimState.REQUESTED, decide_by__lte=now)
    for claim in undecided.select_related(*RELATED):
        _ended(claim, lambda claim: _expire(claim, now), failed)
    ended = []
    for claim in Claim.objects.filter(state__in=RUNNING, expires_at__lte=now).select_related(*RELATED):
        deleted = deleted_at(claim)
        if deleted is not None and deleted <= now and _ended(claim, _release, failed):
            ended.append(claim.pk)
    for extension in Extension.objects.filter(answer=Answer.WAITING).exclude(claim__state__in=RUNNING):
        extension.decide(Answer.EXPIRED, by=None, note=_("The claim has ended."))
    if failed:
        raise ExceptionGroup("Claims could not be ended", failed)
    return ended


def _ended(claim: Claim, move: Callable[[Claim], bool], failed: list[Exception]) -> bool:
    try:
        return _end(claim, move)
    except Exception as error:
        error.add_note(f"claim {claim.pk}")
        failed.append(error)
        return False


def _end(claim: Claim, move: Callable[[Claim], bool]) -> bool:
    """Move it and tell of it in one transaction; an end that was put off in between is left alone."""
    with transaction.atomic():
        locked = Claim.objects.select_for_update(no_key=True).filter(pk=claim.pk)
        same = locked.filter(state=claim.state, expires_at=claim.expires_at, decide_by=claim.decide_by)
        return same.first() is not None and move(claim)


def _expire(claim: Claim, now: datetime) -> bool:
    waited = {"span": in_words(now - claim.state_since), "claim": claim}
    if not claim.advance(ClaimState.EXPIRED, why=_("Nobody decided within %(span)s.") % waited):
        return False
    tell(
        [claim.requested_by],
        key=f"expired:{claim.pk}",
        title=_("%(claim)s expired undecided") % waited,
        body=_("Nobody decided within %(span)s; its quota is free again. You can ask again from its page.")
        % waited,
        url=reverse("claims:detail", args=[claim.pk]),
        important=True,
    )
    return True


def _release(claim: Claim) -> bool:
    end = claim.expires_at or claim.state_since
    why = _("Its time of %(span)s is over.") % {"span": in_words(end - started(claim))}
    if not claim.advance(ClaimState.RELEASING, why=why):
        return False
    pods = [pod.name for pod in look([claim])[claim.pk].users]
    people = [claim.requested_by]
    if pods:
        people += people_in(claim.team, at_least=Role.LEAD)
        body = ngettext(
            "The pod %(pods)s keeps its devices until it ends, and they are billed until then.",
            "The pods %(pods)s keep their devices until they end, and they are billed until then.",
            len(pods),
        ) % {"pods": ", ".join(sorted(pods))}
    else:
        body = _("No pod uses it; its devices are free again.")
    tell(
        people,
        key=f"ended:{claim.pk}:{end.isoformat()}",
        title=_("The time of %(claim)s is over") % {"claim": claim},
        body=f"{why} {body}",
        url=reverse("claims:detail", args=[claim.pk]),
        important=bool(pods),
    )
    return True
