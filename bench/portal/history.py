"""A year of claims: those that hold the devices of the cluster now, and all that came before."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from uuid import UUID

from django.utils import timezone

from bench.portal.fleet import Shelf
from bench.portal.people import CLASS, DAY, ENGINEER
from bench.portal.rows import copy, execute
from bench.portal.size import Size
from claims.models import Claim, ClaimCharge, Comment, Extension, Profile, ProfileVersion, QuotaRequest
from claims.states import FINAL, ClaimState
from core.models import uuid7
from dra.canonical import spec_hash
from dra.manifests import with_count
from inventory.models import Cluster, Device
from notify.models import Notice
from teams.models import Membership, Role, Team, User

S = ClaimState
PAST = 365 * DAY
RECENT = 14 * DAY  # how old the oldest claim is that still holds something
# Of a hundred claims that are over: how they ended.
ENDED = {S.RELEASED: 78, S.EXPIRED: 8, S.DENIED: 5, S.WITHDRAWN: 5, S.FAILED: 4}  # percent
WAYS = {
    S.REQUESTED: (S.REQUESTED,),
    S.APPROVED: (S.REQUESTED, S.APPROVED),
    S.PROVISIONED: (S.REQUESTED, S.APPROVED, S.PROVISIONED),
    S.ALLOCATED: (S.REQUESTED, S.APPROVED, S.PROVISIONED, S.ALLOCATED),
    S.RELEASED: (S.REQUESTED, S.APPROVED, S.PROVISIONED, S.ALLOCATED, S.RELEASING, S.RELEASED),
    S.EXPIRED: (S.REQUESTED, S.EXPIRED),
    S.DENIED: (S.REQUESTED, S.DENIED),
    S.WITHDRAWN: (S.REQUESTED, S.WITHDRAWN),
    S.FAILED: (S.REQUESTED, S.APPROVED, S.FAILED),
}
UNDECIDED = (S.REQUESTED, S.WITHDRAWN, S.EXPIRED)

STEPS = """
INSERT INTO claims_transition (claim_id, old, new, why, by_id, at)
SELECT c.id, w.old, w.new, 'as it went', CASE WHEN w.new = 'requested' THEN c.requested_by_id
  WHEN w.new IN ('approved', 'denied') THEN c.decided_by_id END,
  c.created_at + (c.state_since - c.created_at) * w.part
FROM claims_claim c JOIN unnest(%s::text[], %s::text[], %s::text[], %s::float8[])
  AS w (state, old, new, part) ON w.state = c.state
"""
WRITTEN = """
UPDATE claims_claim c SET object_uid = r.uid FROM inventory_resourceclaim r WHERE r.owner = c.id::text
"""
HELD = """
INSERT INTO claims_allocation (id, claim_id, object_uid, object_name, request, driver, pool, device, share_id,
  node_name, product, partition, uuid, memory_bytes, fraction, started_at, ended_at)
SELECT gen_random_uuid(), {claim}.id, {uid}, {claim}.name, 'gpu', d.driver, d.pool, d.name, '', d.node_name,
  d.product, d.partition, d.uuid, d.memory_bytes, 1, {start}, {end}
FROM {source}
"""
HELD_NOW = HELD.format(
    claim="c",
    uid="r.uid",
    start="c.state_since",
    end="NULL",
    source="claims_claim c JOIN inventory_resourceclaim r ON r.owner = c.id::text "
    "JOIN inventory_device d ON d.held_by_id = r.id",
)
HELD_THEN = HELD.format(
    claim="c",
    uid="'gone-' || c.id",
    start="c.created_at + (c.state_since - c.created_at) * 0.6",
    end="c.state_since",
    source="(SELECT *, row_number() OVER (ORDER BY id) AS number FROM claims_claim "
    "WHERE state = 'released') c "
    "CROSS JOIN LATERAL generate_series(1, c.devices) AS nth "
    "JOIN (SELECT *, row_number() OVER (ORDER BY pool, name) AS place FROM inventory_device) d "
    "ON d.place = 1 + (c.number * 7919 + nth) %% %s",
)
MEASURED = """
INSERT INTO usage_rollup
  (claim_id, driver, pool, device, bucket, samples, activity, memory_bytes, power_watts)
