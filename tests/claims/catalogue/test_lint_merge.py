"""What several clusters say of one catalogue put together, and the file of profiles to its edges."""

from datetime import timedelta

import pytest

from claims.catalogue.definition import ProfileDefinition
from claims.catalogue.lint import CatalogueReport, ClusterMessage, _merged
from claims.catalogue.yaml_export import catalogue_file, document, import_plan, plan_digest
from claims.catalogue.yaml_import import read_definitions
from claims.models import Profile, ProfileLimits
from core.errors import Invalid
from dra.lint import Fix, LintCode, LintFinding, LintReport, Severity, Subject
from tests.factories import make_profile, make_spec, make_team

HOUR, DAY = timedelta(hours=1), timedelta(days=1)


def finding(
    name="train",
    code=LintCode.MATCHES_NOTHING,
    severity=Severity.ERROR,
    message="m",
    subject=Subject.PROFILE,
    path="p",
    fix=None,
):
    return LintFinding(subject, name, code, severity, message, path, fix)


def report(*findings, **matching):
    return LintReport(findings=list(findings), matching=matching, devices=4)


def merged(**reports):
    profiles = {slug: Profile(slug=slug) for slug in ("train", "other")}
    found = _merged({name.replace("_", "-"): one for name, one in reports.items()}, profiles)
    return [(one.name, one.code, one.severity, one.messages) for one in found]


def test_what_two_clusters_say_alike_is_told_once_with_both():
    one = finding()
    assert merged(a=report(one, train=0), b=report(one, train=0)) == [
        ("train", LintCode.MATCHES_NOTHING, Severity.ERROR, (ClusterMessage(("a", "b"), "m"),))
    ]


def test_what_they_say_in_other_words_stands_beside_each_other():
    found = merged(
        a=report(finding(message="x"), train=0),
        b=report(finding(message="y"), train=0),
        c=report(finding(message="x"), train=0),
    )
    assert found[0][3] == (ClusterMessage(("a", "c"), "x"), ClusterMessage(("b",), "y"))


@pytest.mark.parametrize(
    ("elsewhere", "severity"),
    [(0, Severity.ERROR), (1, Severity.NOTE), (None, Severity.NOTE)],
)
def test_what_one_cluster_lacks_is_a_note_where_another_serves_or_may(elsewhere, severity):
    found = merged(a=report(finding(), train=0), b=report(train=elsewhere))
    assert [one[2] for one in found] == [severity]


def test_the_worst_that_a_cluster_says_counts_and_stands_first():
    found = merged(
        a=report(
            finding("other", LintCode.SAME_DEVICES, Severity.NOTE),
            finding(severity=Severity.WARNING),
            train=0,
            other=1,
        ),
        b=report(finding(), finding("other", LintCode.SAME_DEVICES, Severity.NOTE), train=0, other=1),
    )
    assert [(name, severity) for name, _code, severity, _told in found] == [
        ("train", Severity.ERROR),
        ("other", Severity.NOTE),
    ]


@pytest.mark.parametrize(("other", "count"), [(0, 1), (1, 0)])
def test_profiles_are_twins_unless_they_differ_in_a_cluster_that_serves_them(other, count):
    twin = finding(code=LintCode.SAME_DEVICES, severity=Severity.NOTE)
    assert len(merged(a=report(twin, train=2), b=report(train=other))) == count


def test_only_profiles_are_mended_and_found_again_by_a_key_of_their_own():
    fixes = [Fix("p", "a", "b"), Fix("p", "a", "c"), None]
    of_class = finding("gpu", subject=Subject.CLASS, fix=fixes[0])
    profile = Profile(slug="train")
    found = _merged(
        {"a": report(*(finding(fix=fix) for fix in fixes), of_class, train=1)}, {"train": profile}
    )
    assert len({one.key for one in found if one.profile}) == 3
    assert sorted((one.name, one.fixable) for one in found) == [
        ("gpu", False),
        ("train", False),
        ("train", True),
        ("train", True),
    ]
    whole = CatalogueReport(found)
    assert len(whole.findings_for(profile)) == 3
    assert (len(whole.due), len(whole.notes)) == (4, 0)


# The file.


HEAD = "apiVersion: dragoman.dev/v1\nkind: Profile\nslug: one\ntitle: One\n"
SPEC = """\
spec:
  devices:
    requests:
      - name: gpu
        exactly:
          deviceClassName: gpu.nvidia.com
"""


def read(more="", spec=SPEC):
    return read_definitions(HEAD + more + spec, "f.yaml")[0]


def problems(more="", spec=SPEC):
    with pytest.raises(Invalid) as refusal:
        read(more, spec)
    return refusal.value.extra["problems"]


def test_a_profile_of_few_words_has_the_usual_limits():
    one = read()
    assert (one.slug, one.title, one.use, one.teams, one.limits) == ("one", "One", "", (), ProfileLimits())


def test_teams_are_read_once_each_in_order_and_texts_without_space_around():
    assert read("teams: [b, a, b]\nuse: ' x '\nscalable: ' gpu '\n") == ProfileDefinition(
        slug="one",
        title="One",
        use="x",
        teams=("a", "b"),
        limits=ProfileLimits(scalable="gpu"),
        spec={"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": "gpu.nvidia.com"}}]}},
    )


