"""Approval rules, approval steps, pending decisions, delegations, saved reasons, and comments."""

from __future__ import annotations

from typing import Self

from django.contrib.auth.models import AnonymousUser
from django.db import models
from django.db.models import F, Q
from django.utils import timezone

from claims.models.claim import Claim, Extension
from claims.models.limits import Approval
from claims.models.profile import Profile
from claims.models.quota import QuotaRequest
from core.models import uuid7
from teams.models import Team, User


class ApprovalRule(models.Model):
    """
    Who approves requests of a team for a profile, of a team, or of every team for a profile; the most
    specific rule wins. Without a rule, or with an empty `approval`, the profile version says who approves.

    Up to `automatic_devices` devices (of all pods together) for up to `automatic_duration` are approved
    automatically; None means any duration. After `escalate_after` without a decision, platform admins may
    decide too.
    """

    MOST = 100_000  # devices that may be approved automatically

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    team = models.ForeignKey(Team, models.CASCADE, null=True, blank=True, related_name="approval_rules")
    profile = models.ForeignKey(Profile, models.CASCADE, null=True, blank=True, related_name="approval_rules")
    approval = models.CharField(max_length=9, choices=Approval, default=Approval.LEAD, blank=True)
    automatic_devices = models.PositiveIntegerField(default=0)
    automatic_duration = models.DurationField(null=True, blank=True)
    self_approval = models.BooleanField(default=False)  # approvers may decide on their own requests
    escalate_after = models.DurationField(null=True, blank=True)

    class Meta:
        ordering = ("team", "profile")
        constraints = (
            models.CheckConstraint(
                condition=Q(team__isnull=False) | Q(profile__isnull=False),
                name="approvalrule_is_for_something",
            ),
            models.UniqueConstraint(
                fields=["team", "profile"], nulls_distinct=False, name="approvalrule_once"
            ),
        )

    def __str__(self) -> str:
        approval = self.get_approval_display() or "as the profile says"
        return f"{self.team or 'every team'}, {self.profile or 'every profile'}: {approval}"


class Delegation(models.Model):
    """`to` is the delegate of `lead` for one team, from `starts_at` to `ends_at`."""

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    team = models.ForeignKey(Team, models.CASCADE, related_name="delegations")
    lead = models.ForeignKey(User, models.CASCADE, related_name="delegations_given")
    to = models.ForeignKey(User, models.CASCADE, related_name="delegations_held")
    starts_at = models.DateTimeField(default=timezone.now)
    ends_at = models.DateTimeField()

    class Meta:
        ordering = ("starts_at", "pk")
        constraints = (
            models.CheckConstraint(
                condition=Q(ends_at__gte=F("starts_at")), name="delegation_ends_after_start"
            ),
            models.CheckConstraint(condition=~Q(lead=F("to")), name="delegation_to_somebody_else"),
        )

    def __str__(self) -> str:
        return f"{self.to.label} for {self.lead.label} in {self.team}"


class ApprovalStep(models.Model):
    """The first approval where two are required, bound to the spec that was read; deleted when it is void."""

    claim = models.ForeignKey(Claim, models.CASCADE, related_name="steps")
    role = models.CharField(max_length=5, choices=[(Approval.LEAD, "lead"), (Approval.ADMIN, "admin")])
    by = models.ForeignKey(User, models.SET_NULL, null=True, related_name="+")
    at = models.DateTimeField(default=timezone.now)
    note = models.TextField(blank=True, default="")
    spec_hash = models.CharField(max_length=64)

    class Meta:
        ordering = ("at", "pk")
        constraints = (models.UniqueConstraint(fields=["claim", "role"], name="approvalstep_once"),)

    def __str__(self) -> str:
        return f"{self.claim}: {self.role}"


class PendingDecisionQuerySet(models.QuerySet["PendingDecision"]):
    def visible_to(self, user: User | AnonymousUser) -> Self:
        if user.is_superuser:
            return self  # without a condition that is always true, which the planner cannot know
        return self.filter(team__in=Team.objects.visible_to(user))


