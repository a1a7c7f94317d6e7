"""
Which notices a person wants, by kind and channel: behind the bell, and by email.

`channels` is the only reader: `notify.services.notify` asks it for every notice. Of kinds in `REQUIRED`
nothing can be switched off.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from uuid import UUID

from core.transactions import service
from notify.models import Mail, NoticeKind, NoticePreference
from teams.models import User


@dataclass(frozen=True, slots=True)
class Preference:
    """What a person wants of one kind of notice."""

    in_portal: bool = True
    mail: Mail = Mail.IMPORTANT

    def wants_mail(self, *, important: bool) -> bool:
        return self.mail == Mail.ALL or (self.mail == Mail.IMPORTANT and important)


DEFAULT, ALWAYS = Preference(), Preference(mail=Mail.ALL)
REQUIRED: Mapping[NoticeKind, str] = {
    NoticeKind.PODS: "Always on: work is lost if nobody reacts in time.",
}
ABOUT: Mapping[NoticeKind, str] = {
    NoticeKind.DECIDE: "Requests, extensions and quota requests that you decide; delegations to you.",
    NoticeKind.DECISION: "Approved, denied or changed, or expired because nobody decided.",
    NoticeKind.COMMENT: "On your requests, and answers to your questions.",
    NoticeKind.END: "7 days, 1 day and 1 hour before the end, and at the end.",
    NoticeKind.UNUSED: "No pod uses a claim, or its devices are idle.",
    NoticeKind.PODS: "Evictions, pods that Kubernetes stopped, and pods that hold devices of an ended claim.",
    NoticeKind.CHANGE: "Somebody transferred or shortened a claim, or changed its object or pod.",
    NoticeKind.QUOTA: "Temporary increases that end; a budget that is used by 50, 80 or 100 %.",
    NoticeKind.ALERT: "Claims that wait for devices, tainted devices, quotas and budgets that run out.",
    NoticeKind.TOKEN: "7 days and 1 day before a token expires, yours or of a service account that you lead.",
    NoticeKind.PLATFORM: "Credentials that expire, quotas changed in a cluster, a changed audit log.",
}
FOR_ADMINS = frozenset((NoticeKind.PLATFORM,))


def kinds_for(user: User) -> list[NoticeKind]:
    """Return the kinds of notice that the user may get, in the order in which they are shown."""
    return [kind for kind in NoticeKind if user.is_superuser or kind not in FOR_ADMINS]


def preferences_of(user: User) -> dict[NoticeKind, Preference]:
    """Return what the user wants of each kind; one query."""
    stored = {row.kind: row for row in NoticePreference.objects.filter(user=user)}
    return {kind: _preference(kind, stored.get(kind)) for kind in kinds_for(user)}


def channels(people: Collection[User], kind: NoticeKind) -> dict[UUID, Preference]:
    """Return what each of the people wants of a kind; at most one query."""
    if kind in REQUIRED or not people:
        return {person.pk: ALWAYS for person in people}
    stored = {row.user_id: row for row in NoticePreference.objects.filter(user__in=people, kind=kind)}
    return {person.pk: _preference(kind, stored.get(person.pk)) for person in people}


@service
def store_preferences(*, by: User, preferences: Mapping[NoticeKind, Preference]) -> None:
    """Store what the user wants of these kinds; required kinds stay as they are. Repeating it is harmless."""
    rows = [
        NoticePreference(user=by, kind=kind, in_portal=wanted.in_portal, mail=wanted.mail)
        for kind, wanted in preferences.items()
        if kind not in REQUIRED
    ]
    NoticePreference.objects.bulk_create(
        rows, update_conflicts=True, unique_fields=["user", "kind"], update_fields=["in_portal", "mail"]
    )


def _preference(kind: NoticeKind, row: NoticePreference | None) -> Preference:
    if kind in REQUIRED:
        return ALWAYS
    return DEFAULT if row is None else Preference(row.in_portal, Mail(row.mail))
