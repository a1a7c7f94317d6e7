"""Asking for another count, profile or duration: a claim that replaces the old (`claims.life.succession`)."""

from datetime import timedelta

from claims.models import Claim, Profile
from claims.request.alternatives import standing_of, typed_of
from claims.services.request import request_claim
from dra.objects import requests
from teams.models import User


def resize(
    *,
    claim: Claim,
    by: User,
    profile: Profile | None = None,
    devices: int | None = None,
    parallel: int | None = None,
    duration: timedelta | None = None,
    name: str = "",
    reason: str | None = None,
    key: str,
) -> Claim:
    """
    Request what shall replace `claim`; what is None stays as it has it. The same `key` asks once.

    Another profile takes the place of all that the claim names, so its alternatives go. Raises as
    `request_claim`, Forbidden for a claim of somebody else, Conflict for one that cannot be replaced.
    """
    version = claim.profile_version
    named = [] if profile is not None else standing_of(claim, ())[1:]
    together = [one for one in named if one.alternative.together]
    others = [one for one in named if not one.alternative.together]
    return request_claim(
        by=by,
        team=claim.team,
        cluster=claim.cluster,
        profile=profile or version.profile,
        devices=typed_of(version, requests(claim.spec)) if devices is None else devices,
        parallel=claim.parallel if parallel is None else parallel,
        delivery=claim.delivery,
        duration=claim.duration if duration is None else duration,
        reason=claim.reason if reason is None else reason,
        name=name,
        alternatives=[one.alternative.profile_version.profile for one in others],
        together=[(one.alternative.profile_version.profile, one.typed) for one in together],
        replaces=claim,
        key=key,
    )
