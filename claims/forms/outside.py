"""What of a specification the fields of the editor do not show, in words."""

from __future__ import annotations

from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from claims.forms.selectors import shown_places
from dra.objects import Json, alternatives, constraints, requests


def outside_fields(spec: Json) -> list[str]:
    """
    Return "2 constraints", "1 more request" and the like; empty where fields show all of it.

    `spec` is one that `claims.forms.selectors.read` can show.
    """
    first, *more = requests(spec)
    ask, *others = alternatives(first)
    selectors = len(ask.expressions) - len(shown_places(spec))
    found = [
        (selectors, ngettext("%d selector", "%d selectors", selectors)),
        (len(ask.tolerations), ngettext("%d toleration", "%d tolerations", len(ask.tolerations))),
        (len(ask.capacity), ngettext("%d amount of capacity", "%d amounts of capacity", len(ask.capacity))),
        (len(ask.derived), ngettext("%d derived attribute", "%d derived attributes", len(ask.derived))),
        (len(others), ngettext("%d more alternative", "%d more alternatives", len(others))),
        (len(more), ngettext("%d more request", "%d more requests", len(more))),
        (len(constraints(spec)), ngettext("%d constraint", "%d constraints", len(constraints(spec)))),
    ]
    configs = len(spec["devices"].get("config") or ())
    found.append((configs, ngettext("%d config", "%d configs", configs)))
    words = [text % count for count, text in found if count]
    if ask.all:
        words.append(_("every device that matches"))
    if ask.admin:
        words.append(_("admin access"))
    return words
