"""Addresses of the API with and without the slash at their end are one address, for every method."""

import pytest


@pytest.mark.django_db
@pytest.mark.parametrize(
    "path", ["/api/v1/me", "/api/v1/claims", "/api/v1/rates", "/api/v1/clusters", "/api/v1/quotas"]
)
def test_the_slash_may_be_left_out(client, django_user_model, path):
    client.force_login(django_user_model.objects.create_user("alice"))
    assert client.get(path).status_code == client.get(f"{path}/").status_code == 200


@pytest.mark.django_db
def test_a_post_without_the_slash_keeps_its_body(client, django_user_model):
    client.force_login(django_user_model.objects.create_user("alice"))
    answer = client.post("/api/v1/tokens", {"title": "notebook"}, content_type="application/json")
    assert answer.status_code == 201
    assert answer.json()["title"] == "notebook"


def test_pages_are_not_rewritten(client):
    assert client.get("/claims").status_code == 301
