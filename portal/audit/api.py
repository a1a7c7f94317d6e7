"""API of the audit log: sealed entries in the order of the chain, as the JSON lines have them."""

from __future__ import annotations

from typing import Any

from drf_spectacular.utils import extend_schema, extend_schema_field
from rest_framework import serializers
from rest_framework.generics import GenericAPIView
from rest_framework.request import Request
from rest_framework.response import Response

from core.errors import Invalid
from core.inputs import Input, ordered, page_of
from core.origin import Source
from core.schema import refuses
from core.scopes import Scope, needs
from core.times import require_date
from portal.activity.api import ValueOut
from portal.audit.search import AuditFilter
from teams.access import require_admin, team_of_filter, user_of
from teams.models import AuditEntry, AuditSeal


class AuditIn(Input):
    after = serializers.IntegerField(
        default=0,
        min_value=0,
        max_value=2**63 - 1,
        help_text="Only entries behind this number: the last that you have.",
    )
    who = serializers.CharField(
        default="", max_length=150, help_text="A user name, or words of the full name."
    )
    action = serializers.CharField(
        default="", max_length=40, help_text="A code, or how codes begin: `claim.`."
    )
    kind = serializers.CharField(default="", max_length=40, help_text="Kind of object: `claim`, `quota` ….")
    object = serializers.CharField(default="", max_length=40, help_text="Id of the object.")
    team = serializers.CharField(default="", max_length=40, help_text="Slug of the team.")
    token = serializers.CharField(default="", max_length=12, help_text="Start of the API token.")
    address = serializers.IPAddressField(default="", help_text="Address of the client.")
    q = serializers.CharField(
        default="", max_length=100, help_text="Words in text, name, reason or user name."
    )
    since = serializers.DateTimeField(default=None, help_text="Not before this time.")
    until = serializers.DateTimeField(default=None, help_text="Before this time.")


class AuditEntryOut(serializers.Serializer[AuditSeal]):
    number = serializers.IntegerField(help_text="Place in the chain: 1, 2, 3 ….")
    hash = serializers.CharField(help_text="SHA-256 over the hash before, number, time of sealing and entry.")
    sealed_at = serializers.DateTimeField(source="at")
    id = serializers.UUIDField(source="entry.id")
    at = serializers.DateTimeField(source="entry.at")
    action = serializers.CharField(source="entry.action")
    actor = serializers.CharField(source="entry.actor", help_text="User name; empty for the portal.")
    actor_kind = serializers.ChoiceField(choices=AuditEntry.Actor.choices, source="entry.actor_kind")
    by = serializers.UUIDField(source="entry.by_id", allow_null=True, help_text="Id of the person.")
    team = serializers.CharField(source="entry.team.slug", allow_null=True, default=None)
    kind = serializers.CharField(source="entry.kind")
    object_id = serializers.CharField(source="entry.object_id")
    name = serializers.CharField(source="entry.name")
    text = serializers.CharField(source="entry.text")
    values = serializers.SerializerMethodField()
    reason = serializers.CharField(source="entry.reason")
    source = serializers.ChoiceField(choices=Source.choices, source="entry.source")  # type: ignore[assignment]
    token = serializers.CharField(source="entry.token", help_text="Start of the API token.")
    via = serializers.CharField(source="entry.via", help_text="Title of the API token.")
    address = serializers.IPAddressField(source="entry.address", allow_null=True)
    place = serializers.CharField(source="entry.place", help_text="Address by name, task or command.")
    request_id = serializers.CharField(source="entry.request_id", help_text="As in the log of requests.")

    @extend_schema_field(ValueOut(many=True))
    def get_values(self, row: AuditSeal) -> list[dict[str, str]]:
        return [dict(zip(("what", "before", "after"), value, strict=True)) for value in row.entry.values]


@needs(Scope.ADMIN, reading=True)
class AuditView(GenericAPIView[AuditSeal]):
    pagination_class = ordered("number")

    @refuses(403)
    @extend_schema(parameters=[AuditIn], responses=AuditEntryOut(many=True))
    def get(self, request: Request) -> Response:
        """Who did what to what, from where, oldest first; for platform admins."""
        require_admin(user_of(request))
        for name, text in request.query_params.items():
            if not text:
                raise Invalid(f"The parameter “{name}” is empty. Leave it out.", field=name)
        query = AuditIn(data=request.query_params)
        query.is_valid(raise_exception=True)
        fields: dict[str, Any] = dict(query.validated_data)
        after = fields.pop("after")
        if fields["team"]:
            team_of_filter(user_of(request), fields["team"])
        for name in ("since", "until"):
            require_date(fields[name])
        entries = AuditEntry.objects.filter(AuditFilter(**fields).condition())
        rows = AuditSeal.objects.filter(number__gt=after).select_related("entry__team")
        if any(fields.values()):
            rows = rows.filter(entry__in=entries)
        return page_of(self, rows.filter(entry__at__isnull=False), AuditEntryOut)
