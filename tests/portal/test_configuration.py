"""What platform admins set, as a file: exported, compared, applied."""

import io
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest
import time_machine
import yaml
from django.core.management import CommandError, call_command
from django.utils import timezone

from claims.budgets.services import set_budget
from claims.models import Approval, ApprovalRule, AtLimit, Profile, Quota, TeamNamespace
from core.errors import Forbidden, Invalid
from core.models import Installation
from inventory.models import Cluster, DeviceClass, Freshness, Namespace, PriceBasis, TelemetryAccess
from portal.configuration.export import config_file, exported
from portal.configuration.plan import apply_plan, read_plan
from teams.models import Membership, Role, Team, recorded_changes
from tests.factories import make_cluster, make_profile, make_quota, make_team, make_user
from usage.models import Rate

pytestmark = pytest.mark.django_db(transaction=True)

NOW = datetime(2026, 11, 23, 12, tzinfo=UTC)


@pytest.fixture(autouse=True)
def _clock():
    with time_machine.travel(NOW, tick=False):
        yield


@pytest.fixture
def root():
    return make_user("root", admin=True)


@pytest.fixture
def site(root):
    """A cluster, two teams with quotas and rules, a profile, two rates."""
    ines, mira = make_user("ines"), make_user("mira")
    vision = make_team("vision", owners=(ines,), members=(mira,))
    make_team("nlp", owners=(make_user("noa"),))
    fra = make_cluster("fra-1", teams=(vision,), title="Frankfurt", prometheus_url="http://prometheus:9090")
    access = {"kind": "token", "server": "http://prometheus:9090", "sealed": b"secret"}
    TelemetryAccess.objects.create(cluster=fra, tenant="gpu", timeout_seconds=20, **access)
    make_cluster("lab-2", metrics_url="http://exporter:9400/metrics")
    train = make_profile("train-80")
    quota = make_quota(vision, 8)
    Quota.objects.filter(pk=quota.pk).update(guaranteed=2)
    make_quota(vision, 4, profile=train)
    Quota.objects.create(team=vision, counts=Quota.Counts.CLAIMS, devices=30)
    ApprovalRule.objects.create(
        team=vision,
        profile=train,
        approval=Approval.LEAD,
        automatic_devices=2,
        automatic_duration=timedelta(hours=12),
    )
    ApprovalRule.objects.create(profile=train, approval=Approval.ADMIN, escalate_after=timedelta(days=1))
    Rate.objects.create(title="H100", product="H100", per_hour="2.90", valid_from=NOW - timedelta(days=9))
    set_budget(by=root, team=vision, amount=Decimal(2000), at_limit=AtLimit.APPROVAL)
    Rate.objects.create(
        title="L4",
        cluster=Cluster.objects.get(name="lab-2"),
        per_hour="0.5525",
        valid_from=NOW + timedelta(days=9),
    )
    return vision


def text_of(documents=None):
    return config_file(exported() if documents is None else documents)


def plan(text, by, **options):
    return read_plan(text, "site.yaml", by=by, **options)


def lines(text, by, **options):
    return {f"{change.kind} {change.name}": change.lines for change in plan(text, by, **options).due}


def apply(text, by, **options):
    return list(apply_plan(plan(text, by, **options), by=by))


def problems(text, by):
    with pytest.raises(Invalid) as refusal:
        plan(text, by)
    return refusal.value.extra["problems"]


def document(kind, **values):
    return yaml.safe_dump({"apiVersion": "dragoman.dev/v1", "kind": kind, **values})


def test_an_exported_file_changes_nothing(site, root):
    assert plan(text_of(), root, prune=True).due == []
    assert plan(text_of(), root).notes == []


def test_no_secret_is_exported(site, root):
    text = text_of()
    assert "secret" not in text
    assert "prometheus: http://prometheus:9090" in text
    assert "telemetryTenant: gpu" in text
    assert "exporter: http://exporter:9400/metrics" in text


