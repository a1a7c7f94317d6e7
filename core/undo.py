"""
A toast that offers to take back what was just done, or the next best thing.

The offer is only a button: who may press it, and whether it is still possible, the address behind it decides.
"""

import json
from dataclasses import asdict, dataclass

from django.contrib import messages
from django.contrib.messages.storage.base import Message
from django.http import HttpRequest


@dataclass(frozen=True, slots=True)
class UndoAction:
    """The button of a toast. With `post` it sends a form to `url`; else it is a link there."""

    url: str
    label: str
    post: bool


UNDO = "Undo"


def offer(request: HttpRequest, text: str, url: str, label: str = UNDO, *, post: bool = True) -> None:
    """
    Say on the next page what has been done, beside a button that leads to `url`.

    `url` is a path of the portal that takes POST and answers with a redirect; with `post=False` it is a page
    to go to, such as a form filled with what was.
    """
    button = UndoAction(url, str(label), post)
    messages.success(request, str(text), extra_tags=json.dumps(asdict(button)))


def undo_action(message: Message) -> UndoAction | None:
    """Return the button of a toast, None for one that only says something."""
    if not (message.extra_tags or "").startswith("{"):
        return None
    return UndoAction(**json.loads(message.extra_tags or ""))
