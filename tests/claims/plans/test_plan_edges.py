"""What a request comes to and what an approver makes of it: each refusal at its edge, each number in full."""

from datetime import UTC, datetime, timedelta

import pytest
from django.http import QueryDict

from claims.models import Claim, TeamNamespace
from claims.plans.changes import WantedChange, additional_usage, claim_size, form_fields, plan_change
from claims.plans.plan import claim_manifest, label_patch, namespace_problems, new_name, plan_request
from claims.requests.forms import RequestForm, prefill_problems
from claims.requests.services import resize
from claims.states import ClaimState
from core.errors import Invalid
from core.times import MAX_DURATION, parse_duration, spell_duration
from dra.manifests import spec_hash
from inventory.models import DeviceClass, Namespace, ResourceClaim, ResourceClaimTemplate
from tests.factories import make_claim, make_cluster, make_profile, make_quota, make_spec, make_team

pytestmark = pytest.mark.django_db
NOON = datetime(2026, 11, 1, 12, tzinfo=UTC)
MINUTE, HOUR, DAY = timedelta(minutes=1), timedelta(hours=1), timedelta(days=1)
PART = "mig.nvidia.com"


@pytest.fixture
def plan(vision, fra, train):
    def plan(**fields):
        request_plan = {
            "team": vision, "cluster": fra, "profile": train, "devices": 1, "parallel": 1,
            "delivery": "claim", "duration": None, "name": "", **fields,
        }  # fmt: skip
        return plan_request(**request_plan)

    return plan


@pytest.fixture
def slice_10(db):
    return make_profile("slice-10", spec=make_spec(device_class=PART))


# Names.


@pytest.mark.parametrize(
    ("model", "columns", "taken"),
    [
        (ResourceClaim, {}, True),
        (ResourceClaimTemplate, {}, False),
        (ResourceClaim, {"name": "sam2"}, False),
        (ResourceClaim, {"namespace": "default"}, False),
        (ResourceClaim, {"gone_at": NOON}, False),
        (ResourceClaim, {"cluster": "lab-2"}, False),
    ],
)
def test_a_name_is_taken_by_an_object_of_its_kind_that_is_there(plan, fra, model, columns, taken):
    if "cluster" in columns:
        columns = {**columns, "cluster": make_cluster(columns["cluster"])}
    row = {"cluster": fra, "namespace": "vision", "name": "sam", "uid": "u", "raw": {}, **columns}
    model.objects.create(**row)
    assert plan(name="sam").problems == (
        ["The name sam is already used in vision of fra-1."] if taken else []
    )
    assert bool(plan(name="sam", delivery="template").problems) is (model is ResourceClaimTemplate)


@pytest.mark.parametrize("state", list(ClaimState))
def test_a_name_is_taken_by_a_claim_until_that_is_over(plan, vision, fra, train, state):
    claim = make_claim(vision, cluster=fra, profile=train, name="sam", state=state)
    assert bool(plan(name="sam").problems) is not claim.is_final


def test_a_name_that_the_portal_makes_starts_with_the_profile(train):
    name = new_name(train)
    assert name.startswith("train-80-")
    assert len(name) == len("train-80-") + 6
    train.slug = "a" * 60
    assert len(new_name(train)) == 63
    assert new_name(train) != new_name(train)


# Sizes and times.


@pytest.mark.parametrize(
    ("fields", "problems"),
    [
        ({"devices": 8}, []),
        ({"devices": 9}, ["train-80 allows 8 devices per claim; this request needs 9."]),
        ({"devices": 0}, ["Request at least 1 device."]),
        ({"duration": 14 * DAY}, []),
        (
            {"duration": 14 * DAY + HOUR},
            ["train-80 allows at most 14 d; this request is for 14 d 1 h."],
        ),
        ({"duration": timedelta(0)}, ["The duration must be longer than 0."]),
        ({"duration": -HOUR}, ["The duration must be longer than 0."]),
        ({"duration": timedelta(seconds=1)}, []),
        ({"parallel": 1000, "delivery": "template"}, []),
        (
            {"parallel": 1001, "delivery": "template"},
            ["Concurrent pods must be from 1 to 1000, not 1001."],
        ),
        (
            {"parallel": 0},
            ["Concurrent pods must be from 1 to 1000, not 0."],
        ),
        ({"parallel": 2}, ["Concurrent pods apply to a template only; a named claim is one claim."]),
        ({"name": "a" * 63}, []),
        ({"name": "a"}, []),
        (
            {"name": "-a"},
            [
                "“-a” is not a valid Kubernetes name: use up to 63 lower-case letters, "
                "digits and hyphens, with a letter or digit at both ends."
            ],
        ),
    ],
)
def test_a_request_is_refused_beyond_each_limit_and_taken_at_it(plan, fields, problems):
    assert plan(**fields).problems == problems