class PendingDecision(models.Model):
    """
    An undecided request and the groups of people who decide on it now; its `id` is that of the request.

    `claims.approvals.pending` writes and reads the rows. An extension has its `claim` too.

    `for_leads`: leads of the team and their delegates decide. `for_admins`: platform admins decide, because a
    rule says so, leads took too long, or no lead can. `two_approvals`: a lead decides first, then an admin
    other than `first_approver`. `self_approval`: the requester may decide too. `claims.approvals.reminders`
    writes `reminded_at`, when these people were last reminded.
    """

    class Kind(models.TextChoices):
        CLAIM = "claim", "claim"
        EXTENSION = "extension", "extension"
        QUOTA = "quota", "quota"

    id = models.UUIDField(primary_key=True, editable=False)
    kind = models.CharField(max_length=9, choices=Kind)
    claim = models.ForeignKey(Claim, models.CASCADE, null=True, related_name="pending_decisions")
    extension = models.OneToOneField(Extension, models.CASCADE, null=True, related_name="pending_decision")
    quota_request = models.OneToOneField(
        QuotaRequest, models.CASCADE, null=True, related_name="pending_decision"
    )
    team = models.ForeignKey(Team, models.CASCADE, related_name="pending_decisions")
    requester = models.ForeignKey(User, models.CASCADE, related_name="+")
    requested_at = models.DateTimeField()
    for_leads = models.BooleanField()
    for_admins = models.BooleanField()
    two_approvals = models.BooleanField(default=False)
    self_approval = models.BooleanField(default=False)
    first_approver = models.ForeignKey(User, models.SET_NULL, null=True, related_name="+")
    reminded_at = models.DateTimeField(null=True)

    objects = PendingDecisionQuerySet.as_manager()

    class Meta:
        ordering = ("requested_at", "pk")
        constraints = (
            models.CheckConstraint(
                condition=Q(kind="claim", claim=F("id"), extension=None, quota_request=None)
                | Q(kind="extension", claim__isnull=False, extension=F("id"), quota_request=None)
                | Q(kind="quota", claim=None, extension=None, quota_request=F("id")),
                name="pendingdecision_of_one_request",
            ),
        )
        indexes = (
            models.Index(fields=["requested_at", "id"], name="pendingdecision_oldest"),
            models.Index(fields=["team"], condition=Q(for_leads=True), name="pendingdecision_leads"),
            models.Index(
                fields=["requested_at", "id"], condition=Q(for_admins=True), name="pendingdecision_admins"
            ),
        )

    def __str__(self) -> str:
        return f"{self.kind} of {self.team}"


class ReasonTemplate(models.Model):
    """A saved reason to deny, for one team or for every team."""

    title = models.CharField(max_length=80)
    text = models.TextField()
    team = models.ForeignKey(Team, models.CASCADE, null=True, blank=True, related_name="+")

    class Meta:
        ordering = ("title", "pk")
        constraints = (
            models.UniqueConstraint(fields=["team", "title"], name="reason_title_once", nulls_distinct=False),
        )

    def __str__(self) -> str:
        return self.title


class Comment(models.Model):
    """A comment on a claim or on a quota request; a `question` waits for an answer."""

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    claim = models.ForeignKey(Claim, models.CASCADE, null=True, related_name="comments")
    quota_request = models.ForeignKey(QuotaRequest, models.CASCADE, null=True, related_name="comments")
    by = models.ForeignKey(User, models.PROTECT, related_name="+")
    at = models.DateTimeField(default=timezone.now)
    text = models.TextField()
    question = models.BooleanField(default=False)
    key = models.CharField(max_length=80)  # Idempotency-Key: sent twice, saved once

    class Meta:
        ordering = ("at", "pk")
        constraints = (
            models.UniqueConstraint(fields=["by", "key"], name="comment_once_per_key"),
            models.CheckConstraint(
                condition=Q(claim=None, quota_request__isnull=False)
                | Q(claim__isnull=False, quota_request=None),
                name="comment_on_one_thing",
            ),
        )

    def __str__(self) -> str:
        return self.text[:40]
