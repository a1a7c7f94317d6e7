"""One action on several claims."""

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
from teams.access import user_of
from teams.models import User


class ManyIn(Input):
    """`by` goes with an extension, `to` with handing over. With `preview` nothing is done."""

    action = serializers.ChoiceField(choices=bulk.BulkAction.choices)
    claims = serializers.ListField(
        child=serializers.UUIDField(),
        max_length=bulk.MOST,
        error_messages={"max_length": "At most {max_length} can be changed at once."},
    )
    by = SpelledDuration(required=False, allow_null=True, default=None, help_text="36h, 1d 12h, or seconds")
    to = serializers.CharField(max_length=150, allow_blank=True, default="", help_text="User name")
    reason = serializers.CharField(max_length=500, allow_blank=True, default="")
    preview = serializers.BooleanField(default=False)


class OutcomeOut(serializers.Serializer[Any]):
    """`said` is what happens to one claim or has happened; with a `code` it is why it cannot."""

    claim = serializers.UUIDField()
    name = serializers.CharField()
    done = serializers.BooleanField()
    said = serializers.CharField()
    code = serializers.CharField()


class ManyView(APIView):
    """Release, withdraw, extend or hand over several claims, each by itself; 200 at most."""

    @extend_schema(request=ManyIn, responses=OutcomeOut(many=True), parameters=[KEY])
    def post(self, request: Request) -> Response:
        user = user_of(request)
        asked = ManyIn(data=request.data)
        asked.is_valid(raise_exception=True)
        said = asked.validated_data
        claims = bulk.chosen(user, said["claims"])
        order = bulk.Order(
            bulk.BulkAction(said["action"]),
            said["reason"],
            said["by"],
            _person(said["to"]),
            idempotency.idempotency_key(request),
        )
        if said["preview"]:
            rows = [
                {
                    "claim": line.claim.pk,
                    "name": line.claim.name,
                    "done": False,
                    "said": line.reason_not or line.will,
                    "code": "refused" if line.reason_not else "",
                }
                for line in bulk.preview(user, claims, order)
            ]
        else:
            rows = [
                {
                    "claim": one.claim.pk,
                    "name": one.claim.name,
                    "done": not one.refusal,
                    "said": one.refusal or one.done,
                    "code": one.code,
                }
                for one in bulk.do(user, claims, order)
            ]
        return Response(OutcomeOut(rows, many=True).data)


def _person(name: str) -> User | None:
    if not name:
        return None
    person = User.objects.filter(username=name).first()
    if person is None:
        raise Invalid(f"There is no person {name}.")
    return person