def test_a_profile_offers_its_own_deliveries_alone(plan):
    only = make_profile("only", deliveries=["template"])
    assert plan(profile=only).problems == ["only is not available as a named claim."]
    assert plan(profile=only, delivery="template").problems == []


@pytest.mark.parametrize(
    ("devices", "problems"),
    [(1, []), (2, []), (3, ["pair always has 2 devices per claim."])],
)
def test_a_profile_of_fixed_size_is_asked_for_by_one_or_by_its_size(plan, devices, problems):
    request = {"name": "both", "exactly": make_spec(2)["devices"]["requests"][0]["exactly"]}
    pair = make_profile("pair", spec={"devices": {"requests": [request]}}, max_devices=2)
    request_plan = plan(profile=pair, devices=devices)
    assert (request_plan.devices, request_plan.problems) == (2, problems)


def test_a_wish_counts_all_claims_of_a_template_and_the_worst_of_alternatives(plan, train, slice_10):
    request_plan = plan(devices=2, parallel=3, delivery="template", alternatives=[slice_10])
    assert (request_plan.devices, request_plan.total_devices, request_plan.charge) == (
        2,
        6,
        {"gpu.nvidia.com": 6, PART: 6},
    )
    assert request_plan.devices_by_profile == {train: 6, slice_10: 6}
    assert request_plan.devices_by_version == [(train.current, 6), (slice_10.current, 6)]
    both = plan(devices=2, parallel=3, delivery="template", together=[(slice_10, 4)])
    assert (both.devices, both.total_devices, both.charge) == (6, 18, {"gpu.nvidia.com": 6, PART: 12})
    assert both.devices_by_profile == {train: 6, slice_10: 12}
    assert (request_plan.together, both.together, plan().together) == (False, True, False)


def test_alternatives_and_further_profiles_do_not_stand_in_one_request(plan, slice_10):
    other = make_profile("other", spec=make_spec())
    assert plan(alternatives=[other], together=[(slice_10, 1)]).problems == [
        "A request has either alternatives or further profiles. Send a separate request for the rest."
    ]


def test_each_further_profile_has_a_number_and_limits_of_its_own(plan, slice_10):
    small = make_profile("small", spec=make_spec(1, "gpu.amd.com"), max_devices=2)
    assert plan(together=[(slice_10, 8), (small, 2)]).problems == []
    assert plan(together=[(slice_10, 0), (small, 1)]).problems == ["Request at least 1 device."]
    assert plan(together=[(slice_10, 1), (small, 3)]).problems == [
        "small allows 2 devices per claim; this request needs 3."
    ]


# Places.


@pytest.mark.parametrize(
    ("columns", "problem"),
    [
        ({}, ""),
        ({"enabled": False}, "fra-1 is disabled in the portal."),
        ({"read_only": True}, "fra-1 is read-only for the portal; it cannot create claims there."),
    ],
)
def test_a_cluster_has_to_be_one_that_is_written(plan, fra, columns, problem):
    for name, value in columns.items():
        setattr(fra, name, value)
    assert plan().problems == ([problem] if problem else [])


def test_a_namespace_is_that_of_the_team_in_this_cluster(plan, vision, fra):
    lab = make_cluster("lab-2")
    TeamNamespace.objects.create(team=vision, cluster=lab, namespace="vision-lab")
    TeamNamespace.objects.create(team=make_team("nlp"), cluster=lab, namespace="nlp")
    assert (plan().namespace, plan(cluster=lab).namespace) == ("vision", "vision-lab")
    assert plan(team=make_team("audio")).problems == ["audio has no namespace in fra-1."]


