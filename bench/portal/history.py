"""A year of claims: those that hold the devices of the cluster now, and those that are over."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from uuid import UUID

from django.utils import timezone

from bench.portal.cluster import ListedCluster
from bench.portal.population import CLASS, DAY, DIRECTOR, ENGINEER
from bench.portal.rows import copy, execute
from bench.portal.size import Size
from claims.models import Claim, ClaimCharge, Comment, Extension, Profile, ProfileVersion, QuotaRequest
from claims.states import FINAL, LIVE, ClaimState
from core.models import uuid7
from dra.manifests import spec_hash, with_count
from dra.objects import Manifest
from inventory.models import Cluster, Device
from notify.models import Notice, NoticeKind
from teams.models import Membership, Role, Team, User

S = ClaimState
PAST = 365 * DAY
RECENT = 14 * DAY  # how old the oldest claim is that still holds something
OUTCOMES = {
    S.RELEASED: 78,
    S.EXPIRED: 8,
    S.DENIED: 5,
    S.WITHDRAWN: 5,
    S.FAILED: 4,
}  # percent of the claims that are over
PATHS = {
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

INSERT_TRANSITIONS = """
INSERT INTO claims_transition (claim_id, team_id, source, via, "values", old, new, action, reason, by_id, at)
SELECT c.id, c.team_id, 'web', '', '[]', w.old, w.new, 'claim.' || w.new, 'recorded',
  CASE WHEN w.new = 'requested' THEN c.requested_by_id
  WHEN w.new IN ('approved', 'denied') THEN c.decided_by_id END,
  c.created_at + (c.state_since - c.created_at) * w.part
FROM claims_claim c JOIN unnest(%s::text[], %s::text[], %s::text[], %s::float8[])
  AS w (state, old, new, part) ON w.state = c.state
"""
SET_OBJECT_UIDS = """
UPDATE claims_claim c SET object_uid = r.uid FROM inventory_resourceclaim r WHERE r.owner = c.id::text
"""
SET_OBJECT_SPECS = """
UPDATE inventory_resourceclaim r SET raw = jsonb_set(r.raw, '{spec}', c.spec)
FROM claims_claim c WHERE r.owner = c.id::text
"""
INSERT_ALLOCATIONS = """
INSERT INTO claims_allocation (id, claim_id, object_uid, object_name, request, driver, pool, device, share_id,
  node_name, product, partition, uuid, memory_bytes, fraction, capacity_type, started_at, ended_at)
SELECT gen_random_uuid(), {claim}.id, {uid}, {claim}.name, 'gpu', d.driver, d.pool, d.name, '', d.node_name,
  d.product, d.partition, d.uuid, d.memory_bytes, 1, 'on-demand', {start}, {end}
FROM {source}
"""
INSERT_OPEN_ALLOCATIONS = INSERT_ALLOCATIONS.format(
    claim="c",
    uid="r.uid",
    start="c.state_since",
    end="NULL",
    source="claims_claim c JOIN inventory_resourceclaim r ON r.owner = c.id::text "
    "JOIN inventory_device d ON d.held_by_id = r.id",
)
INSERT_CLOSED_ALLOCATIONS = INSERT_ALLOCATIONS.format(
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
INSERT_ROLLUPS = """
INSERT INTO usage_rollup
  (claim_id, driver, pool, device, bucket, samples, activity, memory_bytes, power_watts)
