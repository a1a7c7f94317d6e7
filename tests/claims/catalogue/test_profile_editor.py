"""The profile editor: switching, confirmation, conflicts, versions, retiring, restoring."""

import re
from datetime import timedelta

import pytest
from django.contrib.messages import get_messages
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from claims.approvals.decide import approve
from claims.catalogue.services import retire_profile
from claims.models import Approval, Draft, Profile
from claims.states import ClaimState
from dra.manifests import to_yaml
from tests.factories import make_claim, make_profile, make_spec, make_team, make_user, save_profile

pytestmark = pytest.mark.django_db

HOUR = timedelta(hours=1)
CONSTRAINT = {"matchAttribute": "resource.kubernetes.io/pcieRoot"}


def address(name, profile, *args):
    return reverse(f"claims:profile_{name}", args=[profile.slug, *args])


@pytest.fixture
def sent(train):
    """What the editor of `train` sends when nothing is changed."""
    return {
        "title": "Train 80",
        "use": "Tests",
        "source": "yaml",
        "spec_yaml": to_yaml(train.current.spec),
        "scalable": "gpu",
        "max_devices": "8",
        "deliveries": ["claim", "template"],
        "default_duration": "24h",
        "max_duration": "14d",
        "grace": "",
        "extension": "",
        "end_policy": "cluster",
        "approval": "lead",
        "automatic_devices": "0",
        "automatic_duration": "",
        "base": "1",
    }


@pytest.fixture
def edit(client, root, train):
    client.force_login(root)
    return lambda data: client.post(address("edit", train), data)


def versions(profile):
    return [version.number for version in Profile.objects.get(pk=profile.pk).versions.all()]


def typed(page):
    """The hidden fields of the question, as a browser would send them back."""
    found = re.findall(r'<textarea name="(\w+)" hidden>\n(.*?)</textarea>', page, re.S)
    data: dict[str, list[str]] = {}
    for name, value in found:
        data.setdefault(name, []).append(value.replace("&#x27;", "'").replace("&quot;", '"'))
    data["base"] = re.findall(r'name="base" value="(\d+)"', page)
    return data


def test_version_is_saved_after_its_difference_is_confirmed(edit, sent, train, vision, fra):
    make_claim(vision, cluster=fra, state=ClaimState.ALLOCATED)
    make_claim(vision, cluster=fra)
    changed = sent | {"max_devices": "4", "grace": "30min", "approval": "both"}
    changed["spec_yaml"] = sent["spec_yaml"].replace("gpu.nvidia.com", "gpu.amd.com")
    answer = edit(changed)
    page = " ".join(answer.text.split())
    assert answer.status_code == 200
    assert '<span class="minus">- deviceClassName: gpu.nvidia.com</span>' in page.replace("-   ", "- ")
    assert '<td>Max devices</td><td class="dg-3">8</td><td><b>4</b></td>' in page
    assert '<td>Grace period</td><td class="dg-3">none</td><td><b>30 min</b></td>' in page
    assert "<b>lead, then platform admin</b>" in page
    assert "2 live claims stay on version 1." in page
    assert "1 pending request keeps its version." in page
    assert versions(train) == [1]
    assert edit(typed(answer.text) | {"confirm": "1"}).status_code == 302
    assert versions(train) == [2, 1]
    now = Profile.objects.get(pk=train.pk).current
    assert (now.max_devices, now.grace.total_seconds(), now.approval) == (4, 1800, Approval.BOTH)


def test_changed_title_is_saved_without_a_confirmation(edit, sent, train):
    assert edit(sent | {"title": "Another title"}).status_code == 302
    train.refresh_from_db()
    assert (train.title, versions(train)) == ("Another title", [1])


def test_back_from_the_confirmation_keeps_the_input(edit, sent):
    question = edit(sent | {"max_devices": "4", "use": "Work that nobody has saved."})
    page = edit(typed(question.text) | {"edit": "1"}).text
    assert 'name="max_devices" value="4"' in page
    assert "Work that nobody has saved." in page


def test_second_admin_sees_both_changes_and_keeps_the_input(edit, sent, train, root):
    other = make_user("ada", admin=True, first_name="Ada", last_name="Byron")
    save_profile(
        by=other, profile=train, slug="train-80", title="Train 80", spec=train.current.spec, scalable="gpu",
        max_devices=6,
    )  # fmt: skip
    answer = edit(sent | {"max_devices": "4"})
    page = " ".join(answer.text.split())
    assert answer.status_code == 409
    assert f"{other.label} saved version 2" in page
    assert "Theirs: v1 to v2" in page
    assert '<td class="dg-3">8</td><td><b>6</b></td>' in page
    assert "Yours: v2 to v3" in page
    assert '<td class="dg-3">6</td><td><b>4</b></td>' in page
    assert versions(train) == [2, 1]
    assert edit(typed(answer.text) | {"confirm": "1"}).status_code == 302
    assert Profile.objects.get(pk=train.pk).current.max_devices == 4