@pytest.mark.parametrize(
    ("columns", "known"),
    [
        ({}, True),
        ({"gone_at": NOON}, None),
        ({"name": "other"}, False),
        ({"cluster": "lab-2"}, None),
    ],
)
def test_a_device_class_has_to_be_there_where_any_is_known(plan, fra, columns, known):
    if "cluster" in columns:
        columns = {**columns, "cluster": make_cluster(columns["cluster"])}
    row = {"cluster": fra, "name": "gpu.nvidia.com", "uid": "u", "raw": {}, **columns}
    DeviceClass.objects.create(**row)
    assert (plan().problems == []) is (known is not False)


@pytest.mark.parametrize(
    ("columns", "sound"),
    [
        ({}, True),
        ({"labels": {"resource.kubernetes.io/admin-access": "True"}}, False),
        ({"labels": {}}, False),
        ({"gone_at": NOON}, False),
        ({"name": "other"}, False),
        ({"cluster": "lab-2"}, False),
    ],
)
def test_admin_access_needs_the_label_on_its_own_namespace(fra, columns, sound):
    if "cluster" in columns:
        columns = {**columns, "cluster": make_cluster(columns["cluster"])}
    labels = {"resource.kubernetes.io/admin-access": "true"}
    row = {"cluster": fra, "name": "vision", "uid": "u", "raw": {}, "labels": labels, **columns}
    Namespace.objects.create(**row)
    assert (namespace_problems(make_spec(adminAccess=True), fra, "vision") == []) is sound
    assert namespace_problems(make_spec(), fra, "vision") == []
    assert namespace_problems(make_spec(adminAccess=True), fra, "") == []


# The object.


@pytest.mark.parametrize(
    ("delivery", "kind"), [("claim", "ResourceClaim"), ("template", "ResourceClaimTemplate")]
)
def test_the_object_of_a_claim_says_whose_it_is(vision, fra, train, delivery, kind):
    claim = make_claim(
        vision, cluster=fra, profile=train, name="sam", delivery=delivery, state=ClaimState.PROVISIONED
    )
    labels = {
        "gpu.dragoman.dev/claim": str(claim.pk),
        "gpu.dragoman.dev/team": "vision",
        "gpu.dragoman.dev/profile": "train-80",
    }
    made = claim_manifest(claim)
    assert (made["kind"], made["metadata"]) == (
        kind,
        {"name": "sam", "namespace": "vision", "labels": labels},
    )
    identity = {"name": "sam", "namespace": "vision", "uid": claim.object_uid}
    assert label_patch(claim) == {"metadata": {**identity, "labels": labels}}


# What an approver changes.


@pytest.fixture
def wished(ask):
    return ask(devices=4, parallel=2, delivery="template", duration=3 * DAY, name="sam")


def test_nothing_wanted_changes_nothing(wished, train):
    change = plan_change(wished, WantedChange())
    assert (change.spec, change.spec_hash, change.devices, change.duration, change.charge) == (
        wished.spec,
        wished.spec_hash,
        4,
        3 * DAY,
        {"gpu.nvidia.com": 8},
    )
    assert (change.version, change.changes_spec, change.differences, change.problems) == (
        train.current,
        False,
        (),
        (),
    )
    assert additional_usage(wished, change) == ({}, {})


def test_fewer_devices_and_less_time_are_worked_out_whole(wished, train):
    change = plan_change(wished, WantedChange(devices=3, duration=2 * DAY))
    assert (change.spec, change.spec_hash, change.devices, change.duration, change.charge) == (
        make_spec(3),
        spec_hash(make_spec(3)),
        3,
        2 * DAY,
        {"gpu.nvidia.com": 6},
    )
    assert (change.changes_spec, change.differences, change.problems) == (
        True,
        ("4 → 3 devices", "3 d → 2 d"),
        (),
    )
    assert plan_change(wished, WantedChange(devices=1)).differences == ("4 → 1 device",)
    assert additional_usage(wished, change) == ({}, {})


@pytest.mark.parametrize(
    ("wanted", "problems"),
    [
        (WantedChange(devices=4, duration=3 * DAY), ()),
        (WantedChange(devices=5), ("4 devices requested; approve from 1 to 4, not 5.",)),
        (WantedChange(devices=0), ("4 devices requested; approve from 1 to 4, not 0.",)),
        (
            WantedChange(duration=3 * DAY + MINUTE),
            ("3 d requested; approve at most that, not 3 d.",),
        ),
        (WantedChange(duration=timedelta(0)), ("3 d requested; approve at most that, not 0 s.",)),
        (
            WantedChange(devices=3, parts=(("train-80", 1),)),
            ("Change either the profile or the number of devices per profile, not both.",),
        ),
    ],
)
def test_an_approver_gives_no_more_than_was_asked_for(wished, wanted, problems):
    assert plan_change(wished, wanted).problems == problems


