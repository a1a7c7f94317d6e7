"""A manifest finds the profile that asks for the same; or the nearest are compared with it."""

from html import unescape
from urllib.parse import parse_qs, urlsplit

import pytest
import yaml
from django.core.files.uploadedfile import SimpleUploadedFile
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils.datastructures import MultiValueDict

from claims.catalogue.presets import presets
from claims.models import Claim, Profile
from claims.plans.plan import claim_manifest
from claims.requests.forms import ManifestForm
from claims.requests.manifest_import import import_claims
from dra.manifests import resource_claim, to_yaml, with_count
from tests.claims.published import mirrored
from tests.dra.clusters import gpu, resource_slice
from tests.factories import make_profile, make_spec, make_team

pytestmark = pytest.mark.django_db

PAGE = reverse("claims:request_import")


def profiles():
    return Profile.objects.filter(retired_at=None).select_related("current")


def way_of(page, kind="exact", at=0):
    return page.context["claims"][0].__getattribute__(kind)[at]


def fields_of(url):
    return {name: values[0] for name, values in parse_qs(urlsplit(url).query).items()}


def test_fields_of_which_one_is_required_are_not_optional(client, alice, vision):
    client.force_login(alice)
    page = client.get(reverse("claims:request_import")).text
    assert "Or a file" in page
    assert "optional" not in page


def test_what_the_portal_writes_fills_the_form_again(client, ask, alice):
    claim = ask(devices=3, delivery="template", parallel=2, name="sam2")
    client.force_login(alice)
    page = client.post(PAGE, {"text": to_yaml(claim_manifest(claim))})
    assert page.status_code == 200
    assert "3 devices match the file exactly." in page.text
    url = way_of(page).url
    assert fields_of(url) == {
        "profile": "train-80",
        "devices": "3",
        "delivery": "template",
        "name": "sam2",
    }
    assert 'value="train-80" checked' in client.get(url).text


@pytest.mark.parametrize("entry", presets(), ids=lambda entry: entry.slug)
def test_every_preset_is_found_again_at_its_largest(entry):
    for one in presets():
        make_profile(
            one.slug, spec=one.spec, scalable=one.limits.scalable, max_devices=one.limits.max_devices
        )
    most = entry.limits.max_devices if entry.limits.scalable else 1
    spec = with_count(entry.spec, entry.limits.scalable, most) if entry.limits.scalable else entry.spec
    (found,) = import_claims(
        to_yaml(resource_claim("mine", "default", spec)), "claim.yaml", profiles()
    ).claims
    assert (entry.slug, most) in [(near.profile.slug, near.similarity.count) for near in found.exact]


def test_names_of_requests_do_not_matter(client, alice, vision, train):
    spec = make_spec(2)
    spec["devices"]["requests"][0]["name"] = "anything"
    client.force_login(alice)
    page = client.post(PAGE, {"text": to_yaml(resource_claim("mine", "default", spec))})
    assert fields_of(way_of(page).url)["devices"] == "2"


