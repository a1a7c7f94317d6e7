"""Validation: every mistake gets a sentence and a path, and no good spec gets one."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dra.validation import class_problems, problems
from tests.dra.clusters import ask, exactly, spec

GPU = "devices.requests[0]"
EXACTLY = f"{GPU}.exactly"
CLASSES = ["gpu.nvidia.com", "mig.nvidia.com"]


def test_the_examples_have_no_problem(specs):
    for name, one in specs.items():
        assert problems(one, classes=CLASSES) == [], name


def found(claim_spec, **more):
    return [(one.path, one.message) for one in problems(claim_spec, **more)]


def tolerations(*many):
    return spec(exactly(tolerations=list(many)))


def constrained(**more):
    return spec(exactly(), constraints=[more])


def configured(**more):
    return spec(exactly(), config=[more])


OPAQUE = {"driver": "gpu.nvidia.com", "parameters": {"a": 1}}
LATE = {"name": "a", **ask(1)}


@pytest.mark.parametrize(
    ("claim_spec", "path", "said"),
    [
        (None, "", "must be an object"),
        ({}, "devices", "must be an object"),
        (spec(), "devices.requests", "requests no device"),
        ({"devices": {"requests": {}}}, "devices.requests", "must be a list"),
        (spec("gpu"), GPU, "must be an object"),
        (spec(exactly(), more=[]), "devices.more", "no field more"),
        (spec(exactly()) | {"controller": "x"}, "controller", "no field controller"),
        (spec(exactly(name="GPU")), f"{GPU}.name", "“GPU” is not a valid name"),
        (spec(exactly(name="g" * 64)), f"{GPU}.name", "up to 63"),
        (spec({"exactly": ask()}), f"{GPU}.name", "is not a valid name"),
        (spec(exactly(), exactly()), "devices.requests", "2 requests are named gpu"),
        (spec({"name": "gpu"}), GPU, "either exactly or firstAvailable"),
        (
            spec({"name": "gpu", "exactly": ask(), "firstAvailable": [LATE]}),
            GPU,
            "either exactly or firstAvailable",
        ),
        (
            spec({"name": "gpu", "deviceClassName": "c", "exactly": ask()}),
            f"{GPU}.deviceClassName",
            "no field",
        ),
        (spec(exactly(1, class_name="")), f"{EXACTLY}.deviceClassName", "needs a device class"),
        (spec(exactly(1, class_name="nvidia.com/gpu")), f"{EXACTLY}.deviceClassName", "is not a valid name"),
        (spec(exactly(1, class_name="nobody")), f"{EXACTLY}.deviceClassName", "no device class nobody"),
        (spec(exactly(33)), f"{EXACTLY}.count", "33; the limit per claim is 32"),
        (spec(exactly(-1)), f"{EXACTLY}.count", "-1; it must be at least 1"),
        (spec(exactly("2")), f"{EXACTLY}.count", "whole number"),
        (spec(exactly(True)), f"{EXACTLY}.count", "whole number"),
        (spec(exactly(2, allocationMode="All")), f"{EXACTLY}.count", "takes no count"),
        (spec(exactly(1, allocationMode="Some")), f"{EXACTLY}.allocationMode", "ExactCount or All"),
        (spec(exactly(20), exactly(13, name="b")), "devices.requests", "33 devices in total"),
        (spec(exactly(adminAccess="yes")), f"{EXACTLY}.adminAccess", "true or false"),
        (spec(exactly(shared=True)), f"{EXACTLY}.shared", "no field shared"),
        (spec(exactly(1, "device.name == 'x'")), f"{EXACTLY}.selectors[0].cel.expression", "device.name"),
        (spec(exactly(1, " ")), f"{EXACTLY}.selectors[0].cel.expression", "needs an expression"),
        (spec(exactly(selectors=[{}])), f"{EXACTLY}.selectors[0].cel", "must be an object"),
        (spec(exactly(1, *["true"] * 33)), f"{EXACTLY}.selectors", "33 selectors; the limit is 32"),
        (
            tolerations(*[{"operator": "Exists"}] * 17),
            f"{EXACTLY}.tolerations",
            "17 tolerations; the limit is 16",
        ),
        (
            tolerations({"key": "a b", "operator": "Exists"}),
            f"{EXACTLY}.tolerations[0].key",
            "is not a valid taint key",
        ),
        (
            tolerations({"key": "k", "operator": "In"}),
            f"{EXACTLY}.tolerations[0].operator",
            "Equal or Exists",
        ),
        (tolerations({"value": "v"}), f"{EXACTLY}.tolerations[0].operator", "needs operator Exists"),
        (
            tolerations({"key": "k", "operator": "Exists", "value": "v"}),
            f"{EXACTLY}.tolerations[0].value",
            "no value",
        ),
        (
            tolerations({"key": "k", "value": "a b"}),
            f"{EXACTLY}.tolerations[0].value",
            "is not a valid taint value",
        ),
        (
            tolerations({"key": "k", "effect": "Evict"}),
            f"{EXACTLY}.tolerations[0].effect",
            "is not a taint effect",
        ),
        (
            tolerations({"key": "k", "tolerationSeconds": 1.5}),
            f"{EXACTLY}.tolerations[0].tolerationSeconds",
            "whole",
        ),
        (
            spec(exactly(capacity={"requests": {"gpu-memory": "1"}})),
            f"{EXACTLY}.capacity.requests[gpu-memory]",
            "name",
        ),
        (
            spec(exactly(capacity={"requests": {"memory": "-1Gi"}})),
            f"{EXACTLY}.capacity.requests[memory]",
            "negative",
        ),
        (
            spec(exactly(capacity={"requests": {"memory": "big"}})),
            f"{EXACTLY}.capacity.requests[memory]",
            "“big”",
        ),
        (spec(exactly(capacity={"requests": []})), f"{EXACTLY}.capacity.requests", "must be an object"),
        (spec(exactly(capacity="1Gi")), f"{EXACTLY}.capacity", "must be an object"),
        (
            spec(exactly(capacity={"requests": {f"c{n}": 1 for n in range(33)}})),
            f"{EXACTLY}.capacity.requests",
            "33 capacities",
        ),
        (
            spec({"name": "gpu", "firstAvailable": [LATE, LATE]}),
            "devices.requests",
            "2 requests are named gpu/a",
        ),
        (
            spec({"name": "gpu", "firstAvailable": [{**LATE, "adminAccess": True}]}),
            f"{GPU}.firstAvailable[0].adminAccess",
            "no field adminAccess",
        ),
        (
            spec({"name": "gpu", "firstAvailable": [{**LATE, "name": f"a{n}"} for n in range(9)]}),
            f"{GPU}.firstAvailable",
            "9 alternatives; the limit is 8",
        ),
        (
            spec(*[exactly(name=f"r{n}") for n in range(33)]),
            "devices.requests",
            "33 requests; the limit is 32",
        ),
        (constrained(), "devices.constraints[0]", "either matchAttribute or distinctAttribute"),
        (
            constrained(matchAttribute="a.example/b", distinctAttribute="a.example/c"),
            "devices.constraints[0]",
            "either matchAttribute or distinctAttribute",
        ),
        (
            constrained(matchAttribute="pcieRoot"),
            "devices.constraints[0].matchAttribute",
            "not a fully qualified name",
        ),
        (
            constrained(matchAttribute="gpu.nvidia.com/nvlink-domain"),
            "devices.constraints[0].matchAttribute",
            "not a fully qualified name",
        ),
        (
            constrained(matchAttribute="a.example/b", requests=["cpu"]),
            "devices.constraints[0].requests[0]",
            "Request cpu does not exist",
        ),
        (
            configured(opaque=OPAQUE, requests=["gpu/a"]),
            "devices.config[0].requests[0]",
            "Request gpu/a does not exist",
        ),
        (configured(), "devices.config[0].opaque", "must be an object"),
        (
            configured(opaque=OPAQUE | {"driver": "d" * 64}),
            "devices.config[0].opaque.driver",
            "name of its driver",
        ),
        (
            configured(opaque=OPAQUE | {"parameters": "a"}),
            "devices.config[0].opaque.parameters",
            "must be an object",
        ),
        (
            configured(opaque=OPAQUE | {"parameters": {"a": "x" * 10_240}}),
            "devices.config[0].opaque.parameters",
            "bytes; the limit is 10240",
        ),
    ],
)
def test_problem_has_a_path_and_a_sentence(claim_spec, path, said):
    listed = found(claim_spec, classes=CLASSES)
    assert [one for one in listed if one[0] == path and said in one[1]], listed
    assert all(message.endswith((".", ")")) or "API server" in message for _, message in listed)


def test_each_problem_is_reported_once():
    assert len(found(spec(exactly(33)))) == 1
    assert len(found(spec(exactly(1, class_name="nobody")), classes=CLASSES)) == 1


def test_classes_are_looked_up_only_where_they_are_known():
    assert found(spec(exactly(1, class_name="nobody"))) == []


def test_selector_for_clusters_only_is_valid():
    assert found(spec(exactly(1, "isURL('https://example.org')"))) == []


def test_alternatives_count_with_the_smallest():
    many = {"name": "gpu", "firstAvailable": [{"name": "a", **ask(30)}, {"name": "b", **ask(2)}]}
    assert found(spec(many, exactly(30, name="more"))) == []


def test_selectors_of_a_class_are_checked_too():
    (problem,) = class_problems({"selectors": [{"cel": {"expression": "device.name == 'x'"}}]})
    assert str(problem).startswith(
        "selectors[0].cel.expression: The API server rejects this selector: compilation failed: "
    )
    assert "<input>:1:7: undefined field 'name'" in str(problem)


MEMORY, NVIDIA = 'device.capacity["gpu.nvidia.com"].memory', 'device.attributes["gpu.nvidia.com"]'


@pytest.mark.parametrize(
    ("mistake", "fix"),
    [
        (f'{MEMORY} >= quantity("40Gi")', f'{MEMORY}.compareTo(quantity("40Gi")) >= 0'),
        (
            f'{MEMORY} > quantity("1Gi") && {MEMORY} < quantity("9Gi")',
            f'{MEMORY}.compareTo(quantity("1Gi")) > 0 && {MEMORY}.compareTo(quantity("9Gi")) < 0',
        ),
        (
            'device.attributes["gpu.nvidia.com/model"] == "H100"',
            'device.attributes["gpu.nvidia.com"].productName == "H100"',
        ),
        (
            'device.attributes["gpu.intel.com/model"] == "Max 1550"',
            'device.attributes["gpu.intel.com"].model == "Max 1550"',
        ),
        ('device.attributes["nvidia.com/gpu.product"] == "A100"', f'{NVIDIA}.productName == "A100"'),
        ('device.attributes["compute.major"] >= 8', f"{NVIDIA}.cudaComputeCapability.major() >= 8"),
        (
            'device.attributes["computeCapability"] >= "8.0"',
            f'{NVIDIA}.cudaComputeCapability.compareTo(semver("8.0.0")) >= 0',
        ),
        ("memory >= 16", f'{MEMORY}.compareTo(quantity("16Gi")) >= 0'),
        (f"{MEMORY} >= 81920", f'{MEMORY}.compareTo(quantity("81920Mi")) >= 0'),
        (
            f'{MEMORY} >= quantity("40Gi") && device.attributes["compute.major"] == 9',
            f'{MEMORY}.compareTo(quantity("40Gi")) >= 0 && {NVIDIA}.cudaComputeCapability.major() == 9',
        ),
        (
            'device.capacity["gpu.nvidia.com/memory"] >= quantity("40Gi")',
            f'{MEMORY}.compareTo(quantity("40Gi")) >= 0',
        ),
    ],
)
def test_common_mistake_in_a_selector_gets_a_fix_that_compiles(mistake, fix):
    (problem,) = class_problems({"selectors": [{"cel": {"expression": mistake}}]})
    assert problem.message.endswith(f" Try: {fix}")
    assert class_problems({"selectors": [{"cel": {"expression": fix}}]}) == []


def test_mistake_without_a_known_fix_gets_none():
    for mistake in ("device.name == 'x'", "1 +", 'device.attributes["a/b"'):
        (problem,) = class_problems({"selectors": [{"cel": {"expression": mistake}}]})
        assert "Try:" not in problem.message


trees = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False), st.text(max_size=4)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(
            st.sampled_from(
                [
                    "devices",
                    "requests",
                    "name",
                    "exactly",
                    "firstAvailable",
                    "deviceClassName",
                    "count",
                    "selectors",
                    "cel",
                    "expression",
                    "tolerations",
                    "capacity",
                    "constraints",
                    "config",
                    "opaque",
                    "parameters",
                    "driver",
                    "matchAttribute",
                ]
            ),
            inner,
            max_size=4,
        ),
    ),
    max_leaves=12,
)


@given(trees)
def test_validation_never_raises(tree):
    for claim_spec in (tree, {"devices": tree}, spec(tree), spec({"name": "a", "exactly": tree})):
        assert all(problem.message for problem in problems(claim_spec))


def just(size):
    """Opaque parameters that take so many bytes as JSON."""
    return {"a": "é" * ((size - 8) // 6) + "x" * ((size - 8) % 6)}


@pytest.mark.parametrize(
    "claim_spec",
    [
        spec(exactly(32)),
        spec(exactly(0)),
        spec(exactly(0, allocationMode="All")),
        spec(exactly(1, allocationMode="")),
        spec(exactly(adminAccess=None)),
        spec(exactly(20), exactly(12, name="b")),
        spec(exactly(32), exactly(None, name="b", allocationMode="All")),
        spec(exactly(1, *["true"] * 32)),
        tolerations(*[{"operator": "Exists"}] * 16),
        tolerations(
            {"key": "k", "tolerationSeconds": 0, "effect": "NoExecute"}, {"key": "a.b/c", "value": "v"}
        ),
        spec(exactly(capacity={"requests": {f"c{n}": 1 for n in range(32)}})),
        spec(exactly(capacity={"requests": {"gpu.nvidia.com/memory": "0", "a" * 32: 1}})),
        spec({"name": "gpu", "firstAvailable": [{**LATE, "name": f"a{n}"} for n in range(8)]}),
        spec(*[exactly(name=f"r{n}") for n in range(32)]),
        spec(exactly(name="g" * 63)),
        spec(
            exactly(), constraints=[{"matchAttribute": "a.example/b"}] * 32, config=[{"opaque": OPAQUE}] * 32
        ),
        constrained(distinctAttribute="a.example/b", requests=["gpu"] * 32),
        configured(opaque=OPAQUE | {"driver": "d" * 63, "parameters": just(10_240)}, requests=["gpu"]),
        configured(opaque=OPAQUE | {"parameters": {}}),
    ],
)
def test_spec_at_the_limits_is_valid(claim_spec):
    assert found(claim_spec) == []


@pytest.mark.parametrize(
    ("claim_spec", "listed"),
    [
        (
            constrained(matchAttribute="a.example/b")
            | {"devices": {"requests": [exactly()], "constraints": {}}},
            [("devices.constraints", "This must be a list.")],
        ),
        (
            spec(exactly(), constraints=["x", {"matchAttribute": "a.example/b"}, {"matchAttribute": "b"}]),
            [
                ("devices.constraints[0]", "This must be an object."),
                (
                    "devices.constraints[2].matchAttribute",
                    "“b” is not a fully qualified name such as resource.kubernetes.io/pcieRoot.",
                ),
            ],
        ),
        (
            constrained(matchAttribute="b", distinctAttribute="c", requests=["gpu", "d", "e"]),
            [
                ("devices.constraints[0].requests[1]", "Request d does not exist."),
                ("devices.constraints[0].requests[2]", "Request e does not exist."),
                (
                    "devices.constraints[0]",
                    "A constraint needs either matchAttribute or distinctAttribute.",
                ),
                (
                    "devices.constraints[0].matchAttribute",
                    "“b” is not a fully qualified name such as resource.kubernetes.io/pcieRoot.",
                ),
                (
                    "devices.constraints[0].distinctAttribute",
                    "“c” is not a fully qualified name such as resource.kubernetes.io/pcieRoot.",
                ),
            ],
        ),
        (
            spec(
                exactly(),
                config=[
                    7,
                    {"opaque": OPAQUE},
                    {"opaque": {"driver": 7, "parameters": just(10_241)}, "requests": ["x"]},
                ],
            ),
            [
                ("devices.config[0]", "This must be an object."),
                ("devices.config[2].requests[0]", "Request x does not exist."),
                (
                    "devices.config[2].opaque.driver",
                    "The configuration needs the name of its driver.",
                ),
                (
                    "devices.config[2].opaque.parameters",
                    "The parameters have 10241 bytes; the limit is 10240.",
                ),
            ],
        ),
        (
            spec(
                {"name": "", "exactly": ask()}, {"name": "", "firstAvailable": [LATE, {**LATE, "name": "B"}]}
            ),
            [
                (
                    f"{GPU}.name",
                    "“” is not a valid name: use lower-case letters, digits and hyphens, up to 63.",
                ),
                (
                    "devices.requests[1].name",
                    "“” is not a valid name: use lower-case letters, digits and hyphens, up to 63.",
                ),
                (
                    "devices.requests[1].firstAvailable[1].name",
                    "“B” is not a valid name: use lower-case letters, digits and hyphens, up to 63.",
                ),
            ],
        ),
        (
            spec(exactly(selectors=[{"cel": {"expression": one}} for one in ("true", " ", 7)])),
            [
                (f"{EXACTLY}.selectors[1].cel.expression", "A selector needs an expression."),
                (f"{EXACTLY}.selectors[2].cel.expression", "A selector needs an expression."),
            ],
        ),
        (
            tolerations("x", {"operator": "Exists"}, {"key": "k", "tolerationSeconds": True}),
            [
                (f"{EXACTLY}.tolerations[0]", "This must be an object."),
                (f"{EXACTLY}.tolerations[2].tolerationSeconds", "tolerationSeconds must be a whole number."),
            ],
        ),
        (
            spec(exactly(capacity={"requests": {"a": 1, "b": "-1n", "c": -1}})),
            [
                (f"{EXACTLY}.capacity.requests[b]", "The amount is -1n; it must not be negative."),
                (f"{EXACTLY}.capacity.requests[c]", "The amount is -1; it must not be negative."),
            ],
        ),
        (spec(exactly(capacity={})), []),
        (spec(exactly(adminAccess=0)), [(f"{EXACTLY}.adminAccess", "This must be true or false.")]),
        (
            spec("x", {"name": "b"}, exactly(32, name="c")),
            [
                (GPU, "This must be an object."),
                ("devices.requests[1]", "A request needs either exactly or firstAvailable."),
            ],
        ),
    ],
)
def test_problems_are_reported_in_order(claim_spec, listed):
    assert found(claim_spec) == listed


@pytest.mark.parametrize(
    ("requests", "total"),
    [
        ([exactly(32), exactly(None, name="b")], 33),
        ([exactly(32), exactly(0, name="b")], 33),
        ([exactly(16), exactly(17, name="b")], 33),
        (
            [
                exactly(31),
                {"name": "b", "firstAvailable": [{"name": "x", **ask(3)}, {"name": "y", **ask(2)}]},
            ],
            33,
        ),
    ],
)
def test_too_many_devices_are_reported_with_their_sum(requests, total):
    said = f"The requests have {total} devices in total; the limit per claim is 32."
    assert found(spec(*requests)) == [("devices.requests", said)]


def test_alternatives_can_be_referenced_and_duplicate_names_are_counted():
    offered = {"name": "gpu", "firstAvailable": [LATE, {**LATE, "name": "b"}]}
    claim_spec = spec(
        offered, constraints=[{"matchAttribute": "a.example/b", "requests": ["gpu", "gpu/a", "gpu/b", "a"]}]
    )
    assert found(claim_spec) == [("devices.constraints[0].requests[3]", "Request a does not exist.")]
    thrice = spec(*[exactly()] * 3, *[exactly(name="b")] * 2)
    assert [message for _, message in found(thrice)] == [
        "3 requests are named gpu; names must be unique.",
        "2 requests are named b; names must be unique.",
    ]


def test_all_selectors_of_a_class_are_checked():
    good, bad = {"cel": {"expression": "true"}}, {"cel": {"expression": "1"}}
    assert [one.path for one in class_problems({"selectors": [good, bad, bad]})] == [
        "selectors[1].cel.expression",
        "selectors[2].cel.expression",
    ]
    assert class_problems({"selectors": [good] * 32}) == []
    (problem,) = class_problems({"selectors": [good] * 33})
    assert (problem.path, problem.message) == ("selectors", "There are 33 selectors; the limit is 32.")
    assert class_problems({}) == []
