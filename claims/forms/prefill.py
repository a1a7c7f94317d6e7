"""What an address or a draft says that the request form cannot take: told, never left out without a word."""

from __future__ import annotations

from django.http import QueryDict
from django.utils.translation import gettext as _

from claims.forms.request import RequestForm
from teams.models import User

ASIDE = ("together_devices", "help", "draft", "more", "drop")  # parts of the address that are no fields


def complaints(prefill: QueryDict, *, user: User) -> list[str]:
    """Return a sentence for each name and value of the address that the form has no use for."""
    form = RequestForm(prefill, user=user)
    form.is_valid()
    found = [
        _("The address says “%(name)s”, for which the form has no field.") % {"name": name[:40]}
        for name in prefill
        if name not in form.fields and name not in ASIDE
    ]
    for name, errors in form.errors.items():
        if any(prefill.getlist(name)):
            found += [f"{form.fields[name].label}: {error}" for error in errors]
    return found
