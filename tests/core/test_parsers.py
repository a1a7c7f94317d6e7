"""The JSON that the API reads is limited, whoever sends it."""

import json

import pytest

from core.problems import MAX_LEVELS, levels
from tests.factories import make_user, sign_in_just_now

pytestmark = pytest.mark.django_db
ADDRESS = "/api/v1/tokens/"


@pytest.fixture
def post(client):
    sign_in_just_now(client, make_user("alice"))
    return lambda body: client.post(ADDRESS, body, content_type="application/json")


@pytest.mark.security("bombs", "a body without end")
def test_a_body_that_is_too_large_is_not_read(post, settings):
    settings.DATA_UPLOAD_MAX_MEMORY_SIZE = 1000
    assert post(json.dumps({"title": "x" * 70})).status_code == 201
    answer = post(json.dumps({"title": "x" * 1000}))
    assert (answer.status_code, answer["Content-Type"]) == (413, "application/problem+json")
    assert "detail" in answer.json()


@pytest.mark.security("bombs", "JSON of thousands of levels")
@pytest.mark.parametrize("depth", [MAX_LEVELS + 1, 3000, 500_000])
def test_a_body_that_is_too_deep_is_malformed(post, depth):
    answer = post("[" * depth + "]" * depth)
    assert (answer.status_code, answer.json()["detail"]) == (422, "The JSON has more than 64 levels.")


@pytest.mark.parametrize(
    "body", ["", "{", "[]", "1", '"x"', "null", '{"title": null}', '{"title": "\\u0000"}']
)
def test_body_within_the_limits_is_accepted(post, body):
    assert post(body).status_code == 422


def test_levels_are_counted():
    assert (levels(1), levels([]), levels({"a": 1}), levels({"a": [{"b": [1]}], "c": 2})) == (0, 1, 1, 4)
