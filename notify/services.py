"""Notify people. The caller names the event, so that notifying twice adds one notice."""

from collections.abc import Collection, Iterable, Iterator
from typing import Any
from uuid import UUID

from django.db.models import Q, QuerySet
from django.db.models.signals import post_delete
from django.dispatch import receiver
from django.urls import reverse
from django.utils import timezone

from core.limits import limiting_team
from core.transactions import after_commit, service
from notify import tasks
from notify.models import Notice, NoticeKind
from notify.preferences import channels
from teams.access import people_in, readers_among
from teams.identity.rules import access_lost
from teams.models import Membership, Role, Team, User
from teams.services import end_refused


def notify(
    people: Iterable[User],
    *,
    kind: NoticeKind,
    key: str,
    title: str,
    team_id: UUID | None = None,
    body: str = "",
    url: str = "",
    important: bool = False,
) -> None:
    """
    Add a notice for each active person, once per `key`, in the channels that the person chose for `kind`.

    A notice about something of a team is only for those who may see the team: a claim stays with it when its
    owner leaves.
    `url` is a path of the portal; `important` asks the reader to act. A title is cut at 200 characters.
    Moments in title and body are written by `core.times.utc_moment` and shown in the reader's zone.
    """
    active = list({person.pk: person for person in _readers_instead(people) if person.is_active}.values())
    readers = readers_among(active, team_id) if team_id else active
    text: dict[str, Any] = {"title": title[:200], "body": body, "url": url, "important": important}
    wanted = channels(readers, kind)
    rows = [
        Notice(
            **{"user": person, "team_id": team_id, "kind": kind, "key": key},
            in_portal=wanted[person.pk].in_portal,
            by_mail=wanted[person.pk].wants_mail(important=important),
            **text,
        )
        for person in readers
    ]
    if rows:
        Notice.objects.bulk_create(rows, ignore_conflicts=True)
    if any(row.by_mail for row in rows):
        after_commit(tasks.mail_notices)


@receiver(post_delete, sender=Membership, dispatch_uid="notify.former_member")
def delete_notices_of_former_member(*, instance: Membership, **_: Any) -> None:
    """They name claims and people that the reader may no longer know of."""
    notices = Notice.objects.filter(user=instance.user_id, team=instance.team_id)
    notices.exclude(user__is_superuser=True).delete()


@receiver(access_lost, dispatch_uid="notify.access_lost")
def delete_notices_of_lost_team(*, people: Collection[User], team: Team, **_: Any) -> None:
    """The same, of many at once: rows that groups remove send no signals of their own."""
    of_team = Notice.objects.filter(team=team, user__in=[person.pk for person in people])
    of_team.exclude(user__is_superuser=True).delete()


@receiver(end_refused, dispatch_uid="notify.end_refused")
def tell_of_refused_end(*, person: User, by: str, **_: Any) -> None:
    """Tell the other platform admins, once a day: who has left keeps the role until one of them acts."""
    others = User.objects.filter(is_superuser=True).exclude(pk=person.pk)
    notify(
        others,
        kind=NoticeKind.PLATFORM,
        key=f"end-refused:{person.pk}:{timezone.now():%Y-%m-%d}",
        title=f"{by} ends {person.label}, who keeps their account here",
        body=f"It may not end this account: {person.username} was made platform admin or break-glass account "
        "in the portal. If they have left, end that and deactivate the account.",
        url=reverse("setup:person", args=[person.pk]),
        important=True,
    )


def already_notified(keys: Collection[str]) -> set[tuple[str, UUID]]:
    """Return (key, person) of the notices that exist; at most one query. It spares calls of `notify`."""
    found = Notice.objects.filter(key__in=list(keys)).values_list("key", "user") if keys else ()
    return set(found)


def _readers_instead(people: Iterable[User]) -> Iterator[User]:
    """Yield the people, and for a service account the leads and owners of its team: it reads nothing."""
    for person in people:
        if person.service_of is None:
            yield person
        else:
            yield from people_in(person.service_of, at_least=Role.LEAD)


def resolve(*keys: str, person: User | None = None) -> None:
    """
    Mark the notices as read that asked for something that is done now: those with one of these keys, and
    those whose key goes on behind it and ":"; of one person, if only they need not act any more.
    """
    about = Q(key__in=keys)
    for key in keys:
        about |= Q(key__startswith=f"{key}:")
    _mark_resolved(about if person is None else about & Q(user=person))


def resolve_others(kind: str, keys: Iterable[str]) -> None:
    """The same for the notices whose keys begin with `kind`, except those that still ask: `keys`."""
    _mark_resolved(Q(key__startswith=kind) & ~Q(key__in=list(keys)))


def _mark_resolved(about: Q) -> None:
    Notice.objects.filter(about, important=True, read_at=None).update(read_at=timezone.now())


def notices_of(user: User) -> QuerySet[Notice]:
    """Return the user's notices behind the bell; with a token of one team only those about that team."""
    notices = Notice.objects.filter(user=user, in_portal=True)
    team = limiting_team()
    return notices if team is None else notices.filter(team=team)


def unread_notices(user: User) -> QuerySet[Notice]:
    return notices_of(user).filter(read_at=None)


def unread_count(user: User) -> int:
    return unread_notices(user).count()


@service
def mark_read(*, by: User, ids: Collection[UUID] | None = None) -> int:
    """Mark the user's notices with these ids as read (None: all); return how many were unread."""
    unread = unread_notices(by)
    return (unread if ids is None else unread.filter(pk__in=ids)).update(read_at=timezone.now())
