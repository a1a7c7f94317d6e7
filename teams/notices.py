"""Telling people what they should know. Whoever tells names the event, so that telling twice tells once."""

from collections.abc import Collection, Iterable
from uuid import UUID

from django.utils import timezone

from core.queueing import after_commit
from teams import tasks
from teams.models import Notice, User


def tell(
    people: Iterable[User], *, key: str, title: str, body: str = "", url: str = "", important: bool = False
) -> None:
    """
    Tell each of `people` once per `key`: behind the bell, and by mail to those who want that.

    `url` is a path of the portal; `important` asks the reader to do something.
    """
    rows = [
        Notice(user=person, key=key, title=title[:200], body=body, url=url, important=important)
        for person in {person.pk: person for person in people if person.is_active}.values()
    ]
    if rows:
        Notice.objects.bulk_create(rows, ignore_conflicts=True)
        after_commit(tasks.mail_notices)


def unread(user: User) -> int:
    return Notice.objects.filter(user=user, read_at=None).count()


def mark_read(*, by: User, ids: Collection[UUID] | None = None) -> int:
    """Mark the notices of `by` with these ids as read, all of them for None; return how many were unread."""
    mine = Notice.objects.filter(user=by, read_at=None)
    return (mine if ids is None else mine.filter(pk__in=ids)).update(read_at=timezone.now())
