"""Teams, their people, the catalogue, quotas and prices of the portal that is measured."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

from bench.portal.rows import copy
from bench.portal.size import Size, team_slug
from bench.world import PRODUCTS
from claims.models import Approval, ApprovalRule, Delivery, Profile, ProfileVersion, Quota, TeamNamespace
from dra.manifests import spec_hash
from inventory.models import Cluster
from teams.models import Membership, Role, Team, User
from usage.models import Rate

CLASS = "gpu.nvidia.com"
ENGINEER, LEAD, ADMIN = "engineer", "lead", "admin"
DIRECTOR = "director"  # leads ten large teams, in which 200 requests are undecided
READERS = (ENGINEER, LEAD, ADMIN)
DAY = timedelta(days=1)


def populate(size: Size, cluster: Cluster) -> None:
    """Create all of it; in `cluster` every team has a namespace with the slug of the team."""
    teams = [Team(slug=team_slug(n), title=f"Team {n}", series=1 + n % 5) for n in range(size.teams)]
    copy(Team, teams)
    _people(size, teams)
    TeamNamespace.objects.bulk_create(
        TeamNamespace(team=team, cluster=cluster, namespace=team.slug) for team in teams
    )
    profiles = [_profile(n, teams) for n in range(size.profiles)]
    _quotas(size, teams, profiles)
    for product, price in zip(PRODUCTS, ("2.90", "1.80", "1.10", "0.55"), strict=True):
        for year in (2024, 2026):
            Rate.objects.create(
                title=f"{product[0]} {year}",
                product=product[0].removeprefix("NVIDIA "),
                per_hour=Decimal(price),
                valid_from=datetime(year, 1, 1, tzinfo=UTC),
            )


def _people(size: Size, teams: list[Team]) -> None:
    people, memberships = [], []
    for number, team in enumerate(teams):
        for place in range(size.people_of_large_team if number < size.large_teams else size.people):
            name = {(0, 2): ENGINEER, (0, 1): LEAD}.get((number, place), f"person-{number:03}-{place:02}")
            person = User(username=name, first_name=f"Person {place}", last_name=team.title, is_active=True)
            people.append(person)
            role = {0: Role.OWNER, 1: Role.LEAD, 3: Role.VIEWER}.get(place, Role.MEMBER)
            memberships.append(Membership(user=person, team=team, role=role))
    admin = User(username=ADMIN, is_superuser=True, is_staff=True)
    lead = next(person for person in people if person.username == LEAD)
    memberships += [Membership(user=lead, team=team, role=Role.LEAD) for team in teams[1:3]]
    director = User(username=DIRECTOR)
    memberships += [Membership(user=director, team=team, role=Role.LEAD) for team in teams[3:13]]
    copy(User, [*people, admin, director])
    copy(Membership, memberships)


def _profile(number: int, teams: list[Team]) -> Profile:
    """One product or every product with enough memory; some for a few teams only; every kind of approval."""
    product, memory = PRODUCTS[number % len(PRODUCTS)], 10 + number
    attribute, capacity = f'device.attributes["{CLASS}"]', f'device.capacity["{CLASS}"]'
    expressions = [f'{capacity}.memory.compareTo(quantity("{memory}Gi")) >= 0']
    if number % 2:
        expressions.append(f'{attribute}.productName == "{product[0]}"')
    exactly = {
        "deviceClassName": CLASS,
        "allocationMode": "ExactCount",
        "count": 1,
        "selectors": [{"cel": {"expression": expression}} for expression in expressions],
    }
    spec: dict[str, Any] = {"devices": {"requests": [{"name": "gpu", "exactly": exactly}]}}
    profile = Profile.objects.create(
        slug=f"profile-{number:02}", title=f"Profile {number}", use="Training and evaluation of models."
    )
    if number % 5 == 4:
        profile.teams.set(teams[:: number + 1])
    profile.current = ProfileVersion.objects.create(
        profile=profile,
        number=1,
        spec=spec,
        spec_hash=spec_hash(spec),
        scalable="gpu",
        max_devices=8,
        max_duration=30 * DAY,
        extension=DAY,
        deliveries=list(Delivery.values),
        approval=list(Approval)[number % 4],
        automatic_devices=2 if number % 8 == 1 else 0,
    )
    profile.save(update_fields=["current"])
    return profile


def _quotas(size: Size, teams: list[Team], profiles: list[Profile]) -> None:
    """Every team has a quota of the device class; some a guarantee, some further limits."""
    weights = size.team_weights()
    rows = []
    for number, team in enumerate(teams):
        limit = max(8, size.devices * weights[number] // sum(weights))
        guaranteed = limit // 8 if number % 12 == 5 else 0
        rows.append(Quota(team=team, device_class=CLASS, devices=limit, guaranteed=guaranteed))
        rows += [Quota(team=team, profile=profile, devices=limit) for profile in profiles[number % 7 :: 13]]
        if number % 3 == 0:
            rows.append(Quota(team=team, counts=Quota.Counts.CLAIMS, devices=limit))
    copy(Quota, rows)
    ApprovalRule.objects.bulk_create(
        ApprovalRule(team=team, profile=profiles[number % len(profiles)], automatic_devices=1)
        for number, team in enumerate(teams)
        if number % 4 == 0
    )
