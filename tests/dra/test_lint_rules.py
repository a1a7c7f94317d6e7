"""Lint: what no device and no node can ever meet, profiles that are the same, and classes."""

import pytest

from dra.lint import LintCode, LintReport, NamedSpec, Severity, lint
from tests.dra.catalogue import ATTRIBUTES, MEMORY, codes, findings, fleet, only
from tests.dra.clusters import IS_GPU, PCIE, ask, device_class, exactly, gpu, resource_slice, snapshot, spec


@pytest.mark.parametrize(
    ("claim_spec", "code", "severity", "said"),
    [
        (spec(exactly(1, "device.name == 'x'")), LintCode.DOES_NOT_COMPILE, Severity.ERROR, "device.name"),
        (
            spec(exactly(class_name="nobody")),
            LintCode.CLASS_MISSING,
            Severity.ERROR,
            "no device class nobody",
        ),
        (
            spec(exactly(5)),
            LintCode.TOO_MANY,
            Severity.ERROR,
            "needs 5 devices on one node; no node has more",
        ),
        (spec(exactly(33)), LintCode.INVALID, Severity.ERROR, "33"),
        (
            spec(exactly(1, f'{ATTRIBUTES}.?productName.orValue("") == "NVIDIA A100"')),
            LintCode.MATCHES_NOTHING,
            Severity.ERROR,
            "of 6 in the cluster, 6 are in class gpu.nvidia.com, and the selector of request gpu accepts "
            "none of the 6 left.",
        ),
        (
            spec(exactly()),
            LintCode.MATCHES_EVERYTHING,
            Severity.NOTE,
            "NVIDIA H100 80GB HBM3 and NVIDIA L4",
        ),
        (
            spec(exactly(3, MEMORY.format("79Gi")), constraints=[PCIE]),
            LintCode.CONSTRAINT,
            Severity.ERROR,
            "The claim needs 3 devices with the same resource.kubernetes.io/pcieRoot; no "
            "node has more than 2",
        ),
        (
            spec(exactly(2), constraints=[{"matchAttribute": "resource.kubernetes.io/pcieroot"}]),
            LintCode.CONSTRAINT,
            Severity.ERROR,
            "6 devices publish resource.kubernetes.io/pcieRoot",
        ),
        (
            spec(
                exactly(3, MEMORY.format("79Gi")), constraints=[{"distinctAttribute": PCIE["matchAttribute"]}]
            ),
            LintCode.CONSTRAINT,
            Severity.ERROR,
            "The claim needs 3 devices with different resource.kubernetes.io/pcieRoot; "
            "no node has more than 2",
        ),
    ],
)
def test_finding_names_the_numbers(claim_spec, code, severity, said):
    found = only(findings(claim_spec), code)
    assert found.severity == severity
    assert said in found.message


def test_a_constraint_that_a_node_meets_is_no_finding():
    assert findings(spec(exactly(2, MEMORY.format("79Gi")), constraints=[PCIE])) == []


def test_a_constraint_on_one_alternative_is_a_note():
    claim_spec = spec(
        {
            "name": "gpu",
            "firstAvailable": [
                {"name": "three", **ask(3, MEMORY.format("79Gi"))},
                {"name": "one", **ask(1, MEMORY.format("79Gi"))},
            ],
        },
        constraints=[{"requests": ["gpu/three"], **PCIE}],
    )
    assert only(findings(claim_spec), LintCode.CONSTRAINT).severity == Severity.NOTE


def test_an_alternative_that_matches_nothing_is_a_note_while_another_does():
    a100 = f'{ATTRIBUTES}.?productName.orValue("") == "NVIDIA A100"'
    options = [{"name": "a100", **ask(1, a100)}, {"name": "h100", **ask(1, MEMORY.format("79Gi"))}]
    found = findings(spec({"name": "gpu", "firstAvailable": options}))
    assert [(one.code, one.severity) for one in found] == [(LintCode.ALTERNATIVE_IDLE, Severity.NOTE)]
    found = findings(spec({"name": "gpu", "firstAvailable": options[:1]}))
    assert [(one.code, one.severity) for one in found] == [(LintCode.MATCHES_NOTHING, Severity.ERROR)]


def test_a_limit_that_no_node_has_is_a_note():
    claim_spec = spec(exactly(1, MEMORY.format("79Gi")))
    assert (
        "no node has more than 4"
        in only(findings(claim_spec, scalable="gpu", max_count=8), LintCode.LIMIT_TOO_HIGH).message
    )
    assert findings(claim_spec, scalable="gpu", max_count=4) == []


def test_shared_devices_may_serve_several_so_nothing_is_said_of_their_number():
    seen = snapshot([resource_slice(devices=[gpu(0, allowMultipleAllocations=True)])])
    assert codes(findings(spec(exactly(4)), seen)) == []


