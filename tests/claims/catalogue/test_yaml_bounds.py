"""The YAML file of profiles: bounds and errors of reading, and the plan of an import."""

from datetime import timedelta

import pytest

from claims.catalogue.definition import ProfileDefinition
from claims.catalogue.yaml_export import catalogue_file, document, import_plan, plan_digest
from claims.catalogue.yaml_import import read_definitions
from claims.models import Profile, ProfileLimits
from core.errors import Invalid
from tests.factories import make_profile, make_spec, make_team

HOUR, DAY = timedelta(hours=1), timedelta(days=1)

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


def test_minimal_profile_has_default_limits():
    one = read()
    assert (one.slug, one.title, one.use, one.teams, one.limits) == ("one", "One", "", (), ProfileLimits())


def test_teams_are_sorted_and_unique_and_texts_stripped():
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
def test_limits_accept_their_bounds(limits, read_as):
    assert read(f"limits: {{{limits}}}\n").limits == ProfileLimits(**read_as)


@pytest.mark.parametrize(
    ("more", "expected"),
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
def test_each_error_is_alone_and_names_its_line(more, expected):
    assert problems(more) == [f"f.yaml, {expected}"]


def test_profile_without_a_spec_is_refused():
    for spec in ("", "spec: []\n", "spec: text\n"):
        assert (
            "a profile needs the spec of a ResourceClaim; it starts with the key devices."
            in problems(spec=spec)[0]
        )


def test_duplicate_key_inside_a_list_is_refused():
    spec = SPEC.replace("      - name: gpu\n", "      - name: gpu\n        name: other\n")
    assert problems(spec=spec) == ["f.yaml, line 9: name appears twice."]


def test_file_is_limited_to_1_mib_and_50_levels():
    text = HEAD + SPEC
    assert len(read_definitions(text + "#" * ((1 << 20) - len(text)), "f")) == 1
    with pytest.raises(Invalid, match=r"the limit is 1,048,576\."):
        read_definitions(text + "#" * ((1 << 20) + 1 - len(text)), "f")
    for levels, expected in ((50, False), (51, True)):
        with pytest.raises(Invalid) as refusal:
            read_definitions("[" * levels + "]" * levels, "f")
        assert ("the limit is 50 levels" in refusal.value.message) is expected


def definition(slug="one", **fields):
    return ProfileDefinition(slug=slug, **{"title": "One", "spec": make_spec(), **fields})


def test_document_leaves_out_empty_values():
    assert document(definition()) == {
        "apiVersion": "dragoman.dev/v1",
        "kind": "Profile",
        "slug": "one",
        "title": "One",
        "limits": {
            "maxDevices": 1,
            "defaultDuration": "24h",
            "maxDuration": "14d",
            "endPolicy": "cluster",
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


def test_file_is_sorted_by_slug():
    text = catalogue_file([definition("b"), definition("a")])
    assert [one.slug for one in read_definitions(text, "f")] == ["a", "b"]


@pytest.mark.django_db
def test_plan_names_every_different_key_and_changes_its_digest():
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
def test_profile_missing_in_the_file_has_its_title_in_the_plan():
    make_profile("gone")
    changes = import_plan([definition("new-one")], prune=True)
    assert [(one.kind, one.slug, one.title, one.yaml == "") for one in changes] == [
        ("new", "new-one", "One", False),
        ("retired", "gone", "Gone", True),
    ]