def test_late_confirmation_is_409(edit, sent, train, root):
    question = edit(sent | {"max_devices": "4"})
    save_profile(
        by=root, profile=train, slug="train-80", title="Train 80", spec=train.current.spec, scalable="gpu",
        max_devices=6,
    )  # fmt: skip
    answer = edit(typed(question.text) | {"confirm": "1"})
    assert answer.status_code == 409
    assert "saved version 2" in answer.text
    assert versions(train) == [2, 1]


def test_confirmation_sent_twice_makes_one_version(edit, sent, train):
    question = typed(edit(sent | {"max_devices": "4"}).text) | {"confirm": "1"}
    assert [edit(question).status_code, edit(question).status_code] == [302, 302]
    assert versions(train) == [2, 1]


def test_fields_keep_what_only_yaml_shows(edit, sent, train):
    spec = make_spec()
    spec["devices"]["constraints"] = [CONSTRAINT, {"matchAttribute": "gpu.nvidia.com/parentUUID"}]
    text = "# two of one card\n" + to_yaml(spec)
    page = edit(sent | {"spec_yaml": text, "switch": "fields", "title": "Half written"}).text
    assert "Also in YAML: 2 constraints. The fields do not change it." in " ".join(page.split())
    assert 'value="Half written"' in page
    assert "# two of one card" in page
    fields = sent | {
        "source": "fields", "spec_yaml": text, "device_class": "gpu.nvidia.com", "count": "1",
        "memory_gib": "79",
    }  # fmt: skip
    page = edit(fields | {"switch": "yaml"}).text
    assert "matchAttribute: gpu.nvidia.com/parentUUID" in page
    assert "quantity(&quot;79Gi&quot;)" in page
    edit(fields | {"confirm": "1"})
    devices = Profile.objects.get(pk=train.pk).current.spec["devices"]
    assert devices["constraints"] == spec["devices"]["constraints"]
    assert "79Gi" in devices["requests"][0]["exactly"]["selectors"][0]["cel"]["expression"]


def test_invalid_yaml_cannot_switch_to_fields(edit, sent):
    answer = edit(sent | {"spec_yaml": "devices: [oops", "switch": "fields"})
    assert answer.status_code == 422
    assert "this is not YAML" in answer.text
    assert "devices: [oops" in answer.text


@pytest.fixture
def second(train, root):
    """Version 2 of `train`: one more device, and a constraint."""
    spec = make_spec()
    spec["devices"]["constraints"] = [CONSTRAINT]
    return save_profile(
        by=root, profile=train, slug="train-80", title="Train 80", spec=spec, scalable="gpu", max_devices=9
    )


def test_page_compares_two_versions(client, alice, train, vision, second):
    client.force_login(alice)
    page = " ".join(client.get(address("diff", train, 1, 2)).text.split())
    assert '<span class="plus">+ constraints:</span>' in page.replace("+   ", "+ ")
    assert '<td>Max devices</td><td class="dg-3">8</td><td><b>9</b></td>' in page
    assert address("diff", train, 2, 1) in page
    assert address("diff", train, 1, 2) in client.get(reverse("claims:profile", args=["train-80"])).text
    assert client.get(address("diff", train, 1, 7)).status_code == 404


def test_version_pages_of_a_profile_of_other_teams_are_404(client, alice, vision, root):
    secret = make_profile("secret", teams=(make_team("nlp"),))
    client.force_login(alice)
    assert client.get(address("diff", secret, 1, 1)).status_code == 404


def test_page_of_a_profile_shows_sharing_cautions_and_waits(client, alice, fra, quota):
    spec = make_spec(count=1)
    parameters = {"kind": "GpuConfig", "sharing": {"strategy": "MPS"}}
    spec["devices"]["config"] = [{"opaque": {"driver": "gpu.nvidia.com", "parameters": parameters}}]
    make_profile("mps", spec=spec)
    client.force_login(alice)
    page = " ".join(client.get(reverse("claims:profile", args=["mps"])).text.split())
    assert "A crash of one can stop the others." in page
    assert "MPSSupport" in page
    assert "not enough data (0 in 30 d)" in page