def test_how_telemetry_is_read_is_part_of_the_file_and_its_secret_stays(site, root):
    text = document("Cluster", name="fra-1", telemetryTenant="lab", telemetryTimeout=5, prometheus="")
    assert lines(text, root) == {
        "Cluster fra-1": [
            "prometheus_url: http://prometheus:9090 → –",
            "tenant gpu → lab",
            "timeout_seconds 20 → 5",
        ]
    }
    apply(text, root)
    access = TelemetryAccess.objects.get()
    assert (access.tenant, access.timeout_seconds, access.kind, bytes(access.sealed)) == (
        *("lab", 5, "token"),
        b"secret",
    )
    assert lines(text, root) == {}


@pytest.mark.parametrize(
    ("key", "value", "words"),
    [
        ("telemetryTenant", "a b", "several tenants joined"),
        ("telemetryAuthority", "PEM", "Enter certificates in PEM"),
        ("telemetryMatchers", "cluster=fra", "Enter label matchers"),
        ("telemetryTimeout", 61, "a number from 1 to 60"),
        ("telemetryToken", "abc", "telemetryToken"),
    ],
)
def test_malformed_telemetry_is_refused_with_its_line(site, root, key, value, words):
    (problem,) = problems(document("Cluster", name="fra-1", **{key: value}), root)
    assert words in str(problem)


def test_an_export_makes_an_empty_portal_equal_and_a_second_run_changes_nothing(site, root):
    text = text_of()
    Rate.objects.all().delete()
    Quota.objects.all().delete()
    ApprovalRule.objects.all().delete()
    TeamNamespace.objects.all().delete()
    Membership.objects.all().delete()
    Team.objects.all().delete()
    Profile.objects.update(current=None)
    Profile.objects.all().delete()
    Cluster.objects.update(title="", metrics_url="")
    Installation.objects.create(currency="CHF")
    assert {change.kind for change in apply(text, root)} == {
        "Installation",
        "Cluster",
        "Profile",
        "Team",
        "ApprovalRule",
        "Rate",
    }
    assert text_of() == text
    assert apply(text, root) == []


def test_settings_of_the_installation_are_exported_and_applied(site, root):
    assert "kind: Installation\nname: Dragoman\ncurrency: EUR\ntimeZone: ''" in text_of()
    text = document("Installation", name="GPUs of Fraunfeld", currency="chf")
    assert lines(text, root) == {
        "Installation the settings": ["name: Dragoman → GPUs of Fraunfeld", "currency: EUR → CHF"]
    }
    apply(text, root)
    stored = Installation.load()
    assert (stored.name, stored.currency, stored.timezone) == ("GPUs of Fraunfeld", "CHF", "")
    assert [row.by.username for row in recorded_changes(stored)] == ["root"]
    assert apply(text, root) == []


def test_invalid_settings_of_the_installation_are_refused_with_their_line(site, root):
    text = document("Installation", currency="Franken", timeZone="Mars/Olympus")
    found = problems(text, root)
    assert len(found) == 2
    assert found[0].startswith("site.yaml, line 2: currency: ")
    assert "Mars/Olympus" in found[1]
    assert (
        "is there twice" in problems(document("Installation") + "---\n" + document("Installation"), root)[0]
    )


def test_end_policy_of_a_cluster_is_exported_and_applied(site, root):
    assert "name: fra-1\ntitle: Frankfurt\nreadOnly: false\nwriteQuotas: false\nendPolicy: run" in text_of()
    text = document("Cluster", name="fra-1", endPolicy="evict")
    assert lines(text, root) == {"Cluster fra-1": ["end_policy: run → evict"]}
    apply(text, root)
    assert Cluster.objects.get(name="fra-1").end_policy == "evict"
    assert apply(text, root) == []


def test_a_key_that_is_left_out_stays_and_a_list_is_complete(site, root):
    text = document("Team", slug="vision", title="Computer vision", members={"ines": "owner"})
    assert lines(text, root) == {"Team vision": ["title: Vision → Computer vision", "members: - mira"]}
    apply(text, root)
    assert list(site.memberships.values_list("user__username", flat=True)) == ["ines"]
    assert site.quotas.count() == 3
    assert site.namespaces.count() == 1