def test_another_profile_takes_what_the_old_one_did_not(wished, slice_10):
    change = plan_change(wished, WantedChange(profile=slice_10, devices=3))
    assert (change.version, change.devices, change.charge) == (slice_10.current, 3, {PART: 6})
    assert change.differences == ("train-80 v1 → slice-10 v1", "4 → 3 devices")
    assert additional_usage(wished, change) == ({PART: 6}, {slice_10: 6})


def test_the_same_profile_wanted_again_is_no_change(wished, train):
    assert plan_change(wished, WantedChange(profile=train)).changes_spec is False


def test_another_profile_has_to_be_open_and_no_larger(wished):
    theirs = make_profile("theirs", spec=make_spec(device_class=PART), teams=(make_team("nlp"),))
    assert plan_change(wished, WantedChange(profile=theirs)).problems == (
        "The profile theirs is not open to vision.",
    )
    request = {"name": "all", "exactly": make_spec(5)["devices"]["requests"][0]["exactly"]}
    large = make_profile("large", spec={"devices": {"requests": [request]}}, max_devices=5)
    problems = plan_change(wished, WantedChange(profile=large)).problems
    assert "large needs 5 devices; sam requests only 4." in problems


def test_a_claim_that_has_alternatives_keeps_its_number(ask, slice_10, vision):
    make_quota(vision, 9, device_class=PART)
    claim = ask(devices=2, alternatives=[slice_10], name="sam")
    assert plan_change(claim, WantedChange(devices=1)).problems == ("The number of devices of sam is fixed.",)
    both = ask(devices=2, together=[(slice_10, 2)], name="both")
    assert plan_change(both, WantedChange(devices=3)).problems == (
        "both combines profiles: set the number of devices per profile.",
    )


def test_fewer_of_one_profile_of_several_are_worked_out_whole(ask, slice_10, vision, train):
    make_quota(vision, 9, device_class=PART)
    claim = ask(devices=2, parallel=2, delivery="template", together=[(slice_10, 3)], name="both")
    change = plan_change(claim, WantedChange(parts=(("slice-10", 1),)))
    assert (change.devices, change.charge) == (3, {"gpu.nvidia.com": 4, PART: 2})
    assert change.differences == ("slice-10: 3 → 1 device",)
    assert [(part.version, part.name, part.devices) for part in change.parts] == [
        (train.current, "train-80", 2),
        (slice_10.current, "slice-10", 1),
    ]
    without = plan_change(claim, WantedChange(parts=(("train-80", 0),)))
    assert (without.devices, without.charge, without.differences) == (3, {PART: 6}, ("without train-80",))
    assert plan_change(claim, WantedChange(parts=(("train-80", 0), ("slice-10", 0)))).problems == (
        "No devices of both would be left; deny it instead.",
    )
    assert plan_change(claim, WantedChange(parts=(("slice-10", 4),))).problems == (
        "3 × slice-10 are requested; approve from 0 to 3, not 4.",
    )
    assert additional_usage(claim, change) == ({}, {})


def test_a_request_is_said_in_one_line(wished, ask, vision):
    assert claim_size(wished) == "4 × Train 80, 3 d · 2 pods"
    wished.parallel = 1
    assert claim_size(wished) == "4 × Train 80, 3 d"


def test_a_wish_is_typed_again_as_it_was(wished):
    wished.reason = "More."
    assert form_fields(wished, []) == [
        ("profile", "train-80"),
        ("devices", 4),
        ("delivery", "template"),
        ("parallel", 2),
        ("duration", "3d"),
        ("reason", "More."),
    ]


# Durations.


@pytest.mark.parametrize(
    ("text", "span"),
    [
        ("24h", DAY),
        ("1d 12h", 36 * HOUR),
        ("45 min", 45 * MINUTE),
        ("45m", 45 * MINUTE),
        (" 2W ", 14 * DAY),
        ("1d1h1min", 25 * HOUR + MINUTE),
        ("0h", timedelta(0)),
        ("36500d", MAX_DURATION),
    ],
)
def test_durations_are_read_as_people_write_them(text, span):
    assert parse_duration(text) == span


