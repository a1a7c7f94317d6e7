"""Approval rules, approval steps, delegations, saved reasons, and comments."""

from __future__ import annotations

from django.db import models
from django.db.models import F, Q
from django.utils import timezone

from claims.models.claim import Claim
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
        return f"{self.team or 'every team'}, {self.profile or 'every profile'}: {self.approval}"


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
        return f"{self.to} for {self.lead} in {self.team}"


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


class ReasonTemplate(models.Model):
    """A saved reason to deny, for one team or for every team."""

    title = models.CharField(max_length=80)
    text = models.TextField()
    team = models.ForeignKey(Team, models.CASCADE, null=True, blank=True, related_name="+")

    class Meta:
        ordering = ("title", "pk")

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