def test_duplicate_specs_are_reported_once():
    big, same = spec(exactly(1, MEMORY.format("79Gi"))), spec(exactly(1, MEMORY.format("70Gi")))
    named = [
        NamedSpec("a", big),
        NamedSpec("b", big | {}),
        NamedSpec("c", same),
        NamedSpec("d", spec(exactly(2, MEMORY.format("79Gi")))),
    ]
    found = lint(fleet(), named).findings
    assert [(one.name, one.code, "a" in one.message) for one in found if one.code.startswith("same")] == [
        ("b", LintCode.SAME_SPEC, True),
        ("c", LintCode.SAME_DEVICES, True),
    ]


def test_classes_are_checked_too():
    classes = [
        device_class("gpu.nvidia.com", IS_GPU),
        device_class("typo", "device.attributes['gpu.nvidia.com'].typ == 'gpu'"),
        device_class("none", "device.driver == 'gpu.amd.com'"),
        {"metadata": {"name": "all"}, "spec": {}},
    ]
    other = resource_slice("node-c", [gpu(0)], driver="gpu.amd.com", pool="node-c")
    slices = [resource_slice("node-a", [gpu(0)]), other]
    found = lint(snapshot(slices[:1], classes=classes), []).findings
    assert [(one.name, one.code) for one in found] == [
        ("none", LintCode.MATCHES_NOTHING),
        ("typo", LintCode.SELECTOR_FAILS),
        ("typo", LintCode.NOT_PUBLISHED),
        ("typo", LintCode.MATCHES_NOTHING),
    ]
    assert found[2].fix.after == "device.attributes['gpu.nvidia.com'].type == 'gpu'"
    found = lint(snapshot(slices, classes=classes), []).findings
    assert ("all", LintCode.MATCHES_EVERYTHING) in [(one.name, one.code) for one in found]


WITHOUT_EFFECT = {"key": "example.com/repair", "operator": "Exists"}
UNDER_REPAIR = {"key": "example.com/repair", "effect": "NoExecute"}


@pytest.mark.parametrize(
    ("taint", "severity", "said"),
    [
        (UNDER_REPAIR, Severity.WARNING, "2 matching devices have one now."),
        (
            UNDER_REPAIR | {"effect": "NoSchedule"},
            Severity.NOTE,
            "with effect NoExecute keeps the pod running.",
        ),
        (UNDER_REPAIR | {"key": "example.com/other"}, Severity.NOTE, "tolerates example.com/repair without"),
    ],
)
def test_a_toleration_without_an_effect_leads_to_eviction(taint, severity, said):
    seen = snapshot([resource_slice(devices=[gpu(0, taints=[taint]), gpu(1, taints=[taint]), gpu(2)])])
    found = only(findings(spec(exactly(tolerations=[WITHOUT_EFFECT])), seen), LintCode.EVICTED)
    assert (found.severity, found.path) == (severity, "devices.requests[0].exactly.tolerations[0].effect")
    assert said in found.message


@pytest.mark.parametrize(
    "tolerations",
    [
        [WITHOUT_EFFECT | {"effect": "NoSchedule"}],
        [WITHOUT_EFFECT | {"effect": "NoExecute"}],
        [WITHOUT_EFFECT, {"operator": "Exists", "effect": "NoExecute"}],
        [WITHOUT_EFFECT, WITHOUT_EFFECT | {"effect": "NoExecute"}],
        [{"key": "a", "value": "b"}, {"key": "a", "value": "b", "effect": "NoExecute"}],
    ],
)
def test_a_toleration_that_keeps_away_or_lasts_is_no_finding(tolerations):
    assert LintCode.EVICTED not in codes(findings(spec(exactly(tolerations=tolerations))))


@pytest.mark.parametrize(
    "lasting",
    [
        WITHOUT_EFFECT | {"key": "example.com/other", "effect": "NoExecute"},
        {"key": "example.com/repair", "value": "disk", "effect": "NoExecute"},
    ],
)
def test_shorter_toleration_does_not_prevent_eviction(lasting):
    found = findings(spec(exactly(tolerations=[WITHOUT_EFFECT, lasting])))
    assert codes(found).count(LintCode.EVICTED) == 1


@pytest.mark.parametrize(("devices", "endless"), [(23, False), (24, True)])
def test_one_more_than_many_alike_keeps_the_scheduler_busy(devices, endless):
    seen = snapshot([resource_slice(devices=[gpu(number) for number in range(devices)])])
    found = only(findings(spec(exactly(devices + 1)), seen), LintCode.TOO_MANY)
    assert ("for 10 s before it gives up" in found.message) is endless