SELECT a.claim_id, a.driver, a.pool, a.device, b.at, 10, 0.6, 40000000000, 400
FROM claims_allocation a, generate_series(%s::timestamptz, %s::timestamptz, interval '5 minutes') AS b (at)
WHERE a.ended_at IS NULL
"""


def live_through(size: Size, cluster: Cluster, shelf: Shelf) -> None:
    """Write the claims of `shelf` and those before them, with all that hangs on them."""
    execute("SET statement_timeout = 0")
    now = timezone.now()
    author = _Author(size, cluster, now)
    claims = list(author.claims(shelf))
    copy(Claim, claims)
    copy(ClaimCharge, (ClaimCharge(claim=one, device_class=CLASS, devices=one.devices) for one in claims))
    steps = [
        (state, way[place - 1] if place else "", new, place / max(len(way) - 1, 1))
        for state, way in WAYS.items()
        for place, new in enumerate(way)
    ]
    execute(STEPS, [list(column) for column in zip(*steps, strict=True)])
    execute(WRITTEN)
    execute("ANALYZE")  # without it PostgreSQL takes the tables to be empty
    execute(HELD_NOW)
    execute(HELD_THEN, [Device.objects.count()])
    first = now.replace(minute=now.minute // 5 * 5, second=0, microsecond=0)
    execute(MEASURED, [first - timedelta(hours=2), first])
    _asked(author, claims)
    copy(Notice, (author.notice(person, n) for person in author.everybody for n in range(size.notices)))
    execute("RESET statement_timeout")


class _Author:
    def __init__(self, size: Size, cluster: Cluster, now: datetime) -> None:
        self.size, self.cluster, self.now = size, cluster, now
        self.chance = random.Random(size.claims)  # noqa: S311, nothing secret
        self.teams = list(Team.objects.order_by("slug"))
        self.profiles = list(Profile.objects.select_related("current").order_by("slug"))
        self.everybody = list(User.objects.order_by("username"))
        self.people: dict[UUID, list[User]] = {}
        self.leads: dict[UUID, User] = {}
        for row in Membership.objects.exclude(role=Role.VIEWER).select_related("user").order_by("pk"):
            self.people.setdefault(row.team_id, []).append(row.user)
            if row.role == Role.LEAD:
                self.leads[row.team_id] = row.user

    def claims(self, shelf: Shelf) -> Iterator[Claim]:
        live = [(S.ALLOCATED, *one) for one in shelf.holding]
        live += [(S.PROVISIONED, *one) for one in shelf.waiting]
        weights = self.size.team_weights()
        numbers = self.chance.choices(range(len(self.teams)), weights, k=self.size.requested)
        live += [(S.REQUESTED, uuid7(), number) for number in numbers]
        for state, pk, team in live:
            yield self.claim(pk, self.teams[team], state)
        past = max(self.size.claims - len(live), 0)
        states = self.chance.choices([*ENDED], [*ENDED.values()], k=past)
        for state, owner in zip(states, self.chance.choices(self.teams, weights, k=past), strict=True):
            yield self.claim(uuid7(), owner, state)

    def claim(self, pk: UUID, team: Team, state: ClaimState) -> Claim:
        is_over = state in FINAL
        version = self.version(state)
        count = self.chance.choice((1, 1, 1, 2, 4, 8)) if is_over else 1
        spec = with_count(version.spec, version.scalable, count)
        created = self.now - self.chance.random() * (PAST if is_over else RECENT)
        lasted = timedelta(hours=self.chance.randrange(1, 240))
        since = min(created + (lasted if is_over else DAY / 2), self.now)
        decided = None if state in UNDECIDED else created + (since - created) * 0.2
        hashed = spec_hash(spec)
        return Claim(
            pk=pk,
            name=f"{version.profile.slug}-{pk.hex[-12:]}",
            key=pk.hex,
            team=team,
            cluster=self.cluster,
            namespace=team.slug,
            profile_version=version,
            requested_by=self.chance.choice(self.people[team.pk]),
            devices=count,
            duration=lasted,
            reason="evaluation of a checkpoint",
            spec=spec,
            spec_hash=hashed,
            state=state,
            state_since=since,
            created_at=created,
            decide_by=created + 7 * DAY,
            decided_by=self.leads[team.pk] if decided else None,
            decided_at=decided,
            approved_hash=hashed if decided else "",
            expires_at=since + 10 * DAY if decided else None,
            object_uid=str(pk) if decided else "",
        )

    def version(self, state: ClaimState) -> ProfileVersion:
        """Undecided ones ask for what somebody has to decide on."""
        profile = self.chance.choice(self.profiles[1::2] if state == S.REQUESTED else self.profiles)
        assert profile.current is not None  # noqa: S101, each has one
        profile.current.profile = profile
        return profile.current

    def notice(self, person: User, number: int) -> Notice:
        told = self.now - number * DAY / 4
        return Notice(
            user=person,
            key=f"bench {number}",
            title="A claim ends in a day",
            body="Then the portal deletes it.",
            created_at=told,
            read_at=told if number > 5 else None,
            mailed_at=told,
        )


def _asked(author: _Author, claims: Sequence[Claim]) -> None:
    """More time, more quota, questions and drafts."""
    holding = [claim for claim in claims if claim.state == S.ALLOCATED]
    asked = author.chance.sample(holding, min(len(holding), author.size.requested // 10))
    waiting = len(asked) // 3
    extensions = []
    for number, claim in enumerate(asked):
        end = claim.expires_at or author.now
        until = end + DAY
        extension = Extension(
            claim=claim, key=claim.key, asked_by_id=claim.requested_by_id, was=end, until=until
        )
        if number >= waiting:
            extension.answer, extension.decided_at = "approved", author.now - number * DAY / 10
        extensions.append(extension)
    copy(Extension, extensions)
    copy(
        QuotaRequest,
        (
            QuotaRequest(
                key=f"bench {team.slug}",
                asked_by=author.leads[team.pk],
                team=team,
                device_class=CLASS,
                devices=author.size.devices,
            )
            for team in author.teams[::3]
        ),
    )
    undecided = [claim for claim in claims if claim.state == S.REQUESTED]
    copy(
        Comment,
        (
            Comment(claim=one, by_id=one.requested_by_id, text="Which dataset?", key=one.key, question=True)
            for one in undecided[::4]
        ),
    )
    engineer = User.objects.get(username=ENGINEER)
    for number in range(8):
        engineer.drafts.create(key=f"bench {number}", fields={"profile": [author.profiles[number % 4].slug]})
