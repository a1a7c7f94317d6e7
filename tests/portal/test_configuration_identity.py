"""Identity providers and group rules as a file."""

from typing import Any

import pytest

from core.errors import Invalid
from portal.configuration.export import config_file, exported
from portal.configuration.plan import apply_plan, read_plan
from teams.identity.groups import set_groups_of
from teams.identity.models import GroupRule, IdentityProvider
from teams.identity.services import add_provider, save_rule, set_secret
from teams.models import Membership, Role
from teams.services import add_member
from tests.factories import make_team, make_user

pytestmark = pytest.mark.django_db(transaction=True)

KINDS = ("IdentityProvider", "GroupRule", "Team")


@pytest.fixture
def root():
    return make_user("root", admin=True)


@pytest.fixture
def site(root):
    vision = make_team("vision", owners=(make_user("olga"),))
    fields: dict[str, Any] = {"title": "SSO", "issuer": "https://sso.example", "client_id": "dragoman"}
    sso = add_provider(by=root, slug="sso", secret="of-the-client", **fields)
    save_rule(by=root, provider=sso, pattern="gpu-*", team=vision, role="member")
    save_rule(by=root, provider=sso, pattern="admins")
    return vision


def text(*changes):
    documents = [row for row in exported() if row["kind"] in KINDS]
    for change in changes:
        change(documents)
    return config_file(documents)


def lines(content, by, **options):
    due = read_plan(content, "site.yaml", by=by, **options).due
    return {f"{change.kind} {change.name}": change.lines for change in due}


def apply(content, by, **options):
    return list(apply_plan(read_plan(content, "site.yaml", by=by, **options), by=by))


def of_kind(documents, kind):
    return next(row for row in documents if row["kind"] == kind)


def test_an_exported_file_changes_nothing_and_has_no_secret(site, root):
    assert lines(text(), root) == {}
    assert "of-the-client" not in text()
    assert "clientId: dragoman" in text()


def test_an_export_makes_an_empty_portal_equal(site, root):
    content = text()
    IdentityProvider.objects.all().delete()
    plan = read_plan(content, "site.yaml", by=root)
    assert [change.name for change in plan.due] == [
        "sso",
        "sso, admins, platform admins",
        "sso, gpu-*, vision",
    ]
    list(apply_plan(plan, by=root))
    assert lines(content, root) == {}
    assert GroupRule.objects.count() == 2


def test_a_provider_without_a_secret_is_not_enabled_and_the_file_says_why(site, root):
    IdentityProvider.objects.update(sealed=b"", secret_set_at=None)
    content = text(lambda rows: of_kind(rows, "IdentityProvider").update(enabled=True))
    plan = read_plan(content, "site.yaml", by=root)
    assert plan.due == []
    assert "has no client secret" in plan.notes[0]
    set_secret(by=root, provider=IdentityProvider.objects.get(), secret="again")
    assert lines(content, root) == {"IdentityProvider sso": ["enabled: no → yes"]}
    apply(content, root)
    assert IdentityProvider.objects.get().enabled


def test_changes_are_shown_and_applied_once(site, root):
    content = text(
        lambda rows: of_kind(rows, "IdentityProvider").update(groupsClaim="roles", position=3),
        lambda rows: rows[-1].update(role="lead"),
    )
    assert lines(content, root) == {
        "IdentityProvider sso": ["groups_claim: groups → roles", "position: 0 → 3"],
        "GroupRule sso, gpu-*, vision": ["role: member → lead"],
    }
    apply(content, root)
    assert lines(content, root) == {}


def test_prune_removes_rules_that_the_file_lacks(site, root):
    content = text(lambda rows: rows.pop())
    assert lines(content, root) == {}
    assert lines(content, root, prune=True) == {"GroupRule sso, gpu-*, vision": ["removed"]}
    apply(content, root, prune=True)
    assert GroupRule.objects.count() == 1


def test_who_is_in_a_team_through_groups_is_not_in_the_file_and_not_removed_by_it(site, root):
    sso, nina, mira = IdentityProvider.objects.get(), make_user("nina"), make_user("mira")
    add_member(by=root, team=site, username="mira", role=Role.VIEWER)
    for person in (nina, mira):
        set_groups_of(person, sso, ["gpu-vision"])
    content = text()
    assert "nina" not in content
    assert "mira: viewer" in content
    assert lines(content, root) == {}
    assert Membership.objects.filter(user=nina, team=site).exists()


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"provider": "none"}, "there is no identity provider none."),
        ({"team": "none"}, "there is no team none."),
        ({"role": "boss"}, "there is no boss; choose from "),
        ({"platformAdmin": True}, "a team with a role, or platformAdmin: true."),
        ({"team": ""}, "a team with a role, or platformAdmin: true."),
        ({"groups": []}, "there is no key groups"),
    ],
)
def test_what_is_wrong_is_named(site, root, change, problem):
    content = text(lambda rows: rows[-1].update(change))
    with pytest.raises(Invalid, match="line") as refusal:
        read_plan(content, "site.yaml", by=root)
    assert problem in " ".join(refusal.value.extra["problems"])


def test_an_issuer_without_https_is_refused_with_its_line(site, root, settings):
    settings.HTTPS = True
    content = text(lambda rows: of_kind(rows, "IdentityProvider").update(issuer="http://sso.example"))
    with pytest.raises(Invalid, match="issuer: The address begins with https"):
        read_plan(content, "site.yaml", by=root)
