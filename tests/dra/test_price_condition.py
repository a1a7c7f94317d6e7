"""Conditions of rates: what they read, what they say of a mistake, and which labels count."""

import pytest

from dra.cel import CompileError, EvaluationError, NotPreviewable
from dra.price_condition import compile_condition
from dra.price_facts import PriceFacts, capacity_type, labels_key, shared_labels

ZONE = "topology.kubernetes.io/zone"
MIG = PriceFacts(
    "fra-1", "gpu.nvidia.com", "NVIDIA A100-SXM4-80GB", "1g.10gb", "spot", {ZONE: "eu-1a", "tier": "gold"}
)


@pytest.mark.parametrize(
    ("expression", "holds"),
    [
        ('device.capacityType == "spot"', True),
        ('device.capacityType == "on-demand"', False),
        ('device.partition.startsWith("1g.") && device.driver == "gpu.nvidia.com"', True),
        ('device.product.matches("A100.*80GB") && device.cluster == "fra-1"', True),
        (f'device.nodeLabels["{ZONE}"] == "eu-1a"', True),
        ('device.nodeLabels.tier in ["gold", "silver"]', True),
        ('"tier" in device.nodeLabels', True),
        ("has(device.nodeLabels.team)", False),
        ('device.nodeLabels[?"team"].orValue("none") == "none"', True),
        ('device.nodeLabels.exists(name, name.startsWith("topology."))', True),
        ('device.nodeLabels["team"] == "vision" || device.capacityType == "spot"', True),
    ],
)
def test_condition_reads_the_device_and_its_node(expression, holds):
    assert compile_condition(expression).holds(MIG) is holds


def test_label_that_the_node_lacks_is_a_failure_with_its_name():
    with pytest.raises(EvaluationError, match="no such key: team"):
        compile_condition('device.nodeLabels["team"] == "vision"').holds(MIG)


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        ("device.product", "must evaluate to bool, not string"),
        ('device.attributes["gpu.nvidia.com"].productName == "x"', "undefined field 'attributes'"),
        ("device.product == 1", "found no matching overload"),
        ("device.product ==", "Syntax error"),
        ("node.labels.tier == 'gold'", "undeclared reference to 'node'"),
        ("x" * 10_241, "may not be more than 10240 bytes"),
    ],
)
def test_mistake_is_refused_in_the_words_of_the_api_server(expression, message):
    with pytest.raises(CompileError, match=message):
        compile_condition(expression)


def test_condition_that_may_take_too_long_is_refused():
    loops = "device.nodeLabels.all(a, device.nodeLabels.all(b, device.nodeLabels.all(c, {}))))"
    with pytest.raises(CompileError, match="too complex"):
        compile_condition(loops.format('a.matches("x.*y" + b + c'))


def test_steps_on_one_device_are_limited():
    many = PriceFacts("a", "b", "c", node_labels={f"label-{number}": "x" for number in range(400)})
    with pytest.raises(NotPreviewable, match="steps on one device"):
        compile_condition(
            "device.nodeLabels.all(a, device.nodeLabels.all(b, a.size() + b.size() > 0))"
        ).holds(many)


def test_labels_of_one_node_or_moment_do_not_count():
    labels = {
        "kubernetes.io/hostname": "node-7", "example.org/machine": "node-7",
        "nvidia.com/gfd.timestamp": "1769000000", "tier": "gold",
    }  # fmt: skip
    assert shared_labels(labels, "node-7") == {"tier": "gold"}
    other = labels | {"kubernetes.io/hostname": "node-8", "example.org/machine": "node-8"}
    assert labels_key(labels, "node-7") == labels_key(other, "node-8")
    assert labels_key(labels, "node-7") != labels_key(labels | {"tier": "iron"}, "node-7")


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        ({}, "on-demand"),
        ({"karpenter.sh/capacity-type": "spot"}, "spot"),
        ({"eks.amazonaws.com/capacityType": "CAPACITY_BLOCK"}, "reserved"),
        ({"cloud.google.com/gke-spot": "true"}, "spot"),
    ],
)
def test_capacity_type_comes_from_the_labels_of_clouds(labels, expected):
    assert capacity_type(labels) == expected
