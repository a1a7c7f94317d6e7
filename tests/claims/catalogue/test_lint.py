"""The check of the catalogue: what several clusters say together, its pages, the fix, the API and home."""

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from rest_framework.test import APIClient

from claims.catalogue import services
from claims.catalogue.lint import catalogue_report
from claims.models import Profile
from core.errors import Conflict, Forbidden, Invalid
from dra.lint import LintCode, LintReport, Severity
from inventory.models import DeviceClass, ResourceSlice
from tests.dra.clusters import device_class, gpu, resource_slice
from tests.factories import make_cluster, make_profile, make_spec, save_profile

pytestmark = pytest.mark.django_db

PAGE = reverse("claims:lint")
API = "/api/v1/profiles/lint/"
MEMORY = 'device.capacity["gpu.nvidia.com"].?memory.orValue(quantity("0")).compareTo(quantity("{}")) >= 0'

CLASS = device_class()


def asking(least, **more):
    return make_spec(selectors=[{"cel": {"expression": MEMORY.format(least)}}], **more)


def publish(cluster, *devices, classes=(CLASS,), node="node-a"):
    """Put a node with these devices into the mirror of a cluster."""
    raw = resource_slice(node, list(devices))
    name = raw["metadata"]["name"]
    fields = {"driver": "gpu.nvidia.com", "pool": node, "generation": 1, "pool_slices": 1, "node_name": node}
    cluster.revision += 1
    cluster.save(update_fields=["revision"])
    ResourceSlice.objects.create(
        cluster=cluster, uid=name, name=name, raw=raw, revision=cluster.revision, **fields
    )
    for one in classes:
        name = one["metadata"]["name"]
        DeviceClass.objects.get_or_create(
            cluster=cluster, uid=name, defaults={"name": name, "raw": one, "revision": cluster.revision}
        )


@pytest.fixture
def fra(vision):
    made = make_cluster("fra-1", teams=(vision,))
    publish(made, *(gpu(number) for number in range(4)))
    return made


@pytest.fixture
def missed(fra):
    """A profile that leaves every H100 out by a rounding."""
    return make_profile("train-80", spec=asking("80Gi"))


def found(profile):
    return {(one.code, one.severity) for one in catalogue_report().findings_for(profile)}


def mend_url(profile):
    (finding,) = [one for one in catalogue_report().findings_for(profile) if one.fixable]
    return reverse("claims:lint_fix", args=[profile.slug, finding.key])


def test_a_profile_that_finds_devices_is_fine(fra):
    profile = make_profile("train-80", spec=asking("79Gi"), max_devices=4)
    assert found(profile) == set()
    report = catalogue_report()
    assert (report.profiles, report.checked, report.silent) == (1, ("fra-1",), ())


def test_what_one_cluster_lacks_is_a_note_while_another_serves(fra):
    lab = make_cluster("lab-2")
    publish(lab, gpu(0, memory="15360Mi"))
    big, nobody = (
        make_profile("big", spec=asking("70Gi"), max_devices=1),
        make_profile("huge", spec=asking("500Gi"), max_devices=1),
    )
    (finding,) = catalogue_report().findings_for(big)
    assert (finding.code, finding.severity, finding.clusters) == (
        LintCode.MATCHES_NOTHING,
        Severity.NOTE,
        ("lab-2",),
    )
    (finding,) = catalogue_report().findings_for(nobody)
    assert (finding.severity, finding.clusters) == (Severity.ERROR, ("fra-1", "lab-2"))
    assert [message.clusters for message in finding.messages] == [("fra-1",), ("lab-2",)]


def test_profiles_that_differ_somewhere_are_no_twins(fra):
    make_profile("a", spec=asking("79Gi"), max_devices=1)
    other = make_profile("b", spec=asking("20Gi"), max_devices=1)
    assert found(other) == {(LintCode.SAME_DEVICES, Severity.NOTE)}
    publish(make_cluster("lab-2"), gpu(0), gpu(1, memory="23034Mi"))
    assert LintCode.SAME_DEVICES not in {code for code, _ in found(other)}


def test_a_cluster_without_devices_is_named_and_not_held_against_anybody(fra):
    make_cluster("new-3")
    profile = make_profile("train-80", spec=asking("79Gi"), max_devices=4)
    assert found(profile) == set()
    assert catalogue_report().silent == ("new-3",)


def test_retired_profiles_and_disabled_clusters_are_left_out(fra, missed, root):
    make_cluster("old-4", enabled=False)
    services.retire_profile(by=root, profile=missed)
    report = catalogue_report()
    assert (report.profiles, report.findings, report.checked) == (0, (), ("fra-1",))


def test_a_change_of_the_devices_is_seen_at_once(fra, missed):
    assert (LintCode.MATCHES_NOTHING, Severity.ERROR) in found(missed)
    publish(fra, gpu(0, memory="81920Mi"), node="node-b")
    assert LintCode.MATCHES_NOTHING not in {code for code, _ in found(missed)}


def test_nothing_is_worked_out_again_while_nothing_has_changed(fra, missed, monkeypatch):
    catalogue_report()
    asked = []
    monkeypatch.setattr("dra.lint.lint", lambda snapshot, specs: asked.append(specs) or LintReport())
    assert catalogue_report().findings_for(missed)
    assert asked == []
    make_profile("other")
    catalogue_report()
    assert len(asked) == 1


