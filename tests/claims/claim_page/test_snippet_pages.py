"""The manifests on the page of a claim, with tabs, options, checks and files."""

import ast
from html import unescape

import pytest
import yaml
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils.html import strip_tags

from claims.models import Delivery
from claims.states import ClaimState
from cluster.protocol import OPTIONAL
from demo.controlplane import machines
from inventory import cluster_snapshot
from inventory.models import Cluster, ResourceSlice
from tests.claims.published import mirrored
from tests.factories import make_claim, make_spec

pytestmark = pytest.mark.django_db

SPOT = {"karpenter.sh/capacity-type": "spot"}
TAINT = {"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}


@pytest.fixture
def fleet(fra):
    """Eight H100 on a tainted spot node, eight on another, and four A100."""
    mirrored(
        fra,
        *machines.h100("h100-a"),
        *machines.h100("h100-b"),
        *machines.a100("a100-a"),
        nodes=[("h100-a", SPOT, [TAINT]), ("h100-b", {}, []), ("a100-a", {}, [])],
    )
    yield fra
    cluster_snapshot.forget()


@pytest.fixture
def claim(vision, fra, train, alice):
    return make_claim(vision, by=alice, cluster=fra, name="sam2", devices=2)


@pytest.fixture
def shown(client, alice, claim):
    """Return what alice sees of the claim with these options."""
    client.force_login(alice)

    def get(query="", of=claim):
        return client.get(reverse("claims:detail", args=[of.pk]) + query).text

    return get


def part(claim, key):
    return reverse("claims:snippet", args=[claim.pk, key])


def served(cluster):
    kinds = [f"{kind.api_version}/{kind.plural}" for kind in OPTIONAL]
    Cluster.objects.filter(pk=cluster.pk).update(discovery={"kinds": kinds})


def document(client, claim, key, **options):
    answer = client.get(reverse("claims:snippet_file", args=[claim.pk, key]), options)
    assert answer.status_code == 200
    return list(yaml.safe_load_all(answer.text))


def test_tabs_group_snippets_by_use(shown, fleet):
    page = shown()
    for title in ("Run", "Notebook", "Serve", "Command line", "Pod", "Job", "Deployment", "StatefulSet"):
        assert f">{title}</a>" in page
    assert ">vLLM</a>" not in page
    assert ">Triton</a>" in shown("?snippet=vllm")


def test_operator_kinds_need_cluster_support(shown, fleet):
    assert ">Train</a>" not in shown()
    served(fleet)
    assert ">Train</a>" in shown()
    assert ">KServe InferenceService</a>" in shown("?snippet=vllm")
    assert ">Kubeflow Notebook</a>" in shown("?snippet=jupyter")


def test_options_change_manifests_and_stay_in_addresses(client, shown, claim, fleet):
    options = {
        "image": "example.org/own:1",
        "priority": "low",
        "tolerate": "nvidia.com/gpu=present:NoSchedule",
    }
    page = shown(
        "?snippet=job&image=example.org/own:1&priority=low&tolerate=nvidia.com/gpu%3Dpresent:NoSchedule"
    )
    assert "?snippet=pod&amp;image=example.org%2Fown%3A1&amp;" in page
    assert 'value="example.org/own:1"' in page
    (job,) = document(client, claim, "job", **options)
    inside = job["spec"]["template"]["spec"]
    assert inside["containers"][0]["image"] == "example.org/own:1"
    assert inside["priorityClassName"] == "low"
    assert inside["tolerations"][0]["value"] == "present"


def test_snippet_part_updates_address_without_empty_options(client, shown, claim, fleet):
    shown()
    answer = client.get(
        reverse("claims:snippet_options", args=[claim.pk]),
        {"snippet": "job", "image": "a/b:1", "priority": "", "security": "restricted", "network": "open"},
    )
    assert "<html" not in answer.text
    assert answer.headers["HX-Replace-Url"] == f"/claims/{claim.pk}/?snippet=job&image=a%2Fb%3A1"


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("image=a%22b", "Enter an image like"),
        ("image=a%0Ab", "Enter an image like"),
        ("priority=Not+A+Name", "Use lower-case letters"),
        ("cuda=twelve", "Enter a version like 12.9."),
        ("pods=0", "greater than or equal to 1"),
        ("port=70000", "less than or equal to 65535"),
        ("capacity=nonsense", "Select a valid choice"),
        ("tolerate=nonsense", "Select a valid choice"),
        ("weights_claim=a&weights_image=b", "not both"),
    ],
)
def test_invalid_option_is_explained_and_ignored(client, shown, claim, fleet, query, words):
    page = shown(f"?{query}")
    assert "Shown with default options:" in page
    assert words in page
    address = reverse("claims:snippet_file", args=[claim.pk, "pod"])
    assert client.get(f"{address}?{query}").status_code == 404
    assert f'href="{address}"' in page  # the shown file, with default options
    assert client.get(address).status_code == 200


