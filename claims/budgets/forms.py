"""The form of a budget, and the filters of the list."""

from __future__ import annotations

from decimal import Decimal
from typing import Any, ClassVar

from django import forms
from django.db.models import F, QuerySet
from django.http import QueryDict
from django.utils import timezone
from django_filters import ChoiceFilter, FilterSet

from claims.budgets.use import ENDED, ENOUGH, RUNS_OUT, SOON, USED_UP
from claims.models import AtLimit, Budget
from core.text import as_options
from teams.models import Team


class DayField(forms.DateField):
    widget = forms.DateInput

    def __init__(self, **more: Any) -> None:
        super().__init__(widget=forms.DateInput({"type": "date"}, format="%Y-%m-%d"), **more)


class BudgetForm(forms.Form):
    """The terms of a budget (`claims.budgets.services`); with `budget`, of one that exists."""

    team = forms.ModelChoiceField(
        Team.objects.active(),
        to_field_name="slug",
        label="Team",
        widget=forms.TextInput(attrs={"list": "teams"}),
    )
    title = forms.CharField(
        label="Name",
        max_length=60,
        required=False,
        help_text="Only for a budget with a last day, such as “cvpr-2027”. Empty: the monthly budget.",
    )
    amount = forms.DecimalField(
        label="Money", min_value=0, max_digits=13, decimal_places=2, required=False, help_text="Per period."
    )
    hours = forms.DecimalField(
        label="GPU-hours",
        min_value=0,
        max_digits=13,
        decimal_places=2,
        required=False,
        help_text="Per period; a partition counts as the part of a GPU that it is.",
    )
    first = DayField(
        label="From",
        required=False,
        help_text="UTC. A monthly budget begins with the month of this day. Empty: this month.",
    )
    last = DayField(label="Until", required=False, help_text="Last day (UTC), included. Empty: monthly.")
    at_limit = forms.ChoiceField(
        label="At 100 %", choices=as_options(AtLimit.choices), initial=AtLimit.NOTIFY
    )
    reason = forms.CharField(
        label="Reason",
        max_length=500,
        required=False,
        widget=forms.Textarea({"rows": 2}),
        help_text="For the record.",
    )

    def __init__(
        self,
        data: QueryDict | None = None,
        *,
        budget: Budget | None = None,
        initial: dict[str, Any] | None = None,
        currency: str = "",
    ) -> None:
        stored = (
            {name: getattr(budget, name) for name in ("first", "last", "amount", "hours", "at_limit")}
            if budget
            else {}
        )
        super().__init__(data, initial={**stored, **(initial or {})})
        self.fields["amount"].label = f"Money ({currency})" if currency else "Money"
        if budget is not None:
            del self.fields["team"], self.fields["title"]
            if budget.is_monthly:
                del self.fields["last"]

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean() or self.cleaned_data
        if not self.errors and not cleaned.get("amount") and not cleaned.get("hours"):
            self.add_error("amount", "Give an amount of money above 0, GPU-hours, or both.")
        for name in ("amount", "hours"):
            cleaned[name] = cleaned.get(name) or None
        return cleaned


class ExtraGrantForm(forms.Form):
    """How much more is given or asked for; it has a field for what the budget limits, in its currency."""

    amount = forms.DecimalField(
        label="Extra money", min_value=0, max_digits=13, decimal_places=2, required=False
    )
    hours = forms.DecimalField(
        label="Extra GPU-hours", min_value=0, max_digits=13, decimal_places=2, required=False
    )

    def __init__(
        self,
        budget: Budget | None,
        data: QueryDict | None = None,
        *,
        initial: dict[str, Any] | None = None,
    ) -> None:
        super().__init__(data, initial=initial)
        if budget is None or budget.amount is None:
            del self.fields["amount"]
        else:
            self.fields["amount"].label = f"Extra money ({budget.currency})"
        if budget is None or budget.hours is None:
            del self.fields["hours"]
        limited = [name for name in ("amount", "hours") if name in self.fields]
        for name in limited if len(limited) == 1 else ():
            self.fields[name].required = True


class ExtraForm(ExtraGrantForm):
    """How much more of a budget in this period, and why."""

    reason = forms.CharField(max_length=2000, widget=forms.Textarea({"rows": 3}), label="What is it for?")
    key = forms.CharField(max_length=80, widget=forms.HiddenInput)

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean() or self.cleaned_data
        for name in ("amount", "hours"):
            if name in self.fields:
                cleaned[name] = cleaned.get(name) or Decimal(0)
        if not self.errors and not any(cleaned.get(name) for name in ("amount", "hours")):
            self.add_error(next(iter(self.fields)), "Say how much more, above 0.")
        return cleaned


STATES = [(state.key, state.label) for state in (USED_UP, RUNS_OUT, ENOUGH, ENDED)]
STATES.insert(2, ("soon", "Runs out within 7 days"))


class BudgetFilter(FilterSet):
    """Without a state the list has budgets that nobody has ended."""

    state = ChoiceFilter(label="State", choices=STATES, method="by_state", empty_label="Any state")
    at_limit = ChoiceFilter(label="At 100 %", choices=as_options(AtLimit.choices), empty_label="Any effect")

    class Meta:
        model = Budget
        fields: ClassVar[tuple[str, ...]] = ("state", "at_limit")
        form = forms.Form

    def by_state(self, budgets: QuerySet[Budget], name: str, value: str) -> QuerySet[Budget]:
        if value == ENDED.key:
            return budgets
        if value == USED_UP.key:
            return budgets.filter(use__share__gte=1)
        running_out = {"use__share__lt": 1, "use__runs_out_at__lt": F("use__ends_at")}
        if value == ENOUGH.key:
            return budgets.filter(use__share__lt=1).exclude(**running_out)
        if value == "soon":
            running_out["use__runs_out_at__lte"] = timezone.now() + SOON
        return budgets.filter(**running_out)
