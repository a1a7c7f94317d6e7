"""Telling people what they should know. Whoever tells names the event, so that telling twice tells once."""

from collections.abc import Callable, Collection, Iterable
from uuid import UUID

from django.utils import timezone

from core.queueing import after_commit
from teams import tasks
from teams.models import Notice, User
from teams.zones import zone_of

# A sentence with a moment in it is a function: it is called for each reader, in their time zone.
type Text = str | Callable[[], str]


def tell(
    people: Iterable[User], *, key: str, title: Text, body: Text = "", url: str = "", important: bool = False
) -> None:
    """
    Tell each of `people` once per `key`: behind the bell, and by mail to those who want that.

    `url` is a path of the portal; `important` asks the reader to do something.
    """
    rows = []
    for person in {person.pk: person for person in people if person.is_active}.values():
        with timezone.override(zone_of(person)):
            said = (title if isinstance(title, str) else title(), body if isinstance(body, str) else body())
        rows.append(
            Notice(user=person, key=key, title=said[0][:200], body=said[1], url=url, important=important)
        )
    if rows:
        Notice.objects.bulk_create(rows, ignore_conflicts=True)
        after_commit(tasks.mail_notices)


def unread(user: User) -> int:
    return Notice.objects.filter(user=user, read_at=None).count()


def mark_read(*, by: User, ids: Collection[UUID] | None = None) -> int:
    """Mark the notices of `by` with these ids as read, all of them for None; return how many were unread."""
    mine = Notice.objects.filter(user=by, read_at=None)
    return (mine if ids is None else mine.filter(pk__in=ids)).update(read_at=timezone.now())