LARGE = MEMORY.format("79Gi")
GPU = "devices.requests[0].exactly"
ROOT = PCIE["matchAttribute"]
UNLIKE = (
    "matches all 6 devices of the cluster, of different products such as NVIDIA H100 "
    "80GB HBM3 and NVIDIA L4: "
    "a claim gets the first free one."
)
FIVE = "needs 5 devices on one node; no node has more than 4 that match (node-a has)."


def rows(claim_spec, seen=None, **named):
    return [(one.code, one.severity, one.path, one.message) for one in findings(claim_spec, seen, **named)]


@pytest.mark.parametrize(
    ("claim_spec", "named", "expected"),
    [
        (spec(exactly(4, LARGE)), {"scalable": "gpu", "max_count": 4}, []),
        (
            spec(exactly(5, LARGE)),
            {"scalable": "gpu", "max_count": 8},
            [(LintCode.TOO_MANY, Severity.ERROR, f"{GPU}.count", f"Request gpu {FIVE}")],
        ),
        (
            spec(exactly(2, LARGE)),
            {"scalable": "gpu", "max_count": 5},
            [
                (
                    *(LintCode.LIMIT_TOO_HIGH, Severity.NOTE, f"{GPU}.count"),
                    "The profile allows up to 5 devices per claim, but no node has more "
                    "than 4 that match (node-a has).",
                )
            ],
        ),
        (spec(exactly(2, LARGE)), {"scalable": "other", "max_count": 5}, []),
        (
            spec(
                exactly(5, LARGE, name="a"),
                exactly(1, name="b"),
                exactly(5, LARGE, name="c"),
                constraints=[PCIE],
            ),
            {},
            [
                (
                    LintCode.MATCHES_EVERYTHING,
                    Severity.NOTE,
                    "devices.requests[1].exactly",
                    f"Request b {UNLIKE}",
                ),
                (LintCode.TOO_MANY, Severity.ERROR, f"{GPU}.count", f"Request a {FIVE}"),
                (LintCode.TOO_MANY, Severity.ERROR, "devices.requests[2].exactly.count", f"Request c {FIVE}"),
            ],
        ),
        (
            spec(exactly(3, LARGE), constraints=[{"matchAttribute": "a.b/c"}, PCIE]),
            {},
            [
                (
                    *(LintCode.CONSTRAINT, Severity.ERROR, "devices.constraints[0]"),
                    "The constraint uses a.b/c, but none of the 4 devices that match publish it, so "
                    "no device can be allocated.",
                ),
                (
                    *(LintCode.CONSTRAINT, Severity.ERROR, "devices.constraints[1]"),
                    f"The claim needs 3 devices with the same {ROOT}; no node has more than 2 (node-a has).",
                ),
            ],
        ),
        (
            spec(exactly(1, LARGE), exactly(3, LARGE, name="b"), constraints=[{"requests": ["gpu"], **PCIE}]),
            {},
            [],
        ),
        (
            spec(exactly(1, LARGE), exactly(2, LARGE, name="b"), constraints=[PCIE]),
            {},
            [
                (
                    *(LintCode.CONSTRAINT, Severity.ERROR, "devices.constraints[0]"),
                    f"The claim needs 3 devices with the same {ROOT}; no node has more than 2 (node-a has).",
                )
            ],
        ),
        (spec(exactly(2, LARGE), constraints=[{"distinctAttribute": ROOT}]), {}, []),
        (spec(exactly(0, LARGE, allocationMode="All"), constraints=[PCIE]), {}, []),
        (spec(exactly(adminAccess=True)), {}, []),
        (
            spec(
                {
                    "name": "gpu",
                    "firstAvailable": [
                        {"name": "x", **ask(1, class_name="nobody")},
                        {"name": "y", **ask(5, LARGE)},
                        {"name": "z", **ask(1, "false")},
                    ],
                }
            ),
            {},
            [
                (
                    *(LintCode.CLASS_MISSING, Severity.ERROR),
                    "devices.requests[0].firstAvailable[0].deviceClassName",
                    "The cluster has no device class nobody.",
                ),
                (
                    *(LintCode.ALTERNATIVE_IDLE, Severity.NOTE, "devices.requests[0].firstAvailable[2]"),
                    "No device matches request gpu/z: of 6 in the cluster, 6 are in "
                    "class gpu.nvidia.com, and "
                    "the selector of request gpu/z accepts none of the 6 left.",
                ),
                (
                    LintCode.TOO_MANY,
                    Severity.ERROR,
                    "devices.requests[0].firstAvailable[1].count",
                    f"Request gpu/y {FIVE}",
                ),
            ],
        ),
    ],
)
def test_a_profile_has_just_these_findings(claim_spec, named, expected):
    assert rows(claim_spec, **named) == expected


