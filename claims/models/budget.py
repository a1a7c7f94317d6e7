"""Budgets of teams, what changed them, and what the portal computed last of their use."""

from __future__ import annotations

from datetime import date, timedelta
from typing import Self

from django.contrib.auth.models import AnonymousUser
from django.db import models
from django.db.models import F, Q
from django.utils import timezone

from core.models import uuid7
from core.text import DEFAULT_CURRENCY
from teams.models import Team, User

DAY = timedelta(days=1)


class AtLimit(models.TextChoices):
    """What happens when a budget is used up, in the order of strictness."""

    NOTIFY = "notify", "notify only"
    APPROVAL = "approval", "new requests need approval"
    RECLAIM = "reclaim", "platform admins see running claims first"
    BLOCK = "block", "new requests are refused"


class BudgetQuerySet(models.QuerySet["Budget"]):
    def visible_to(self, user: User | AnonymousUser) -> Self:
        return self.filter(team__in=Team.objects.visible_to(user))

    def open(self) -> Self:
        """Return budgets that nobody has ended."""
        return self.filter(ended_at=None)

    def current(self, day: date) -> Self:
        """Return open budgets of which this day (UTC) is part."""
        return self.open().filter(Q(last=None) | Q(last__gte=day), first__lte=day)


class Budget(models.Model):
    """
    Money and GPU-hours that a team may use in each calendar month (`last` is None), or from the day `first`
    to the day `last`. Days and months are UTC.

    A team has one budget per title; that of each month has none. `amount` or `hours` may be None, not both.
    The columns are the terms that apply now; `BudgetTerms` has those of before.
    """

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    team = models.ForeignKey(Team, models.CASCADE, related_name="budgets")
    title = models.CharField(max_length=60, blank=True, default="")
    first = models.DateField()
    last = models.DateField(null=True)
    amount = models.DecimalField(max_digits=14, decimal_places=2, null=True)
    currency = models.CharField(max_length=3, default=DEFAULT_CURRENCY)
    hours = models.DecimalField(max_digits=14, decimal_places=2, null=True)
    at_limit = models.CharField(max_length=8, choices=AtLimit, default=AtLimit.NOTIFY)
    set_by = models.ForeignKey(User, models.SET_NULL, null=True, related_name="+")
    set_at = models.DateTimeField(default=timezone.now)
    ended_by = models.ForeignKey(User, models.SET_NULL, null=True, related_name="+")
    ended_at = models.DateTimeField(null=True)

    objects = BudgetQuerySet.as_manager()

    class Meta:
        ordering = ("team", "title")
        constraints = (
            models.CheckConstraint(
                condition=Q(amount__gt=0) & (Q(hours=None) | Q(hours__gt=0))
                | Q(amount=None) & Q(hours__gt=0),
                name="budget_of_money_or_hours",
            ),
            models.CheckConstraint(
                condition=Q(title="", last=None) | (~Q(title="") & Q(last__gte=F("first"))),
                name="budget_monthly_or_titled",
            ),
            models.UniqueConstraint(
                fields=["team", "title"], condition=Q(ended_at=None), name="budget_open_once"
            ),
        )
        indexes = (models.Index(fields=["team"], condition=Q(ended_at=None), name="budget_open"),)

    def __str__(self) -> str:
        return f"{self.team}: {self.title or 'monthly budget'}"

    @property
    def is_monthly(self) -> bool:
        return self.last is None

    def period(self, day: date) -> tuple[date, date]:
        """Return the first and the last day of the period: the month of `day`, or the fixed one."""
        if self.last is not None:
            return self.first, self.last
        first = day.replace(day=1)
        return first, (first + timedelta(days=31)).replace(day=1) - DAY


class BudgetTerms(models.Model):
    """The terms of a budget from `since` on, until the next row; rows are only ever added."""

    budget = models.ForeignKey(Budget, models.CASCADE, related_name="terms")
    since = models.DateTimeField(default=timezone.now)
    by = models.ForeignKey(User, models.SET_NULL, null=True, related_name="+")
    first = models.DateField()
    last = models.DateField(null=True)
    amount = models.DecimalField(max_digits=14, decimal_places=2, null=True)
    currency = models.CharField(max_length=3, default=DEFAULT_CURRENCY)
    hours = models.DecimalField(max_digits=14, decimal_places=2, null=True)
    at_limit = models.CharField(max_length=8, choices=AtLimit)
    reason = models.TextField(blank=True, default="")

    class Meta:
        ordering = ("since", "pk")
        indexes = (models.Index(fields=["budget", "since"], name="budgetterms_since"),)

    def __str__(self) -> str:
        return f"{self.budget_id} since {self.since}"


class BudgetExtra(models.Model):
    """What was added to a budget for the one period that begins on the day `first`."""

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    budget = models.ForeignKey(Budget, models.CASCADE, related_name="extras")
    first = models.DateField()
    amount = models.DecimalField(max_digits=14, decimal_places=2, default=0)
    hours = models.DecimalField(max_digits=14, decimal_places=2, default=0)
    reason = models.TextField(blank=True, default="")
    by = models.ForeignKey(User, models.SET_NULL, null=True, related_name="+")
    at = models.DateTimeField(default=timezone.now)

    class Meta:
        ordering = ("at", "pk")
        constraints = (
            models.CheckConstraint(
                condition=Q(amount__gte=0, hours__gte=0) & (Q(amount__gt=0) | Q(hours__gt=0)),
                name="budgetextra_adds",
            ),
        )

    def __str__(self) -> str:
        return f"{self.budget_id}, {self.first}: + {self.amount or self.hours}"


class BudgetUse(models.Model):
    """
    What a budget's team had used at `as_of` of the period until `ends_at`, and where that leads.
    `claims.budgets.use.refresh` is the only writer.

    `amount` and `hours` are the limits of this period, with what was added. `used_…` are null for what the
    budget does not limit; `unpriced_hours` have no rate and are in no amount. `amount_rate` and `hours_rate`
    are per hour, means of the last seven stored days; null before the first whole day. `share` and `forecast`
    are of the limit that is used most, 1 for all of it. At `runs_out_at` it is used up at that rate, be it in
    this period or after it; null if it never is, or is already.
    """

    budget = models.OneToOneField(Budget, models.CASCADE, primary_key=True, related_name="use")
    first = models.DateField()
    last = models.DateField()
    ends_at = models.DateTimeField()
    as_of = models.DateTimeField()
    amount = models.DecimalField(max_digits=14, decimal_places=2, null=True)
    hours = models.DecimalField(max_digits=14, decimal_places=2, null=True)
    used_amount = models.DecimalField(max_digits=14, decimal_places=2, null=True)
    used_hours = models.DecimalField(max_digits=14, decimal_places=2)
    unpriced_hours = models.DecimalField(max_digits=14, decimal_places=2)
    amount_rate = models.DecimalField(max_digits=14, decimal_places=4, null=True)
    hours_rate = models.DecimalField(max_digits=14, decimal_places=4, null=True)
    forecast_amount = models.DecimalField(max_digits=14, decimal_places=2, null=True)
    forecast_hours = models.DecimalField(max_digits=14, decimal_places=2, null=True)
    share = models.FloatField()
    forecast = models.FloatField(null=True)
    runs_out_at = models.DateTimeField(null=True)

    def __str__(self) -> str:
        return f"{self.share:.0%} of {self.budget_id}"
