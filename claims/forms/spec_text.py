"""A claim specification out of the YAML that somebody typed."""

from __future__ import annotations

import json
from typing import Any

import yaml
from django.utils.translation import gettext as _

MOST_LEVELS = 50  # a spec has about ten


def spec_in(text: str) -> dict[str, Any]:
    """
    Return the spec that `text` writes; of a whole ResourceClaim, as pasted from a manifest, its spec.

    Raises ValueError with a sentence for what is no YAML, no spec, or cannot be written as JSON.
    """
    try:
        _require_plain(text)
        found = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise ValueError(_("This is not YAML: %(why)s") % {"why": error}) from error
    if not isinstance(found, dict):
        raise ValueError(_("Write the spec of a ResourceClaim, which begins with devices."))
    if found.get("kind") == "ResourceClaim" and isinstance(found.get("spec"), dict):
        found = found["spec"]  # the rest of the manifest is not a profile's to say
    spec: dict[str, Any] = found
    try:
        written = json.dumps(spec, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise ValueError(_("It has a value that JSON does not know, such as a date.")) from error
    if "\\u0000" in written:
        raise ValueError(_("It has a character that cannot be stored."))
    return spec


def _require_plain(text: str) -> None:
    """Raise ValueError for what would keep the reader busy: an alias stands for more than it weighs."""
    depth = 0
    for event in yaml.parse(text, Loader=yaml.SafeLoader):
        if isinstance(event, yaml.AliasEvent):
            raise ValueError(_("Write it out: aliases are not followed."))
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if depth > MOST_LEVELS:
            raise ValueError(_("More than %(most)d levels are not read.") % {"most": MOST_LEVELS})
