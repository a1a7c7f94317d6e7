"""The catalogue, the page of a profile, and the editor."""

import re

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from claims.models import Profile
from dra.manifests import to_yaml
from tests.factories import make_profile, make_spec, make_team

pytestmark = pytest.mark.django_db

CATALOGUE, EDITOR, NEW = (reverse(f"claims:{name}") for name in ("catalogue", "profiles", "profile_new"))


@pytest.fixture
def sent():
    return {
        "slug": "slice",
        "title": "Slice",
        "use": "Small work.",
        "source": "fields",
        "device_class": "gpu.nvidia.com",
        "count": "1",
        "product": "NVIDIA H100",
        "memory_gib": "79",
        "compute": "8.0",
        "max_devices": "4",
        "deliveries": ["claim", "template"],
        "default_duration": "24h",
        "max_duration": "7d",
        "approval": "lead",
        "automatic_devices": "1",
        "automatic_duration": "8h",
        "end_policy": "cluster",
    }


def edit(profile):
    return reverse("claims:profile_edit", args=[profile.slug])


def test_catalogue_has_profiles_that_the_reader_may_request(client, alice, train, fra, quota):
    client.force_login(alice)
    page = client.get(CATALOGUE).text
    assert "Train 80" in page
    assert reverse("claims:request") + "?profile=train-80" in page


def test_profile_that_may_not_be_requested_shows_why(client, alice, train, fra):
    client.force_login(alice)
    page = client.get(CATALOGUE).text
    assert "Your team has no quota for gpu.nvidia.com devices." in page
    assert reverse("claims:request") + "?profile=train-80" not in page


def test_page_of_a_profile_of_another_team_is_404(client, alice, vision, quota):
    secret = make_profile("secret", teams=(make_team("nlp"),))
    client.force_login(alice)
    assert "secret" not in client.get(CATALOGUE).text
    assert client.get(reverse("claims:profile", args=[secret.slug])).status_code == 404


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("q=train", True),
        ("q=nothing", False),
        ("free=1", False),
        ("automatic=1", False),
        ("view=table", True),
        ("sort=free", True),
        ("sort=nonsense", True),
    ],
)
def test_catalogue_is_filtered_by_the_query(client, alice, train, fra, quota, query, found):
    client.force_login(alice)
    address = reverse("claims:profile", args=["train-80"])
    assert (address in client.get(f"{CATALOGUE}?{query}").text) is found


def test_query_count_of_the_catalogue_is_the_same_for_many(client, alice, train, fra, quota):
    client.force_login(alice)
    client.get(CATALOGUE)
    with CaptureQueriesContext(connection) as one:
        client.get(CATALOGUE)
    for number in range(10):
        make_profile(f"more-{number}")
    with CaptureQueriesContext(connection) as many:
        client.get(CATALOGUE)
    assert len(many) == len(one)


def test_page_of_a_profile_shows_spec_and_versions(client, alice, root, train, vision):
    client.force_login(alice)
    page = client.get(reverse("claims:profile", args=["train-80"])).text
    assert "deviceClassName" in page
    assert '<b>v1</b> <span class="dg-tag on">current</span>' in page
    assert edit(train) not in page
    client.force_login(root)
    assert edit(train) in client.get(reverse("claims:profile", args=["train-80"])).text


def test_fields_become_safe_cel(client, root, sent):
    client.force_login(root)
    answer = client.post(NEW, sent)
    assert answer.url == reverse("claims:profile_edit", args=["slice"])
    version = Profile.objects.get(slug="slice").current
    request = version.spec["devices"]["requests"][0]
    assert [selector["cel"]["expression"] for selector in request["exactly"]["selectors"]] == [
        'device.attributes["gpu.nvidia.com"].?productName.orValue("").startsWith("NVIDIA H100")',
        'device.capacity["gpu.nvidia.com"].?memory.orValue(quantity("0")).compareTo(quantity("79Gi")) >= 0',
        'device.attributes["gpu.nvidia.com"].?cudaComputeCapability.orValue(semver("0.0.0"))'
        '.compareTo(semver("8.0.0")) >= 0',
    ]
    assert (version.scalable, version.max_devices) == ("gpu", 4)


def test_editor_shows_the_fields_that_it_saved(client, root, sent):
    client.force_login(root)
    client.post(NEW, sent)
    page = client.get(reverse("claims:profile_edit", args=["slice"])).text
    assert 'value="NVIDIA H100"' in page
    assert 'value="79"' in page
    assert '<input type="hidden" name="source" value="fields">' in page


def test_saving_the_same_profile_makes_no_version(client, root, sent):
    client.force_login(root)
    client.post(NEW, sent)
    address = reverse("claims:profile_edit", args=["slice"])
    sent["scalable"] = "gpu"  # which a new profile gets by itself
    client.post(address, sent | {"confirm": "1"})
    assert Profile.objects.get().versions.count() == 1
    client.post(address, sent | {"max_devices": "8", "confirm": "1"})
    assert [version.number for version in Profile.objects.get().versions.all()] == [2, 1]


