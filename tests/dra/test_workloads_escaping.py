"""Whatever somebody writes into the options, a manifest stays what it is, or the option is refused."""

import ast
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from dra import workloads
from dra.manifests import to_yaml
from dra.workload_parts import ASSUMED, IMAGES, LABEL, REFERENCE, SUBDOMAIN, TAINT, ClaimUse, WorkloadOptions
from tests.dra.test_workloads import MAKERS

KINDS = {
    "Pod", "Job", "Deployment", "StatefulSet", "Service", "NetworkPolicy", "Notebook", "PyTorchJob",
    "InferenceService",
}  # fmt: skip
TEXTS = ["image", "weights_image", "request", "priority", "weights_claim", "cuda"]
HOSTILE = st.text(st.sampled_from("ab\n\r\t\"'`$(){}[]#:&*!|>%@\\ é;,=/-._0"), min_size=1, max_size=20)


@pytest.mark.parametrize(
    ("field", "good", "among"),
    [
        ("image", "registry.example/own:1", "="),
        ("weights_image", "registry.example/weights:1", "="),
        ("request", "gpu", "="),
        ("priority", "high", "="),
        ("weights_claim", "models", "="),
        ("cuda", "12.9", "="),
        ("tolerate", "nvidia.com/gpu=present:NoSchedule", "@"),
        ("capacity", "karpenter.sh/capacity-type=spot", "@"),
    ],
)
def test_one_character_that_could_break_out_is_enough_to_be_refused(field, good, among):
    def options(text):
        values: dict[str, Any] = {field: (text,) if field == "tolerate" else text}
        return WorkloadOptions(**values)

    assert options(good)
    for character in f"\n\r\t\"'`$(){{}}[]#&*!|>%\\ é;,{among}":
        for text in (character + good, f"{good[0]}{character}{good[1:]}", good + character):
            with pytest.raises(ValueError, match=r"\.$"):
                options(text)


@given(text=HOSTILE, field=st.sampled_from(TEXTS))
def test_what_could_break_out_is_refused(text, field):
    try:
        WorkloadOptions(**{field: text})
    except ValueError:
        return
    assert not set(text) & set("\n\r\t\"'`$(){}[]#&*!|>%\\ é;,="), text


@given(text=HOSTILE)
def test_taints_and_labels_that_could_break_out_are_refused(text):
    for chosen in ({"tolerate": (text,)}, {"capacity": text}):
        try:
            WorkloadOptions(**chosen)
        except ValueError:
            continue
        assert not set(text) & set("\n\r\t\"'`$(){}[]#&*!|>%@\\ é;,"), text


@pytest.mark.parametrize(
    "chosen",
    [
        {"image": "a" * 513},
        {"pods": -1},
        {"pods": 1025},
        {"completions": 100_001},
        {"port": 65_536},
        {"weights_claim": "a", "weights_image": "b"},
    ],
)
def test_what_cannot_be_is_refused(chosen):
    with pytest.raises(ValueError, match=r"\.$"):
        WorkloadOptions(**chosen)


def texts(shape, longest=40):
    return st.just("") | st.from_regex(shape, fullmatch=True).filter(lambda text: len(text) <= longest)


OPTIONS = st.builds(
    WorkloadOptions,
    image=texts(REFERENCE),
    request=st.sampled_from(["", "gpu"]),
    pods=st.integers(0, 1024),
    completions=st.integers(0, 100_000),
    port=st.integers(0, 65_535),
    priority=texts(SUBDOMAIN),
    tolerate=st.lists(st.from_regex(TAINT, fullmatch=True), max_size=3).map(tuple),
    capacity=st.sampled_from(["", ASSUMED]) | st.from_regex(LABEL, fullmatch=True),
    restricted=st.booleans(),
    isolated=st.booleans(),
    weights_claim=texts(SUBDOMAIN),
    cuda=st.just("12.9"),
)
USES = st.builds(
    ClaimUse,
    name=st.from_regex(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?", fullmatch=True).filter(str.isascii),
    namespace=st.just("vision"),
    template=st.booleans(),
    parallel=st.integers(1, 1024),
    requests=st.sampled_from([(("gpu", 2),), (("gpu", None),), (("gpu", 4), ("nic", 1))]),
    vendor=st.sampled_from(sorted(IMAGES)),
)


@given(use=USES, options=OPTIONS, make=st.sampled_from(list(MAKERS.values())))
def test_whatever_is_chosen_the_yaml_reads_back_as_it_was_made(use, options, make):
    made = make(use, options)
    assert list(yaml.safe_load_all(to_yaml(*made))) == made
    for one in made:
        assert one["kind"] in KINDS
        assert set(one) == {"apiVersion", "kind", "metadata", "spec"}
        assert one["metadata"]["namespace"] == "vision"
        assert len(one["metadata"]["name"]) <= 52


@given(use=USES, options=OPTIONS)
def test_whatever_is_chosen_the_hub_only_sets_traits(use, options):
    values = yaml.safe_load(to_yaml(workloads.values(use, options)))
    assert set(values) == {"singleuser", "hub"}
    for text in (workloads.config(use, options), values["hub"]["extraConfig"]["gpu-claim"]):
        for statement in ast.parse(text).body:
            target = statement.targets[0] if isinstance(statement, ast.Assign) else statement.value.func.value
            assert ast.unparse(target).startswith("c.KubeSpawner.")
            value = statement.value if isinstance(statement, ast.Assign) else statement.value.args[0]
            ast.literal_eval(value)