def test_owners_are_added_before_others_leave(site, root):
    text = document("Team", slug="vision", members={"mira": "owner", "noa": "viewer"})
    assert lines(text, root)["Team vision"] == [
        "members: mira: member → owner",
        "members: + noa: viewer",
        "members: - ines",
    ]
    apply(text, root)
    roles = dict(site.memberships.values_list("user__username", "role"))
    assert roles == {"mira": Role.OWNER, "noa": Role.VIEWER}


def test_quotas_are_set_changed_and_removed_and_recorded(site, root):
    quotas = [{"deviceClass": "gpu.nvidia.com", "devices": 12}, {"claims": 30}]
    text = document("Team", slug="vision", quotas=quotas)
    assert lines(text, root)["Team vision"] == [
        "quotas: gpu.nvidia.com: 8 devices, 2 guaranteed → 12 devices",
        "quotas: - train-80, was 4 devices",
    ]
    [changed] = Quota.objects.filter(device_class="gpu.nvidia.com")
    apply(text, root)
    changed.refresh_from_db()
    assert (changed.devices, changed.guaranteed) == (12, 0)
    assert not Quota.objects.filter(profile__slug="train-80").exists()
    [record] = recorded_changes(changed)
    assert (record.by, record.text) == (root, "limit 8 → 12, guaranteed 2 → 0")


def test_budgets_are_set_changed_and_ended(site, root):
    fixed = {"title": "cvpr", "from": "2026-12-01", "until": "2027-01-31", "gpuHours": "500.00"}
    text = document("Team", slug="vision", budgets=[{"amount": "2500.00", "atLimit": "block"}, fixed])
    first = site.budgets.get().first
    assert lines(text, root)["Team vision"] == [
        f"budgets: monthly: from {first}, amount 2000.00, atLimit approval → "
        f"from {first}, amount 2500.00, atLimit block",
        "budgets: cvpr: none → from 2026-12-01, until 2027-01-31, gpuHours 500.00, atLimit notify",
    ]
    apply(text, root)
    assert apply(text, root) == []
    assert {budget.title: budget.at_limit for budget in site.budgets.all()} == {"": "block", "cvpr": "notify"}
    apply(document("Team", slug="vision", budgets=[fixed]), root)
    assert [budget.title for budget in site.budgets.open()] == ["cvpr"]


def test_the_goal_of_a_team_is_set_exported_and_removed(site, root):
    text = document("Team", slug="vision", efficiencyGoal=70)
    assert lines(text, root)["Team vision"] == ["efficiency goal: none → 70 %"]
    apply(text, root)
    assert apply(text, root) == []
    site.refresh_from_db()
    assert site.efficiency_goal == 70
    apply(document("Team", slug="vision", efficiencyGoal=0), root)
    site.refresh_from_db()
    assert site.efficiency_goal is None


def test_names_that_no_cluster_has_are_notes_before_they_are_applied(site, root):
    fra = Cluster.objects.get(name="fra-1")
    DeviceClass.objects.create(cluster=fra, uid="c", name="gpu.nvidia.com")
    Namespace.objects.create(cluster=fra, uid="n", name="vision")
    Freshness.objects.create(cluster=fra, resource="namespaces", listed_at=NOW)
    PriceBasis.objects.create(id=fra.pk, cluster=fra, driver="gpu.nvidia.com", product="H100", devices=3)
    quotas = [{"deviceClass": "gpu.nvida.com", "devices": 4}]
    text = document("Team", slug="nlp", namespaces={"fra-1": "vison"}, quotas=quotas)
    rate = {"title": "A", "perHour": "1", "currency": "EUR", "validFrom": "2036-01-01T00:00:00+00:00"}
    text += "---\n" + document("Rate", driver="gpu.nvida.com", **rate)
    assert [note.split(": ", 1)[1] for note in plan(text, root).notes] == [
        "fra-1 has no namespace “vison”. Did you mean “vision”?",
        "No cluster has a device class “gpu.nvida.com”. Did you mean “gpu.nvidia.com”?",
        "None of the 3 devices of the clusters matches this rate now.",
    ]


