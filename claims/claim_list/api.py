"""API of bulk actions on claims."""

from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from claims.api_types import SpelledDuration
from claims.claim_list import bulk
from core import idempotency
from core.errors import Invalid
from core.inputs import Input
from core.schema import KEY
from core.scopes import Scope, needs
from teams.access import user_of
from teams.models import User


class BulkIn(Input):
    """`by` belongs to `extend`, `to` to `transfer`. With `preview` nothing changes."""

    action = serializers.ChoiceField(choices=bulk.BulkAction.choices)
    claims = serializers.ListField(
        child=serializers.UUIDField(),
        max_length=bulk.MAX_CLAIMS,
        error_messages={"max_length": "At most {max_length} can be changed at once."},
    )
    by = SpelledDuration(required=False, allow_null=True, default=None, help_text="36h, 1d 12h, or seconds")
    to = serializers.CharField(max_length=150, allow_blank=True, default="", help_text="User name")
    reason = serializers.CharField(max_length=500, allow_blank=True, default="")
    preview = serializers.BooleanField(default=False)


class OutcomeOut(serializers.Serializer[Any]):
    """`said` is the effect on one claim; with a `code`, the reason of a refusal."""

    claim = serializers.UUIDField()
    name = serializers.CharField()
    done = serializers.BooleanField()
    message = serializers.CharField()
    code = serializers.CharField()


@needs(Scope.REQUEST)
class BulkActionView(APIView):
    """Release, withdraw, extend or transfer up to 200 claims, each independently."""

    @extend_schema(request=BulkIn, responses=OutcomeOut(many=True), parameters=[KEY])
    def post(self, request: Request) -> Response:
        user = user_of(request)
        fields = BulkIn.of(request).validated_data
        claims = bulk.selected_claims(user, fields["claims"])
        bulk_request = bulk.BulkRequest(
            bulk.BulkAction(fields["action"]),
            fields["reason"],
            fields["by"],
            user_named(fields["to"]),
            idempotency.idempotency_key(request),
        )
        if fields["preview"]:
            rows = [
                {
                    "claim": preview.claim.pk,
                    "name": preview.claim.name,
                    "done": False,
                    "message": preview.obstacle or preview.effect,
                    "code": "refused" if preview.obstacle else "",
                }
                for preview in bulk.preview(user, claims, bulk_request)
            ]
        else:
            rows = [
                {
                    "claim": result.claim.pk,
                    "name": result.claim.name,
                    "done": not result.refusal,
                    "message": result.refusal or result.done,
                    "code": result.code,
                }
                for result in bulk.run(user, claims, bulk_request)
            ]
        return Response(OutcomeOut(rows, many=True).data)


def user_named(name: str) -> User | None:
    if not name:
        return None
    person = User.objects.filter(username=name).first()
    if person is None:
        raise Invalid(f"There is no user {name}.")
    return person