def test_a_pod_brings_its_template(client, alice, vision, train):
    pod = {
        "kind": "Pod",
        "metadata": {"name": "p"},
        "spec": {"resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "one"}]},
    }
    template = {
        "kind": "ResourceClaimTemplate",
        "metadata": {"name": "one"},
        "spec": {"spec": make_spec()},
    }
    client.force_login(alice)
    page = client.post(PAGE, {"text": yaml.safe_dump_all([pod, template])})
    assert fields_of(way_of(page).url)["delivery"] == "template"
    refused = client.post(PAGE, {"text": yaml.safe_dump(pod)})
    assert refused.status_code == 422
    assert "ResourceClaimTemplate one is not in this file." in refused.text


def test_a_file_is_read_too(client, alice, vision, train):
    upload = SimpleUploadedFile("mine.yaml", to_yaml(resource_claim("mine", "x", make_spec())).encode())
    client.force_login(alice)
    assert "the file exactly" in client.post(PAGE, {"file": upload}).text


def test_where_nothing_matches_the_nearest_three_say_what_differs(client, alice, vision, train):
    for number in range(4):
        make_profile(f"part-{number}", spec=make_spec(device_class=f"mig-{number}.nvidia.com"))
    spec = make_spec(2, selectors=[{"cel": {"expression": "true"}}])
    client.force_login(alice)
    page = client.post(PAGE, {"text": to_yaml(resource_claim("mine", "default", spec))})
    assert "No profile matches exactly." in page.text
    assert "Create profile from it" not in page.text
    (found,) = page.context["claims"]
    assert [way.match.profile.slug for way in found.nearest] == ["train-80", "part-0", "part-1"]
    first = found.nearest[0].match
    assert first.similarity.differences == ("Only in the file: selector true",)
    assert [line.text.strip() for line in first.lines if line.sign == "+"][-1] == "expression: 'true'"
    assert fields_of(found.nearest[0].url)["devices"] == "2"


def test_more_than_the_profile_allows_is_told(client, alice, vision, train):
    client.force_login(alice)
    page = client.post(PAGE, {"text": to_yaml(resource_claim("mine", "default", make_spec(9)))})
    assert "Number of devices: 9 in the file, 8 in the profile." in page.text


def test_an_admin_makes_a_profile_of_it(client, root, fra, vision, train):
    spec = make_spec(2, device_class="tpu.google.com")
    client.force_login(root)
    page = client.post(PAGE, {"text": to_yaml(resource_claim("mine", "default", spec))})
    assert "Create profile from it" in page.text
    (found,) = page.context["claims"]
    fields: dict[str, list[object]] = {}
    for name, value in found.editor:
        fields.setdefault(name, []).append(value)
    editor = client.post(reverse("claims:profile_new"), fields)
    assert editor.status_code == 200
    assert "tpu.google.com" in editor.text
    assert not Profile.objects.filter(slug="mine").exists()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "Paste a manifest or choose a file."),
        ("kind: [", "The text, line 1: this is not YAML"),
        ("kind: Service", "The text has no pod or claim that names devices. Skipped: Service."),
        ("kind: ResourceClaim\nspec: {devices: {requests: []}}", "is invalid."),
        ("a: &a [*a]", "The text, line 1: this refers to itself."),
        ("[" * 5000, "The text, line 1: the limit is 40 levels."),
        ("x" * 64_001, "The text has 64,001 characters; the limit is 64,000."),
    ],
)
def test_what_cannot_be_read_is_422_with_its_place(client, alice, vision, text, said):
    client.force_login(alice)
    answer = client.post(PAGE, {"text": text})
    assert answer.status_code == 422
    assert said in unescape(answer.text)


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16"])  # as PowerShell writes files
def test_file_with_a_byte_order_mark_is_read(encoding):
    text = to_yaml(resource_claim("mine", "vision", make_spec())).replace("\n", "\r\n")
    file = SimpleUploadedFile("claim.yaml", text.encode(encoding))
    form = ManifestForm(files=MultiValueDict({"file": [file]}))
    assert form.is_valid(), form.errors
    assert (
        import_claims(form.cleaned_data["manifest"], "claim.yaml", []).claims[0].title == "ResourceClaim mine"
    )


def test_a_file_that_is_no_text_is_refused(client, alice, vision):
    client.force_login(alice)
    answer = client.post(PAGE, {"file": SimpleUploadedFile("a.png", b"\x89PNG\xff")})
    assert answer.status_code == 422
    assert "a.png is not a text file." in answer.text


def test_no_profile_with_less_memory_than_the_manifest_asks_for_is_suggested(
    client, alice, vision, fra, fresh_availability
):
    smaller = [gpu(1, product="Tesla T4", memory="15Gi"), gpu(2, product="NVIDIA L4", memory="24Gi")]
    mirrored(fra, resource_slice("node-a", [gpu(0), *smaller]))
    model = 'device.attributes["gpu.nvidia.com"].productName == "{}"'
    for slug, product in (("t4", "Tesla T4"), ("h100", "NVIDIA H100 80GB HBM3")):
        make_profile(slug, spec=make_spec(selectors=[{"cel": {"expression": model.format(product)}}]))
    make_profile("with-20", spec=make_spec(selectors=[{"cel": {"expression": at_least("20Gi")}}]))
    client.force_login(alice)
    spec = make_spec(selectors=[{"cel": {"expression": at_least("40Gi")}}])
    (claim,) = client.post(PAGE, {"text": to_yaml(resource_claim("mine", "default", spec))}).context["claims"]
    assert [option.match.profile.slug for option in claim.nearest] == ["h100"]


def at_least(memory):
    return f'device.capacity["gpu.nvidia.com"].memory.compareTo(quantity("{memory}")) >= 0'


def test_a_profile_of_another_team_is_not_told(client, alice, vision):
    make_profile("closed", teams=(make_team("nlp"),))
    client.force_login(alice)
    page = client.post(PAGE, {"text": to_yaml(resource_claim("mine", "default", make_spec()))})
    assert "Closed" not in page.text
    assert "No profile that is open to your teams gives what it asks for." in page.text


def test_a_viewer_may_not_ask(client, alice, bob, vision):
    client.force_login(bob)
    assert client.get(PAGE).status_code == 403
    client.force_login(alice)
    assert client.get(PAGE).status_code == 200
    assert not Claim.objects.exists()


def test_it_costs_the_same_for_one_profile_and_for_many(client, alice, vision, train):
    client.force_login(alice)
    text = {"text": to_yaml(resource_claim("mine", "default", make_spec(device_class="a.b")))}
    client.post(PAGE, text)
    with CaptureQueriesContext(connection) as one:
        client.post(PAGE, text)
    for number in range(8):
        make_profile(f"more-{number}")
    with CaptureQueriesContext(connection) as many:
        client.post(PAGE, text)
    assert len(many) == len(one)
