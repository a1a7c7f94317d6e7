"""Workloads that use a claim: what each asks for, and that no option can break out of any."""

import ast
from itertools import chain

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from dra import workloads
from dra.manifests import to_yaml
from dra.workloads import ASSUMED, Options, Use, hub
from dra.workloads.images import IMAGES
from dra.workloads.use import LABEL, REFERENCE, SUBDOMAIN, TAINT

MAKERS = {
    "Pod": workloads.pod,
    "Job": workloads.job,
    "Deployment": workloads.deployment,
    "StatefulSet": workloads.stateful_set,
    "Jupyter": workloads.jupyter,
    "Triton": workloads.triton,
    "vLLM": workloads.vllm,
    "Notebook": workloads.notebook,
    "PyTorchJob": workloads.pytorch_job,
    "InferenceService": workloads.inference_service,
}
NAMED = Use("sam2", "vision", requests=(("gpu", 2),), maker="nvidia")
TEMPLATE = Use("sweep", "vision", template=True, parallel=3, requests=(("gpu", 2),), maker="nvidia")
KINDS = {
    "Pod", "Job", "Deployment", "StatefulSet", "Service", "NetworkPolicy", "Notebook", "PyTorchJob",
    "InferenceService",
}  # fmt: skip
every_maker = pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)


def pods_in(content):
    """Yield every pod spec of a document, wherever it stands."""
    if isinstance(content, dict):
        if "containers" in content:
            yield content
        for inner in content.values():
            yield from pods_in(inner)


def specs(make, use=NAMED, **options):
    return list(chain.from_iterable(map(pods_in, make(use, Options(**options)))))


@every_maker
@pytest.mark.parametrize("use", [NAMED, TEMPLATE], ids=["named", "template"])
def test_every_pod_names_the_claim_and_its_container_wants_it(make, use):
    source = "resourceClaimTemplateName" if use.template else "resourceClaimName"
    for spec in specs(make, use):
        assert spec["resourceClaims"] == [{"name": "gpu", source: use.name}]
        assert [one["resources"] for one in spec["containers"]] == [{"claims": [{"name": "gpu"}]}]


@every_maker
def test_the_container_sees_one_request_if_one_is_chosen(make):
    for spec in specs(make, request="gpu"):
        assert spec["containers"][0]["resources"]["claims"] == [{"name": "gpu", "request": "gpu"}]


@every_maker
def test_every_pod_is_restricted_unless_the_image_decides(make):
    for spec in specs(make):
        assert spec["securityContext"]["runAsNonRoot"] is True
        assert spec["securityContext"]["runAsUser"] > 0
        assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        assert spec["containers"][0]["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
        }
    for spec in specs(make, restricted=False):
        assert "securityContext" not in spec
        assert "securityContext" not in spec["containers"][0]


@every_maker
def test_placement_goes_into_every_pod(make):
    chosen = {"tolerate": ("gpu=yes:NoSchedule", "spot:NoExecute"), "priority": "low"}
    for spec in specs(make, capacity="karpenter.sh/capacity-type=spot", **chosen):
        assert spec["priorityClassName"] == "low"
        assert spec["nodeSelector"] == {"karpenter.sh/capacity-type": "spot"}
        assert spec["tolerations"] == [
            {"key": "gpu", "operator": "Equal", "value": "yes", "effect": "NoSchedule"},
            {"key": "spot", "operator": "Exists", "effect": "NoExecute"},
        ]
    for spec in specs(make, capacity=ASSUMED):
        (term,) = spec["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"][
            "nodeSelectorTerms"
        ]
        assert {one["operator"] for one in term["matchExpressions"]} == {"NotIn"}


@every_maker
@pytest.mark.parametrize("source", ["weights_claim", "weights_image"])
def test_weights_are_mounted_for_reading_only(make, source):
    for spec in specs(make, **{source: "models"}):
        volume = next(one for one in spec["volumes"] if one["name"] == "models")
        if source == "weights_claim":
            assert volume["persistentVolumeClaim"] == {"claimName": "models", "readOnly": True}
        else:
            assert volume["image"]["reference"] == "models"
        assert {"name": "models", "mountPath": "/models", "readOnly": True} in spec["containers"][0][
            "volumeMounts"
        ]