def test_people_without_an_account_and_unknown_clusters_are_notes_and_the_rest_is_applied(site, root):
    text = (
        document(
            "Team",
            slug="speech",
            title="Speech",
            members={"noa": "owner", "tom": "member"},
            namespaces={"fra-1": "speech", "ber-3": "speech"},
        )
        + "---\n"
        + document("Cluster", name="ber-3", title="Berlin")
    )
    assert plan(text, root).notes == [
        "Cluster ber-3: not connected: connect it on the page Clusters or with “manage.py cluster add”, then "
        "apply again",
        "Team speech: tom has no account yet: apply again after their first sign-in",
        "Team speech: cluster ber-3 is not connected: its namespace is set when it is",
    ]
    apply(text, root)
    speech = Team.objects.get(slug="speech")
    assert [str(row) for row in speech.namespaces.all()] == ["fra-1/speech"]
    assert speech.memberships.get().user.username == "noa"


def test_a_rate_that_applies_cannot_change_and_a_pending_one_can(site, root):
    applied = document(
        "Rate",
        title="H100",
        product="H100",
        perHour="3.10",
        currency="EUR",
        validFrom="2026-11-14T12:00:00+00:00",
    )
    assert problems(applied, root) == [
        "site.yaml, line 1: “H100” applies and has been billed. Add a rate with a later validFrom instead."
    ]
    pending = document(
        "Rate",
        title="L4",
        cluster="lab-2",
        perHour="0.60",
        currency="EUR",
        validFrom="2026-12-02T12:00:00+00:00",
    )
    [changed] = lines(pending, root).values()
    assert changed == ["per_hour: 0.5525 → 0.60"]
    apply(pending, root)
    assert Rate.objects.get(title="L4").per_hour == Decimal("0.60")


def test_rate_with_an_expression_is_applied_once_and_a_mistake_in_it_refused(site, root):
    fields = {"title": "spot", "perHour": "1", "currency": "EUR", "validFrom": "2026-12-02T12:00:00+00:00"}
    spot = document("Rate", **fields, expression='device.capacityType == "spot"')
    apply(spot, root)
    assert Rate.objects.get(title="spot").expression == 'device.capacityType == "spot"'
    assert lines(spot, root) == {}
    [problem] = problems(document("Rate", **fields, expression="device.product"), root)
    assert "must evaluate to bool" in problem


def test_rate_that_applies_is_retired_by_the_file(site, root):
    fields = {"title": "H100", "product": "H100", "currency": "EUR"}
    price = f"{Rate.objects.get(title='H100').per_hour:f}"
    end = timezone.now() + timedelta(days=3)
    retired = document(
        "Rate", **fields, perHour=price, validFrom="2026-11-14T12:00:00+00:00", validUntil=end.isoformat()
    )
    [changed] = lines(retired, root).values()
    assert changed[0].startswith("ends: ")
    apply(retired, root)
    assert Rate.objects.get(title="H100").valid_until == end
    [exported_rate] = [row for row in exported() if row.get("title") == "H100"]
    assert exported_rate["validUntil"] == end.isoformat(timespec="seconds")
    assert lines(retired, root) == {}


def test_prune_removes_rules_and_retires_profiles_that_the_file_lacks(site, root):
    documents = [row for row in exported() if row["kind"] in ("Cluster", "Team")]
    assert lines(text_of(documents), root) == {}
    pruned = lines(text_of(documents), root, prune=True)
    assert pruned == {
        "Profile train-80": ["retired"],
        "ApprovalRule vision, train-80": ["removed"],
        "ApprovalRule every team, train-80": ["removed"],
    }
    apply(text_of(documents), root, prune=True)
    assert not ApprovalRule.objects.exists()
    assert Profile.objects.get().retired_at is not None
    assert lines(text_of(documents), root, prune=True) == {}