def test_template_snippet_is_limited_to_approved_pods(vision, fra, train, alice, shown, fleet):
    sweep = make_claim(vision, by=alice, cluster=fra, delivery=Delivery.TEMPLATE, parallel=3, name="sweep")
    assert "The claim was approved for 3 concurrent pods, not 4." in shown("?pods=4", of=sweep)
    page = shown("?snippet=deployment", of=sweep)
    assert "Template: each pod gets its own claim; at most 3 may exist at once." in page


def test_named_claim_snippet_notes_sharing(shown, fleet):
    page = shown("?snippet=deployment")
    assert '<span class="c"># Named claim: all pods share the devices of sam2. More pods do' in page


def test_node_options_show_number_of_nodes(shown, fleet):
    page = shown()
    assert "Spot: 1 node, karpenter.sh/capacity-type=spot" in page
    assert "On-demand (assumed): 2 nodes" in page
    assert "nvidia.com/gpu=present:NoSchedule on 1 of 3 nodes" in page
    assert "2 of 3 nodes with matching devices accept these pods (taints and labels)." in page
    assert "3 of 3 nodes" in shown("?tolerate=nvidia.com/gpu%3Dpresent:NoSchedule")
    assert "0 of 3 nodes" in shown("?capacity=karpenter.sh/capacity-type%3Dspot")


def test_assumed_on_demand_is_noted_in_manifest(shown, fleet):
    page = shown("?capacity=assumed")
    assert "On-demand is assumed" in page
    assert "nodeAffinity" in page


def test_cuda_of_image_tag_is_checked_against_devices(shown, fleet):
    assert "CUDA 12.9 runs: the driver 580.95.5 supports CUDA 13.0." in shown(
        "?image=nvidia/cuda:12.9.1-base"
    )
    page = shown("?image=a/b:1&cuda=14.0")
    assert "CUDA 14.0 probably fails" in page
    assert "20 matching devices" in page
    assert "minor version compatibility" in shown("?cuda=13.2")
    assert "probably fails" not in shown("?image=a/b:1")


def test_mixed_fleet_shows_all_cuda_verdicts(shown, fra):
    old = machines.a100("a100-a")
    for device in old[0]["spec"]["devices"]:
        device["attributes"]["cudaDriverVersion"] = {"version": "12.4.0"}
    mirrored(fra, *machines.h100("h100-a"), *old, nodes=[("h100-a", {}, []), ("a100-a", {}, [])])
    page = shown("?cuda=13.0")
    assert page.index("CUDA 13.0 probably fails") < page.index("CUDA 13.0 runs")
    assert "4 matching devices" in page
    assert "8 matching devices" in page


def test_cuda_check_without_attributes_is_unknown(shown, fra):
    bare = machines.h100("h100-a")
    for device in bare[0]["spec"]["devices"]:
        for name in ("cudaDriverVersion", "driverVersion", "cudaComputeCapability"):
            del device["attributes"][name]
    mirrored(fra, *bare, nodes=[("h100-a", {}, [])])
    assert "publishes neither its driver version nor its CUDA version" in shown("?cuda=13.0")