def test_devices_that_every_node_reaches_are_counted_to_each():
    slices = [resource_slice("node-a", [gpu(0), gpu(1)]), resource_slice("p", [gpu(7)], allNodes=True)]
    assert rows(spec(exactly(3)), snapshot(slices)) == []
    assert [row[3] for row in rows(spec(exactly(4)), snapshot(slices))] == [
        "Request gpu needs 4 devices on one node; no node has more than 3 that match (node-a has)."
    ]
    assert [row[3] for row in rows(spec(exactly(2)), snapshot(slices[1:]))] == [
        "Request gpu needs 2 devices on one node; no node has more than 1 that match (any node has)."
    ]


def test_devices_of_several_drivers_in_one_class_are_a_warning():
    other = resource_slice("node-b", [gpu(0)], driver="gpu.amd.com", pool="p")
    seen = snapshot(
        [resource_slice("node-a", [gpu(0)]), other],
        classes=[{"metadata": {"name": "all"}, "spec": {}}, device_class()],
    )
    found = lint(seen, [NamedSpec("p", spec(exactly(1, class_name="all")))]).findings
    assert [(one.subject, one.name, one.code, one.severity, one.message) for one in found] == [
        (
            *("class", "all", LintCode.MATCHES_EVERYTHING, Severity.WARNING),
            "The class matches all 2 devices of 2 drivers: a claim can get any of them.",
        ),
        (
            *("profile", "p", LintCode.MATCHES_EVERYTHING, Severity.WARNING),
            "Request gpu matches all 2 devices of 2 drivers.",
        ),
    ]


def test_report_counts_matching_devices_per_spec():
    named = {
        "large": spec(exactly(1, LARGE)),
        "missing": spec(exactly(1, class_name="x")),
        "broken": spec(exactly(1, "device.name == 'x'")),
        "both": spec(exactly(1, LARGE), exactly(1, name="e")),
    }
    found = lint(fleet(), [NamedSpec(name, one) for name, one in named.items()])
    assert (found.matching, found.devices) == ({"large": 4, "missing": 0, "broken": None, "both": 6}, 6)
    assert lint(snapshot([]), [NamedSpec("p", spec(exactly(5)))]) == LintReport([], {}, 0)


def test_only_equal_requests_are_duplicates():
    other = MEMORY.format("70Gi")
    named = {
        "first": spec(exactly(2, LARGE)),
        "more": spec(exactly(3, other)),
        "bound": spec(exactly(2, other), constraints=[PCIE]),
        "tolerant": spec(exactly(2, other, tolerations=[{"operator": "Exists", "effect": "NoSchedule"}])),
        "named": spec(exactly(2, other, name="b")),
        "none": spec(exactly(2, "false")),
        "nothing": spec(exactly(2, "1 == 2")),
        "alike": spec(exactly(2, other)),
        "again": spec(exactly(2, LARGE)),
        "last": spec(exactly(3, other)),
    }
    found = lint(fleet(), [NamedSpec(name, one) for name, one in named.items()]).findings
    assert [(one.name, one.severity, one.message) for one in found if one.code.startswith("same")] == [
        (
            *("alike", Severity.NOTE),
            "The spec differs from that of first, but requests the same devices.",
        ),
        (
            *("again", Severity.WARNING),
            "The spec equals that of first.",
        ),
        (
            *("last", Severity.WARNING),
            "The spec equals that of more.",
        ),
    ]


def test_the_node_that_has_most_is_named_and_of_equals_the_last():
    def nodes(**counts):
        return snapshot(
            [resource_slice(f"node-{name}", [gpu(at) for at in range(many)]) for name, many in counts.items()]
        )

    said = "Request gpu needs 5 devices on one node; no node has more than {} that match (node-{} has)."
    for counts, most, name in (
        ({"a": 2, "b": 3}, 3, "b"),
        ({"a": 3, "b": 2}, 3, "a"),
        ({"a": 2, "b": 2}, 2, "b"),
    ):
        assert [row[3] for row in rows(spec(exactly(5)), nodes(**counts))] == [said.format(most, name)]


def test_a_constraint_over_several_requests_is_about_the_devices_of_all():
    devices = [gpu(at, memory="81559Mi" if at < 2 else "23034Mi") for at in range(6)]
    seen = snapshot([resource_slice(devices=devices)])
    same = {"matchAttribute": "gpu.nvidia.com/type"}
    claim_spec = spec(exactly(1, LARGE), exactly(5, MEMORY.format("20Gi"), name="b"), constraints=[same])
    assert [row[3] for row in rows(claim_spec, seen)] == []
    more = spec(exactly(2, LARGE), exactly(5, MEMORY.format("20Gi"), name="b"), constraints=[same])
    assert [row[3] for row in rows(more, seen)] == [
        "The claim needs 7 devices with the same gpu.nvidia.com/type; no node has more than 6 (node-a has)."
    ]