def test_retiring_shows_claims_and_can_be_undone(client, root, train, vision, fra, alice):
    held = make_claim(vision, by=alice, cluster=fra, state=ClaimState.ALLOCATED)
    make_claim(vision, by=alice, cluster=fra)
    make_claim(vision, by=alice, cluster=fra, state=ClaimState.RELEASED)
    Draft.objects.create(by=alice, key="k", fields={"profile": ["train-80"]})
    client.force_login(root)
    page = " ".join(client.get(address("retire", train)).text.split())
    assert "1 live claim keeps it until its release." in page
    assert "1 pending request can still be approved." in page
    assert "1 draft needs another profile" in page
    assert f"{held.name}</a>" in page
    listed = client.post(address("retire", train), follow=True).text
    assert listed.count(f'action="{address("restore", train)}"') == 2  # in the toast and in the list
    assert client.post(address("restore", train), follow=True).status_code == 200
    train.refresh_from_db()
    assert (train.retired_at, versions(train)) == (None, [1])


def test_editor_shows_that_saving_a_retired_profile_restores_it(client, edit, root, train):
    assert "Save and restore" not in client.get(address("edit", train)).text
    retire_profile(by=root, profile=train)
    page = client.get(address("edit", train)).text
    assert "Saving restores it: it is in the catalogue again" in page
    assert ">Save and restore…</button>" in page


def test_retired_profile_with_a_change_is_restored_after_confirmation(edit, sent, root, train):
    retire_profile(by=root, profile=train)
    answer = edit(sent | {"max_devices": "4"})
    assert "<h1>Save version 2 of Train 80 and restore it?</h1>" in answer.text
    assert "Saving restores it</b>: it is in the catalogue again" in answer.text
    assert ">Save version 2 and restore</button>" in answer.text
    answer = edit(typed(answer.text) | {"confirm": "1", "restore": "1"})
    (message,) = get_messages(answer.wsgi_request)
    assert message.message == (
        "train-80 is saved; its version is 2. It was retired and is in the catalogue again."
    )
    train.refresh_from_db()
    assert (train.retired_at, versions(train)) == (None, [2, 1])


def test_retired_profile_without_a_change_is_restored_after_confirmation(edit, sent, root, train):
    retire_profile(by=root, profile=train)
    answer = edit(sent)
    train.refresh_from_db()
    assert train.retired_at is not None
    assert "<h1>Save and restore Train 80?</h1>" in answer.text
    assert "New requests get version 1, as before." in answer.text
    assert edit(typed(answer.text) | {"confirm": "1", "restore": "1"}).status_code == 302
    train.refresh_from_db()
    assert (train.retired_at, versions(train)) == (None, [1])


def test_profile_retired_after_the_confirmation_is_confirmed_again(edit, sent, root, train):
    confirmed = typed(edit(sent | {"max_devices": "4"}).text) | {"confirm": "1"}
    retire_profile(by=root, profile=train)
    answer = edit(confirmed)
    assert answer.status_code == 409
    assert "Save version 2 of Train 80 and restore it?" in answer.text
    train.refresh_from_db()
    assert (train.retired_at is None, versions(train)) == (False, [1])


def test_list_of_versions_names_the_one_that_restored_the_profile(client, root, train):
    retire_profile(by=root, profile=train)
    save_profile(
        by=root, profile=train, slug="train-80", title="Train 80", spec=train.current.spec, grace=HOUR
    )
    client.force_login(root)
    page = client.get(address("edit", train)).text
    assert page.count("restored the retired profile") == 1


def test_request_for_a_retired_profile_can_be_decided(ask, lena, root, train):
    claim = ask()
    retire_profile(by=root, profile=train)
    approve(claim=claim, by=lena, spec_hash=claim.spec_hash)
    claim.refresh_from_db()
    assert claim.state == ClaimState.APPROVED


def test_only_platform_admin_restores(client, lena, root, train, vision):
    retire_profile(by=root, profile=train)
    client.force_login(lena)
    assert client.post(address("restore", train)).status_code == 403
    client.force_login(root)
    assert client.post(reverse("claims:profile_restore", args=["none"])).status_code == 404


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("", ["old", "train-80"]),
        ("state=offered", ["train-80"]),
        ("state=retired", ["old"]),
        ("approval=admin", ["old"]),
        ("q=train", ["train-80"]),
    ],
)
def test_list_of_profiles_is_filtered_and_exported_as_csv(client, root, train, query, found):
    retire_profile(by=root, profile=make_profile("old", approval=Approval.ADMIN))
    client.force_login(root)
    lines = client.get(f"{reverse('claims:profiles')}?{query}&format=csv").getvalue().decode().splitlines()
    assert sorted(line.split(",")[0] for line in lines[1:]) == found


def test_query_count_of_a_profile_page_is_the_same_for_many_versions(client, alice, train, root, fra):
    client.force_login(alice)
    page = reverse("claims:profile", args=["train-80"])
    client.get(page)
    with CaptureQueriesContext(connection) as one:
        client.get(page)
    for most in range(9, 15):
        save_profile(
            by=root, profile=train, slug="train-80", title="Train 80", spec=make_spec(), max_devices=most
        )
    with CaptureQueriesContext(connection) as many:
        client.get(page)
    assert len(many) == len(one)
