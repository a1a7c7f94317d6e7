"""Which claim of the portal the label on an object of a cluster names."""

from collections.abc import Iterable
from uuid import UUID

from django.db.models import Case, UUIDField, When
from django.db.models.functions import Cast

UUID_TEXT = "^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$"


def named_claim() -> Case:
    """
    Return, for a mirrored claim or template, the id that its `owner` spells, null where it spells none:
    anybody can write anything into a label.

    Claims are looked up by it as an id. Compared as a text, every claim that ever was would be read.
    """
    return Case(When(owner__regex=UUID_TEXT, then=Cast("owner", UUIDField())), output_field=UUIDField())


def ids(texts: Iterable[str]) -> list[UUID]:
    """Return the ids among the values of a label that anybody can write."""
    found = []
    for text in texts:
        try:
            found.append(UUID(text))
        except ValueError:
            continue
    return found
