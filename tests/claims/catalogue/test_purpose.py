"""The purpose of a profile: written by editor, API and file; it makes no version."""

from typing import Any

import pytest
from django.urls import reverse
from rest_framework.test import APIClient

from claims.catalogue.presets import presets
from claims.catalogue.services import import_profiles, plan_import
from claims.catalogue.yaml_export import catalogue_file, exported
from claims.catalogue.yaml_import import read_definitions
from claims.models import Profile, Purpose
from core.errors import Invalid
from dra.manifests import to_yaml
from tests.factories import make_profile, make_spec, save_profile

pytestmark = pytest.mark.django_db

FILE = f"""\
apiVersion: dragoman.dev/v1
kind: Profile
slug: train
title: Train
purpose: training
spec: {make_spec()!r}
"""


def stored(slug="train"):
    profile = Profile.objects.get(slug=slug)
    return profile.purpose, profile.versions.count()


def test_profile_without_a_purpose_is_for_other(root):
    version = save_profile(by=root, slug="train", title="Train", spec=make_spec())
    assert version.profile.purpose == Purpose.OTHER


def test_another_purpose_makes_no_version(root):
    first = save_profile(by=root, slug="train", title="Train", spec=make_spec())
    again: dict[str, Any] = {"slug": "train", "title": "Train", "spec": make_spec(), "purpose": "tests"}
    assert save_profile(by=root, profile=first.profile, **again) == first
    assert stored() == ("tests", 1)


def test_unknown_purpose_is_refused_with_the_known_ones(root):
    with pytest.raises(Invalid, match="“fun” is not a purpose: choose from training, inference, notebooks"):
        save_profile(by=root, slug="train", title="Train", spec=make_spec(), purpose="fun")
    assert not Profile.objects.exists()


def test_editor_shows_and_saves_the_purpose(client, root):
    profile = make_profile("train")
    client.force_login(root)
    address = reverse("claims:profile_edit", args=["train"])
    assert '<option value="other" selected>' in client.get(address).text
    sent = {
        **{"title": "Train", "purpose": "notebooks", "base": "1", "source": "yaml"},
        **{"spec_yaml": to_yaml(profile.current.spec), "scalable": "gpu", "max_devices": "8"},
        **{"deliveries": ["claim", "template"], "default_duration": "24h", "max_duration": "14d"},
        **{"end_policy": "cluster", "approval": "lead", "automatic_devices": "0"},
    }
    refused = client.post(address, sent | {"purpose": "fun"})
    assert refused.status_code == 422
    assert "fun is not one of the available choices" in refused.text
    assert client.post(address, sent).status_code == 302
    assert stored() == ("notebooks", 1)
    assert '<option value="notebooks" selected>' in client.get(address).text


def test_api_takes_and_returns_the_purpose(root):
    api = APIClient()
    api.force_authenticate(root)
    body = {"title": "Train", "spec": make_spec(), "purpose": "inference"}
    assert (
        api.post("/api/v1/profiles/", {"slug": "train", **body}, format="json").json()["purpose"]
        == "inference"
    )
    address = "/api/v1/profiles/train/"
    assert api.put(address, body | {"purpose": "tests"}, format="json").json()["purpose"] == "tests"
    assert stored() == ("tests", 1)
    refused = api.put(address, body | {"purpose": "fun"}, format="json")
    assert (refused.status_code, stored()) == (422, ("tests", 1))


def test_file_has_the_purpose_both_ways(root):
    import_profiles(by=root, definitions=read_definitions(FILE, "catalogue.yaml"))
    assert stored() == ("training", 1)
    text = catalogue_file(exported())
    assert "purpose: training\n" in text
    (change,) = plan_import(
        by=root, definitions=read_definitions(text.replace("training", "notebooks"), "other.yaml")
    )
    assert [(one.key, one.before, one.after) for one in change.differences] == [
        ("purpose", "training", "notebooks")
    ]
    assert not change.spec


@pytest.mark.parametrize(
    ("written", "problem"),
    [
        ("fun", "line 5: there is no purpose fun; choose from training, inference, notebooks, tests, other."),
        ("7", "line 5: purpose must be text; put it in quotes."),
    ],
)
def test_file_with_a_bad_purpose_is_refused_with_its_line(written, problem):
    with pytest.raises(Invalid) as refusal:
        read_definitions(FILE.replace("training", written), "catalogue.yaml")
    assert refusal.value.extra["problems"] == [f"catalogue.yaml, {problem}"]


def test_every_preset_has_a_purpose_and_all_are_used():
    found = {preset.slug: preset.purpose for preset in presets()}
    assert [slug for slug, purpose in found.items() if purpose == Purpose.OTHER] == ["gpu-monitoring"]
    assert {"training", "inference", "notebooks"} <= set(found.values())