def test_a_rule_is_complete_and_a_changed_one_shows_both(site, root):
    text = document("ApprovalRule", team="vision", profile="train-80", approval="admin", selfApproval=True)
    assert lines(text, root) == {
        "ApprovalRule vision, train-80": [
            "lead, automatic devices 2, automatic duration 12h → admin, self approval yes"
        ]
    }


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (
            document("Quota", devices=1),
            "kind must be one of Installation, Cluster, Profile, Team, ",
        ),
        (
            document("Team", slug="vision", quota=[]),
            "there is no key quota; the keys are apiVersion, budgets, ",
        ),
        (document("Team", slug="vision", members={"ines": "boss"}), "there is no boss; choose from "),
        (document("Team", slug="vision", members=["ines"]), "members has a role for each user name"),
        (document("Team", slug="vision", quotas=[{"devices": 3}]), "a quota has one of deviceClass, profile"),
        (
            document("Team", slug="vision", quotas=[{"claims": -1}]),
            "claims must be a number from 0 to 1000000.",
        ),
        (document("Team", slug="vision", quotas=[{"claims": 1}, {"claims": 2}]), "claims is listed twice."),
        (document("Team", slug="vision", budgets=[{"amount": 3}]), "amount is a number above 0 in quotes"),
        (document("Team", slug="vision", budgets=[{}]), "a budget has an amount, gpuHours, or both."),
        (
            document("Team", slug="vision", budgets=[{"amount": "1", "title": "x"}]),
            "a budget has a title and until, or neither",
        ),
        (
            document("Team", slug="vision", budgets=[{"amount": "1", "atLimit": "explode"}]),
            "explode",
        ),
        (
            document("Team", slug="vision") + "---\n" + document("Team", slug="vision"),
            "Team vision is there twice.",
        ),
        (document("ApprovalRule", approval="lead"), "an approval rule needs a team, a profile, or both."),
        (document("ApprovalRule", team="none", approval="lead"), "there is no team none."),
        (
            document("Rate", title="x", perHour=2.9, currency="EUR", validFrom="2027-01-01"),
            "perHour must be a price",
        ),
        (
            document("Rate", title="x", perHour="2", currency="EUR", validFrom="soon"),
            "validFrom must be a time",
        ),
        (document("Cluster", name="fra-1", readOnly="yes"), "readOnly must be true or false."),
        (
            document("Cluster", name="fra-1", endPolicy="kill"),
            "there is no kill; choose from run, ask, evict.",
        ),
        ("- a\n", "kind must be one of"),
        ("", "site.yaml has no document."),
    ],
)
def test_what_is_wrong_is_named_with_its_line_and_nothing_is_written(site, root, text, problem):
    before = text_of()
    assert any(problem in found for found in problems(text, root))
    assert text_of() == before


def test_only_platform_admins_apply(site):
    mira = make_user("mira")
    text = document("Team", slug="vision", title="Mine")
    with pytest.raises(Forbidden):
        list(apply_plan(read_plan(text, "site.yaml", by=mira), by=mira))
    assert Team.objects.get(slug="vision").title == "Vision"


def run(*arguments):
    out, err = io.StringIO(), io.StringIO()
    code: str | int | None = 0
    try:
        call_command("config", *arguments, stdout=out, stderr=err)
    except SystemExit as end:
        code = end.code
    return code, out.getvalue()


def test_the_command_exports_shows_and_applies(site, root, tmp_path):
    file = tmp_path / "site.yaml"
    assert run("export", "--out", str(file)) == (0, "")
    assert file.read_text() == text_of()
    assert run("diff", str(file)) == (0, "Nothing to do.\n")
    file.write_text(document("Team", slug="vision", title="Sight"))
    assert run("diff", str(file)) == (1, "Team vision\n    title: Vision → Sight\n")
    assert run("apply", str(file))[1].endswith("title: Vision → Sight\n1 object changed.\n")
    assert run("apply", str(file)) == (0, "Nothing to do.\n")
    file.write_text("nonsense")
    with pytest.raises(CommandError) as refusal:
        run("apply", str(file))
    assert refusal.value.returncode == 2
    with pytest.raises(CommandError, match="ines is not a platform admin"):
        run("diff", str(file), "--by", "ines")
