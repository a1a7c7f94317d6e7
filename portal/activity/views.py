"""Pages: the activity of a team, for its members; of all teams, for platform admins."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any, cast

from django import forms
from django.http import Http404, HttpRequest
from django.http.response import HttpResponseBase
from django.shortcuts import render
from django.utils import timezone
from django.views.decorators.http import require_safe

from core.listing import wants_csv
from core.origin import Source
from core.times import local_text
from portal.activity.entries import (
    ACTIONS,
    OF_PLATFORM,
    ActivityEntry,
    Filter,
    Position,
    all_entries,
    parse_id,
    read_entries,
)
from portal.activity.links import with_links
from portal.activity.ranges import RangeForm, entries_csv, entries_page
from teams.access import people_in, require_admin, team_for, user_of
from teams.models import Role, Team

PER_PAGE = 50


class ActivityForm(RangeForm):
    action = forms.ChoiceField(label="Action", required=False)
    source = forms.ChoiceField(
        label="From where", required=False, choices=[("", "Any source"), *Source.choices]
    )

    def __init__(self, data: Any, *, team: Team | None) -> None:
        super().__init__(data)
        actions = [(key, one.label) for key, one in ACTIONS.items() if team is None or key not in OF_PLATFORM]
        cast(forms.ChoiceField, self.fields["action"]).choices = [("", "Any action"), *actions]

    def chosen(self, team: Team | None, now: datetime) -> Filter:
        """Return the filter. Call it after `is_valid`."""
        since, until = self.span(now)
        fields: dict[str, Any] = {**self.texts("q", "who", "action", "source")}
        return Filter(team=team.pk if team else None, since=since, until=until, **fields)


@require_safe
def team_activity(request: HttpRequest, slug: str) -> HttpResponseBase:
    return _activity(request, team_for(request.user, slug))


@require_safe
def platform_activity(request: HttpRequest) -> HttpResponseBase:
    require_admin(user_of(request))
    return _activity(request, None)


def _activity(request: HttpRequest, team: Team | None) -> HttpResponseBase:
    form = ActivityForm(request.GET, team=team)
    form.is_valid()
    chosen = form.chosen(team, timezone.now())
    only = request.GET.get("entry", "")
    if only:
        if parse_id(only) is None:
            raise Http404
        chosen = Filter(team=chosen.team, entry=only)
    if wants_csv(request):
        name = f"activity-{team.slug}" if team else "activity"
        return entries_csv(name, CSV, all_entries(chosen))
    text = request.GET.get("before", "")
    before = Position.parse(text) if text else None
    read = read_entries(chosen, limit=PER_PAGE + 1, before=before)
    entries = with_links(read[:PER_PAGE], user_of(request))
    if only and not entries:
        raise Http404
    is_last = len(read) <= PER_PAGE
    page = entries_page(request, form, entries, only=only, is_first=before is None, is_last=is_last)
    people = people_in(team, at_least=Role.VIEWER) if team else ()
    return render(request, "activity/activity.html", {**page, "team": team, "people": people})


CSV: dict[str, Callable[[ActivityEntry], object]] = {
    "Time": lambda entry: timezone.localtime(entry.at).isoformat(timespec="seconds"),
    "Who": lambda entry: entry.who,
    "Did what": lambda entry: entry.verb,
    "To what": lambda entry: entry.name,
    "Text": lambda entry: local_text(entry.text),
    "Reason": lambda entry: entry.reason,
    "Team": lambda entry: entry.team,
    "From where": lambda entry: entry.source.label,
    "Token or cluster": lambda entry: entry.place,
    "Entry": lambda entry: entry.id,
}