@every_maker
def test_an_own_image_is_run(make):
    for spec in specs(make, image="example.org/own:1"):
        assert [one["image"] for one in spec["containers"]] == ["example.org/own:1"]


@pytest.mark.parametrize("maker", IMAGES)
def test_each_maker_has_an_image_and_a_command(maker):
    (made,) = workloads.pod(Use("a", "b", maker=maker), Options())
    (container,) = made["spec"]["containers"]
    assert container["image"]
    assert IMAGES[maker].look in container["command"][2]


def test_a_job_is_indexed_and_holds_a_claim_for_each_pod_at_once():
    (made,) = workloads.job(TEMPLATE, Options(completions=10))
    assert made["spec"]["completionMode"] == "Indexed"
    assert (made["spec"]["parallelism"], made["spec"]["completions"]) == (3, 10)
    (alone,) = workloads.job(NAMED, Options())
    assert (alone["spec"]["parallelism"], alone["spec"]["completions"]) == (1, 1)
    (more,) = workloads.job(NAMED, Options(pods=4))
    assert (more["spec"]["parallelism"], more["spec"]["completions"]) == (4, 4)


@pytest.mark.parametrize("make", [workloads.deployment, workloads.vllm, workloads.triton])
def test_a_deployment_never_wants_one_claim_more_than_granted(make):
    made = make(TEMPLATE, Options())[0]
    assert made["spec"]["replicas"] == 3
    assert made["spec"]["strategy"]["rollingUpdate"] == {"maxSurge": 0, "maxUnavailable": 1}
    assert (
        made["spec"]["selector"]["matchLabels"].items()
        <= made["spec"]["template"]["metadata"]["labels"].items()
    )


@pytest.mark.parametrize(
    ("make", "ports"),
    [(workloads.jupyter, [8888]), (workloads.vllm, [8000]), (workloads.triton, [8000, 8001, 8002])],
)
def test_a_server_has_a_service_and_closed_it_opens_its_ports_alone(make, ports):
    made = {one["kind"]: one for one in make(NAMED, Options(isolated=True))}
    assert [port["port"] for port in made["Service"]["spec"]["ports"]] == ports
    policy = made["NetworkPolicy"]["spec"]
    assert policy["policyTypes"] == ["Ingress", "Egress"]
    assert [[port["port"] for port in rule["ports"]] for rule in policy["ingress"]] == [ports]
    assert {port["port"] for rule in policy["egress"] for port in rule["ports"]} == {53}
    assert "NetworkPolicy" not in {one["kind"] for one in make(NAMED, Options())}


def test_a_policy_is_for_the_pods_beside_it():
    labels = {"Notebook": "notebook-name", "InferenceService": "serving.kserve.io/inferenceservice"}
    for name, make in MAKERS.items():
        made = make(NAMED, Options(isolated=True))
        (policy,) = [one for one in made if one["kind"] == "NetworkPolicy"]
        label = labels.get(name, "app.kubernetes.io/name")
        assert policy["spec"]["podSelector"]["matchLabels"] == {label: made[0]["metadata"]["name"]}


def test_a_port_of_ones_own_makes_a_service():
    assert [one["kind"] for one in workloads.deployment(NAMED, Options())] == ["Deployment"]
    _made, service = workloads.deployment(NAMED, Options(image="a/b:1", port=9000))
    assert service["spec"]["ports"] == [{"name": "http", "port": 9000, "targetPort": 9000}]
    made, headless = workloads.stateful_set(NAMED, Options())
    assert headless["spec"]["clusterIP"] == "None"
    assert made["spec"]["serviceName"] == headless["metadata"]["name"]


def test_vllm_spreads_over_the_devices_of_one_claim_where_their_number_is_known():
    def command(use, **options):
        return specs(workloads.vllm, use, **options)[0]["containers"][0]["command"]

    assert "--tensor-parallel-size=2" in command(NAMED)
    several = Use("a", "b", requests=(("gpu", 4), ("nic", 1)), maker="nvidia")
    assert not any("tensor" in word for word in command(several))
    assert "--tensor-parallel-size=4" in command(several, request="gpu")
    assert command(NAMED, weights_claim="qwen")[2] == "/models"


