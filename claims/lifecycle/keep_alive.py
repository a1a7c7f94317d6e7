"""
Claims that a program keeps alive, such as a block of the Python client (decision 42).

The program renews such a claim from time to time. After two thirds of `Claim.keep_alive` without a renewal
the owner is notified; at `ends_unless_renewed_at` the claim is released, or the request withdrawn. Nothing
ends without that notice, and between both lies at least a third of the time: after an outage of the portal
programs find time to renew. Only time in which they could renew counts: while no web process lives, each
claim is as if it had been renewed.
"""

from datetime import datetime, timedelta

from django.db.models import F, Q, QuerySet
from django.db.models.functions import Greatest, Now

from claims.access import lock_owned_claim, reason_not_to_release
from claims.models import Claim
from claims.notices import notify_of
from claims.states import RENEWABLE
from claims.webhook_events import tell_of_end
from core.errors import Conflict, Forbidden
from core.times import duration as in_words
from core.times import utc_moment
from core.transactions import service
from notify.models import NoticeKind
from notify.services import resolve
from teams.access import require_role
from teams.models import Role, User

NOT_KEPT_ALIVE = {"keep_alive": None, "ends_unless_renewed_at": None, "silence_noticed_at": None}


def renew(*, claim: Claim, by: User) -> Claim:
    """
    Say that the program of a claim is alive, in one UPDATE. A claim without such a program stays as it is.

    Raises Http404, PermissionDenied, Forbidden, and Conflict for a claim that has ended.
    """
    role = require_role(by, claim.team, at_least=Role.MEMBER)
    if reason := reason_not_to_release(by, claim, role):
        raise Forbidden(reason)
    alive = Claim.objects.filter(pk=claim.pk, state__in=RENEWABLE).exclude(keep_alive=None)
    end = Now() + F("keep_alive")
    if not alive.filter(silence_noticed_at=None).update(ends_unless_renewed_at=end) and alive.update(
        ends_unless_renewed_at=end, silence_noticed_at=None
    ):
        resolve(f"silent:{claim.pk}")
    claim.refresh_from_db(fields=["state", "keep_alive", "ends_unless_renewed_at"])
    if claim.state not in RENEWABLE:
        last = claim.history.last()
        why = last.reason if last else ""
        raise Conflict(f"{claim} has ended: it is “{claim.get_state_display()}”. {why}".strip())
    return claim


@service
def keep(*, claim: Claim, by: User) -> Claim:
    """
    Let a claim live until its own end, whether or not its program is alive. Repeating it changes nothing.

    Raises Http404, PermissionDenied, Forbidden, and Conflict for a claim that has ended.
    """
    claim = lock_owned_claim(claim, by)
    if claim.keep_alive is None:
        return claim
    if claim.state not in RENEWABLE:
        raise Conflict(f"{claim} is “{claim.get_state_display()}”; there is nothing left to keep.")
    claim.remark(
        "Kept: its program need not renew it any more.", by=by, action="claim.kept", **NOT_KEPT_ALIVE
    )
    resolve(f"silent:{claim.pk}")
    return claim


def excuse_silence(now: datetime) -> None:
    """Take all these claims for renewed now, since no web process takes renewals."""
    kept = Claim.objects.filter(state__in=RENEWABLE).exclude(keep_alive=None)
    noticed = kept.exclude(silence_noticed_at=None).values_list("pk", flat=True)
    resolve(*(f"silent:{pk}" for pk in noticed))
    kept.update(ends_unless_renewed_at=now + F("keep_alive"), silence_noticed_at=None)


def silent_claims(now: datetime) -> QuerySet[Claim]:
    """Return the claims whose program has been silent for two thirds of its time or longer."""
    kept = Claim.objects.filter(state__in=RENEWABLE).exclude(ends_unless_renewed_at=None)
    return kept.filter(ends_unless_renewed_at__lte=now + F("keep_alive") / 3).filter(
        Q(silence_noticed_at=None) | Q(ends_unless_renewed_at__lte=now)
    )


def notice_silence(claim: Claim, now: datetime) -> bool:
    """Notify the owner that the claim ends unless it is renewed. Call it while the row is locked."""
    why = silence(claim, now)  # before its end moves
    Claim.objects.filter(pk=claim.pk).update(
        silence_noticed_at=now,
        ends_unless_renewed_at=Greatest("ends_unless_renewed_at", now + F("keep_alive") / 3),
    )
    claim.refresh_from_db(fields=["ends_unless_renewed_at"])
    end = claim.ends_unless_renewed_at or now
    notify_of(
        claim,
        kind=NoticeKind.END,
        key=f"silent:{claim.pk}:{now.isoformat()}",
        title=f"{claim} ends on {utc_moment(end)} unless its program renews it",
        body=f"{why} To keep it without the program, open its page and choose “Keep it”.",
        important=True,
    )
    tell_of_end(claim)
    return False


def silence(claim: Claim, now: datetime) -> str:
    """Return for how long nobody has renewed the claim, as a sentence."""
    end, wait = claim.ends_unless_renewed_at, claim.keep_alive
    silent = now - end + wait if end and wait else timedelta(0)
    return f"The program that requested it has not renewed it for {in_words(silent)}."
