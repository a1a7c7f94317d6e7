"""
What is told before something ends by the clock: each once, however often or late it is looked.

A claim is announced 7 days, 1 day and 1 hour before its end, where that is at most half of its time. Who has
missed one hears only the latest.
"""

from collections.abc import Iterable
from datetime import datetime, timedelta

from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from claims.approval import approvals
from claims.life.extensions import Terms, reason_not_to_extend, started
from claims.manifests import kind_of
from claims.models import Claim
from claims.observed.sightings import look
from claims.states import RUNNING, ClaimState
from core.templatetags.ui import moment_with_zone
from core.times import duration as in_words
from teams.models import Notice
from teams.notices import tell

BEFORE = (timedelta(hours=1), timedelta(days=1), timedelta(days=7))
UNDECIDED = timedelta(days=1)
RELATED = ("team", "cluster", "requested_by", "profile_version__profile")


def remind(now: datetime) -> None:
    """Tell of the ends that have come near; two queries where nothing is to be told."""
    near = Claim.objects.filter(state__in=RUNNING, expires_at__gt=now, expires_at__lte=now + max(BEFORE))
    due = {key: claim for claim in near.select_related(*RELATED) if (key := _due(claim, now))}
    told = _told(due)
    fresh = {key: claim for key, claim in due.items() if (key, claim.requested_by_id) not in told}
    seen = look(list(fresh.values())) if fresh else {}
    for key, claim in fresh.items():
        _tell_of_end(claim, key, [pod.name for pod in seen[claim.pk].users])
    undecided = Claim.objects.filter(
        state=ClaimState.REQUESTED, decide_by__gt=now, decide_by__lte=now + UNDECIDED
    )
    waiting = {f"undecided:{claim.pk}": claim for claim in undecided.select_related(*RELATED)}
    told = _told(waiting)
    for key, claim in waiting.items():
        if (key, claim.requested_by_id) not in told:
            _tell_of_wait(claim, key)


def _due(claim: Claim, now: datetime) -> str:
    """Return the key of the announcement that is due now, "" if none is."""
    if claim.expires_at is None:
        return ""
    whole, left = claim.expires_at - started(claim), claim.expires_at - now
    before = next((span for span in BEFORE if left <= span), None)
    if before is None or before * 2 > whole:
        return ""
    return f"ends:{claim.pk}:{claim.expires_at.isoformat()}:{before.total_seconds():.0f}"


def _told(keys: Iterable[str]) -> set[tuple[str, object]]:
    return set(Notice.objects.filter(key__in=list(keys)).values_list("key", "user"))


def _tell_of_end(claim: Claim, key: str, pods: list[str]) -> None:
    end = claim.expires_at
    if end is None:
        return
    values = {
        "claim": claim,
        "kind": kind_of(claim.delivery).kind,
        "cluster": claim.cluster,
        "pods": ", ".join(sorted(pods)),
    }
    said = [_("the portal deletes the %(kind)s %(claim)s in %(cluster)s.") % values]
    if pods:
        said.append(
            ngettext(
                "The pod %(pods)s keeps its devices until it ends.",
                "The pods %(pods)s keep their devices until they end.",
                len(pods),
            )
            % values
        )
    else:
        said.append(_("No pod uses it now."))
    said.append(reason_not_to_extend(claim) or _how_to_extend(claim))
    tell(
        [claim.requested_by],
        key=key,
        title=lambda: _("%(claim)s ends on %(end)s") % {"claim": claim, "end": moment_with_zone(end)},
        body=lambda: " ".join([_when(end, claim.profile_version.grace), *said]),
        url=reverse("claims:extend", args=[claim.pk]),
        important=True,
    )


def _when(end: datetime, grace: timedelta) -> str:
    """Return the beginning of "On … the portal deletes …"."""
    if not grace:
        return _("On %(end)s") % {"end": moment_with_zone(end)}
    said = _("On %(end)s its time is over; after a grace of %(grace)s, on %(deleted)s,")
    deleted = moment_with_zone(end + grace)
    return said % {"end": moment_with_zone(end), "grace": in_words(grace), "deleted": deleted}


def _how_to_extend(claim: Claim) -> str:
    terms = Terms(claim, by=claim.requested_by)
    end, free = claim.expires_at, terms.at_a_time
    if free and end is not None and terms.way(end + free).at_once:
        return _("You may extend it by up to %(span)s without approval.") % {"span": in_words(free)}
    return _("To keep it longer, ask for an extension.")


def _tell_of_wait(claim: Claim, key: str) -> None:
    """Tell who asked and those who decide that the request is about to expire."""
    end = claim.decide_by
    if end is None:
        return
    deciders = approvals.deciders_on(claim)
    values = {
        "claim": claim,
        "person": claim.requested_by.label,
        "names": approvals.names_of(deciders) or _("a platform admin"),
    }
    tell(
        [claim.requested_by],
        key=key,
        title=lambda: (
            _("%(claim)s expires undecided on %(when)s") % {"claim": claim, "when": moment_with_zone(end)}
        ),
        body=_("Nobody has decided on it yet; ask %(names)s.") % values,
        url=reverse("claims:detail", args=[claim.pk]),
        important=True,
    )
    tell(
        deciders,
        key=key,
        title=lambda: (
            _("%(claim)s expires on %(when)s if nobody decides")
            % {"claim": claim, "when": moment_with_zone(end)}
        ),
        body=_("%(person)s waits for your decision.") % values,
        url=reverse("claims:approval", args=[claim.pk]),
        important=True,
    )
