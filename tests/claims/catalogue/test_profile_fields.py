"""Editor fields and specs in both directions: what the fields do not show is kept."""

from dataclasses import replace

import pytest
from django.http import QueryDict
from hypothesis import given, settings
from hypothesis import strategies as st

from claims.catalogue.forms import FIELDS, YAML, ProfileForm, spec_values, switched_values
from claims.catalogue.selectors import Conditions, conditions_in, new_spec, with_conditions, yaml_only_parts
from dra import validation
from dra.cel import compile_selector
from dra.manifests import to_yaml
from tests.factories import make_spec

NVIDIA = "gpu.nvidia.com"
UNHURRIED = settings(max_examples=60)
CONDITIONS = st.builds(
    Conditions,
    device_class=st.sampled_from([NVIDIA, "mig.nvidia.com", "gpu.amd.com"]),
    count=st.integers(1, 8),
    domain=st.just(NVIDIA),
    product=st.from_regex(r"[A-Za-z][ \w\"\\'-]{0,18}\w", fullmatch=True),
    memory_gib=st.integers(1, 1024),
    compute=st.sampled_from(["8.0", "12.1"]),
)
EXPRESSIONS = [
    f'device.attributes["{NVIDIA}"].?productName.orValue("").startsWith("NVIDIA H100")',
    f'device.attributes["{NVIDIA}"].productName.startsWith("NVIDIA H100")',
    f'device.attributes["{NVIDIA}"].?productName.orValue("").startsWith(" led by a space")',
    'device.attributes["gpu.amd.com"].?productName.orValue("").startsWith("AMD")',
    f'device.capacity["{NVIDIA}"].?memory.orValue(quantity("0")).compareTo(quantity("79Gi")) >= 0',
    f'device.capacity["{NVIDIA}"].?memory.orValue(quantity("0")).compareTo(quantity("80G")) >= 0',
    f'device.capacity["{NVIDIA}"].?memory.orValue(quantity("0")).compareTo(quantity("9999Gi")) >= 0',
    f'device.capacity["{NVIDIA}"].memory.isGreaterThan(quantity("40Gi"))',
    f'device.attributes["{NVIDIA}"].?cudaComputeCapability.orValue(semver("0.0.0"))'
    '.compareTo(semver("9.0.0")) >= 0',
    f'device.driver == "{NVIDIA}" &&\n  // a comment\n  !has(device.attributes["{NVIDIA}"].sliced)',
]
SELECTORS = st.lists(st.sampled_from(EXPRESSIONS), max_size=4).map(
    lambda texts: [{"cel": {"expression": text}} for text in texts]
)
TOLERATIONS = st.lists(
    st.sampled_from(
        [{"key": "a.io/b", "operator": "Exists", "effect": "NoSchedule"}, {"operator": "Exists"}]
    ),
    max_size=2,
)


def optional(**fields):
    """Some of the fields, in any combination."""
    return st.fixed_dictionaries({}, optional=fields)


ASKS = st.tuples(
    st.sampled_from([NVIDIA, "mig.nvidia.com", "gpu.amd.com"]),
    optional(
        selectors=SELECTORS,
        tolerations=TOLERATIONS,
        capacity=st.just({"requests": {"memory": "10Gi"}}),
    ),
    st.one_of(
        optional(count=st.integers(0, 8), allocationMode=st.just("ExactCount")),
        st.just({"allocationMode": "All"}),
    ),
).map(lambda parts: {"deviceClassName": parts[0]} | parts[1] | parts[2])
EXACTLY = st.tuples(ASKS, optional(adminAccess=st.booleans())).map(lambda parts: parts[0] | parts[1])


@st.composite
def specs(draw):
    """Specs that the API takes: several requests, alternatives, constraints, settings, all kinds of asks."""
    requests = []
    for number in range(draw(st.integers(1, 3))):
        if draw(st.booleans()):
            alternatives = draw(st.lists(ASKS, min_size=1, max_size=3))
            offered = [{"name": f"way-{place}"} | one for place, one in enumerate(alternatives)]
            requests.append({"name": f"r{number}", "firstAvailable": offered})
        else:
            requests.append({"name": f"r{number}", "exactly": draw(EXACTLY)})
    devices = {"requests": requests}
    devices |= draw(
        optional(
            constraints=st.just([{"matchAttribute": "resource.kubernetes.io/pcieRoot"}]),
            config=st.just(
                [{"opaque": {"driver": NVIDIA, "parameters": {"kind": "GpuConfig", "n": [1, None, {}]}}}]
            ),
        )
    )
    return {"devices": devices}


def posted(spec, source, **changed):
    """What a browser sends of the part of the form that describes devices."""
    shown = spec_values(spec, source, to_yaml(spec)) | changed
    return sent(**{name: "" if value is None else str(value) for name, value in shown.items()})


def sent(**fields):
    data = QueryDict(mutable=True)
    for name, value in fields.items():
        data[name] = value.replace("\n", "\r\n")
    return data


