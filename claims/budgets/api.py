"""API of budgets. Amounts and GPU-hours are strings, never floats; days and months are UTC."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

from django.db.models import QuerySet
from django.shortcuts import get_object_or_404
from django.utils import timezone
from drf_spectacular.utils import OpenApiParameter, extend_schema, extend_schema_field
from rest_framework import serializers
from rest_framework.decorators import action
from rest_framework.request import Request
from rest_framework.response import Response

from claims.budgets.extra import approve_extra, request_extra
from claims.budgets.services import change_budget, end_budget, set_budget
from claims.budgets.use import STATES, past_month, past_month_asked_for, runs_out_in_period, state_of
from claims.models import AtLimit, Budget, QuotaRequest
from claims.quotas.api import KEY, AskedViewSet, RequestForMoreOut
from core import idempotency
from core.errors import Invalid
from core.idempotency import Objects
from core.inputs import FigureField, Input, Rows, page_of
from core.schema import refuses
from core.scopes import Scope, needs
from teams.access import team_for, user_of


class BudgetUseOut(serializers.Serializer[Any]):
    """
    The use of a budget in its current period at `as_of`. Null is not limited, or not known yet; never 0.
    """

    first = serializers.DateField(help_text="First day of the period (UTC)")
    last = serializers.DateField(help_text="Its last day, included")
    as_of = serializers.DateTimeField()
    amount = FigureField(allow_null=True, help_text="Limit, with what was added")
    hours = FigureField(allow_null=True)
    used_amount = FigureField(allow_null=True)
    used_hours = FigureField()
    unpriced_hours = FigureField(help_text="GPU-hours without a rate, in no amount")
    amount_rate = FigureField(4, allow_null=True, help_text="Per hour, mean of the last 7 stored days")
    hours_rate = FigureField(4, allow_null=True)
    forecast_amount = FigureField(allow_null=True)
    forecast_hours = FigureField(allow_null=True)
    share = serializers.FloatField(help_text="Of the limit that is used most; 1 is all of it")
    runs_out_at = serializers.DateTimeField(
        allow_null=True, help_text="At this rate, in the period or after it; null if never, or used up"
    )
    runs_out_in_period = serializers.SerializerMethodField()

    @extend_schema_field(bool)
    def get_runs_out_in_period(self, use: Any) -> bool:
        return runs_out_in_period(use)


class BudgetOut(serializers.Serializer[Any]):
    """A budget: of each month if `last` is null, else from `first` to `last`."""

    id = serializers.UUIDField()
    team = serializers.CharField(source="team.slug")
    title = serializers.CharField(help_text="Empty: the budget of each month")
    first = serializers.DateField()
    last = serializers.DateField(allow_null=True)
    amount = FigureField(allow_null=True)
    currency = serializers.CharField(help_text="ISO 4217")
    hours = FigureField(allow_null=True, help_text="GPU-hours")
    at_limit = serializers.ChoiceField(choices=AtLimit.choices, help_text="What happens at 100 %")
    set_by = serializers.CharField(source="set_by.username", allow_null=True, default=None)
    set_at = serializers.DateTimeField()
    state = serializers.SerializerMethodField()
    use = BudgetUseOut()

    @extend_schema_field({"type": "string", "enum": [state.key for state in STATES]})
    def get_state(self, budget: Budget) -> str:
        return state_of(budget, budget.use, now=timezone.now()).key


@extend_schema_field({"type": "string", "format": "decimal", "pattern": r"^[0-9]{1,11}(\.[0-9]{1,2})?$"})
class PositiveAmount(serializers.DecimalField):
    """A decimal or null; the pattern that drf-spectacular derives also matches an empty string."""

    def __init__(self, **more: Any) -> None:
        super().__init__(max_digits=13, decimal_places=2, min_value=0, allow_null=True, default=None, **more)


class TermsIn(Input):
    amount = PositiveAmount(help_text="Money, in the currency of the installation")
    hours = PositiveAmount(help_text="GPU-hours")
    first = serializers.DateField(allow_null=True, default=None, help_text="By default today")
    last = serializers.DateField(allow_null=True, default=None)
    at_limit = serializers.ChoiceField(choices=AtLimit.choices, default=AtLimit.NOTIFY)
    reason = serializers.CharField(max_length=500, allow_blank=True, default="")


class BudgetIn(TermsIn):
    """Without `last` and `title` a budget of each month, else of the days from `first` to `last`."""

    team = serializers.CharField(max_length=40)
    title = serializers.CharField(max_length=60, allow_blank=True, default="")


PAST_MONTH = OpenApiParameter("month", str, required=True, description="A past month (UTC): 2026-10.")


@needs(Scope.ADMIN)
class BudgetViewSet(Objects[Budget]):
    """Open budgets of your teams with their use. Platform admins set, change and end them."""

    lookup_value_converter = "uuid"
    volatile = frozenset(("state", "use"))
    serializer_class = BudgetOut
    queryset = Budget.objects.none()

    def get_queryset(self) -> QuerySet[Budget]:
        return Budget.objects.visible_to(user_of(self.request)).open().select_related("team", "use", "set_by")

    @refuses(404, 409)
    @extend_schema(request=BudgetIn, responses={201: BudgetOut})
    def create(self, request: Request) -> Response:
        """Set a budget of a team. Platform admins only."""
        user, fields = user_of(request), dict(BudgetIn.of(request).validated_data)
        budget = set_budget(by=user, **fields | {"team": team_for(user, fields["team"])})
        return Response(self._shown(budget), status=201)

    @refuses(409)
    @extend_schema(request=TermsIn, responses=BudgetOut)
    def update(self, request: Request, pk: str) -> Response:
        """
        Give the budget these terms from now on; past months keep theirs. What happens at 100 % stays if it is
        left out. Platform admins only.
        """
        budget = self.get_object()
        body = TermsIn.of(request, {"at_limit": budget.at_limit})
        return Response(self._shown(change_budget(by=user_of(request), budget=budget, **body.validated_data)))

    def destroy(self, request: Request, pk: str) -> Response:
        """End the budget; its history stays. Platform admins only."""
        end_budget(by=user_of(request), budget=self.get_object())
        return Response(status=204)

    @extend_schema(parameters=[PAST_MONTH], responses=BudgetOut(many=True))
    @action(detail=False, filter_backends=(), pagination_class=Rows)
    def past(self, request: Request) -> Response:
        """Monthly budgets of a past month with the terms that applied at its end, and their use in it."""
        text, now = request.query_params.get("month", ""), timezone.now()
        first = past_month_asked_for(text, now)
        if first is None:
            raise Invalid(f"A past month is written like 2026-10; “{text[:20]}” was sent.")
        visible = Budget.objects.visible_to(user_of(request))
        found = []
        for use in past_month(visible, first, now=now):
            use.budget.use = use
            found.append(use.budget)
        return page_of(self, found, BudgetOut)

    def _shown(self, budget: Budget) -> Any:
        return BudgetOut(self.get_queryset().get(pk=budget.pk)).data


class BudgetRequestOut(RequestForMoreOut):
    """A request for extra budget in the period that begins on `first`."""

    budget = serializers.UUIDField(source="budget_id")
    first = serializers.DateField()
    amount = FigureField()
    hours = FigureField()


class BudgetRequestIn(Input):
    budget = serializers.UUIDField()
    amount = PositiveAmount(help_text="Money more, in the currency of the budget")
    hours = PositiveAmount(help_text="GPU-hours more")
    reason = serializers.CharField(max_length=2000)


class BudgetGrantIn(Input):
    """Null approves what was requested."""

    amount = PositiveAmount()
    hours = PositiveAmount()
    note = serializers.CharField(max_length=500, allow_blank=True, default="")


class BudgetRequestViewSet(AskedViewSet):
    """Requests for extra budget of your teams, with their decisions."""

    lookup_value_converter = "uuid"
    serializer_class = BudgetRequestOut

    def get_queryset(self) -> QuerySet[QuotaRequest]:
        visible = QuotaRequest.objects.visible_to(user_of(self.request)).filter(budget__isnull=False)
        return visible.select_related("team", "budget", "requested_by", "decided_by")

    @refuses(404)
    @extend_schema(request=BudgetRequestIn, responses={201: BudgetRequestOut}, parameters=[KEY])
    def create(self, request: Request) -> Response:
        """Request money or GPU-hours beside a budget, for its current period."""
        user, fields = user_of(request), BudgetRequestIn.of(request).validated_data
        budgets = Budget.objects.visible_to(user).select_related("team")
        budget = get_object_or_404(budgets, pk=fields.pop("budget"))
        more = {name: fields[name] or Decimal(0) for name in ("amount", "hours")}
        key = idempotency.idempotency_key(request)
        sent = request_extra(by=user, budget=budget, reason=fields["reason"], key=key, **more)
        return Response(BudgetRequestOut(sent).data, status=201)

    @needs(Scope.ADMIN)
    @refuses(409)
    @extend_schema(request=BudgetGrantIn, responses=BudgetRequestOut)
    @action(detail=True, methods=["post"])
    def approve(self, request: Request, pk: str) -> Response:
        """Add what was requested, or this much. Platform admins only."""
        fields = BudgetGrantIn.of(request).validated_data
        decided = approve_extra(quota_request=self.get_object(), by=user_of(request), **fields)
        return Response(BudgetRequestOut(decided).data)