def test_devices_of_another_vendor_get_other_images_and_no_cuda(client, vision, fra, train, alice, shown):
    mirrored(fra, *machines.mi300x("mi300x-a"), nodes=[("mi300x-a", {}, [])])
    spec = make_spec(1, "gpu.amd.com")
    amd = make_claim(vision, by=alice, cluster=fra, name="amd", spec=spec)
    page = shown("?snippet=vllm&cuda=13.0", of=amd)
    assert "docker.io/rocm/vllm" in page
    assert "probably fails" not in page
    assert ">Triton</a>" not in page
    assert "rocm-smi" in document(client, amd, "pod")[0]["spec"]["containers"][0]["command"][2]


def test_without_matching_device_the_image_is_noted_as_default(shown):
    assert "No device matches now." in shown()


def test_container_can_use_one_of_several_requests(client, vision, fra, train, alice, shown, fleet):
    spec = make_spec(1)
    spec["devices"]["requests"].append(
        {"name": "nic", "exactly": {"deviceClassName": "gpu.nvidia.com", "count": 1}}
    )
    both = make_claim(vision, by=alice, cluster=fra, name="both", spec=spec)
    assert "Device request of the container" in shown(of=both)
    (pod,) = document(client, both, "pod", request="nic")
    assert pod["spec"]["containers"][0]["resources"]["claims"] == [{"name": "gpu", "request": "nic"}]
    assert "Device request of the container" not in shown()


@pytest.mark.parametrize("key", ["pod", "vllm", "jupyterhub", "jupyterhub-config", "kubectl", "notebook"])
def test_snippet_file_has_text_of_page(client, shown, claim, fleet, key):
    shown()
    answer = client.get(reverse("claims:snippet_file", args=[claim.pk, key]))
    ending = {"kubectl": "sh", "notebook": "py", "jupyterhub-config": "py"}.get(key, "yaml")
    assert answer.headers["Content-Disposition"] == f'attachment; filename="sam2-{key}.{ending}"'
    if ending == "py":
        assert ast.parse(answer.text).body
    if ending == "yaml":
        assert all(yaml.safe_load_all(answer.text))
    page = client.get(part(claim, key)).text
    assert answer.text.strip() in unescape(strip_tags(page))


@pytest.mark.parametrize("name", ["snippet", "snippet_file"])
def test_unknown_snippet_and_outsider_are_404(client, alice, eve, bob, claim, fleet, name):
    address = reverse(f"claims:{name}", args=[claim.pk, "pod"])
    client.force_login(alice)
    assert client.get(reverse(f"claims:{name}", args=[claim.pk, "cobol"])).status_code == 404
    assert client.get(reverse(f"claims:{name}", args=[claim.pk, "pytorchjob"])).status_code == 404
    client.force_login(bob)  # a viewer reads
    assert client.get(address).status_code == 200
    client.force_login(eve)
    assert client.get(address).status_code == 404
    assert client.get(reverse("claims:snippet_options", args=[claim.pk])).status_code == 404


def test_closed_claim_has_no_snippets(vision, fra, alice, shown, fleet):
    over = make_claim(vision, by=alice, cluster=fra, name="over", state=ClaimState.RELEASED)
    assert 'id="snippets"' in shown()
    assert 'id="snippets"' not in shown(of=over)


def test_number_of_devices_does_not_change_number_of_queries(client, alice, claim, fra):
    client.force_login(alice)

    def cost():
        client.get(part(claim, "pod"))
        with CaptureQueriesContext(
            connection,
        ) as queries:
            client.get(part(claim, "pod"))
        return len(queries)

    mirrored(fra, *machines.example("example-a"))
    few = cost()
    for number in range(20):
        name = f"node-{number}"
        one = machines.h100(name)[0]
        ResourceSlice.objects.create(
            cluster=fra, uid=name, name=name, raw=one, driver=machines.NVIDIA, pool=name,
            generation=1, pool_slices=1, node_name=name,
        )  # fmt: skip
    cluster_snapshot.forget()
    assert cost() == few
