"""
The quota charge of a claim: predicted by `dra.quota`, counted by the quota controller, enforced by admission.
"""

from collections.abc import Iterator

import httpx
import pytest

from demo.controlplane.client import Client, eventually
from dra.quota import charge, keys
from tests.scheduler.runner import create_objects, delete_all, prepare, run_pods
from tests.scheduler.scenario import Scenario, Situation, devices

pytestmark = pytest.mark.controlplane

PART = "part.example.com"
WITHOUT_EFFECT = (
    "count/resourceclaims",
    "limits.example.com/gpu",
    "without-effect.example.com.resource.k8s.io/count",
    "without-effect.example.com.deviceclass.resource.k8s.io/gpus",
)


def exact_count(scenario: Scenario) -> None:
    scenario.claim("claim", scenario.exactly(3))


def no_count(scenario: Scenario) -> None:
    scenario.claim("claim", scenario.exactly())


def every_device(scenario: Scenario) -> None:
    scenario.claim("claim", scenario.exactly(allocationMode="All"))


def every_device_for_an_administrator(scenario: Scenario) -> None:
    scenario.allow_admin_access()
    scenario.claim("claim", scenario.exactly(allocationMode="All", adminAccess=True))


def a_share(scenario: Scenario) -> None:
    scenario.claim("claim", scenario.exactly(capacity={"requests": {"memory": "10Gi"}}))


def several_requests(scenario: Scenario) -> None:
    scenario.claim("claim", scenario.exactly(3), scenario.exactly(2, name="more"))


def alternatives_of_one_class(scenario: Scenario) -> None:
    options = [{"name": "large", **scenario.exact_request(1)}, {"name": "pair", **scenario.exact_request(2)}]
    scenario.claim("claim", {"name": "gpu", "firstAvailable": options})


def alternatives_of_two_classes(scenario: Scenario) -> None:
    scenario.device_class(PART)
    part = {"name": "part", **scenario.exact_request(allocationMode="All", class_name=PART)}
    options = [
        {"name": "large", **scenario.exact_request(1)},
        {"name": "pair", **scenario.exact_request(2)},
        part,
    ]
    scenario.claim("claim", {"name": "gpu", "firstAvailable": options})


def an_extended_name(scenario: Scenario) -> None:
    scenario.objects[0]["spec"]["extendedResourceName"] = "example.com/gpu"
    scenario.claim("claim", scenario.exactly(2))


COSTS: dict[Situation, tuple[int, ...]] = {
    exact_count: (3,),
    no_count: (1,),
    every_device: (32,),
    every_device_for_an_administrator: (32,),
    a_share: (1,),
    several_requests: (5,),
    alternatives_of_one_class: (2,),
    alternatives_of_two_classes: (2, 32),  # the stage's class, and the one of parts
    an_extended_name: (2,),
}


class Row:
    """A claim, and a quota that it uses up."""

    def __init__(self, situation) -> None:
        scenario = Scenario(situation.__name__.replace("_", "-"))
        scenario.device_class()
        situation(scenario)
        self.claim = scenario.objects.pop()
        self.cost = keys(self.claim["spec"], scenario.objects)
        del self.cost["count/resourceclaims.resource.k8s.io"]  # all rows share a namespace
        scenario.quota("full", **{key: str(cost) for key, cost in self.cost.items()})
        self.scenario = scenario


def wait_for_use(client: Client, scenario: Scenario, quota: str, expected: dict[str, int]) -> None:
    """Wait until the quota controller has counted this; before its first count it reports nothing."""

    def counted() -> bool:
        status = (
            client.get("ResourceQuota", f"{scenario.name}-{quota}", scenario.namespace).get("status") or {}
        )
        used = status.get("used") or {}
        return bool(used) and {key: int(used.get(key, 0)) for key in expected} == expected

    eventually(counted, subject=f"the quota of {scenario.name} at {expected}")


def class_key(scenario: Scenario) -> str:
    return f"{scenario.class_name}.deviceclass.resource.k8s.io/devices"


def implicit_key(scenario: Scenario) -> str:
    return f"requests.deviceclass.resource.kubernetes.io/{scenario.class_name}"


@pytest.fixture(scope="module")
def admin(controlplane) -> Iterator[Client]:
    client: Client = controlplane.client()
    yield client
    delete_all(client)


