"""
What a request comes to, before anything is written: its spec, its charge, and every reason why it cannot be.

The service refuses what `problems` says; the preview shows the same sentences while one types.
"""

import re
import secrets
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from claims.models import Claim, Delivery, Profile, ProfileVersion, TeamNamespace
from claims.request import admin_access
from claims.request.combining import Counted, Option, combined
from core.errors import Invalid
from core.times import duration as in_words
from dra import quota, validation
from dra.canonical import spec_hash
from inventory.models import Cluster, DeviceClass, ResourceClaim, ResourceClaimTemplate
from teams.models import Team

DNS_LABEL = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")
MAX_PARALLEL = 1000  # keeps devices × parallel within the column; quota is the limit that people meet


@dataclass(frozen=True, slots=True)
class Wish:
    """
    A request with everything worked out. `charge` is devices per class for all `parallel` claims together,
    of alternatives the worst. With `together` all of `options` are taken, else the first that fits.
    """

    team: Team
    cluster: Cluster
    namespace: str
    profile: Profile
    version: ProfileVersion
    name: str
    delivery: str
    parallel: int
    duration: timedelta
    spec: dict[str, Any]
    spec_hash: str
    devices: int  # per ResourceClaim, worst case
    charge: dict[str, int]
    options: tuple[Option, ...] = ()
    together: bool = False
    problems: list[str] = field(default_factory=list)

    @property
    def total(self) -> int:
        """Devices of all claims that may exist at once."""
        return self.devices * self.parallel

    @property
    def asked(self) -> list[tuple[ProfileVersion, int]]:
        """Versions of the profiles, each with the devices of all claims together."""
        return [(option.version, option.devices * self.parallel) for option in self.options]

    @property
    def profiles(self) -> dict[Profile, int]:
        """Devices per profile that are charged for all claims together."""
        return {option.profile: option.devices * self.parallel for option in self.options}


def make_wish(
    *,
    team: Team,
    cluster: Cluster,
    profile: Profile,
    devices: int,
    parallel: int,
    delivery: str,
    duration: timedelta | None,
    name: str,
    alternatives: Sequence[Profile] = (),
    together: Sequence[Counted] = (),
) -> Wish:
    """
    Work a request out; `alternatives` are tried in their order where `profile` does not fit, those in
    `together` are taken as well, each with a number of devices of its own.

    Raise Conflict for a profile that cannot be asked for at all.
    """
    made = combined((profile, devices), alternatives=alternatives, further=together)
    spec, version = made.spec, made.options[0].version
    namespace = (
        TeamNamespace.objects.filter(team=team, cluster=cluster).values_list("namespace", flat=True).first()
    )
    wish = Wish(
        team=team,
        cluster=cluster,
        namespace=namespace or "",
        profile=profile,
        version=version,
        name=name or new_name(profile),
        delivery=delivery,
        parallel=parallel,
        duration=version.default_duration if duration is None else duration,
        spec=spec,
        spec_hash=spec_hash(spec),
        devices=quota.devices(spec),
        charge={name: count * max(parallel, 0) for name, count in quota.charge(spec).items()},
        options=made.options,
        together=bool(together),
    )
    wish.problems.extend(
        list(made.problems)
        + _place_problems(wish)
        + _admin_problems(wish)
        + _size_problems(wish)
        + _name_problems(wish, given=bool(name))
    )
    classes = DeviceClass.objects.filter(cluster=cluster, gone_at=None).values_list("name", flat=True)
    found = validation.problems(spec, set(classes) or None)  # None: the mirror knows of no classes yet
    wish.problems.extend(problem.message for problem in found)
    return wish


def require_sound(wish: Wish) -> None:
    """Raise Invalid with every problem of the wish."""
    if wish.problems:
        raise Invalid(" ".join(wish.problems), problems=wish.problems)


