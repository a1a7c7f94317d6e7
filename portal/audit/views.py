"""The page of the audit log: search, filters, before and after, CSV, and whether the chain is whole."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

from django import forms
from django.http import Http404, HttpRequest
from django.http.response import HttpResponseBase
from django.shortcuts import render
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.http import require_safe

from core.listing import wants_csv
from core.text import as_options
from core.times import local_text
from portal.activity.entries import Position, parse_id
from portal.activity.ranges import RangeForm, entries_csv, entries_page
from portal.audit.search import KINDS, AuditFilter, all_rows, position_of, read_rows
from teams.access import require_admin, user_of
from teams.audit.actions import ACTIONS
from teams.audit.chain import head_of_chain
from teams.audit.grants import may_change_log
from teams.models import AuditEntry, AuditSeal, AuditState

PER_PAGE = 50


class AuditForm(RangeForm):
    action = forms.CharField(
        label="Action",
        required=False,
        max_length=40,
        widget=forms.TextInput({"list": "audit-actions", "placeholder": "Action: any"}),
    )
    kind = forms.ChoiceField(
        label="Object", required=False, choices=[("", "Any object"), *as_options(KINDS.items())]
    )
    team = forms.CharField(
        label="Team", required=False, max_length=40, widget=forms.TextInput({"placeholder": "Team: any"})
    )
    address = forms.GenericIPAddressField(
        label="Address", required=False, widget=forms.TextInput({"placeholder": "Address: any"})
    )
    token = forms.CharField(
        label="Token", required=False, max_length=12, widget=forms.TextInput({"placeholder": "Token: drg_…"})
    )
    object = forms.CharField(required=False, max_length=40, widget=forms.HiddenInput)

    def chosen(self, now: datetime) -> AuditFilter:
        """Return the filter. Call it after `is_valid`."""
        since, until = self.span(now)
        names = ("q", "who", "action", "kind", "object", "team", "token", "address")
        return AuditFilter(since=since, until=until, **self.texts(*names))


@require_safe
def audit_log(request: HttpRequest) -> HttpResponseBase:
    require_admin(user_of(request))
    form = AuditForm(request.GET)
    form.is_valid()
    chosen, only = form.chosen(timezone.now()), request.GET.get("entry", "")
    if only:
        if parse_id(only) is None:
            raise Http404
        chosen = AuditFilter(entry=only)
    if wants_csv(request):
        return entries_csv("audit", CSV, all_rows(chosen))
    text = request.GET.get("before", "")
    before = Position.parse(text) if text else None
    rows = read_rows(chosen, limit=PER_PAGE + 1, before=before)
    more = len(rows) > PER_PAGE
    entries = [AuditRow(entry) for entry in rows[:PER_PAGE]]
    if only and not entries:
        raise Http404
    page = entries_page(request, form, entries, only=only, is_first=before is None, is_last=not more)
    page |= {
        "actions": ACTIONS,
        "head": head_of_chain(),
        "state": AuditState.objects.first(),
        "may_change": may_change_log(),
    }
    return render(request, "audit/audit.html", page)


class AuditRow:
    """One entry as the page shows it."""

    def __init__(self, entry: AuditEntry) -> None:
        self.entry = entry
        self.position = position_of(entry)
        self.id, self.at = self.position.id, entry.at
        self.seal = seal_of(entry)

    @property
    def who(self) -> str:
        if self.entry.by_id is None:
            return "Not signed in" if self.entry.actor_kind == AuditEntry.Actor.NOBODY else "The portal"
        return self.entry.by.label if self.entry.by else self.entry.actor

    @property
    def done(self) -> str:
        return ACTIONS.get(self.entry.action, self.entry.action)

    @property
    def url(self) -> str:
        """The claim; of anything else the entries lead there by name."""
        return reverse("claims:detail", args=[self.entry.object_id]) if self.entry.kind == "claim" else ""

    @property
    def of_object(self) -> str:
        """The query that finds all entries of the same object, "" for what has none."""
        has_object = self.entry.object_id and self.entry.kind
        return f"kind={self.entry.kind}&object={self.entry.object_id}&range=30d" if has_object else ""


CSV: dict[str, Callable[[AuditEntry], object]] = {
    "Time": lambda entry: timezone.localtime(entry.at).isoformat(timespec="milliseconds"),
    "Action": lambda entry: entry.action,
    "Who": lambda entry: entry.actor,
    "Kind of actor": lambda entry: entry.get_actor_kind_display(),
    "Object": lambda entry: entry.kind,
    "Object id": lambda entry: entry.object_id,
    "Name": lambda entry: entry.name,
    "Team": lambda entry: entry.team.slug if entry.team else "",
    "Text": lambda entry: local_text(entry.text),
    "Changes": lambda entry: "; ".join(f"{what}: {old} → {new}" for what, old, new in entry.values),
    "Reason": lambda entry: entry.reason,
    "From where": lambda entry: entry.get_source_display(),
    "Address": lambda entry: entry.address,
    "Token": lambda entry: entry.token,
    "Token title": lambda entry: entry.via,
    "Place": lambda entry: entry.place,
    "Request": lambda entry: entry.request_id,
    "Entry": lambda entry: position_of(entry).id,
    "Number": lambda entry: getattr(seal_of(entry), "number", None),
    "Hash": lambda entry: getattr(seal_of(entry), "hash", None),
}


def seal_of(entry: AuditEntry) -> AuditSeal | None:
    """Return the seal of an entry, None until it has one."""
    return getattr(entry, "seal", None)