@pytest.mark.parametrize(
    ("limits", "read_as"),
    [
        ("maxDevices: 1", {"max_devices": 1}),
        ("maxDevices: 1024", {"max_devices": 1024}),
        ("deliveries: [template, claim]", {"deliveries": ("claim", "template")}),
        ("deliveries: [template]", {"deliveries": ("template",)}),
        ("automatic: {devices: 0}", {"automatic_devices": 0}),
        (
            "automatic: {devices: 1024, duration: 2h}",
            {"automatic_devices": 1024, "automatic_duration": 2 * HOUR},
        ),
        ("automatic: {devices: 1, duration: null}", {"automatic_devices": 1}),
        ("automatic: null", {}),
        ("grace: 0h", {"grace": timedelta(0)}),
        ("grace: 1h", {"grace": HOUR}),
        ("defaultDuration: 1h, maxDuration: 2h", {"default_duration": HOUR, "max_duration": 2 * HOUR}),
        ("extension: 90min", {"extension": 1.5 * HOUR}),
        ("approval: both", {"approval": "both"}),
    ],
)
def test_limits_are_read_to_their_edges(limits, read_as):
    assert read(f"limits: {{{limits}}}\n").limits == ProfileLimits(**read_as)


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ("limits: {maxDevices: 0}\n", "line 5: maxDevices must be a number from 1 to 1024."),
        ("limits: {maxDevices: 1025}\n", "line 5: maxDevices must be a number from 1 to 1024."),
        (
            "limits:\n  automatic:\n    devices: -1\n",
            "line 7: devices must be a number from 0 to 1024.",
        ),
        ("limits: []\n", "line 5: expected keys and values, such as approval."),
        ("teams: vision\n", "line 5: teams must be a list of names."),
        ("teams: [1]\n", "line 5: teams must be a list of names."),
        ("use: 7\n", "line 5: use must be text; put it in quotes."),
        ("limits:\n  grace: 7\n", "line 6: grace must be a duration like 24h, 3d or 1d 12h."),
        (
            "limits:\n  deliveries:\n  - claim\n  - pigeon\n",
            "line 8: there is no pigeon; choose from claim, template.",
        ),
    ],
)
def test_what_is_wrong_is_said_alone_with_its_line(more, said):
    assert problems(more) == [f"f.yaml, {said}"]


def test_a_profile_without_a_spec_says_what_it_needs():
    for spec in ("", "spec: []\n", "spec: text\n"):
        assert (
            "a profile needs the spec of a ResourceClaim; it starts with the key devices."
            in problems(spec=spec)[0]
        )


def test_a_key_twice_is_found_in_a_list_too():
    spec = SPEC.replace("      - name: gpu\n", "      - name: gpu\n        name: other\n")
    assert problems(spec=spec) == ["f.yaml, line 9: name appears twice."]


def test_a_file_has_up_to_a_mebibyte_and_fifty_levels():
    text = HEAD + SPEC
    assert len(read_definitions(text + "#" * ((1 << 20) - len(text)), "f")) == 1
    with pytest.raises(Invalid, match="larger than 1024 KiB"):
        read_definitions(text + "#" * ((1 << 20) + 1 - len(text)), "f")
    for levels, said in ((50, False), (51, True)):
        with pytest.raises(Invalid) as refusal:
            read_definitions("[" * levels + "]" * levels, "f")
        assert ("more than 50 levels" in refusal.value.message) is said


def definition(slug="one", **fields):
    return ProfileDefinition(slug=slug, **{"title": "One", "spec": make_spec(), **fields})


def test_a_file_leaves_out_what_has_its_default_and_says_nothing():
    assert document(definition()) == {
        "apiVersion": "dragoman.dev/v1",
        "kind": "Profile",
        "slug": "one",
        "title": "One",
        "limits": {
            "maxDevices": 1,
            "defaultDuration": "24h",
            "maxDuration": "14d",
            "deliveries": ["claim", "template"],
            "approval": "lead",
        },
        "spec": make_spec(),
    }
    set_limits = ProfileLimits(grace=HOUR, extension=DAY, automatic_devices=2, automatic_duration=3 * HOUR)
    limits = document(definition(limits=set_limits))["limits"]
    assert (limits["grace"], limits["extension"]) == ("1h", "24h")
    assert limits["automatic"] == {"devices": 2, "duration": "3h"}
    assert "automatic" not in document(definition(limits=ProfileLimits(automatic_duration=HOUR)))["limits"]


def test_a_file_stands_in_the_order_of_short_names():
    text = catalogue_file([definition("b"), definition("a")])
    assert [one.slug for one in read_definitions(text, "f")] == ["a", "b"]


@pytest.mark.django_db
def test_a_plan_names_every_key_that_differs_and_its_digest_changes_with_each():
    make_team("nlp")
    make_profile("one")
    Profile.objects.update(title="Old", use="Long runs.")
    wanted = definition(teams=("nlp",), limits=ProfileLimits(scalable="gpu", max_devices=4))
    (change,) = import_plan([wanted])
    assert [(one.key, one.before, one.after) for one in change.differences] == [
        ("title", "Old", "One"),
        ("teams", "", "nlp"),
        ("limits.maxDevices", "8", "4"),
        ("use", "Long runs.", ""),
    ]
    assert (change.kind, change.spec, change.title) == ("changed", (), "One")
    others = [
        import_plan([one])
        for one in (definition(), definition(title="Two"), definition(spec=make_spec(2)), definition("two"))
    ]
    digests = {plan_digest(plan) for plan in (*others, [change], [*others[0], change])}
    assert len(digests) == 6
    assert plan_digest(import_plan([wanted])) == plan_digest([change])


@pytest.mark.django_db
def test_what_a_file_lacks_is_named_by_its_title():
    make_profile("gone")
    changes = import_plan([definition("new-one")], prune=True)
    assert [(one.kind, one.slug, one.title, one.yaml == "") for one in changes] == [
        ("new", "new-one", "One", False),
        ("retired", "gone", "Gone", True),
    ]
