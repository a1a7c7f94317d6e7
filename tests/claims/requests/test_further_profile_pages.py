"""Several profiles in the request form, and what an address or link says of the fields."""

from html import unescape
from urllib.parse import parse_qs, urlsplit

import pytest
from django.urls import reverse

from claims.models import Claim
from tests.factories import make_profile, make_quota, make_spec, make_team

pytestmark = pytest.mark.django_db

FORM = reverse("claims:request")
PANEL = reverse("claims:request_preview")
ROWS = reverse("claims:request_further")


@pytest.fixture
def request_fields(vision, fra, train, quota, gateway):
    make_quota(vision, 4, device_class="mig.nvidia.com")
    make_profile("slice-10", spec=make_spec(device_class="mig.nvidia.com"), max_devices=4)
    return {
        "profile": "train-80",
        "devices": "2",
        "delivery": "claim",
        "duration": "24h",
        "team": "vision",
        "cluster": "fra-1",
        "together": ["slice-10", ""],
        "together_devices": ["3", "1"],
        "reason": "Fine-tuning & more.",
        "key": "k-1",
    }


def test_a_request_names_further_profiles_and_empty_rows_count_for_nothing(client, alice, request_fields):
    client.force_login(alice)
    client.post(FORM, request_fields)
    rows = Claim.objects.get().alternatives.values_list("profile_version__profile__slug", "devices")
    assert list(rows) == [("train-80", 2), ("slice-10", 3)]


def test_rows_are_added_and_removed_without_javascript(client, alice, request_fields):
    client.force_login(alice)
    page = client.post(FORM, request_fields | {"more": "1"}).text
    assert page.count('name="together_devices"') == 2
    assert '<option value="slice-10" selected>' in page
    page = client.post(FORM, request_fields | {"drop": "0"}).text
    assert page.count('name="together_devices"') == 0
    assert "Fine-tuning &amp; more." in page
    assert not Claim.objects.exists()


def test_rows_come_alone_for_htmx(client, alice, request_fields):
    client.force_login(alice)
    part = client.get(ROWS, request_fields | {"more": "1"})
    assert "<html" not in part.text
    assert part.text.count('name="together_devices"') == 2
    assert part["HX-Trigger-After-Settle"] == "further-changed"
    assert client.get(ROWS, request_fields | {"drop": "0"}).text.count('name="together_devices"') == 0
    assert client.get(ROWS, request_fields | {"drop": "x"}).text.count('name="together_devices"') == 1


def test_the_panel_counts_all_of_them_and_offers_no_alternatives(client, alice, request_fields):
    client.force_login(alice)
    part = client.get(PANEL, request_fields).text
    assert "vision holds 0 of 8 gpu.nvidia.com devices; this request needs 2." in part
    assert "vision holds 0 of 4 mig.nvidia.com devices; this request needs 3." in part
    assert 'name="alternatives"' not in part
    assert "<b>Slice 10</b>:" in part  # has a price of its own


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"together_devices": ["0", "1"]}, "Slice 10: enter a number of devices from 1 to 1024, not “0”"),
        ({"together_devices": ["many", "1"]}, "not “many”"),
        ({"together": ["no-such"]}, "“no-such” cannot be requested"),
        ({"together_devices": ["5", "1"]}, "slice-10 allows 4 devices per claim; this request needs 5"),
        ({"together": ["train-80"]}, "train-80 is listed twice"),
    ],
)
def test_what_is_malformed_is_422_and_loses_no_input(client, alice, request_fields, wrong, said):
    client.force_login(alice)
    answer = client.post(FORM, request_fields | wrong)
    assert answer.status_code == 422
    assert said in unescape(answer.text)
    assert "Fine-tuning &amp; more." in answer.text
    assert not Claim.objects.exists()


def test_the_link_to_a_request_fills_in_every_field(client, alice, request_fields):
    client.force_login(alice)
    link = client.get(PANEL, request_fields | {"name": "sam2"}).context["link"]
    said = parse_qs(urlsplit(link).query)
    assert said["together"] == ["slice-10"]
    assert said["reason"] == ["Fine-tuning & more."]
    assert "key" not in said
    page = client.get(link).text
    assert '<option value="slice-10" selected>' in page
    assert 'name="together_devices" min="1" max="1024" value="3"' in page
    assert "Fine-tuning &amp; more." in page
    assert 'value="sam2"' in page
    assert "for which the form has no field" not in page


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("colour=red", "The form has no field “colour”, which is in the address."),
        ("profile=closed", "Profile: “closed” cannot be requested"),
        ("together=closed&together_devices=1", "Additional devices: “closed” cannot be requested"),
        ("team=nlp", "Team: You cannot request GPUs for this team."),
        ("cluster=elsewhere", "Cluster: Your teams have no namespace in this cluster."),
        ("devices=lots", "Devices: Enter a whole number."),
        ("duration=soon", "How long: Enter a duration such as 24h"),
        ("delivery=pigeon", "Delivery: Select a valid choice."),
    ],
)
def test_what_an_address_says_in_vain_is_told(client, alice, request_fields, query, said):
    make_profile("closed", teams=(make_team("nlp"),))
    client.force_login(alice)
    page = client.get(f"{FORM}?{query}&reason=Why")
    assert page.status_code == 200
    assert said in unescape(page.text)
    assert ">Why</textarea>" in page.text


def test_an_address_that_the_form_takes_is_told_nothing(client, alice, request_fields):
    client.force_login(alice)
    page = client.get(FORM + "?profile=train-80&devices=2&duration=24h&help=1")
    assert page.context["prefill_problems"] == []