@pytest.mark.parametrize(
    "text", ["", "24", "h", "1.5h", "-1h", "24 hours", "1h, 2h", "36500d 1min", "100000h"]
)
def test_what_is_no_duration_is_refused(text):
    with pytest.raises(ValueError):  # noqa: PT011
        parse_duration(text)


@pytest.mark.parametrize(
    ("span", "text"),
    [
        (timedelta(0), "0min"),
        (45 * MINUTE, "45min"),
        (24 * HOUR, "24h"),
        (24 * HOUR + MINUTE, "1d 1min"),
        (23 * HOUR + 59 * MINUTE, "23h 59min"),
        (36 * HOUR, "1d 12h"),
        (3 * DAY, "3d"),
        (3 * DAY + timedelta(seconds=59), "3d"),
    ],
)
def test_durations_are_spelled_in_the_shortest_way(span, text):
    assert spell_duration(span) == text


# The form.


def sent(alice, **fields):
    data = QueryDict(mutable=True)
    values = {"profile": "train-80", "devices": "2", "team": "vision", "cluster": "fra-1", **fields}
    for name, value in values.items():
        data.setlist(name, value if isinstance(value, list) else [value])
    return RequestForm(data, user=alice)


def test_a_form_that_is_sent_with_little_has_the_rest_by_default(alice, train, fra, vision):
    form = sent(alice)
    assert form.is_valid(), form.errors
    cleaned = {name: value for name, value in form.cleaned_data.items() if name != "key"}
    assert cleaned == {
        "profile": train, "alternatives": [], "together": [], "devices": 2, "delivery": "claim",
        "parallel": 1, "duration": None, "duration_other": None, "team": vision, "cluster": fra, "name": "",
        "reason": "", "replaces": None,
    }  # fmt: skip
    assert len(form.cleaned_data["key"]) == 36


def test_a_form_reads_alternatives_in_order_and_further_profiles_with_their_numbers(
    alice, train, fra, slice_10
):
    other = make_profile("other")
    form = sent(alice, alternatives=["slice-10", "train-80", "other", "slice-10"], key="k")
    assert form.is_valid(), form.errors
    assert form.cleaned_data["alternatives"] == [slice_10, other]
    form = sent(alice, together=["slice-10", "", "other"], together_devices=["3", "9"], key="k")
    assert form.is_valid(), form.errors
    assert (form.cleaned_data["together"], form.cleaned_data["key"]) == ([(slice_10, 3), (other, 1)], "k")


@pytest.mark.parametrize(
    ("fields", "name", "said"),
    [
        ({"devices": "0"}, "devices", "Ensure this value is greater than or equal to 1."),
        ({"devices": "1025"}, "devices", "Ensure this value is less than or equal to 1024."),
        ({"duration": "soon"}, "duration", "Enter a duration such as 24h, 3d or 1d 12h."),
        ({"duration": "other"}, "duration_other", "Enter a duration, for example 36h or 5d."),
        ({"name": "Upper"}, "name", "Use lower-case letters, digits and hyphens, at most 63, "
         "starting and ending with a letter or digit."),
        (
            {"together": ["train-80"], "together_devices": ["1025"]},
            "together",
            "Train 80: enter a number of devices from 1 to 1024, not “1025”.",
        ),
        (
            {"together": ["train-80"], "together_devices": ["0"]},
            "together",
            "Train 80: enter a number of devices from 1 to 1024, not “0”.",
        ),
        ({"cluster": "lab-2"}, "cluster", "Your teams have no namespace in this cluster."),
        ({"team": "nlp"}, "team", "You cannot request GPUs for this team."),
    ],
)  # fmt: skip
def test_each_field_says_what_is_wrong_with_it(alice, train, fra, fields, name, said):
    make_cluster("lab-2", teams=(make_team("nlp"),))
    form = sent(alice, **fields)
    assert {field: list(errors) for field, errors in form.errors.items()} == {name: [said]}


def test_a_team_is_told_where_it_works(alice, train, fra, vision):
    nlp = make_team("nlp", members=(alice,))
    make_cluster("lab-2", teams=(nlp,))
    make_cluster("ber-3", teams=(nlp,))
    form = sent(alice, team="nlp")
    assert form.errors["cluster"] == ["nlp has no namespace in fra-1. It works in: ber-3, lab-2."]
    idle = make_team("idle", members=(alice,))
    assert sent(alice, team=idle.slug).errors["cluster"] == [
        "idle has no namespace in fra-1. It works in: no cluster yet."
    ]


