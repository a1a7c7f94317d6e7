"""Notify people. The caller names the event, so that notifying twice adds one notice."""

from collections.abc import Callable, Collection, Iterable
from uuid import UUID

from django.db.models import QuerySet
from django.utils import timezone

from core.transactions import after_commit
from notify import tasks
from notify.models import Notice
from teams.models import User
from teams.zones import zone_for

# A sentence that contains a moment is a function, called once per reader in their time zone.
type Text = str | Callable[[], str]


def notify(
    people: Iterable[User], *, key: str, title: Text, body: Text = "", url: str = "", important: bool = False
) -> None:
    """
    Add a notice for each active person, once per `key`; it is mailed to those who want that.

    `url` is a path of the portal; `important` asks the reader to act. A title is cut at 200 characters.
    """
    rows = []
    for person in {person.pk: person for person in people if person.is_active}.values():
        with timezone.override(zone_for(person)):
            row = Notice(user=person, key=key, title=rendered(title)[:200], body=rendered(body))
        row.url, row.important = url, important
        rows.append(row)
    if rows:
        Notice.objects.bulk_create(rows, ignore_conflicts=True)
        after_commit(tasks.mail_notices)


def rendered(text: Text) -> str:
    return text if isinstance(text, str) else text()


def unread_notices(user: User) -> QuerySet[Notice]:
    return Notice.objects.filter(user=user, read_at=None)


def unread_count(user: User) -> int:
    return unread_notices(user).count()


def mark_read(*, by: User, ids: Collection[UUID] | None = None) -> int:
    """Mark the user's notices with these ids as read (None: all); return how many were unread."""
    unread = unread_notices(by)
    return (unread if ids is None else unread.filter(pk__in=ids)).update(read_at=timezone.now())