def test_the_page_says_what_and_where_and_leads_to_the_fix(client, root, missed):
    client.force_login(root)
    page = client.get(PAGE)
    assert page.status_code == 200
    assert "4 devices that otherwise match publish 81559Mi" in page.text
    assert "fra-1" in page.text
    assert mend_url(missed) in page.text


def test_an_empty_catalogue_says_that_nothing_is_to_be_mended(client, root, db):
    client.force_login(root)
    assert "every profile matches devices" in client.get(PAGE).text


def test_the_fix_is_shown_before_it_is_made(client, root, missed):
    client.force_login(root)
    page = client.get(mend_url(missed)).text
    assert "quantity(&quot;80Gi&quot;)" in page
    assert "quantity(&quot;79Gi&quot;)" in page
    assert "Save as v2" in page
    assert Profile.objects.get(slug="train-80").current.number == 1


def test_one_click_makes_the_next_version_with_the_same_limits(client, root, missed):
    client.force_login(root)
    before = missed.current
    answer = client.post(mend_url(missed), {"version": str(before.pk)})
    assert answer.status_code == 302
    assert answer.headers["Location"] == PAGE
    missed.refresh_from_db()
    assert (missed.current.number, missed.current.created_by) == (2, root)
    assert missed.current.spec == asking("79Gi")
    assert missed.current.max_devices == before.max_devices
    assert missed.current.deliveries == before.deliveries
    assert LintCode.JUST_MISSED not in {code for code, _ in found(missed)}


def test_a_fix_for_a_version_that_is_no_longer_current_is_409(client, root, missed):
    client.force_login(root)
    address, before = mend_url(missed), missed.current
    services.replace_spec(by=root, profile=missed, version=before, spec=asking("80Gi", count=2))
    assert client.post(address, {"version": str(before.pk)}).status_code == 409
    assert client.post(address, {}).status_code == 409
    missed.refresh_from_db()
    assert missed.current.number == 2


def test_the_service_sees_the_version_under_the_lock(root, alice, missed):
    first = missed.current
    services.replace_spec(by=root, profile=missed, version=first, spec=asking("70Gi"))
    with pytest.raises(Conflict, match="train-80 has changed since you read version 1"):
        services.replace_spec(by=root, profile=missed, version=first, spec=asking("60Gi"))
    with pytest.raises(Forbidden):
        services.replace_spec(by=alice, profile=missed, version=first, spec=asking("60Gi"))
    with pytest.raises(Invalid):
        services.replace_spec(by=root, profile=missed, version=first, spec={"devices": {}})


def test_pages_and_api_are_for_platform_admins(client, lena, missed):
    client.force_login(lena)
    assert client.get(PAGE).status_code == 403
    assert client.get(mend_url(missed)).status_code == 403
    assert client.post(mend_url(missed), {"version": str(missed.current.pk)}).status_code == 403
    assert client.get(API).status_code == 403
    assert APIClient().get(API).status_code == 401


def test_other_methods_and_unknown_findings_are_refused(client, root, missed):
    client.force_login(root)
    assert client.post(PAGE).status_code == 405
    assert client.delete(mend_url(missed)).status_code == 405
    assert client.get(reverse("claims:lint_fix", args=["train-80", "0123456789ab"])).status_code == 404
    assert client.get(reverse("claims:lint_fix", args=["nobody", "0123456789ab"])).status_code == 404


def test_the_api_says_the_same(root, missed):
    made = APIClient()
    made.force_authenticate(root)
    said = made.get(API).json()
    assert (said["profiles"], said["checked"], said["silent"]) == (1, ["fra-1"], [])
    finding = next(one for one in said["findings"] if one["code"] == "threshold-just-above")
    assert (finding["subject"], finding["name"], finding["severity"]) == ("profile", "train-80", "warning")
    assert finding["told"][0]["clusters"] == ["fra-1"]
    assert finding["fix"]["after"] == MEMORY.format("79Gi")
    assert made.post(API).status_code == 405


def test_no_profile_takes_the_address_of_the_page(root, db):
    with pytest.raises(Invalid, match="The slug lint is reserved"):
        save_profile(by=root, profile=None, slug="lint", title="Lint", spec=make_spec())


def test_home_tells_platform_admins_alone(client, root, alice, missed):
    client.force_login(root)
    page = client.get(reverse("home")).text
    assert "1 profile needs fixing" in page
    assert PAGE in page
    client.force_login(alice)
    assert PAGE not in client.get(reverse("home")).text


def test_the_editor_and_the_list_of_profiles_tell_too(client, root, missed):
    client.force_login(root)
    assert mend_url(missed) in client.get(reverse("claims:profile_edit", args=["train-80"])).text
    assert PAGE in client.get(reverse("claims:profiles")).text


@pytest.mark.parametrize("address", [PAGE, API])
def test_one_profile_costs_as_many_queries_as_many(client, root, missed, address):
    client.force_login(root)
    client.get(address)
    with CaptureQueriesContext(connection) as one:
        client.get(address)
    for number in range(10):
        make_profile(f"more-{number}", spec=asking(f"{100 + number}Gi"))
    with CaptureQueriesContext(connection) as many:
        client.get(address)
    assert len(many) == len(one)