def test_yaml_saves_what_fields_cannot_show(client, root, sent):
    written = """
kind: ResourceClaim
spec:
  devices:
    requests:
    - name: gpu
      firstAvailable:
      - {name: big, deviceClassName: gpu.nvidia.com, allocationMode: ExactCount, count: 1}
      - {name: small, deviceClassName: mig.nvidia.com, allocationMode: ExactCount, count: 2}
"""
    client.force_login(root)
    client.post(NEW, sent | {"source": "yaml", "spec_yaml": written})
    version = Profile.objects.get().current
    assert [one["name"] for one in version.spec["devices"]["requests"][0]["firstAvailable"]] == [
        "big",
        "small",
    ]
    page = client.get(reverse("claims:profile_edit", args=["slice"])).text
    assert "Also in YAML: 1 more alternative." in page


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"title": ""}, "This field is required"),
        ({"device_class": ""}, "Enter a device class"),
        ({"compute": "eight"}, "Write it as 8.0."),
        ({"default_duration": "9d"}, "is longer than the max duration"),
        ({"max_duration": "for ever"}, "Enter a duration such as 24h"),
        ({"source": "yaml", "spec_yaml": "a: [b"}, "this is not YAML"),
        ({"source": "yaml", "spec_yaml": "- a list"}, "starts with the key devices"),
        ({"source": "yaml", "spec_yaml": "devices: {}"}, "request"),
        ({"count": "6"}, "but a claim may have at most 4."),
    ],
)
def test_invalid_form_shows_the_error_and_keeps_the_input(client, root, sent, wrong, message):
    client.force_login(root)
    answer = client.post(NEW, sent | wrong)
    assert answer.status_code == 422
    assert message in answer.text
    assert "Small work." in answer.text
    assert not Profile.objects.exists()


def test_selector_that_does_not_compile_is_shown_with_its_path(client, root, sent):
    spec = make_spec(selectors=[{"cel": {"expression": "device.name == 1"}}])
    client.force_login(root)
    answer = client.post(NEW, sent | {"source": "yaml", "spec_yaml": to_yaml(spec)})
    message = "rejects this selector: compilation failed: ERROR: &lt;input&gt;:1:7: undefined field"
    assert f"{message} &#x27;name&#x27;<pre" in answer.text
    assert "> | device.name == 1\n | ......^</pre>" in answer.text
    assert not Profile.objects.exists()


def test_editor_marks_the_few_required_fields(client, root):
    client.force_login(root)
    page = client.get(NEW).text
    assert "optional</span>" not in page
    marked = re.findall(r'<label for="id_(\w+)">[^<]*<span class="dg-opt-note">required</span>', page)
    assert marked == ["title", "slug", "max_devices", "default_duration", "max_duration"]


def test_empty_form_is_422(client, root):
    client.force_login(root)
    assert client.post(NEW).status_code == 422


def test_slug_in_use_is_409(client, root, train, sent):
    client.force_login(root)
    answer = client.post(NEW, sent | {"slug": "train-80"})
    assert answer.status_code == 409
    assert "There is already a profile train-80." in answer.text


def test_retiring_asks_first_and_counts_claims(client, root, train):
    client.force_login(root)
    address = reverse("claims:profile_retire", args=["train-80"])
    assert "Retire Train 80?" in client.get(address).text
    client.post(address)
    train.refresh_from_db()
    assert train.retired_at is not None
    assert "Train 80" not in client.get(CATALOGUE).text


@pytest.mark.parametrize("name", ["profiles", "profile_new", "profile_edit", "profile_retire"])
def test_only_platform_admin_edits_the_catalogue(client, lena, train, vision, sent, name):
    args = ["train-80"] if name in ("profile_edit", "profile_retire") else []
    client.force_login(lena)
    assert client.get(reverse(f"claims:{name}", args=args)).status_code == 403
    if name != "profiles":
        assert client.post(reverse(f"claims:{name}", args=args), sent).status_code == 403


def test_an_unknown_profile_is_404(client, root, train):
    client.force_login(root)
    assert client.get(reverse("claims:profile_edit", args=["no-such"])).status_code == 404


def test_options_of_limits_begin_as_those_of_the_purpose(client, root, train):
    client.force_login(root)
    editor, profiles = client.get(NEW).text, client.get(EDITOR).text
    assert ">Lead, then platform admin</option>" in editor
    assert ">As the cluster</option>" in editor
    assert ">Lead, then platform admin</option>" in profiles
    assert ">Lead</td>" in profiles  # a value of a cell


def test_the_list_of_profiles_leads_to_the_approval_rules(client, root, train):
    client.force_login(root)
    address = reverse("claims:approval_rules")
    assert f'href="{address}"' in client.get(EDITOR).text
    assert client.get(address).status_code == 200


def test_query_count_of_the_list_of_profiles_is_the_same_for_many(client, root, train):
    client.force_login(root)
    client.get(EDITOR)
    with CaptureQueriesContext(connection) as one:
        client.get(EDITOR)
    for number in range(10):
        make_profile(f"more-{number}")
    with CaptureQueriesContext(connection) as many:
        client.get(EDITOR)
    assert len(many) == len(one)
