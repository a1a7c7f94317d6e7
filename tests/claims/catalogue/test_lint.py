"""The check of the catalogue: its findings, pages, the fix, the API and home."""

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from rest_framework.test import APIClient

from claims.catalogue import services
from claims.catalogue.lint import catalogue_report, check_catalogue
from claims.models import Profile
from core.errors import Conflict, Forbidden, Invalid
from dra.lint import LintCode, LintReport, Severity
from inventory.models import DeviceClass, ResourceSlice
from tests.dra.clusters import device_class, gpu, resource_slice
from tests.factories import make_cluster, make_profile, make_spec, save_profile

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("fresh_availability")]

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


def test_profile_that_matches_devices_has_no_finding(fra):
    profile = make_profile("train-80", spec=asking("79Gi"), max_devices=4)
    assert found(profile) == set()
    report = catalogue_report()
    assert (report.profiles, report.checked, report.silent) == (1, ("fra-1",), ())


def test_missing_devices_in_one_cluster_are_a_note(fra):
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


def test_profiles_that_differ_in_one_cluster_are_not_duplicates(fra):
    make_profile("a", spec=asking("79Gi"), max_devices=1)
    other = make_profile("b", spec=asking("20Gi"), max_devices=1)
    assert found(other) == {(LintCode.SAME_DEVICES, Severity.NOTE)}
    publish(make_cluster("lab-2"), gpu(0), gpu(1, memory="23034Mi"))
    assert LintCode.SAME_DEVICES not in {code for code, _ in found(other)}


def test_cluster_without_devices_is_named_as_not_checked(fra):
    make_cluster("new-3")
    profile = make_profile("train-80", spec=asking("79Gi"), max_devices=4)
    assert found(profile) == set()
    assert catalogue_report().silent == ("new-3",)


def test_retired_profiles_and_disabled_clusters_are_not_checked(fra, missed, root):
    make_cluster("old-4", enabled=False)
    services.retire_profile(by=root, profile=missed)
    report = catalogue_report()
    assert (report.profiles, report.findings, report.checked) == (0, (), ("fra-1",))


def test_changed_devices_are_checked_again(fra, missed):
    assert (LintCode.MATCHES_NOTHING, Severity.ERROR) in found(missed)
    publish(fra, gpu(0, memory="81920Mi"), node="node-b")
    assert LintCode.MATCHES_NOTHING not in {code for code, _ in found(missed)}


def test_cluster_is_checked_again_only_after_a_change(fra, missed, monkeypatch):
    check_catalogue()
    calls = []
    monkeypatch.setattr("dra.lint.lint", lambda snapshot, specs: calls.append(specs) or LintReport())
    assert check_catalogue().findings_for(missed)
    assert calls == []
    make_profile("other")
    check_catalogue()
    assert len(calls) == 1


def test_page_shows_finding_clusters_and_a_link_to_the_fix(client, root, missed):
    client.force_login(root)
    page = client.get(PAGE)
    assert page.status_code == 200
    assert "4 devices that otherwise match publish 81559Mi" in page.text
    assert "fra-1" in page.text
    assert mend_url(missed) in page.text


def test_empty_catalogue_has_nothing_to_fix(client, root, db):
    client.force_login(root)
    assert "every profile matches devices" in client.get(PAGE).text


def test_fix_is_shown_before_it_is_saved(client, root, missed):
    client.force_login(root)
    page = client.get(mend_url(missed)).text
    assert "quantity(&quot;80Gi&quot;)" in page
    assert "quantity(&quot;79Gi&quot;)" in page
    assert "Save as v2" in page
    assert Profile.objects.get(slug="train-80").current.number == 1


def test_fix_makes_the_next_version_with_the_same_limits(client, root, missed):
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


def test_fix_of_an_outdated_version_is_409(client, root, missed):
    client.force_login(root)
    address, before = mend_url(missed), missed.current
    services.replace_spec(by=root, profile=missed, version=before, spec=asking("80Gi", count=2))
    assert client.post(address, {"version": str(before.pk)}).status_code == 409
    assert client.post(address, {}).status_code == 409
    missed.refresh_from_db()
    assert missed.current.number == 2


def test_service_checks_the_version_under_the_lock(root, alice, missed):
    first = missed.current
    services.replace_spec(by=root, profile=missed, version=first, spec=asking("70Gi"))
    with pytest.raises(Conflict, match="train-80 has changed since you read version 1"):
        services.replace_spec(by=root, profile=missed, version=first, spec=asking("60Gi"))
    with pytest.raises(Forbidden):
        services.replace_spec(by=alice, profile=missed, version=first, spec=asking("60Gi"))
    with pytest.raises(Invalid):
        services.replace_spec(by=root, profile=missed, version=first, spec={"devices": {}})


def test_check_is_for_platform_admins_only(client, lena, missed):
    client.force_login(lena)
    assert client.get(PAGE).status_code == 403
    assert client.get(mend_url(missed)).status_code == 403
    assert client.post(mend_url(missed), {"version": str(missed.current.pk)}).status_code == 403
    assert client.get(API).status_code == 403
    assert APIClient().get(API).status_code == 401


def test_unknown_findings_are_404(client, root, missed):
    client.force_login(root)
    assert client.get(reverse("claims:lint_fix", args=["train-80", "0123456789ab"])).status_code == 404
    assert client.get(reverse("claims:lint_fix", args=["nobody", "0123456789ab"])).status_code == 404


def test_api_has_the_same_findings(root, missed):
    made = APIClient()
    made.force_authenticate(root)
    body = made.get(API).json()
    assert (body["profiles"], body["checked"], body["silent"]) == (1, ["fra-1"], [])
    finding = next(one for one in body["findings"] if one["code"] == "threshold-just-above")
    assert (finding["subject"], finding["name"], finding["severity"]) == ("profile", "train-80", "warning")
    assert finding["messages"][0]["clusters"] == ["fra-1"]
    assert finding["fix"]["after"] == MEMORY.format("79Gi")


def test_slug_of_the_page_is_reserved(root, db):
    with pytest.raises(Invalid, match="The slug lint is reserved"):
        save_profile(by=root, profile=None, slug="lint", title="Lint", spec=make_spec())


def test_home_shows_findings_to_platform_admins_only(client, root, alice, missed):
    client.force_login(root)
    page = client.get(reverse("home")).text
    assert "1 profile needs fixing" in page
    assert PAGE in page
    client.force_login(alice)
    assert PAGE not in client.get(reverse("home")).text


def test_editor_and_list_of_profiles_show_findings(client, root, missed):
    client.force_login(root)
    assert mend_url(missed) in client.get(reverse("claims:profile_edit", args=["train-80"])).text
    assert PAGE in client.get(reverse("claims:profiles")).text


@pytest.mark.parametrize("address", [PAGE, API])
def test_query_count_is_the_same_for_one_and_many_checked_profiles(client, root, missed, address):
    client.force_login(root)
    client.get(address)
    with CaptureQueriesContext(connection) as one:
        client.get(address)
    for number in range(10):
        make_profile(f"more-{number}", spec=asking(f"{100 + number}Gi"))
    with CaptureQueriesContext(connection) as many:
        client.get(address)
    assert len(many) == len(one)