def new_name(profile: Profile) -> str:
    """Return a free-looking DNS label that starts with the slug of the profile."""
    return f"{profile.slug.replace('_', '-').lower().strip('-')[:56]}-{secrets.token_hex(3)}"


def _place_problems(wish: Wish) -> list[str]:
    names = {"team": wish.team, "cluster": wish.cluster}
    if not wish.namespace:
        return [_("%(team)s has no namespace in %(cluster)s.") % names]
    if not wish.cluster.enabled:
        return [_("%(cluster)s is switched off in the portal.") % names]
    if wish.cluster.read_only:
        return [_("The portal may only read %(cluster)s; it cannot write claims there.") % names]
    return []


def _admin_problems(wish: Wish) -> list[str]:
    return admin_access.place_problems(wish.spec, wish.cluster, wish.namespace)


def _size_problems(wish: Wish) -> list[str]:
    typed = wish.options if wish.together else wish.options[:1]  # alternatives take the number of the first
    problems = [_("At least 1 device must be asked for.")] if any(one.asked < 1 for one in typed) else []
    problems += [
        ngettext(
            "A claim of %(profile)s is always for %(count)d device.",
            "A claim of %(profile)s is always for %(count)d devices.",
            one.devices,
        )
        % {"profile": one.profile, "count": one.devices}
        for one in typed
        if one.asked >= 1 and not one.version.scalable and one.asked not in (1, one.devices)
    ]
    problems += [
        ngettext(
            "%(profile)s allows %(most)d device per claim; this request needs %(count)d.",
            "%(profile)s allows %(most)d devices per claim; this request needs %(count)d.",
            option.version.max_devices,
        )
        % {"profile": option.profile, "most": option.version.max_devices, "count": option.devices}
        for option in wish.options
        if option.devices > option.version.max_devices
    ]
    return problems + _delivery_problems(wish) + _duration_problems(wish)


def _delivery_problems(wish: Wish) -> list[str]:
    words = dict(Delivery.choices)
    problems = [
        _("%(profile)s is not offered as %(delivery)s.")
        % {"profile": option.profile, "delivery": str(words.get(wish.delivery, wish.delivery)).lower()}
        for option in wish.options
        if wish.delivery not in option.version.deliveries
    ]
    if not 1 <= wish.parallel <= MAX_PARALLEL:
        problems.append(
            _("The number of claims at once must be from 1 to %(most)d; it is %(count)d.")
            % {"most": MAX_PARALLEL, "count": wish.parallel}
        )
    elif wish.delivery == Delivery.CLAIM and wish.parallel != 1:
        problems.append(_("A named claim is one claim; only a template can make several at once."))
    return problems


def _duration_problems(wish: Wish) -> list[str]:
    if wish.duration <= timedelta(0):
        return [_("The duration must be longer than nothing.")]
    return [
        _("%(profile)s allows %(longest)s at most; this request is for %(asked)s.")
        % {
            "profile": option.profile,
            "longest": in_words(option.version.max_duration),
            "asked": in_words(wish.duration),
        }
        for option in wish.options
        if wish.duration > option.version.max_duration
    ]


def _name_problems(wish: Wish, *, given: bool) -> list[str]:
    if not given:
        return []
    if not DNS_LABEL.fullmatch(wish.name):
        return [
            _(
                "“%(name)s” is not a name that Kubernetes takes: up to 63 lower-case letters, "
                "digits and hyphens, with a letter or digit at both ends."
            )
            % {"name": wish.name}
        ]
    where = {"cluster": wish.cluster, "namespace": wish.namespace, "name": wish.name}
    mirrored = ResourceClaimTemplate if wish.delivery == Delivery.TEMPLATE else ResourceClaim
    taken = (
        Claim.objects.live().filter(**where).exists()
        or mirrored.objects.filter(**where, gone_at=None).exists()
    )
    return [_("The name %(name)s is taken in %(namespace)s of %(cluster)s.") % where] if taken else []
