"""
What a password must not be, besides Django's own rules: words of the organization, and what was stolen
elsewhere (NIST SP 800-63B §3.1.1.2).
"""

from __future__ import annotations

import hashlib
from io import SEEK_END
from pathlib import Path
from typing import BinaryIO

from django.conf import settings
from django.core.exceptions import ImproperlyConfigured, ValidationError

from core.models import Installation

SHORTEST = 4  # letters of a word that is looked for
LEAST = 8  # characters that a password needs besides such words
DIGEST_LENGTH = 40


class OrganizationWordsValidator:
    """Refuses a password that is little more than the name of the portal or of `PASSWORD_WORDS`."""

    def validate(self, password: str, user: object = None) -> None:
        words = {"dragoman", *settings.PASSWORD_WORDS, *Installation.load().name.split()}
        rest, found = password.lower(), []
        for word in sorted(map(str.lower, words), key=len, reverse=True):
            if len(word) >= SHORTEST and word in rest:
                rest = rest.replace(word, "")
                found.append(word)
        if found and len(rest) < LEAST:
            raise ValidationError(
                f"The password is little more than “{found[0]}”, which others guess. Choose another one.",
                code="password_of_organization",
            )

    def get_help_text(self) -> str:
        return "Don’t use your organization’s name."


class BreachedPasswordValidator:
    """
    Refuses a password whose SHA-1 stands in the file `BREACHED_PASSWORDS`: a digest in hexadecimal at the
    start of each line, in order, as the downloader of Have I Been Pwned writes them. Nothing is sent.
    """

    def validate(self, password: str, user: object = None) -> None:
        if settings.BREACHED_PASSWORDS and is_listed(Path(settings.BREACHED_PASSWORDS), password):
            raise ValidationError(
                "The password stands in a list of stolen passwords. Choose another one.",
                code="password_breached",
            )

    def get_help_text(self) -> str:
        return "Your password can’t be one that was stolen elsewhere." if settings.BREACHED_PASSWORDS else ""


def is_listed(path: Path, password: str) -> bool:
    """Return whether the file has the digest of a password. Raises ImproperlyConfigured without the file."""
    wanted = hashlib.sha1(password.encode(), usedforsecurity=False).hexdigest().upper().encode()
    try:
        with path.open("rb") as file:
            return _line_from(file, wanted)[:DIGEST_LENGTH].upper() == wanted
    except OSError as error:
        raise ImproperlyConfigured(f"BREACHED_PASSWORDS cannot be read: {error}") from error


def _line_from(file: BinaryIO, wanted: bytes) -> bytes:
    """Return the first line that is not before `wanted`, by halving: 30 steps for a billion lines."""
    low, high = 0, file.seek(0, SEEK_END)  # every line before `low` is before `wanted`
    while low < high:
        middle = (low + high) // 2
        file.seek(max(0, middle - 1))
        if middle:
            file.readline()  # to the start of the next line
        line = file.readline()
        if not line or line[:DIGEST_LENGTH].upper() >= wanted:
            high = middle
        else:
            low = file.tell()
    file.seek(low)
    return file.readline()
