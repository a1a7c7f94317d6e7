"""Every error of the API is a problem document with the sentence and the code."""

from typing import Any

import pytest
from django.core.exceptions import PermissionDenied
from django.core.exceptions import ValidationError as ModelInvalid
from django.http import Http404
from rest_framework import exceptions, serializers
from rest_framework.permissions import AllowAny
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.test import APIRequestFactory
from rest_framework.views import APIView

from core.errors import Conflict, Invalid, PortalError, QuotaExceeded


class DeviceIn(serializers.Serializer[object]):
    name = serializers.CharField()


class ClaimIn(serializers.Serializer[object]):
    count = serializers.IntegerField(min_value=1)
    devices = DeviceIn(many=True)


def answer_to(raised: Exception | None, data: object = None) -> Any:
    class Raises(APIView):
        authentication_classes = ()
        permission_classes = (AllowAny,)
        throttle_classes = ()

        def post(self, request: Request) -> Response:
            if raised:
                raise raised
            ClaimIn(data=request.data).is_valid(raise_exception=True)
            return Response(request.data)

    answer = Raises.as_view()(APIRequestFactory().post("/api/v1/claims", data or {}, format="json"))
    return answer.render()


def test_a_refusal_of_a_service_is_told_with_its_sentence_its_code_and_its_numbers():
    sentence = "Quota of Vision exceeded by 2: 6 of 8 h100 devices in use or reserved; this request needs 4."
    answer = answer_to(QuotaExceeded(sentence, held=6, limit=8))
    assert answer.headers["Content-Type"] == "application/problem+json"
    assert answer.status_code == 409
    assert answer.data == {
        "type": "http://testserver/help/api/#quota-exceeded",
        "title": "The quota of the team does not allow this",
        "status": 409,
        "detail": sentence,
        "code": "quota-exceeded",
        "instance": "/api/v1/claims",
        "request_id": "",
        "held": 6,
        "limit": 8,
    }


@pytest.mark.parametrize(
    ("raised", "status", "code"),
    [
        (Invalid("No."), 422, "invalid"),
        (Conflict("No."), 409, "conflict"),
        (PortalError("No."), 409, "refused"),
        (Http404(), 404, "not-found"),
        (exceptions.NotFound(), 404, "not-found"),
        (PermissionDenied("You are viewer."), 403, "forbidden"),
        (exceptions.PermissionDenied(), 403, "forbidden"),
        (exceptions.ParseError(), 422, "invalid"),
        (exceptions.MethodNotAllowed("PUT"), 405, "method-not-allowed"),
        (exceptions.UnsupportedMediaType("text/xml"), 415, "unsupported-media-type"),
        (exceptions.Throttled(wait=1.2), 429, "too-often"),
        (ModelInvalid({"name": ["Too long."]}), 422, "invalid"),
    ],
)
def test_each_kind_of_refusal_has_its_status_and_a_code_for_programs(raised, status, code):
    answer = answer_to(raised)
    assert (answer.status_code, answer.data["status"], answer.data["code"]) == (status, status, code)
    assert answer.headers["Content-Type"] == "application/problem+json"
    assert answer.data["detail"]


def test_404_says_the_same_whatever_its_reason():
    told = answer_to(Http404("No Team matches the given query.")).data
    assert told == answer_to(exceptions.NotFound("Of another team.")).data
    assert told["detail"] == "Not found, or you do not have access."


def test_throttled_request_has_retry_after():
    answer = answer_to(exceptions.Throttled(wait=1.2))
    assert answer.headers["Retry-After"] == "2"
    assert answer.data["retry_after"] == 2


def test_malformed_fields_are_named_with_their_path():
    answer = answer_to(None, {"count": 0, "devices": [{"name": "a"}, {}]})
    assert answer.status_code == 422
    assert answer.data["errors"] == [
        {
            "field": "count",
            "message": "Ensure this value is greater than or equal to 1.",
            "code": "min_value",
        },
        {"field": "devices.1.name", "message": "This field is required.", "code": "required"},
    ]
    assert answer.data["detail"].startswith("The request is malformed: count: ")


def test_internal_error_is_not_a_refusal():
    with pytest.raises(ZeroDivisionError):
        answer_to(ZeroDivisionError())
