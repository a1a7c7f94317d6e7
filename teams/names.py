"""
User names of accounts, made from whatever an identity provider or a person calls somebody.

Two accounts never have one name: not with other capitals, not with letters that look the same, and not the
email address of somebody else, with which one may sign in too. The provider's own identifiers are kept and
compared as they are (`teams.identity.people`, `teams.scim.people`); only the name here is made.
"""

from __future__ import annotations

import re
import unicodedata

from django.db import connection
from django.db.models import CharField, Func, Q

from core.errors import Conflict
from teams.models import User

LONGEST = 140  # characters, of 150: the rest is for a number
ADVISORY_LOCK = 0x6E616D65  # "name"
NOT_ALLOWED = re.compile(r"[^\w.@+-]+")  # Django's rule of user names
# Greek and Cyrillic letters that look like Latin ones (Unicode Technical Standard #39, confusables).
FOREIGN, LATIN = "асԁеһіјкӏморԛѕтуѵԝхвнгαβεηικνορτυχı", "acdehijklmopqstyvwxbhrabenikvoptuxi"


def account_name(*wanted: str, of: User | None = None) -> str:
    """
    Return a free user name from the first text that has a letter or digit, else from "person", with a number
    if it is taken; `of` may keep its own. Holds names until the end of the transaction.
    """
    base = next(filter(None, map(cleaned, wanted)), "person")
    taken, number, name = _taken_like(base, of), 2, base
    while looks(name) in taken:
        name, number = f"{base}-{number}", number + 1
    return name


def cleaned(text: str) -> str:
    """Return a text with "-" for what no user name may have, "" if nothing is left."""
    name = NOT_ALLOWED.sub("-", unicodedata.normalize("NFKC", text)).strip("-")[:LONGEST]
    return name if any(map(str.isalnum, name)) else ""


def looks(name: str) -> str:
    """Return what a name is taken for by somebody who reads it."""
    return unicodedata.normalize("NFKC", name).lower().translate(str.maketrans(FOREIGN, LATIN))


class Looks(Func):
    """`looks` in the database, with the capitals that its locale may not know."""

    template = (
        f"translate(lower(normalize(%(expressions)s, NFKC)), '{FOREIGN}{FOREIGN.upper()}', '{LATIN * 2}')"
    )
    output_field = CharField()


def is_made_from(name: str, text: str) -> bool:
    """Return whether an account has its name from this text, and not from somebody who chose another one."""
    base = cleaned(text).lower()
    return bool(base) and bool(re.fullmatch(rf"{re.escape(base)}(-\d+)?", name.lower()))


def require_free(name: str) -> None:
    """Raise Conflict for a name that somebody else has, or is taken for."""
    if looks(name) in _taken_like(name, None):
        raise Conflict(f"The user name “{name}” is taken. Choose another one.", field="username")


def hold_names() -> None:
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_xact_lock(%s)", [ADVISORY_LOCK])


def _taken_like(base: str, of: User | None) -> set[str]:
    """Hold names, and return what those of others, and addresses, that begin like this one look like."""
    hold_names()
    others = User.objects.exclude(pk=of.pk) if of else User.objects.all()
    seen = others.alias(name=Looks("username"), address=Looks("email"))
    alike = seen.filter(Q(name__startswith=looks(base)) | Q(address__startswith=looks(base)))
    return {looks(text) for row in alike.values_list("username", "email") for text in row if text}
