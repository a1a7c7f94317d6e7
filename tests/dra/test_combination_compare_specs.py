"""A spec is recognised whatever its requests are called, at every count; what differs is said in words."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from claims.catalogue.presets import presets
from dra.combination import compare_specs, with_positional_names
from dra.manifests import with_count
from dra.objects import requests
from tests.dra.clusters import NVIDIA, PCIE, ask, exactly, spec

EXPRESSIONS = ("device.driver == 'a'", 'device.capacity["a"].x.isLessThan(quantity("2"))', "true")
TOLERATIONS = ({"key": "a", "operator": "Exists"}, {"key": "b", "value": "x", "effect": "NoExecute"})
asked = st.fixed_dictionaries(
    {"deviceClassName": st.sampled_from((NVIDIA, "mig.nvidia.com"))},
    optional={
        "count": st.integers(1, 8),
        "selectors": st.lists(st.sampled_from(EXPRESSIONS), max_size=3, unique=True).map(
            lambda texts: [{"cel": {"expression": text}} for text in texts]
        ),
        "tolerations": st.lists(st.sampled_from(TOLERATIONS), max_size=2, unique_by=lambda one: one["key"]),
        "capacity": st.just({"requests": {"memory": "10Gi"}}),
    },
)
SPECS = {entry.slug: entry.spec for entry in presets()}


@st.composite
def specs(draw):
    asks = draw(st.lists(asked, min_size=1, max_size=3))
    devices = {"requests": [{"name": f"r{at}", "exactly": one} for at, one in enumerate(asks)]}
    if draw(st.booleans()):
        devices["constraints"] = [PCIE | draw(st.sampled_from(({}, {"requests": ["r0"]})))]
    if draw(st.booleans()):
        opaque = {"driver": NVIDIA, "parameters": {"kind": "GpuConfig"}}
        devices["config"] = [{"opaque": opaque, "requests": ["r0"]}]
    return {"devices": devices}


def renamed(one, prefix):
    """The same with other names, and with selectors in another order."""
    names = {request["name"]: f"{prefix}-{request['name']}" for request in requests(one)}
    made = []
    for request in requests(one):
        exactly = dict(request["exactly"])
        if "selectors" in exactly:
            exactly["selectors"] = exactly["selectors"][::-1]
        made.append({"name": names[request["name"]], "exactly": exactly})
    devices = dict(one["devices"], requests=made)
    for kind in ("constraints", "config"):
        if kind in devices:
            devices[kind] = [
                each
                | ({"requests": [names[name] for name in each["requests"]]} if "requests" in each else {})
                for each in devices[kind]
            ]
    return {"devices": devices}


@given(specs(), st.integers(1, 8), st.integers(0, 2))
def test_every_spec_finds_itself_again_at_every_count(one, count, at):
    scalable = f"r{at}" if at < len(requests(one)) else ""
    written = with_count(one, scalable, count) if scalable else one
    found = compare_specs(one, scalable, renamed(written, "x"))
    assert found.exact
    assert found.count == (count if scalable else 1)
    assert with_positional_names(found.spec) == with_positional_names(written)


@given(specs(), specs())
def test_only_what_asks_for_the_same_is_exact(one, other):
    assert compare_specs(one, "", other).exact == (with_positional_names(one) == with_positional_names(other))


@pytest.mark.parametrize("entry", presets(), ids=lambda entry: entry.slug)
def test_every_preset_finds_itself_and_those_that_ask_for_the_same(entry):
    scalable, most = entry.limits.scalable, entry.limits.max_devices
    for count in range(1, most + 1) if scalable else (1,):
        written = with_count(entry.spec, scalable, count) if scalable else entry.spec
        found = {
            one.slug: like.count
            for one in presets()
            if (like := compare_specs(one.spec, one.limits.scalable, written)).exact
        }
        assert found.pop(entry.slug) == count
        assert all(with_positional_names(SPECS[slug]) == with_positional_names(entry.spec) for slug in found)


@pytest.mark.parametrize(
    ("other", "said"),
    [
        (spec(exactly(3)), ["Number of devices: 3 in the file, 2 in the profile."]),
        (
            spec(exactly(2, class_name="mig.nvidia.com")),
            [f"Device class: mig.nvidia.com in the file, {NVIDIA} in the profile."],
        ),
        (spec(exactly(2, "true")), ["Only in the file: selector true"]),
        (spec(exactly(2, adminAccess=True)), ["Admin access: yes in the file, none in the profile."]),
        (
            spec(exactly(2), exactly(1, name="b")),
            ["Number of requests: 2 in the file, 1 in the profile."],
        ),
        (
            spec(exactly(2), constraints=[PCIE]),
            ['Only in the file: constraint {"matchAttribute": "resource.kubernetes.io/pcieRoot"}'],
        ),
    ],
)
def test_what_differs_is_said(other, said):
    assert list(compare_specs(spec(exactly(2)), "", other).differences) == said


def test_more_than_a_profile_allows_is_a_difference():
    found = compare_specs(spec(exactly(1)), "gpu", spec(exactly(9)), max_count=8)
    assert found.count == 8
    assert found.differences == ("Number of devices: 9 in the file, 8 in the profile.",)


TOLERANT = {"key": "a", "operator": "Exists"}


def setting(value):
    return {"opaque": {"driver": "d", "parameters": {"a": value}}}


def either(*counts):
    return spec({"name": "g", "firstAvailable": [{"name": f"n{at}", **ask(at)} for at in counts]})


@pytest.mark.parametrize(
    ("own", "other", "said"),
    [
        (
            spec(exactly(2, "b", "a", tolerations=[TOLERANT])),
            spec(
                exactly(
                    2, " a ", "c", tolerations=[{"key": "b"}], capacity={"requests": {"x": "2", "m": "1Gi"}}
                )
            ),
            [
                "Only in the file: selector c",
                "Only in the profile: selector b",
                'Only in the file: toleration {"key": "b", "operator": "Equal"}',
                'Only in the profile: toleration {"key": "a", "operator": "Exists"}',
                "Capacity m: 1Gi in the file, none in the profile.",
                "Capacity x: 2 in the file, none in the profile.",
            ],
        ),
        (
            spec(exactly(1, "a", "a")),
            spec(exactly(1, "a")),
            ["Only in the profile: selector a"],
        ),
        (
            spec(exactly(1), exactly(2, name="b")),
            spec(exactly(1, name="x"), exactly(5, name="y", class_name="mig")),
            [
                f"Request 2, device class: mig in the file, {NVIDIA} in the profile.",
                "Request 2, number of devices: 5 in the file, 2 in the profile.",
            ],
        ),
        (
            spec(exactly(1)),
            spec(exactly(0, allocationMode="All")),
            [
                "Allocation mode: All in the file, ExactCount in the profile.",
                "Number of devices: none in the file, 1 in the profile.",
            ],
        ),
        (either(1), either(1, 2), ["Alternatives: 2 in the file, 1 in the profile."]),
        (either(1), spec(exactly(1)), ["Alternatives: none in the file, 1 in the profile."]),
        (either(1, 2), either(1, 3), ["Number of devices: 3 in the file, 2 in the profile."]),
        (
            spec(exactly(1), exactly(1, name="b"), constraints=[{"requests": ["gpu"], **PCIE}]),
            spec(exactly(1), exactly(1, name="b"), constraints=[{"requests": ["b"], **PCIE}]),
            ["The constraints differ in their requests or their order."],
        ),
        (
            spec(exactly(1), config=[setting(1), setting(2)]),
            spec(exactly(1), config=[setting(2), setting(1)]),
            ["The configurations differ in their requests or their order."],
        ),
        (
            spec(exactly(1), config=[setting(1)]),
            spec(exactly(1), config=[setting(2)]),
            [
                'Only in the file: configuration {"opaque": {"driver": "d", "parameters": {"a": 2}}}',
                'Only in the profile: configuration {"opaque": {"driver": "d", "parameters": {"a": 1}}}',
            ],
        ),
        (spec(exactly(1)), spec(), ["Number of requests: none in the file, 1 in the profile."]),
        (
            spec(exactly(1)) | {"x": 1},
            spec(exactly(1)),
            ["The file has fields that the API does not know."],
        ),
        (
            spec(exactly(1), constraints=[PCIE, {"matchAttribute": "a.b/c", "requests": ["gpu"]}]),
            spec(
                exactly(1, name="z"), constraints=[{"matchAttribute": "a.b/c"}, {**PCIE, "requests": ["z"]}]
            ),
            [],
        ),
    ],
)
def test_each_difference_is_reported_once(own, other, said):
    found = compare_specs(own, "", other)
    assert (list(found.differences), found.exact, found.count, found.spec) == (said, not said, 1, own)


@pytest.mark.parametrize(
    ("scalable", "other", "most", "count"),
    [
        ("gpu", spec(exactly(4)), None, 4),
        ("gpu", spec(exactly(4)), 4, 4),
        ("gpu", spec(exactly(4)), 3, 3),
        ("gpu", spec(exactly(0)), 3, 1),
        ("gpu", spec(exactly(0, allocationMode="All")), 3, 1),
        ("gpu", spec(), 3, 1),
        ("nope", spec(exactly(4)), None, 1),
        ("", spec(exactly(4)), None, 1),
        ("b", spec(exactly(4), exactly(3, name="x")), None, 3),
    ],
)
def test_the_count_is_that_of_the_request_in_the_same_place(scalable, other, most, count):
    found = compare_specs(spec(exactly(1), exactly(1, name="b")), scalable, other, most)
    assert found.count == count
    counts = {one["name"]: one["exactly"]["count"] for one in requests(found.spec)}
    assert counts == {"gpu": 1, "b": 1} | ({scalable: count} if scalable in ("gpu", "b") else {})
