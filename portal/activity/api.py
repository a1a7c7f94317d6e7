"""API of the record: the entries that the pages show."""

from __future__ import annotations

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.exceptions import NotFound
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from core.errors import Invalid
from core.inputs import MAX_ROWS, Input
from core.origin import Source
from core.schema import refuses
from core.times import require_date
from portal.activity.entries import ACTIONS, ActivityEntry, Filter, Position, Value, read_entries
from teams.access import is_platform_admin, team_for, user_of
from teams.models import Team

PAGE = 50


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
    limit = serializers.IntegerField(default=PAGE, min_value=1, max_value=MAX_ROWS)
    before = serializers.CharField(
        default="", help_text="Only entries older than this position: `next` of the page before."
    )


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


class ActivityOut(serializers.Serializer[object]):
    next = serializers.CharField(allow_null=True, help_text="`before` of the next page; null on the last.")
    results = EntryOut(many=True)


class ActivityView(APIView):
    @refuses(404)
    @extend_schema(operation_id="activity", parameters=[ActivityIn], responses=ActivityOut)
    def get(self, request: Request) -> Response:
        """Who did what, to what, from where, newest first: in your teams, or in all for platform admins."""
        for name, text in request.query_params.items():
            if not text:
                raise Invalid(f"The parameter “{name}” is empty. Leave it out.", field=name)
        query = ActivityIn(data=request.query_params)
        query.is_valid(raise_exception=True)
        fields = dict(query.validated_data)
        slug, limit, position = fields.pop("team"), fields.pop("limit"), fields.pop("before")
        user = user_of(request)
        for name in ("since", "until"):
            require_date(fields[name])
        if slug:
            chosen = Filter(team=team_for(user, slug).pk, **fields)
        else:
            own = None if is_platform_admin(user) else Team.objects.visible_to(user)
            chosen = Filter(teams=own, **fields)
        try:
            before = Position.parse(position) if position else None
        except Invalid as refusal:  # as for a cursor
            raise NotFound(refusal.message) from None
        entries = read_entries(chosen, limit=limit + 1, before=before)
        following = str(entries[limit - 1].position) if len(entries) > limit else None
        return Response(ActivityOut({"next": following, "results": entries[:limit]}).data)