@pytest.fixture(scope="module")
def rows(admin) -> dict[Situation, Row]:
    """All rows, each with a counted quota and an admitted claim."""
    charges = {situation: Row(situation) for situation in COSTS}
    create_objects(admin, [row.scenario for row in charges.values()])
    for row in charges.values():
        wait_for_use(admin, row.scenario, "full", dict.fromkeys(row.cost, 0))
    for row in charges.values():
        admin.create(row.claim)
    return charges


@pytest.mark.parametrize("situation", COSTS, ids=lambda one: one.__name__.replace("_", "-"))
def test_claim_is_charged_as_predicted_and_a_second_is_refused(rows, admin, situation):
    row = rows[situation]
    assert tuple(charge(row.claim["spec"]).values()) == COSTS[situation]
    wait_for_use(admin, row.scenario, "full", row.cost)
    second = row.claim | {"metadata": row.claim["metadata"] | {"name": f"{row.scenario.name}-second"}}
    with pytest.raises(httpx.HTTPStatusError) as refusal:
        admin.create(second)
    assert refusal.value.response.status_code == 403
    amounts = ",".join(f"{key}={cost}" for key, cost in sorted(row.cost.items()))
    exceeded = f"requested: {amounts}, used: {amounts}, limited: {amounts}"
    message = refusal.value.response.json()["message"]
    assert message.endswith(f"is forbidden: exceeded quota: {row.scenario.name}-full, {exceeded}")


def test_a_class_that_is_missing_is_charged_too(admin):
    scenario = Scenario("missing-class")
    scenario.quota("both", **{class_key(scenario): "9", implicit_key(scenario): "9"})
    create_objects(admin, [scenario])
    wait_for_use(admin, scenario, "both", {class_key(scenario): 0, implicit_key(scenario): 0})
    scenario.claim("claim", scenario.exactly(2))
    claim = admin.create(scenario.objects[-1])
    cost = keys(claim["spec"], [])
    wait_for_use(
        admin, scenario, "both", {key: cost[key] for key in (class_key(scenario), implicit_key(scenario))}
    )


def test_template_is_charged_only_for_its_number(admin):
    scenario = Scenario("template-cost")
    scenario.device_class()
    number = "count/resourceclaimtemplates.resource.k8s.io"
    scenario.quota("all", **{class_key(scenario): "1", number: "1"})
    create_objects(admin, [scenario])
    wait_for_use(admin, scenario, "all", {class_key(scenario): 0, number: 0})
    scenario.template("each", scenario.exactly(5))
    admin.create(scenario.objects[-1])
    wait_for_use(admin, scenario, "all", {class_key(scenario): 0, number: 1})


def test_keys_that_are_accepted_without_effect_stay_at_nothing(admin):
    scenario = Scenario("without-effect")
    scenario.device_class()
    scenario.quota("odd", **dict.fromkeys(WITHOUT_EFFECT, "0") | {class_key(scenario): "9"})
    create_objects(admin, [scenario])
    nothing = dict.fromkeys(WITHOUT_EFFECT, 0)
    wait_for_use(admin, scenario, "odd", nothing | {class_key(scenario): 0})
    scenario.claim("claim", scenario.exactly(2))
    admin.create(scenario.objects[-1])
    wait_for_use(admin, scenario, "odd", nothing | {class_key(scenario): 2})


def test_a_pod_of_an_extended_resource_pays_once(admin):
    scenario = Scenario("extended-cost")
    scenario.device_class(extendedResourceName=f"{scenario.driver}/gpu")
    scenario.slice(*devices("gpu-0"))
    scenario.pod(resources={f"{scenario.driver}/gpu": "1"}, gets=["gpu-0"])
    once = dict.fromkeys((class_key(scenario), implicit_key(scenario), f"requests.{scenario.driver}/gpu"), 1)
    scenario.quota("one", **dict.fromkeys(once, "1"))
    prepare(admin, [scenario])
    wait_for_use(admin, scenario, "one", dict.fromkeys(once, 0))
    (pod,) = run_pods(admin, scenario.pods)
    assert pod["spec"].get("nodeName"), pod["status"]
    wait_for_use(admin, scenario, "one", once)