@pytest.mark.parametrize(
    ("duration", "other", "expected"),
    [
        ("24h", "", DAY),
        ("other", "36h", 36 * HOUR),
        ("", "5d", 5 * DAY),
        ("3d", "5d", 3 * DAY),
        ("", "", None),
    ],
)
def test_a_duration_is_a_preset_or_what_is_typed_beside_it(alice, train, fra, duration, other, expected):
    form = sent(alice, duration=duration, duration_other=other)
    assert form.is_valid(), form.errors
    assert form.cleaned_data["duration"] == expected


def test_a_named_claim_is_one_whatever_number_of_pods_was_left_in_the_form(alice, train, fra):
    for delivery, parallel in (("claim", 1), ("template", 5)):
        form = sent(alice, delivery=delivery, parallel="5")
        assert form.is_valid()
        assert form.cleaned_data["parallel"] == parallel


def test_the_durations_offered_are_those_that_the_profile_allows_and_its_own(alice, fra):
    make_profile("short", max_duration=2 * DAY, default_duration=36 * HOUR)

    def rows(query):
        form = RequestForm(user=alice, prefill=QueryDict(query))
        return [(value, chosen) for value, _text, chosen in form.duration_choices()]

    assert rows("profile=short") == [("4h", False), ("24h", False), ("1d 12h", True), ("other", False)]
    assert rows("profile=short&duration=24h")[1] == ("24h", True)
    assert rows("profile=short&duration=5h")[-1] == ("other", True)
    assert rows("") == [(one, False) for one in ("4h", "24h", "3d", "7d", "other")]


def test_a_form_begins_with_the_selected_team_and_any_cluster(alice, vision, fra):
    nlp = make_team("nlp", members=(alice,))
    make_cluster("lab-2", teams=(nlp,))

    def begun(query="", team=""):
        initial = RequestForm(user=alice, prefill=QueryDict(query), team=team).initial
        return initial.get("team"), initial.get("cluster")

    assert begun(team="vision") == ("vision", None)
    assert begun(team="nlp") == ("nlp", None)
    assert begun("team=vision", team="nlp") == ("vision", None)
    assert begun("cluster=lab-2", team="vision") == ("vision", "lab-2")
    assert begun(team="theirs") == begun()
    assert begun()[0] in ("nlp", "vision")


def test_the_address_is_told_what_the_form_has_no_use_for(alice, train, fra):
    query = QueryDict("profile=none&colour=red&help=1&draft=x&devices=0&team=vision&together_devices=2")
    assert prefill_problems(query, user=alice) == [
        "The form has no field “colour”, which is in the address.",
        "Profile: “none” cannot be requested: the profile does not exist, is retired, or is not open to your "
        "teams.",
        "Devices: Ensure this value is greater than or equal to 1.",
    ]


def test_only_claims_of_ones_teams_can_be_replaced_by_the_form(alice, train, fra, vision, eve):
    own = make_claim(vision, by=alice, cluster=fra, state=ClaimState.PROVISIONED)
    theirs = make_claim(make_team("nlp", members=(eve,)), by=eve, cluster=fra, state=ClaimState.PROVISIONED)
    assert RequestForm(user=alice, prefill=QueryDict(f"replaces={own.pk}")).replaced_claim == own
    assert RequestForm(user=alice, prefill=QueryDict(f"replaces={theirs.pk}")).replaced_claim is None
    assert "replaces" in sent(alice, replaces=str(theirs.pk)).errors


def test_a_claim_of_one_profile_has_no_parts_to_replace(ask, alice):
    claim = ask(name="sam")
    Claim.objects.filter(pk=claim.pk).update(state=ClaimState.APPROVED)
    with pytest.raises(Invalid) as refusal:
        resize(claim=claim, by=alice, parts={"nic": 1}, key="k")
    assert refusal.value.message == "sam has no combined profile nic."


def test_the_duration_of_the_profile_stands_among_the_others_by_its_length(alice, fra):
    make_profile("odd", default_duration=5 * HOUR)
    rows = RequestForm(user=alice, prefill=QueryDict("profile=odd")).duration_choices()
    assert [value for value, _text, _chosen in rows] == ["4h", "5h", "24h", "3d", "7d", "other"]