def test_a_pytorch_job_has_a_master_and_the_other_pods_as_workers():
    made = workloads.pytorch_job(TEMPLATE, Options())[0]
    replicas = made["spec"]["pytorchReplicaSpecs"]
    assert {name: one["replicas"] for name, one in replicas.items()} == {"Master": 1, "Worker": 2}
    assert made["spec"]["nprocPerNode"] == "2"
    assert set(workloads.pytorch_job(NAMED, Options())[0]["spec"]["pytorchReplicaSpecs"]) == {"Master"}


def test_a_service_is_named_with_a_letter_first():
    made = workloads.jupyter(Use("7b-" + "x" * 60, "vision"), Options())
    names = {one["metadata"]["name"] for one in made}
    assert len(names) == 1
    (name,) = names
    assert name[0].isalpha()
    assert len(name) <= 52


def test_jupyterhub_is_told_in_python_and_in_values_the_same():
    chosen = Options(priority="low", capacity=ASSUMED, tolerate=("gpu:NoSchedule",), weights_claim="qwen")
    python = hub.config(TEMPLATE, chosen)
    assert "'resourceClaimTemplateName': 'sweep'" in python
    calls = [node.value.func.attr for node in ast.parse(python).body if isinstance(node, ast.Expr)]
    assert calls == ["update", "update", "extend", "extend", "extend", "extend"]
    values = hub.values(TEMPLATE, chosen)
    inside = values["hub"]["extraConfig"]["gpu-claim"]
    assert inside in python
    assert values["singleuser"]["storage"]["extraVolumes"][0]["name"] == "models"


@pytest.mark.parametrize(
    ("image", "name", "tag"),
    [
        ("registry:5000/a/b:1", "registry:5000/a/b", "1"),
        ("registry:5000/a/b", "registry:5000/a/b", "latest"),
        ("a/b@sha256:0f", "a/b@sha256", "0f"),
    ],
)
def test_the_chart_gets_name_and_tag_apart(image, name, tag):
    assert hub.values(NAMED, Options(image=image))["singleuser"]["image"] == {"name": name, "tag": tag}


TEXTS = ["image", "weights_image", "request", "priority", "weights_claim", "cuda"]
HOSTILE = st.text(st.sampled_from("ab\n\r\t\"'`$(){}[]#:&*!|>%@\\ é;,=/-._0"), min_size=1, max_size=20)


@given(text=HOSTILE, field=st.sampled_from(TEXTS))
def test_what_could_break_out_is_refused(text, field):
    try:
        Options(**{field: text})
    except ValueError:
        return
    assert not set(text) & set("\n\r\t\"'`$(){}[]#&*!|>%\\ é;,="), text


@given(text=HOSTILE)
def test_taints_and_labels_that_could_break_out_are_refused(text):
    for chosen in ({"tolerate": (text,)}, {"capacity": text}):
        try:
            Options(**chosen)
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
        Options(**chosen)


def texts(shape, longest=40):
    return st.just("") | st.from_regex(shape, fullmatch=True).filter(lambda text: len(text) <= longest)


OPTIONS = st.builds(
    Options,
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
    Use,
    name=st.from_regex(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?", fullmatch=True).filter(str.isascii),
    namespace=st.just("vision"),
    template=st.booleans(),
    parallel=st.integers(1, 1024),
    requests=st.sampled_from([(("gpu", 2),), (("gpu", None),), (("gpu", 4), ("nic", 1))]),
    maker=st.sampled_from(sorted(IMAGES)),
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
    values = yaml.safe_load(to_yaml(hub.values(use, options)))
    assert set(values) == {"singleuser", "hub"}
    for text in (hub.config(use, options), values["hub"]["extraConfig"]["gpu-claim"]):
        for statement in ast.parse(text).body:
            target = statement.targets[0] if isinstance(statement, ast.Assign) else statement.value.func.value
            assert ast.unparse(target).startswith("c.KubeSpawner.")
            value = statement.value if isinstance(statement, ast.Assign) else statement.value.args[0]
            ast.literal_eval(value)
