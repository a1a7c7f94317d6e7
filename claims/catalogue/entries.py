"""
Profiles as people choose them: what there is and is free now, who has to approve, and whether one may ask.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from decimal import Decimal
from uuid import UUID

from django.utils.translation import gettext as _

from claims.approval.rules import Rules
from claims.catalogue.kinds import DeviceKind, kinds_among
from claims.catalogue.pricing import prices_of
from claims.catalogue.sharing import Sharing, sharing_of
from claims.catalogue.waits import NO_WAITS, Waits, waits
from claims.catalogue.who_approves import WhoApproves, who_approves
from claims.models import Profile, ProfileVersion, Quota, TeamNamespace
from claims.request.admin_access import person_problems
from dra import quota
from dra.cel import CelError
from dra.columns import Column
from dra.match.funnel import funnel
from dra.objects import asks
from dra.picture import Picture
from inventory.models import Cluster
from inventory.picture import picture_of
from teams.access import teams_where
from teams.models import Role, Team, User


@dataclass(frozen=True, slots=True)
class CatalogueEntry:
    """
    One profile. `total` devices match in the clusters where the asker's teams work, `free` of them are free
    now.

    Both are None where a selector cannot be run here: unknown, not 0. `kinds` are those of the devices that
    match, which is what a price depends on; `price` is the most that one of them costs an hour, None where
    nobody knows.
    """

    profile: Profile
    version: ProfileVersion
    free: int | None
    total: int | None
    kinds: frozenset[DeviceKind]
    who: WhoApproves
    reason: str  # why it may not be requested, "" if it may
    price: Decimal | None = None
    waits: Waits = NO_WAITS

    @property
    def taken(self) -> int:
        return (self.total or 0) - (self.free or 0)

    @property
    def memory(self) -> int | None:
        """Bytes that every device that matches has at least; None where that cannot be told."""
        sizes = [kind.memory_bytes for kind in self.kinds]
        known = [size for size in sizes if size is not None]
        return min(known) if known and len(known) == len(sizes) else None

    @property
    def memory_most(self) -> int | None:
        """Bytes of the largest device that matches."""
        return max((kind.memory_bytes or 0 for kind in self.kinds), default=0) or None

    @property
    def sharing(self) -> list[Sharing]:
        return sharing_of(self.version.spec, [kind.fraction for kind in self.kinds])

    @property
    def asks_nobody(self) -> bool:
        """Whether some requests of the asker's teams need no approval."""
        return self.who.asks_nobody

    @property
    def approval_sentence(self) -> str:
        """Who approves requests of the asker's teams."""
        return self.who.sentence

    @property
    def products(self) -> list[str]:
        return sorted({kind.product for kind in self.kinds})

    @property
    def may_request(self) -> bool:
        return not self.reason


@dataclass(slots=True)
class _Asker:
    """
    The teams for which somebody may ask, the clusters in which those work, and the classes they have quota
    for.
    """

    user: User
    teams: list[Team]
    clusters: list[Cluster]
    rules: Rules
    classes: dict[UUID, set[str]] = field(default_factory=dict)
    placed: set[UUID] = field(default_factory=set)  # teams with a namespace somewhere

    def teams_open_to(self, profile: Profile) -> list[Team]:
        """Return those of the teams that may ask for the profile."""
        allowed = {team.pk for team in profile.teams.all()}
        return [team for team in self.teams if not allowed or team.pk in allowed]


def catalogue(user: User) -> list[CatalogueEntry]:
    """Return every profile that `user` may see, in a number of queries that depends on the clusters alone."""
    return entries(user, Profile.objects.visible_to(user).filter(current__isnull=False))


def entries(user: User, profiles: Iterable[Profile]) -> list[CatalogueEntry]:
    """Return the entries of these profiles."""
    ids = [profile.pk for profile in profiles]
    found = Profile.objects.filter(pk__in=ids).select_related("current__profile").prefetch_related("teams")
    by_id = {profile.pk: profile for profile in found}
    asker = _asker(user)
    pictures = {cluster.pk: picture_of(cluster) for cluster in asker.clusters}
    counted = [_entry(by_id[pk], asker, pictures) for pk in ids if pk in by_id]
    prices, waited = prices_of([entry.kinds for entry in counted]), waits()
    return [
        replace(entry, price=price, waits=waited.get(entry.profile.pk, NO_WAITS))
        for entry, price in zip(counted, prices, strict=True)
    ]


def _asker(user: User) -> _Asker:
    teams = teams_where(user, at_least=Role.MEMBER)
    rows = TeamNamespace.objects.filter(team__in=teams, cluster__enabled=True)
    pairs = list(rows.values_list("team", "cluster"))
    clusters = Cluster.objects.filter(pk__in={cluster for _team, cluster in pairs}).defer("credentials")
    asker = _Asker(user, teams, list(clusters), Rules(teams), placed={team for team, _cluster in pairs})
    quotas = Quota.objects.filter(team__in=teams, devices__gt=0).exclude(device_class="")
    for team, device_class in quotas.values_list("team", "device_class"):
        asker.classes.setdefault(team, set()).add(device_class)
    return asker


def _entry(profile: Profile, asker: _Asker, pictures: Mapping[UUID, Picture]) -> CatalogueEntry:
    version = profile.current
    assert version is not None  # only such are shown  # noqa: S101
    counts = [_count(cluster, picture, version) for cluster, picture in pictures.items()]
    known = [count for count in counts if count is not None]
    unknown = len(known) < len(counts)
    return CatalogueEntry(
        profile=profile,
        version=version,
        free=None if unknown else sum(free for free, _total, _kinds in known),
        total=None if unknown else sum(total for _free, total, _kinds in known),
        kinds=frozenset().union(*(kinds for _free, _total, kinds in known)),
        who=who_approves(version, asker.teams_open_to(profile), asker.rules),
        reason=_reason(profile, version, asker),
    )


def _reason(profile: Profile, version: ProfileVersion, asker: _Asker) -> str:
    if profile.retired_at is not None:
        return _("This profile is retired.")
    if not asker.teams:
        return _("You are a member of no team, so there is nobody you could ask for GPUs for.")
    if problems := person_problems(asker.user, version.spec):
        return problems[0]
    teams = asker.teams_open_to(profile)
    if not teams:
        return _("This profile is not open to your teams.")
    teams = [team for team in teams if team.pk in asker.placed]
    if not teams:
        return _("Your team has no namespace in any cluster.")
    classes = set(quota.charge(version.spec))
    if not any(classes <= asker.classes.get(team.pk, set()) for team in teams):
        return _("Your team has no quota for %(classes)s devices.") % {"classes": ", ".join(sorted(classes))}
    return ""


def _count(
    cluster_id: UUID, picture: Picture, version: ProfileVersion
) -> tuple[int, int, frozenset[DeviceKind]] | None:
    """
    Return how many devices are free, how many match, and of what kinds; None if that cannot be told.
    """
    free: Column = 0
    matching: Column = 0
    for ask in asks(version.spec):
        try:
            found = funnel(picture, ask)
        except KeyError:
            continue  # the cluster has no such class, hence no such device
        except CelError:
            return None
        if found.failing:
            return None
        matching |= found.accepted
        free |= found.free
    return free.bit_count(), matching.bit_count(), kinds_among(cluster_id, picture, matching)
