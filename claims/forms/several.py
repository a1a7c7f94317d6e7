"""Fields that name several profiles: alternatives in their order, and profiles that are taken as well."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django import forms
from django.core.exceptions import ValidationError
from django.utils.datastructures import MultiValueDict
from django.utils.translation import gettext as _

from claims.models import Profile

MOST_DEVICES = 1024


class InOrder(forms.ModelMultipleChoiceField[Profile]):
    """Profiles by their slugs in the order in which they were sent; cleaned, a list without repetitions."""

    def clean(self, value: Any) -> Any:
        slugs = list(dict.fromkeys(value or ()))
        found = {profile.slug: profile for profile in super().clean(slugs)}
        return [found[slug] for slug in slugs]


class Pairs(forms.MultipleHiddenInput):
    """Reads `name` and `name_devices`, as often as they were sent, as (slug, number) pairs of texts."""

    def value_from_datadict(self, data: Mapping[str, Any], files: object, name: str) -> list[tuple[str, str]]:
        if not isinstance(data, MultiValueDict):
            return []
        return pairs_in(data, name)


class Counted(forms.ModelMultipleChoiceField[Profile]):
    """Profiles with a number of devices each; cleaned, a list of (profile, number)."""

    widget = Pairs

    def clean(self, value: Any) -> Any:
        slugs = [slug for slug, _count in value or ()]
        found = {profile.slug: profile for profile in super().clean(slugs)}
        return [(found[slug], self.number(found[slug], count)) for slug, count in value or ()]

    def number(self, profile: Profile, text: str) -> int:
        if text.isascii() and text.isdigit() and 1 <= int(text[:9]) <= MOST_DEVICES:
            return int(text)
        raise ValidationError(
            _("%(profile)s: write a number of devices from 1 to %(most)d, not “%(text)s”.")
            % {"profile": profile.title, "most": MOST_DEVICES, "text": text[:20]}
        )


def pairs_in(data: MultiValueDict[str, str], name: str) -> list[tuple[str, str]]:
    """Return (slug, number) of each row; a row without a profile is none, a number that is missing is 1."""
    counts = data.getlist(f"{name}_devices")
    return [
        (slug, counts[place] if place < len(counts) else "1")
        for place, slug in enumerate(data.getlist(name))
        if slug
    ]
