"""
Deciding on several wishes of any kind at once.

Each is decided by its own service in a transaction of its own: one that cannot be holds up no other, and
sending the same twice decides once.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from uuid import UUID

from django.core.exceptions import PermissionDenied
from django.db.models import TextChoices
from django.http import Http404
from django.utils.translation import gettext as _

from claims import services
from claims.approval.inbox import Inbox, Item, Kind
from claims.models import Answer, Claim, Extension, QuotaRequest
from claims.quota.asks import until_words
from claims.services.extend import approve_extension, deny_extension
from claims.states import ClaimState
from core.errors import Invalid, PortalError
from core.templatetags.ui import moment

type Wish = Claim | Extension | QuotaRequest

MOST = 50  # wishes at once: each is a transaction of its own while a person waits


class Decision(TextChoices):
    APPROVE = "approve"
    DENY = "deny"


@dataclass(frozen=True, slots=True)
class Chosen:
    """Wishes that somebody may know of, oldest first; `items` has each as the inbox shows it."""

    claims: Sequence[Claim] = ()
    extensions: Sequence[Extension] = ()
    quota_requests: Sequence[QuotaRequest] = ()
    items: dict[UUID, Item] = field(default_factory=dict)

    def __iter__(self) -> Iterator[Wish]:
        every: list[Wish] = [*self.claims, *self.extensions, *self.quota_requests]
        return iter(sorted(every, key=lambda one: (self.items[one.pk].asked_at, one.pk)))


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of one: `refusal` is the sentence of why not, and `code` its name; "" where it was done."""

    item: Item
    done: str
    refusal: str = ""
    code: str = ""


def chosen(inbox: Inbox, ids: Mapping[Kind, Collection[UUID]]) -> Chosen:
    """
    Return the wishes of these ids that the person may know of, in a fixed number of queries. Raise Invalid
    for more than can be decided at once.
    """
    count = sum(len(each) for each in ids.values())
    if count > MOST:
        raise Invalid(
            _("%(count)d are chosen; at most %(most)d can be decided at once.")
            % {"count": count, "most": MOST}
        )
    parts = ("charges", "alternatives__profile_version__profile", "steps__by", "comments__by")
    of_claim = [f"claim__{part}" for part in (*parts[:3], "successors")]
    claims = inbox.claims().filter(pk__in=ids.get("claim", ())).prefetch_related(*parts)
    extensions = inbox.extensions().filter(pk__in=ids.get("extension", ())).prefetch_related(*of_claim)
    requests = inbox.quota_requests().filter(pk__in=ids.get("quota", ()))
    found = Chosen(list(claims), list(extensions), list(requests))
    items = [inbox.of_claim(one) for one in found.claims]
    items += [inbox.of_extension(one, waits=one.answer == Answer.WAITING) for one in found.extensions]
    items += [inbox.of_quota_request(one, waits=one.answer == Answer.WAITING) for one in found.quota_requests]
    found.items.update({item.pk: item for item in items})
    return found


def decide(
    inbox: Inbox, wishes: Chosen, decision: Decision, *, note: str, seen: Mapping[UUID, str]
) -> list[Outcome]:
    """
    Decide on each by itself; `seen` has for each claim the hash of the spec that was read, without which it
    is not approved.
    """
    return [_one(inbox, wishes.items[wish.pk], wish, decision, note, seen) for wish in wishes]


def _one(
    inbox: Inbox,
    item: Item,
    wish: Wish,
    decision: Decision,
    note: str,
    seen: Mapping[UUID, str],
) -> Outcome:
    try:
        if isinstance(wish, Claim):
            return Outcome(item, _claim_decided(inbox, wish, decision, note, seen.get(wish.pk, "")))
        return Outcome(item, _ask_decided(inbox, wish, decision, note))
    except PortalError as refusal:
        return Outcome(item, "", refusal.message, refusal.code)
    except PermissionDenied as refusal:
        return Outcome(item, "", str(refusal), "forbidden")
    except Http404:
        return Outcome(item, "", _("It is not there any more."), "not-found")


def _claim_decided(inbox: Inbox, claim: Claim, decision: Decision, note: str, spec_hash: str) -> str:
    if decision == Decision.DENY:
        claim = services.deny(claim=claim, by=inbox.user, reason=note)
    else:
        claim = services.approve(claim=claim, by=inbox.user, spec_hash=spec_hash, note=note)
    if claim.state == ClaimState.REQUESTED:
        return _("You consented; a platform admin decides now.")
    return str(claim.get_state_display())


def _ask_decided(inbox: Inbox, wish: Extension | QuotaRequest, decision: Decision, note: str) -> str:
    denies, by = decision == Decision.DENY, inbox.user
    if isinstance(wish, Extension):
        if denies:
            deny_extension(extension=wish, by=by, reason=note)
            return _("Denied: it keeps its end.")
        extended = approve_extension(extension=wish, by=by, note=note)
        return _("Approved: it ends on %(until)s.") % {"until": moment(extended.until)}
    if denies:
        services.deny_quota_request(quota_request=wish, by=by, reason=note)
        return _("Denied: the quota stays as it is.")
    asked = services.approve_quota_request(quota_request=wish, by=by, note=note)
    return _("Approved: a limit of %(n)d, %(until)s.") % {
        "n": asked.devices,
        "until": until_words(asked.until),
    }
