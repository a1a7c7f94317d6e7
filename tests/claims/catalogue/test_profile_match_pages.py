"""The match panel of the profile editor, with and without JavaScript."""

import pytest
import yaml
from django.urls import reverse

from claims.models import ProfileVersion
from tests.claims.requests.test_match_pages import TAINT, mirrored
from tests.dra.clusters import gpu
from tests.factories import make_cluster, make_profile, make_spec

pytestmark = pytest.mark.django_db

MATCH, NEW = reverse("claims:profile_match"), reverse("claims:profile_new")
HTMX = {"HX-Request": "true"}


@pytest.fixture
def typed(fra):
    mirrored(fra, [gpu(0, product="NVIDIA L4", memory="24Gi"), gpu(1), gpu(2, taints=[TAINT])])
    return {"source": "fields", "device_class": "gpu.nvidia.com", "count": "2", "memory_gib": "40"}


def test_panel_shows_matching_devices_and_suggestions(client, root, typed):
    client.force_login(root)
    page = " ".join(client.post(MATCH, typed).text.split())
    assert "memory ≥ 40 GiB" in page
    assert "Does not fit now" in page
    assert "With 1 device instead of 2: <b>fits now</b>" in page


def test_excluded_devices_open_in_place_and_as_a_page(client, root, typed):
    client.force_login(root)
    rows = client.post(MATCH, typed | {"step": "2"}, headers=HTMX).text
    page = client.post(MATCH, typed | {"step": "2"}).text
    assert "memory 24 GiB &lt; 40 GiB" in rows
    assert "memory 24 GiB &lt; 40 GiB" in page
    assert "<html" in page
    assert "<html" not in rows


def test_excluded_devices_are_paginated(client, root, fra):
    mirrored(fra, [gpu(number, memory="24Gi") for number in range(60)])
    client.force_login(root)
    typed = {"source": "fields", "device_class": "gpu.nvidia.com", "memory_gib": "40", "step": "2"}
    assert "1–50 of 60" in client.post(MATCH, typed, headers=HTMX).text
    assert "51–60 of 60" in client.post(MATCH, typed | {"page": "2"}, headers=HTMX).text


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"device_class": ""}, "Enter a device class"),
        ({"count": "99"}, "less than or equal to 32"),
        ({"source": "yaml", "spec_yaml": "devices: [oops"}, "this is not YAML"),
        ({"source": "yaml", "spec_yaml": yaml.safe_dump({"devices": {"requests": "all"}})}, "list"),
    ],
)
def test_panel_shows_why_a_spec_cannot_be_matched(client, root, typed, wrong, message):
    client.force_login(root)
    answer = client.post(MATCH, typed | wrong)
    assert answer.status_code == 200
    assert message in answer.text
    assert client.post(MATCH, typed | wrong | {"step": "2"}).status_code == 404


def test_panel_matches_in_the_chosen_cluster(client, root, typed):
    make_cluster("lab-2")
    client.force_login(root)
    assert "no device class gpu.nvidia.com" in client.post(MATCH, typed | {"match_cluster": "lab-2"}).text


def test_editor_starts_with_the_match_of_the_current_version(client, root, typed):
    make_profile("train-80", spec=make_spec(2))
    client.force_login(root)
    page = client.get(reverse("claims:profile_edit", args=["train-80"])).text
    assert "node can host 2 devices" in page
    assert "Enter a device class to see what matches." in client.get(NEW).text


def test_check_without_javascript_saves_nothing(client, root, typed):
    client.force_login(root)
    answer = client.post(NEW, typed | {"check": "1", "title": "Mine"})
    assert (answer.status_code, ProfileVersion.objects.count()) == (200, 0)
    assert "memory ≥ 40 GiB" in answer.text
    assert 'value="Mine"' in answer.text


def test_match_panel_is_for_platform_admins(client, alice, vision, root, typed):
    client.force_login(alice)
    assert client.post(MATCH, typed).status_code == 403
    client.force_login(root)
    assert client.post(MATCH, typed | {"step": "77"}).status_code == 404
    assert client.post(MATCH, typed | {"step": "x"}).status_code == 404
