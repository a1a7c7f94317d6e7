"""A claim with its history, allocations, extensions and drafts. Only `Claim.advance` changes its state."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Self

from django.contrib.auth.models import AnonymousUser
from django.contrib.postgres.indexes import GinIndex
from django.db import models, transaction
from django.db.models import F, Prefetch, Q
from django.db.models.functions import Now
from django.utils import timezone

from claims.models.limits import Delivery
from claims.models.profile import ProfileVersion
from claims.signals import claim_state_changed, pending_request_decided
from claims.states import FINAL, GRANTED, LOOK, NEXT, RUNNING, ClaimState
from core.errors import IllegalTransition
from core.filters import Trigrams
from core.models import uuid7
from core.origin import Source, current_origin
from core.text import gib
from core.times import moment, utc_moment
from inventory.models import Cluster, PriceBasis
from inventory.models.device import gpu_where
from inventory.states import EndPolicy
from teams.models import Team, User, record_change


class ClaimQuerySet(models.QuerySet["Claim"]):
    def visible_to(self, user: User | AnonymousUser) -> Self:
        if user.is_superuser:
            return self  # without a condition that is always true, which the planner cannot know
        return self.filter(team__in=Team.objects.visible_to(user))

    def for_list(self) -> Self:
        """Load what a row of a list shows; reading any other relation raises instead of querying."""
        related = ("team", "cluster", "profile_version__profile", "requested_by")
        alternatives = Alternative.objects.select_related("profile_version__profile")
        # A plain list on each claim: a queryset on each would cost more than the rows.
        listed = Prefetch("alternatives", alternatives, to_attr="listed_alternatives")
        rows = self.select_related(*related).prefetch_related(listed)
        return rows.fetch_mode(models.FETCH_RAISE)

    def with_profiles(self) -> Self:
        """Load the profiles of claims with multiple profiles, in one query for all claims."""
        return self.prefetch_related(
            Prefetch("alternatives", Alternative.objects.select_related("profile_version__profile"))
        )

    def with_profile(self, slug: str) -> Self:
        """Return the claims that name the profile, alone or with others; both are found by an index."""
        versions = ProfileVersion.objects.filter(profile__slug=slug)
        alone = Claim.objects.filter(profile_version__in=versions).order_by().values("pk")
        others = Alternative.objects.filter(profile_version__in=versions).order_by().values("claim")
        return self.filter(pk__in=alone.union(others))

    def live(self) -> Self:
        return self.exclude(state__in=FINAL)


class Claim(models.Model):
    """
    GPUs requested by a team; delivered as one ResourceClaim, or as one ResourceClaimTemplate.

    `spec` is the requested ResourceClaim spec, with the count filled in; approval is bound to `spec_hash`.
    `original_request` is set if an approver changed it. `parallel` is how many claims of a template may exist
    at once (1 for a named claim); quota is charged for that number. `expires_at` is set when the
    claim is approved. `problem` is a sentence from the cluster or from reconciliation, or empty.

    While the claim that it `replaces` still counts against the quota of the same profile, only the devices
    beyond `carried` count for this one.
    """

    class Origin(models.TextChoices):
        PORTAL = "portal", "made by the portal"
        ADOPTED = "adopted", "adopted"

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    name = models.CharField(max_length=63)  # of the object in the cluster: a DNS label
    key = models.CharField(max_length=80)  # Idempotency-Key of the requester
    key_digest = models.CharField(max_length=64, blank=True, default="", editable=False)  # of that request
    team = models.ForeignKey(Team, models.PROTECT, related_name="claims", db_index=False)
    cluster = models.ForeignKey(Cluster, models.PROTECT, related_name="claims")
    namespace = models.CharField(max_length=63)
    profile_version = models.ForeignKey(ProfileVersion, models.PROTECT, related_name="claims", db_index=False)
    requested_by = models.ForeignKey(User, models.PROTECT, related_name="claims")
    delivery = models.CharField(max_length=8, choices=Delivery, default=Delivery.CLAIM)
    devices = models.PositiveIntegerField()  # per ResourceClaim, the worst case of dra.quota
    parallel = models.PositiveIntegerField(default=1)
    duration = models.DurationField()
    reason = models.TextField(blank=True, default="")
    origin = models.CharField(max_length=7, choices=Origin, default=Origin.PORTAL)
    spec = models.JSONField()
    spec_hash = models.CharField(max_length=64)
    state = models.CharField(max_length=11, choices=ClaimState, default=ClaimState.REQUESTED)
    state_since = models.DateTimeField(default=timezone.now)
    version = models.PositiveIntegerField(default=1)  # grows whenever the page of the claim would change
    created_at = models.DateTimeField(default=timezone.now)
    decide_by = models.DateTimeField(null=True)  # an undecided request expires then
    escalated_at = models.DateTimeField(null=True)  # from then on platform admins may decide too
    decided_by = models.ForeignKey(User, models.SET_NULL, null=True, related_name="+")
    decided_at = models.DateTimeField(null=True)
    decision_note = models.TextField(blank=True, default="")
    approved_hash = models.CharField(max_length=64, blank=True, default="")
    original_request = models.JSONField(null=True)
    expires_at = models.DateTimeField(null=True)
    # Of a claim that a program keeps alive (`claims.lifecycle.keep_alive`): how long it may be silent.
    keep_alive = models.DurationField(null=True)
    ends_unless_renewed_at = models.DateTimeField(null=True)
    silence_noticed_at = models.DateTimeField(null=True)  # when its owner was told that it ends
    # When pods that still hold its devices are evicted; written by `claims.delivery.eviction` alone.
    evict_at = models.DateTimeField(null=True)
    object_uid = models.CharField(
        max_length=64, blank=True, default=""
    )  # of the claim or template in the cluster
    problem = models.TextField(blank=True, default="")
    observation_hash = models.CharField(max_length=64, blank=True, default="")  # hash of the last observation
    # When to reconcile it although nothing changes in the mirror: at once after each step.
    reconcile_at = models.DateTimeField(null=True, default=timezone.now, editable=False)
    replaces = models.ForeignKey("self", models.SET_NULL, null=True, related_name="successors")
    carried = models.PositiveIntegerField(default=0)

    objects = ClaimQuerySet.as_manager()

    class Meta:
        ordering = ("-created_at", "-id")
        constraints = (
            models.UniqueConstraint(fields=["requested_by", "key"], name="claim_once_per_key"),
            models.UniqueConstraint(
                fields=["cluster", "namespace", "name"],
                condition=~Q(state__in=FINAL),
                include=["id", "state", "parallel", "delivery"],  # what a ResourceQuota counts
                name="claim_name_free",
            ),
            models.CheckConstraint(condition=Q(parallel__gt=0), name="claim_parallel_positive"),
            models.CheckConstraint(
                condition=Q(keep_alive=None, ends_unless_renewed_at=None, silence_noticed_at=None)
                | Q(keep_alive__gt=timedelta(0), ends_unless_renewed_at__isnull=False),
                name="claim_kept_alive_until",
            ),
            models.CheckConstraint(condition=Q(state__in=ClaimState.values), name="claim_state_known"),
        )
        indexes = (
            # Lists and quotas of a team read these two alone: its rows are spread over the whole table.
            models.Index(
                fields=["team", "state"],
                include=["id", "created_at", "profile_version", "requested_by", "decided_at"],
                name="claim_team_state",
            ),
            models.Index(
                fields=["team", "state"],
                include=["id", "profile_version", "devices", "parallel", "carried", "replaces"],
                condition=~Q(state__in=FINAL),
                name="claim_live",
            ),
            models.Index(fields=["profile_version", "id"], name="claim_profile_version"),
            models.Index(fields=["profile_version"], condition=~Q(state__in=FINAL), name="claim_by_version"),
            models.Index(fields=["state", "expires_at"], condition=~Q(state__in=FINAL), name="claim_expiry"),
            models.Index(fields=["id"], condition=Q(state__in=GRANTED), name="claim_granted"),
            models.Index(
                fields=["ends_unless_renewed_at"],
                condition=~Q(state__in=FINAL) & ~Q(ends_unless_renewed_at=None),
                name="claim_kept_alive",
            ),
            models.Index(
                fields=["reconcile_at"], condition=~Q(reconcile_at=None), name="claim_reconcile_due"
            ),
            models.Index(fields=["-created_at", "-id"], name="claim_newest"),
            models.Index(fields=["team", "-created_at"], name="claim_newest_of_team"),
            models.Index(fields=["state", "-created_at", "-id"], name="claim_newest_in_state"),
            models.Index(fields=["-state_since"], condition=Q(state=ClaimState.FAILED), name="claim_failed"),
            models.Index(F("expires_at").desc(nulls_last=True), F("id").desc(), name="claim_by_end"),
            GinIndex(Trigrams("name", "reason"), name="claim_text"),
            models.Index(fields=["object_uid"], name="claim_object"),
            models.Index(
                fields=["-decided_at"],
                include=["id", "team"],
                condition=~Q(decided_at=None) & ~Q(state=ClaimState.REQUESTED),
                name="claim_decided",
            ),
        )

    def __str__(self) -> str:
        return self.name

    @property
    def is_final(self) -> bool:
        return self.state in FINAL

    @property
    def deleted_at(self) -> datetime | None:
        """When the portal deletes its object: at its end and its grace; None for never."""
        return self.expires_at + self.profile_version.grace if self.expires_at else None

    @property
    def is_in_grace(self) -> bool:
        """Whether it has expired and its object is not deleted yet."""
        return self.state in RUNNING and self.expires_at is not None and self.expires_at <= timezone.now()

    @property
    def end_policy(self) -> EndPolicy:
        """What happens to its pods at its end; of several profiles, the one named first decides."""
        return self.profile_version.end_policy_in(self.cluster)

    @property
    def badge(self) -> tuple[str, str, str]:
        """Color family, icon and label of the state."""
        return (*LOOK[self.state], ClaimState(self.state).label)

    @property
    def versions(self) -> list[ProfileVersion]:
        """The versions of all its profiles, in their order; `with_profiles` loads them."""
        return [row.profile_version for row in self.alternative_rows] or [self.profile_version]

    @property
    def alternative_rows(self) -> Iterable[Alternative]:
        """The rows of `alternatives`, which `for_list` and `with_profiles` load."""
        listed: Iterable[Alternative] | None = getattr(self, "listed_alternatives", None)
        return self.alternatives.all() if listed is None else listed

    @property
    def together(self) -> bool:
        """Whether it takes all of its profiles at once, not the first that fits."""
        return any(row.together for row in self.alternative_rows)

    @property
    def titles(self) -> str:
        """ "Train 80 GB + NIC" for combined profiles, "Train 80 GB or else L4" for alternatives."""
        return self.join_profiles(version.profile.title for version in self.versions)

    @property
    def slugs(self) -> str:
        """ "train-80 + nic", joined as `titles`."""
        return self.join_profiles(version.profile.slug for version in self.versions)

    @property
    def sizes(self) -> str:
        """ "2 × Train 80 GB + 1 × NIC": devices per ResourceClaim of each profile, joined as `titles`."""
        counts = [(row.per_claim, row.profile_version.profile) for row in self.alternative_rows]
        counts = counts or [(self.devices, self.profile_version.profile)]
        return self.join_profiles(f"{count} × {profile.title}" for count, profile in counts)

    def join_profiles(self, texts: Iterable[str]) -> str:
        """Join one text per profile with "+" or "or else"."""
        return join_profiles(texts, together=self.together)

    def record_creation(self, *, why: str, by: User) -> None:
        """Write the first entry of the history. Call it once, in the transaction that creates the claim."""
        self._record("", self.state, why, by)
        claim_state_changed.send(Claim, claim=self, old="", new=self.state)

    def _record(
        self,
        old: str,
        new: str,
        why: str,
        by: User | None,
        source: Source | None = None,
        values: Sequence[tuple[str, str, str]] = (),
        action: str = "",
        previous_owner: User | None = None,
    ) -> None:
        """
        Write an entry of the history, and one of the audit log unless the cluster did it: that has its own.
        """
        origin = current_origin(by=by)
        action = action or _action(old, new)
        self.history.create(
            action=action,
            old=old,
            new=new,
            reason=why,
            by=by,
            source=source or origin.source,
            via="" if source else origin.via,
            values=list(values),
            previous_owner=previous_owner,
        )
        if source == Source.CLUSTER:
            return
        if old != new:
            values = [("State", ClaimState(old).label if old else "–", ClaimState(new).label), *values]
        record_change(
            by=by,
            of=self,
            change=why,
            values=values,
            action=action,
            in_activity=False,
        )

    def advance(
        self,
        to: ClaimState,
        *,
        why: str,
        by: User | None = None,
        source: Source | None = None,
        **fields: object,
    ) -> bool:
        """
        Move to the state `to` and record it; return False if the claim has left its state meanwhile.

        The compare-and-set on the old state is the only guard needed: callers may race, repeat or arrive
        late, and the history still has each transition once. `fields` are columns that change with the
        state, `source` from where it comes, if not from the request. Receivers of `claim_state_changed`
        queue the consequences, such as the quotas of the team.
        """
        if to not in NEXT[self.state]:
            raise IllegalTransition(f"{self} is {self.state} and cannot become {to}.")
        with transaction.atomic():
            unmoved = Claim.objects.filter(pk=self.pk, state=self.state)
            fields = {"state_since": Now(), "reconcile_at": Now(), **fields}
            if not unmoved.update(state=to, version=F("version") + 1, **fields):
                return False
            self._record(self.state, to, why, by, source)
            if to == ClaimState.REQUESTED:
                self.steps.all().delete()  # a request that is pending again needs every consent again
            if to in FINAL:
                self.charges.update(live=False)
                self._end_carrying()
            claim_state_changed.send(Claim, claim=self, old=self.state, new=to)
        self.refresh_from_db(fields=["state", "version", *fields])
        for name, value in fields.items():
            if isinstance(value, models.Model):  # which was read again by its id alone
                setattr(self, name, value)
        return True

    def remark(
        self, why: str, *, by: User | None = None, action: str = "claim.changed", **fields: object
    ) -> None:
        """
        Write an entry of the history without a change of state, and set the columns that changed with it.

        `action` is its code in the audit log. Call it while the row is locked.
        """
        values = _before_and_after(self, fields)
        previous_owner = self.requested_by if "requested_by" in fields else None
        fields = {"reconcile_at": Now(), **fields}
        Claim.objects.filter(pk=self.pk).update(version=F("version") + 1, **fields)
        self._record(
            *(self.state, self.state, why, by), values=values, action=action, previous_owner=previous_owner
        )
        self.refresh_from_db(fields=["version", *fields])

    def _end_carrying(self) -> None:
        """
        Let the claims that replace this one count in full.

        Call it in the transaction in which this claim stops counting: the sum of both then never grows, and
        no other request can take the devices in between.
        """
        live = self.successors.live()
        live.update(carried=0, version=F("version") + 1)
        ClaimCharge.objects.filter(claim__in=live, carried__gt=0).update(carried=0)


def _action(old: str, new: str) -> str:
    """Return the code of a transition in the audit log."""
    if not old and new != ClaimState.REQUESTED:
        return "claim.adopted"
    return "claim.returned" if old and new == ClaimState.REQUESTED else f"claim.{new}"


def _before_and_after(claim: Claim, fields: Mapping[str, Any]) -> list[tuple[str, str, str]]:
    """Return what people read about as (what, before, after), of columns that are about to change."""
    values = []
    if "expires_at" in fields:
        before, after = (utc_moment(at) if at else "–" for at in (claim.expires_at, fields["expires_at"]))
        values.append(("End", before, after))
    if "requested_by" in fields:
        values.append(("Owner", claim.requested_by.label, fields["requested_by"].label))
    return values


class Transition(models.Model):
    """
    One entry of a claim's history: the old and new state, the reason, the person (None: the portal or the
    cluster), and from where. It is only ever added to.

    An entry whose states are equal is a remark, for example that the claim was extended. `values` has rows of
    (what, before, after) of what else changed; `team` is that of the claim, for the history of a team. A
    transfer has the `previous_owner`, to whom the days before it count (`usage.owners`).
    """

    claim = models.ForeignKey(Claim, models.CASCADE, related_name="history")
    old = models.CharField(max_length=11, blank=True, default="")
    new = models.CharField(max_length=11, choices=ClaimState)
    reason = models.TextField()
    by = models.ForeignKey(User, models.SET_NULL, null=True, db_index=False, related_name="+")
    at = models.DateTimeField(default=timezone.now)
    team = models.ForeignKey(Team, models.CASCADE, db_index=False, related_name="+")
    source = models.CharField(max_length=7, choices=Source, default=Source.SYSTEM)
    via = models.CharField(max_length=80, blank=True, default="")
    action = models.CharField(max_length=40, blank=True, default="")  # its code in the audit log
    values = models.JSONField(default=list)
    previous_owner = models.ForeignKey(User, models.PROTECT, null=True, db_index=False, related_name="+")

    class Meta:
        ordering = ("at", "pk")
        indexes = (
            models.Index(fields=["at", "id"], include=["old", "new"], name="transition_at"),
            models.Index(fields=["team", "at", "id"], name="transition_of_team"),
            models.Index(fields=["by", "at", "id"], name="transition_by"),
            models.Index(
                fields=["at", "id"],
                include=["claim", "previous_owner"],
                condition=~Q(previous_owner=None),
                name="transition_transfer",
            ),
        )

    def __str__(self) -> str:
        return f"{self.old} → {self.new}"

    def save(self, *args: Any, **kwargs: Any) -> None:
        if self.team_id is None:
            self.team_id = self.claim.team_id
        super().save(*args, **kwargs)


class ClaimCharge(models.Model):
    """
    Devices of one class that a claim counts for until it is final: devices × parallel, by the rules of
    `dra.quota`.

    `settled` is the smaller number for a claim with alternatives once it holds devices of one of them; None
    before. `carried` devices do not count, because the claim that this one replaces still counts for them.
    `live` is False once the claim is final. The sums over all teams are in `ClassUse`.
    """

    claim = models.ForeignKey(Claim, models.CASCADE, related_name="charges", db_index=False)
    device_class = models.CharField(max_length=253)
    devices = models.PositiveIntegerField()
    settled = models.PositiveIntegerField(null=True)
    carried = models.PositiveIntegerField(default=0)
    live = models.BooleanField(default=True, db_default=True)

    class Meta:
        indexes = (
            models.Index(
                fields=["claim"],
                include=["device_class", "devices", "settled", "carried"],
                condition=Q(live=True),
                name="claimcharge_live",  # a quarter of all, of which many teams are summed up at once
            ),
        )
        constraints = (
            models.UniqueConstraint(
                fields=["claim", "device_class"],
                include=["devices", "settled", "carried"],  # what the quotas of a team sum up
                name="claimcharge_once",
            ),
            models.CheckConstraint(
                condition=Q(settled=None) | Q(settled__lte=F("devices")), name="claimcharge_settles_below"
            ),
        )

    def __str__(self) -> str:
        return f"{self.devices} × {self.device_class}"


class ClassUse(models.Model):
    """
    Devices that a change of charges added to the use of one class, or took from it: the rows of a class add
    up to what its live charges count for.

    Triggers of the table of `ClaimCharge` add the rows; `claims.quotas.class_use` adds them up.
    """

    device_class = models.CharField(max_length=253)
    devices = models.IntegerField()

    def __str__(self) -> str:
        return f"{self.devices:+} × {self.device_class}"


def join_profiles(texts: Iterable[str], *, together: bool) -> str:
    """Join one text per profile with "+" or "or else"."""
    return (" + " if together else " or else ").join(texts)


def names_profile(**lookups: object) -> Q:
    """
    Return the condition that a profile of a claim matches: `slug="nic"`, `title__icontains="nic"`.

    Each claim is returned once, even if more than one of its profiles matches.
    """
    prefixed = {f"profile_version__profile__{name}": value for name, value in lookups.items()}
    return Q(**prefixed) | Q(pk__in=Alternative.objects.filter(**prefixed).values("claim"))


class Alternative(models.Model):
    """
    One profile of a claim with multiple profiles. Either the first that fits is taken, in the order of
    `position` from 0 on, or all are taken (`together`).

    `name` is the name of its device request ("gpu/train-80"). `devices` is the number that counts against
    the quota of its profile, devices × parallel; `settled` as in `ClaimCharge`.
    """

    claim = models.ForeignKey(Claim, models.CASCADE, related_name="alternatives")
    position = models.PositiveSmallIntegerField()
    name = models.CharField(max_length=127)
    profile_version = models.ForeignKey(ProfileVersion, models.PROTECT, related_name="+")
    devices = models.PositiveIntegerField()
    settled = models.PositiveIntegerField(null=True)
    together = models.BooleanField(default=False)

    class Meta:
        ordering = ("position",)
        constraints = (
            models.UniqueConstraint(fields=["claim", "position"], name="alternative_once"),
            models.CheckConstraint(
                condition=Q(settled=None) | Q(settled__lte=F("devices")), name="alternative_settles_below"
            ),
        )

    def __str__(self) -> str:
        return self.name

    @property
    def per_claim(self) -> int:
        """Devices per ResourceClaim."""
        return self.devices // self.claim.parallel


class AllocationQuerySet(models.QuerySet["Allocation"]):
    def gpus(self) -> Self:
        """Return those of GPUs and their parts, which are measured and billed: no network interface."""
        return self.filter(gpu_where("device"))


class Allocation(models.Model):
    """
    One device, or a share of one, that a claim holds from `started_at` to `ended_at` (the cluster's clock).

    `product`, `partition`, `uuid` and `memory_bytes` are copied from the device, which may change or vanish
    later; of a share, `memory_bytes` is what it consumes. `fraction` is the part of the physical device,
    0 < fraction ≤ 1. `basis` and `capacity_type` say by what it is priced; they come from its node too.
    """

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    claim = models.ForeignKey(Claim, models.CASCADE, related_name="allocations")
    object_uid = models.CharField(max_length=64)  # of the ResourceClaim that holds it
    object_name = models.CharField(max_length=253)
    request = models.CharField(max_length=127)  # "req" or "req/sub"
    driver = models.CharField(max_length=63)
    pool = models.CharField(max_length=253)
    device = models.CharField(max_length=63)
    share_id = models.CharField(max_length=64, blank=True, default="")
    node_name = models.CharField(max_length=253, blank=True, default="")
    product = models.CharField(max_length=120, blank=True, default="")
    partition = models.CharField(max_length=64, blank=True, default="")
    uuid = models.CharField(max_length=80, blank=True, default="")
    memory_bytes = models.BigIntegerField(null=True)
    fraction = models.DecimalField(max_digits=9, decimal_places=6, default=1)
    basis = models.ForeignKey(PriceBasis, models.RESTRICT, null=True, related_name="+", db_index=False)
    capacity_type = models.CharField(max_length=9, blank=True, default="")
    started_at = models.DateTimeField()
    ended_at = models.DateTimeField(null=True)

    objects = AllocationQuerySet.as_manager()

    class Meta:
        ordering = ("started_at", "device")
        constraints = (
            models.UniqueConstraint(
                fields=["object_uid", "driver", "pool", "device", "share_id"],
                condition=Q(ended_at=None),
                name="allocation_open_once",
            ),
            models.CheckConstraint(
                condition=Q(ended_at=None) | Q(ended_at__gte=F("started_at")),
                name="allocation_ends_after_start",
            ),
            models.CheckConstraint(condition=Q(fraction__gt=0, fraction__lte=1), name="allocation_fraction"),
        )
        indexes = (
            models.Index(fields=["claim"], condition=Q(ended_at=None), name="allocation_open"),
            models.Index(
                fields=["claim"],
                condition=Q(ended_at=None, capacity_type=""),
                name="allocation_unknown",
            ),
            models.Index(fields=["driver", "pool", "device", "-started_at"], name="allocation_device"),
            models.Index(fields=["started_at"], name="allocation_started"),
            models.Index(fields=["ended_at"], name="allocation_ended"),
        )

    def __str__(self) -> str:
        return f"{self.device} of {self.pool}"

    @property
    def part(self) -> str:
        """What it holds of its device: its partition, or the memory of a share, as "20 GiB share"."""
        if self.share_id:
            return f"{gib(self.memory_bytes)} share" if self.memory_bytes else "share"
        return self.partition


class Consumer(models.Model):
    """
    A pod for which a named ResourceClaim was reserved from `started_at` to `ended_at`
    (`status.reservedFor`); the claim is billed as one, and pages divide its cost among them.

    `resource` is "pods" of nearly every consumer. A reservation has no time in the API: it begins when the
    pod was scheduled, or when the mirror saw it. `claims.delivery.consumers` is the only writer.
    """

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    claim = models.ForeignKey(Claim, models.CASCADE, related_name="consumers")
    object_uid = models.CharField(max_length=64)  # of the ResourceClaim
    resource = models.CharField(max_length=63)
    uid = models.CharField(max_length=64)
    name = models.CharField(max_length=253)
    started_at = models.DateTimeField()
    ended_at = models.DateTimeField(null=True)

    class Meta:
        ordering = ("started_at", "name")
        constraints = (
            models.UniqueConstraint(
                fields=["object_uid", "uid"], condition=Q(ended_at=None), name="consumer_open_once"
            ),
            models.CheckConstraint(
                condition=Q(ended_at=None) | Q(ended_at__gte=F("started_at")),
                name="consumer_ends_after_start",
            ),
        )
        indexes = (models.Index(fields=["claim"], condition=Q(ended_at=None), name="consumer_open"),)

    def __str__(self) -> str:
        return f"{self.resource} {self.name}"


class RequestStatus(models.TextChoices):
    """Whether a pending request still waits, or how it ended."""

    WAITING = "waiting", "waiting"
    APPROVED = "approved", "approved"
    DENIED = "denied", "denied"
    WITHDRAWN = "withdrawn", "withdrawn"
    EXPIRED = "expired", "expired"


class PendingRequest(models.Model):
    """
    A request with its decision. `status` changes once, from waiting to another status, by `decide`.

    `key` is the Idempotency-Key of the requester. `decided_by` is None where a rule approves.
    """

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    key = models.CharField(max_length=80)
    requested_by = models.ForeignKey(User, models.PROTECT, related_name="+")
    requested_at = models.DateTimeField(default=timezone.now)
    reason = models.TextField(blank=True, default="")
    status = models.CharField(max_length=9, choices=RequestStatus, default=RequestStatus.WAITING)
    decide_by = models.DateTimeField(null=True)  # an undecided request expires then
    decided_by = models.ForeignKey(User, models.SET_NULL, null=True, related_name="+")
    decided_at = models.DateTimeField(null=True)
    decision_note = models.TextField(blank=True, default="")

    class Meta:
        abstract = True

    @property
    def decision_sentence(self) -> str:
        """Return who decided, what and when."""
        person = self.decided_by.label if self.decided_by else "the portal"
        at = moment(self.decided_at) if self.decided_at else ""
        return f"This request was already {self.get_status_display()} by {person} on {at}."

    def decide(self, status: RequestStatus, *, by: User | None, note: str = "") -> bool:
        """Decide a waiting request; return False if it is decided already. Safe to race and to repeat."""
        fields = {"status": status, "decided_by": by, "decided_at": timezone.now(), "decision_note": note}
        waiting = type(self)._default_manager.filter(pk=self.pk, status=RequestStatus.WAITING)
        with transaction.atomic():
            decided = waiting.update(**fields) == 1
            if decided:
                pending_request_decided.send(type(self), request=self)
        self.refresh_from_db(fields=list(fields))
        return decided


class ExtensionQuerySet(models.QuerySet["Extension"]):
    def visible_to(self, user: User | AnonymousUser) -> Self:
        if user.is_superuser:
            return self
        return self.filter(claim__team__in=Team.objects.visible_to(user))


class Extension(PendingRequest):
    """A request to keep a claim until `until`; `was` is the claim's end when it was made."""

    claim = models.ForeignKey(Claim, models.CASCADE, related_name="extensions")
    previous_end = models.DateTimeField()
    until = models.DateTimeField()

    objects = ExtensionQuerySet.as_manager()

    class Meta:
        ordering = ("requested_at", "pk")
        constraints = (
            models.UniqueConstraint(fields=["requested_by", "key"], name="extension_once_per_key"),
            models.UniqueConstraint(
                fields=["claim"], condition=Q(status=RequestStatus.WAITING), name="extension_one_waits"
            ),
        )

    def __str__(self) -> str:
        return f"{self.claim} until {self.until:%Y-%m-%d %H:%M}"

    @property
    def added(self) -> timedelta:
        """The requested additional time."""
        return self.until - self.previous_end

    @property
    def total_duration(self) -> timedelta:
        """The duration of the extended claim, from its approval on."""
        return self.until - (self.claim.decided_at or self.claim.created_at)

    @property
    def exceeds_max_duration(self) -> bool:
        """Whether the extended claim lasts longer than the profile allows a request to last."""
        return self.total_duration > self.claim.profile_version.max_duration


class Draft(models.Model):
    """
    The fields of the request form as typed, each name with its list of texts. Visible only to `by`.

    `key` is the key of the form. Sending the form creates a claim with this key and deletes the draft.

    """

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    by = models.ForeignKey(User, models.CASCADE, related_name="drafts")
    key = models.CharField(max_length=80)
    fields = models.JSONField(default=dict)
    created_at = models.DateTimeField(default=timezone.now)
    updated_at = models.DateTimeField(default=timezone.now)

    class Meta:
        ordering = ("-updated_at", "pk")
        constraints = (models.UniqueConstraint(fields=["by", "key"], name="draft_once_per_key"),)

    def __str__(self) -> str:
        return self.key


class ReconciledCluster(models.Model):
    """
    Up to which `revision` of a cluster's mirror claims are reconciled.

    `held_until` is the lease of the worker that reconciles what is newer (`claims.delivery.changes`).
    """

    cluster = models.OneToOneField(Cluster, models.CASCADE, primary_key=True, related_name="+")
    revision = models.BigIntegerField(default=0)
    held_until = models.DateTimeField(null=True)

    def __str__(self) -> str:
        return f"{self.cluster} at {self.revision}"


class SweepRound(models.Model):
    """Where the sweep's round over a table is: the next slice begins after the primary key `after`."""

    table = models.CharField(max_length=32, primary_key=True)
    after = models.CharField(max_length=40, blank=True, default="")  # "": at the beginning

    def __str__(self) -> str:
        return f"{self.table} after {self.after}"
