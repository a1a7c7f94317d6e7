"""Asking for another count, profile or duration: a claim that replaces the old (`claims.life.succession`)."""

from collections.abc import Mapping
from datetime import timedelta

from django.utils.translation import gettext as _

from claims.models import Claim, Profile
from claims.request.alternatives import Standing, standing_of, typed_of
from claims.request.combining import Counted
from claims.services.request import request_claim
from core.errors import Invalid
from dra.objects import requests
from teams.models import User


def resize(
    *,
    claim: Claim,
    by: User,
    profile: Profile | None = None,
    devices: int | None = None,
    parts: Mapping[str, int] | None = None,
    parallel: int | None = None,
    duration: timedelta | None = None,
    name: str = "",
    reason: str | None = None,
    key: str,
) -> Claim:
    """
    Request what shall replace `claim`; what is None stays as it has it. The same `key` asks once.

    Another profile takes the place of all that the claim names, so its alternatives go. `parts` are numbers
    of devices for some of the profiles that it takes together, by slug; 0 leaves one out. Raises as
    `request_claim`, Forbidden for a claim of somebody else, Conflict for one that cannot be replaced, Invalid
    for a part that it does not have.
    """
    version = claim.profile_version
    named = [] if profile is not None else standing_of(claim, ())
    others = [one.alternative.profile_version.profile for one in named[1:] if not one.alternative.together]
    together = _counted([one for one in named if one.alternative.together], parts or {}, claim)
    if together:
        (profile, typed), *together = together
    else:
        typed = typed_of(version, requests(claim.spec))
    return request_claim(
        by=by,
        team=claim.team,
        cluster=claim.cluster,
        profile=profile or version.profile,
        devices=typed if devices is None else devices,
        parallel=claim.parallel if parallel is None else parallel,
        delivery=claim.delivery,
        duration=claim.duration if duration is None else duration,
        reason=claim.reason if reason is None else reason,
        name=name,
        alternatives=others,
        together=together,
        replaces=claim,
        key=key,
    )


def _counted(named: list[Standing], parts: Mapping[str, int], claim: Claim) -> list[Counted]:
    """Return the profiles that are to be taken together, with their numbers of devices."""
    profiles = [(one.alternative.profile_version.profile, one.typed) for one in named]
    known = {profile.slug for profile, _typed in profiles}
    if unknown := [slug for slug in parts if slug not in known]:
        raise Invalid(
            _("%(claim)s takes no devices of %(profile)s together with others.")
            % {"claim": claim, "profile": unknown[0]}
        )
    kept = [(profile, parts.get(profile.slug, typed)) for profile, typed in profiles]
    if profiles and not any(count for _profile, count in kept):
        raise Invalid(_("Nothing would be left of %(claim)s; release it instead.") % {"claim": claim})
    return [(profile, count) for profile, count in kept if count]
