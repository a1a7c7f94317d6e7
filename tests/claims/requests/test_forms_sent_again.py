"""A form that one goes back to: the same again is done once, other values are asked about."""

from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest
from django.urls import reverse
from django.utils import timezone

from claims.models import Claim, Comment, Extension, QuotaRequest
from claims.states import ClaimState
from tests.factories import GPU_CLASS, make_budget, make_claim, make_profile

pytestmark = pytest.mark.django_db
DAY = timedelta(days=1)


@pytest.fixture
def running(vision, fra, alice):
    return make_claim(
        vision,
        by=alice,
        cluster=fra,
        profile=make_profile("steady", extension=DAY),
        state=ClaimState.PROVISIONED,
        expires_at=timezone.now() + DAY,
    )


@pytest.fixture
def forms(running, vision, train, quota, gateway):
    """Of each form: what it makes, its address, what is sent, and what is changed then."""
    asked = {"team": "vision", "reason": "A paper."}
    claim = asked | {"cluster": "fra-1", "profile": "train-80", "duration": "24h"}
    budget = make_budget(vision, Decimal(100))
    return {
        "claim": (Claim, reverse("claims:request"), claim | {"devices": "1"}, {"devices": "2"}),
        "extension": (
            Extension,
            reverse("claims:extend", args=[running.pk]),
            {"span": "4h", "end": running.expires_at.isoformat()},
            {"span": "5h"},
        ),
        "quota": (
            QuotaRequest,
            reverse("claims:quota_request_new"),
            asked | {"device_class": GPU_CLASS, "more": "1"},
            {"more": "2"},
        ),
        "budget": (
            QuotaRequest,
            reverse("claims:budget_extra", args=[budget.pk]),
            {"amount": "10", "reason": "A paper."},
            {"amount": "20"},
        ),
    }


@pytest.mark.parametrize("name", ["claim", "extension", "quota", "budget"])
def test_other_values_are_asked_about_and_have_a_new_key(client, alice, forms, name):
    client.force_login(alice)
    made, address, sent, changed = forms[name]
    sent |= {"key": "k"}
    before = made.objects.count()
    for _again in range(2):
        assert client.post(address, sent).status_code == 302
    asking = client.post(address, sent | changed)
    assert (asking.status_code, "Send it again if you want this as well." in asking.text) == (422, True)
    assert (made.objects.count() - before, "Idempotency" in asking.text) == (1, False)
    key = asking.text.partition('name="key" value="')[2].partition('"')[0]
    again = client.post(address, sent | changed | {"key": key})
    assert "You have sent this form before" not in again.text


def test_another_text_is_another_comment(client, alice, running):
    client.force_login(alice)
    for text in ("A", "A ", "B"):
        client.post(reverse("claims:comment", args=[running.pk]), {"text": text, "key": "k"})
    assert list(Comment.objects.order_by("at").values_list("text", flat=True)) == ["A", "B"]


@pytest.mark.parametrize("name", ["claim", "quota", "comment"])
def test_a_text_of_many_lines_may_be_as_long_as_its_field_says(client, alice, forms, running, name):
    """Browsers count the end of a line as one character, and send two."""
    client.force_login(alice)
    comment: tuple[Any, ...] = (Comment, reverse("claims:comment", args=[running.pk]), {"key": "k"}, {})
    made, address, sent, _changed = {**forms, "comment": comment}[name]
    length, field = (500 if name == "claim" else 2000), ("text" if name == "comment" else "reason")
    lines = "\n".join(["a" * 9] * (length // 10)) + "b"
    assert client.post(address, {"key": "k", **sent, field: lines.replace("\n", "\r\n")}).status_code == 302
    assert getattr(made.objects.latest("pk"), field) == lines
