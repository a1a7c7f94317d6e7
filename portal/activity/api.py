"""API of the record: the entries that the pages show."""

from __future__ import annotations

from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.generics import GenericAPIView
from rest_framework.request import Request
from rest_framework.response import Response

from core.errors import Invalid
from core.inputs import CURSOR, Input, Rows, no_cursor, page_of
from core.origin import Source
from core.times import require_date
from portal.activity.entries import ACTIONS, ActivityEntry, Filter, Position, Value, read_entries
from teams.access import is_platform_admin, team_of_filter, user_of
from teams.models import Team


class ActivityPages(Rows):
    """The cursor is the position of the entry before."""

    def paginate_queryset(self, chosen: Any, request: Request, view: Any = None) -> list[Any]:
        self.request, size = request, self.get_page_size(request)
        text = request.query_params.get(CURSOR)
        try:
            before = Position.parse(text) if text else None
        except Invalid:
            raise no_cursor() from None
        entries = read_entries(chosen, limit=size + 1, before=before)
        self.following = str(entries[size - 1].position) if len(entries) > size else None
        return entries[:size]


class ActivityIn(Input):
    team = serializers.CharField(
        default="", help_text="Slug of the team; without it all of yours, or all for platform admins."
    )
    who = serializers.CharField(
        default="", max_length=80, help_text="A user name, or words of the full name."
    )
    action = serializers.ChoiceField(choices=[(key, one.label) for key, one in ACTIONS.items()], default="")
    source = serializers.ChoiceField(choices=Source.choices, default="")  # type: ignore[assignment]  # a field of that name
    q = serializers.CharField(default="", max_length=100, help_text="Words in the text or the name.")
    since = serializers.DateTimeField(default=None, help_text="Not before this time.")
    until = serializers.DateTimeField(default=None, help_text="Before this time.")


class ValueOut(serializers.Serializer[Value]):
    what = serializers.CharField()
    before = serializers.CharField()
    after = serializers.CharField()


class EntryOut(serializers.Serializer[ActivityEntry]):
    id = serializers.CharField()
    at = serializers.DateTimeField()
    who = serializers.CharField(help_text="A person, “The portal” or “Kubernetes”.")
    action = serializers.CharField(source="verb")
    object = serializers.CharField(source="name")
    text = serializers.CharField(help_text="Times in it are in UTC.")
    reason = serializers.CharField()
    team = serializers.CharField(help_text="Slug; empty for what belongs to no team.")
    source = serializers.ChoiceField(choices=Source.choices)  # type: ignore[assignment]  # a field of that name
    via = serializers.CharField(source="place", help_text="Title of the API token, or name of the cluster.")
    values = ValueOut(many=True)


class ActivityView(GenericAPIView[Any]):
    pagination_class = ActivityPages

    @extend_schema(parameters=[ActivityIn], responses=EntryOut(many=True))
    def get(self, request: Request) -> Response:
        """Who did what, to what, from where, newest first: in your teams, or in all for platform admins."""
        for name, text in request.query_params.items():
            if not text and name != CURSOR:
                raise Invalid(f"The parameter “{name}” is empty. Leave it out.", field=name)
        query = ActivityIn(data=request.query_params)
        query.is_valid(raise_exception=True)
        fields = dict(query.validated_data)
        slug, user = fields.pop("team"), user_of(request)
        for name in ("since", "until"):
            require_date(fields[name])
        if slug:
            chosen = Filter(team=team_of_filter(user, slug).pk, **fields)
        else:
            own = None if is_platform_admin(user) else Team.objects.visible_to(user)
            chosen = Filter(teams=own, **fields)
        return page_of(self, chosen, EntryOut)