SELECT a.claim_id, a.driver, a.pool, a.device, b.at, 10, 0.6, 40000000000, 400
FROM claims_allocation a, generate_series(%s::timestamptz, %s::timestamptz, interval '5 minutes') AS b (at)
WHERE a.ended_at IS NULL
"""


def write_claims(size: Size, cluster: Cluster, listing: ListedCluster) -> None:
    """Write the claims of `listing` and those before them, with charges, history, allocations and notices."""
    execute("SET statement_timeout = 0")
    now = timezone.now()
    writer = _Writer(size, cluster, now)
    claims = list(writer.claims(listing))
    copy(Claim, claims)
    copy(
        ClaimCharge,
        (
            ClaimCharge(claim=claim, device_class=CLASS, devices=claim.devices, live=claim.state in LIVE)
            for claim in claims
        ),
    )
    steps = [
        (state, path[place - 1] if place else "", new, place / max(len(path) - 1, 1))
        for state, path in PATHS.items()
        for place, new in enumerate(path)
    ]
    execute(INSERT_TRANSITIONS, [list(column) for column in zip(*steps, strict=True)])
    execute(SET_OBJECT_UIDS)
    execute(SET_OBJECT_SPECS)
    execute("ANALYZE")  # without it PostgreSQL takes the tables to be empty
    execute(INSERT_OPEN_ALLOCATIONS)
    execute(INSERT_CLOSED_ALLOCATIONS, [Device.objects.count()])
    first = now.replace(minute=now.minute // 5 * 5, second=0, microsecond=0)
    execute(INSERT_ROLLUPS, [first - timedelta(hours=2), first])
    _write_requests(writer, claims)
    copy(Notice, (writer.notice(person, n) for person in writer.people for n in range(size.notices)))
    execute("RESET statement_timeout")


class _Writer:
    def __init__(self, size: Size, cluster: Cluster, now: datetime) -> None:
        self.size, self.cluster, self.now = size, cluster, now
        self.rng = random.Random(size.claims)  # noqa: S311, nothing secret
        self.teams = list(Team.objects.order_by("slug"))
        self.profiles = list(Profile.objects.select_related("current").order_by("slug"))
        self.people = list(User.objects.order_by("username"))
        self.specs: dict[tuple[UUID | int, int], tuple[Manifest, str]] = {}
        self.requesters: dict[UUID, list[User]] = {}
        self.leads: dict[UUID, User] = {}
        members = Membership.objects.exclude(role=Role.VIEWER).exclude(user__username=DIRECTOR)
        for row in members.select_related("user").order_by("pk"):
            self.requesters.setdefault(row.team_id, []).append(row.user)
            if row.role == Role.LEAD:
                self.leads[row.team_id] = row.user

    def claims(self, listing: ListedCluster) -> Iterator[Claim]:
        live = [(S.ALLOCATED, *owner) for owner in listing.holding]
        live += [(S.PROVISIONED, *owner) for owner in listing.waiting]
        weights = self.size.team_weights()
        numbers = self.rng.choices(range(len(self.teams)), weights, k=self.size.requested)
        live += [(S.REQUESTED, uuid7(), number, "") for number in numbers]
        for state, pk, team, name in live:
            yield self.claim(pk, self.teams[team], state, name)
        past = max(self.size.claims - len(live), 0)
        states = self.rng.choices([*OUTCOMES], [*OUTCOMES.values()], k=past)
        for state, owner in zip(states, self.rng.choices(self.teams, weights, k=past), strict=True):
            yield self.claim(uuid7(), owner, state)

    def claim(self, pk: UUID, team: Team, state: ClaimState, name: str = "") -> Claim:
        """Return a claim; with a name that of an object of the cluster."""
        is_over = state in FINAL
        version = self.version(state)
        count = self.rng.choice((1, 1, 1, 2, 4, 8)) if is_over else 1
        spec, hashed = self.spec(version, count)
        created = self.now - self.rng.random() * (PAST if is_over else RECENT)
        lasted = timedelta(hours=self.rng.randrange(1, 240))
        since = min(created + (lasted if is_over else DAY / 2), self.now)
        decided = None if state in UNDECIDED else created + (since - created) * 0.2
        return Claim(
            pk=pk,
            name=name or f"{version.profile.slug}-{pk.hex[-12:]}",
            key=pk.hex,
            team=team,
            cluster=self.cluster,
            namespace=team.slug,
            profile_version=version,
            requested_by=self.rng.choice(self.requesters[team.pk]),
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
            reconcile_at=None,
        )

    def spec(self, version: ProfileVersion, count: int) -> tuple[Manifest, str]:
        """Return the spec with that many devices, and its hash."""
        if (version.pk, count) not in self.specs:
            spec = with_count(version.spec, version.scalable, count)
            self.specs[version.pk, count] = (spec, spec_hash(spec))
        return self.specs[version.pk, count]

    def version(self, state: ClaimState) -> ProfileVersion:
        """Return any version; for an undecided claim one on which somebody has to decide."""
        profile = self.rng.choice(self.profiles[1::2] if state == S.REQUESTED else self.profiles)
        assert profile.current is not None  # noqa: S101, each has one
        profile.current.profile = profile
        return profile.current

    def notice(self, person: User, number: int) -> Notice:
        created_at = self.now - number * DAY / 4
        return Notice(
            user=person,
            kind=NoticeKind.END,
            key=f"bench {number}",
            title="A claim ends in a day",
            body="Then the portal deletes it.",
            created_at=created_at,
            read_at=created_at if number > 5 else None,
            mailed_at=created_at,
        )


def _write_requests(writer: _Writer, claims: Sequence[Claim]) -> None:
    """Write extensions, quota requests, questions and drafts."""
    holding = [claim for claim in claims if claim.state == S.ALLOCATED]
    extended = writer.rng.sample(holding, min(len(holding), writer.size.requested // 10))
    undecided = len(extended) // 3
    extensions = []
    for number, claim in enumerate(extended):
        end = claim.expires_at or writer.now
        until = end + DAY
        extension = Extension(
            claim=claim, key=claim.key, requested_by_id=claim.requested_by_id, previous_end=end, until=until
        )
        if number >= undecided:
            extension.status, extension.decided_at = "approved", writer.now - number * DAY / 10
        extensions.append(extension)
    copy(Extension, extensions)
    copy(
        QuotaRequest,
        (
            QuotaRequest(
                key=f"bench {team.slug}",
                requested_by=writer.leads[team.pk],
                team=team,
                device_class=CLASS,
                devices=writer.size.devices,
            )
            for team in writer.teams[::3]
        ),
    )
    requested = [claim for claim in claims if claim.state == S.REQUESTED]
    copy(
        Comment,
        (
            Comment(
                claim=claim,
                by_id=claim.requested_by_id,
                text="Which dataset?",
                key=claim.key,
                question=True,
            )
            for claim in requested[::4]
        ),
    )
    engineer = User.objects.get(username=ENGINEER)
    for number in range(8):
        engineer.drafts.create(key=f"bench {number}", fields={"profile": [writer.profiles[number % 4].slug]})
