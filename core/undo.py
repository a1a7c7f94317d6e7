"""
A message with a button that undoes the last action, or leads to a form that does.

The view behind the button decides who may do it and whether it is still possible.
"""

import json
from dataclasses import asdict, dataclass

from django.contrib import messages
from django.contrib.messages.storage.base import Message
from django.http import HttpRequest


@dataclass(frozen=True, slots=True)
class UndoAction:
    """The button of a message: with `post` it sends a form to `url`, else it is a link."""

    url: str
    label: str
    post: bool


UNDO = "Undo"


def offer(request: HttpRequest, text: str, url: str, label: str = UNDO, *, post: bool = True) -> None:
    """
    Show a message with a button on the next page.

    `url` is a path that takes POST and redirects; with `post=False` it is a page, such as a prefilled form.
    """
    button = UndoAction(url, str(label), post)
    messages.success(request, str(text), extra_tags=json.dumps(asdict(button)))


def undo_action(message: Message) -> UndoAction | None:
    """Return the button of a message, None without one."""
    if not (message.extra_tags or "").startswith("{"):
        return None
    return UndoAction(**json.loads(message.extra_tags or ""))