def spec_after(data):
    form = ProfileForm(data)
    form.is_valid()
    assert not {"device_class", "spec_yaml", "product", "domain", "count"} & set(form.errors)
    return form.cleaned_data["spec"]


@UNHURRIED
@given(specs())
def test_valid_spec_survives_the_form(spec):
    assert validation.problems(spec) == []
    assert spec_after(posted(spec, FIELDS)) == spec
    assert spec_after(posted(spec, YAML)) == spec


@UNHURRIED
@given(specs())
def test_switching_to_fields_and_back_keeps_the_text(spec):
    text = "# why it is so\n" + to_yaml(spec)
    fields = switched_values(ProfileForm(sent(source=YAML, spec_yaml=text)), FIELDS)
    assert fields["source"] == FIELDS
    back = switched_values(ProfileForm(posted(spec, FIELDS, spec_yaml=text)), YAML)
    assert back["spec_yaml"].replace("\r\n", "\n") == text


@UNHURRIED
@given(specs(), CONDITIONS)
def test_written_conditions_are_read_back_and_the_rest_is_unchanged(spec, conditions):
    # Of another driver there may be selectors already, which fields would then show.
    conditions = replace(conditions, domain=conditions_in(spec).domain or NVIDIA)
    after = with_conditions(spec, conditions)
    seen = conditions_in(after)
    wanted = conditions if conditions_in(spec).count is not None else replace(conditions, count=None)
    assert seen == wanted
    assert after["devices"]["requests"][1:] == spec["devices"]["requests"][1:]
    assert {**after["devices"], "requests": 0} == {**spec["devices"], "requests": 0}
    assert with_conditions(after, wanted) == after


@given(CONDITIONS)
def test_every_condition_compiles_as_cel(conditions):
    exactly = new_spec(conditions)["devices"]["requests"][0]["exactly"]
    assert len(exactly["selectors"]) == 3
    for selector in exactly["selectors"]:
        compile_selector(selector["cel"]["expression"])


def test_removed_condition_removes_its_selector():
    spec = new_spec(Conditions(NVIDIA, memory_gib=79, compute="9.0"))
    less = with_conditions(spec, Conditions(NVIDIA, memory_gib=79))
    assert len(less["devices"]["requests"][0]["exactly"]["selectors"]) == 1
    assert "selectors" not in with_conditions(spec, Conditions(NVIDIA))["devices"]["requests"][0]["exactly"]


def test_changed_driver_changes_all_conditions():
    spec = with_conditions(
        new_spec(Conditions(NVIDIA, memory_gib=79)),
        Conditions(NVIDIA, domain="gpu.example.com", memory_gib=79),
    )
    (selector,) = spec["devices"]["requests"][0]["exactly"]["selectors"]
    assert selector["cel"]["expression"].startswith('device.capacity["gpu.example.com"]')


EVERY = {"deviceClassName": NVIDIA, "allocationMode": "All"}


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        (make_spec(), []),
        (make_spec(selectors=[{"cel": {"expression": EXPRESSIONS[-1]}}]), ["1 selector"]),
        (make_spec(selectors=[{"cel": {"expression": EXPRESSIONS[0]}}]), []),
        (make_spec(tolerations=[{"operator": "Exists"}], adminAccess=True), ["1 toleration", "admin access"]),
        (make_spec(capacity={"requests": {"memory": "10Gi"}}), ["1 capacity request"]),
        (
            {"devices": {"requests": [{"name": "all", "exactly": EVERY}]}},
            ["every matching device"],
        ),
        (
            {
                "devices": {
                    **make_spec()["devices"],
                    "constraints": [{"matchAttribute": "a.io/b"}, {"matchAttribute": "a.io/c"}],
                    "config": [{"opaque": {"driver": NVIDIA, "parameters": {}}}],
                }
            },
            ["2 constraints", "1 config"],
        ),
        (
            {
                "devices": {
                    "requests": [
                        {
                            "name": "either",
                            "firstAvailable": [
                                {"name": "big", "deviceClassName": NVIDIA},
                                {"name": "small", "deviceClassName": "mig.nvidia.com"},
                            ],
                        },
                        {"name": "nic", "exactly": {"deviceClassName": "rdma.example.com"}},
                    ]
                }
            },
            ["1 more alternative", "1 more request"],
        ),
    ],
)  # fmt: skip
def test_parts_that_fields_do_not_show_are_counted(spec, words):
    assert yaml_only_parts(spec) == words


@pytest.mark.parametrize("text", ["a: [b", "- a list", "devices: {}", "devices: {requests: all}"])
def test_invalid_spec_stays_yaml_with_an_error(text):
    form = ProfileForm(sent(source=YAML, spec_yaml=text))
    assert switched_values(form, FIELDS) is None
    assert form.errors["spec_yaml"]


def test_empty_form_switches_without_errors():
    form = ProfileForm(sent(source=FIELDS, device_class="", title="T"))
    assert switched_values(form, YAML)["title"] == "T"


def test_malformed_spec_has_no_conditions():
    assert conditions_in({"devices": {"requests": "all"}}) is None
    assert spec_values({"devices": {}}, FIELDS, "devices: {}")["source"] == YAML
