"""What a claim costs: `dra.quota` says it, the quota controller counts it, and admission refuses by it."""

from collections.abc import Iterator

import httpx
import pytest

from demo.controlplane.client import Client, eventually
from dra.quota import charge, keys
from tests.scheduler.play import make, prepare, run, strike
from tests.scheduler.stage import Situation, Stage, devices

pytestmark = pytest.mark.controlplane

PART = "part.example.com"
WITHOUT_EFFECT = (
    "count/resourceclaims",
    "limits.example.com/gpu",
    "without-effect.example.com.resource.k8s.io/count",
    "without-effect.example.com.deviceclass.resource.k8s.io/gpus",
)


def exact_count(at: Stage) -> None:
    at.claim("wish", at.exactly(3))


def no_count(at: Stage) -> None:
    at.claim("wish", at.exactly())


def every_device(at: Stage) -> None:
    at.claim("wish", at.exactly(allocationMode="All"))


def every_device_for_an_administrator(at: Stage) -> None:
    at.allow_admin_access()
    at.claim("wish", at.exactly(allocationMode="All", adminAccess=True))


def a_share(at: Stage) -> None:
    at.claim("wish", at.exactly(capacity={"requests": {"memory": "10Gi"}}))


def several_requests(at: Stage) -> None:
    at.claim("wish", at.exactly(3), at.exactly(2, name="more"))


def alternatives_of_one_class(at: Stage) -> None:
    options = [{"name": "large", **at.asks(1)}, {"name": "pair", **at.asks(2)}]
    at.claim("wish", {"name": "gpu", "firstAvailable": options})


def alternatives_of_two_classes(at: Stage) -> None:
    at.device_class(PART)
    part = {"name": "part", **at.asks(allocationMode="All", klass=PART)}
    options = [{"name": "large", **at.asks(1)}, {"name": "pair", **at.asks(2)}, part]
    at.claim("wish", {"name": "gpu", "firstAvailable": options})


def an_extended_name(at: Stage) -> None:
    at.objects[0]["spec"]["extendedResourceName"] = "example.com/gpu"
    at.claim("wish", at.exactly(2))


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
    """A claim, and a quota that it fills to the brim."""

    def __init__(self, situation) -> None:
        stage = Stage(situation.__name__.replace("_", "-"))
        stage.device_class()
        situation(stage)
        self.claim = stage.objects.pop()
        self.cost = keys(self.claim["spec"], stage.objects)
        del self.cost["count/resourceclaims.resource.k8s.io"]  # all rows share a namespace
        stage.quota("full", **{key: str(cost) for key, cost in self.cost.items()})
        self.stage = stage


def comes_to(client: Client, stage: Stage, quota: str, expected: dict[str, int]) -> None:
    """Wait until the quota controller has counted this; before it has counted at all it says nothing."""

    def counted() -> bool:
        status = client.get("ResourceQuota", f"{stage.name}-{quota}", stage.namespace).get("status") or {}
        used = status.get("used") or {}
        return bool(used) and {key: int(used.get(key, 0)) for key in expected} == expected

    eventually(counted, subject=f"the quota of {stage.name} at {expected}")


def own(stage: Stage) -> str:
    return f"{stage.klass}.deviceclass.resource.k8s.io/devices"


def implicit(stage: Stage) -> str:
    return f"requests.deviceclass.resource.kubernetes.io/{stage.klass}"


@pytest.fixture(scope="module")
def admin(controlplane) -> Iterator[Client]:
    client: Client = controlplane.client()
    yield client
    strike(client)


@pytest.fixture(scope="module")
def rows(admin) -> dict[Situation, Row]:
    """All rows, each with a quota that is counted and a claim that it let through."""
    made = {situation: Row(situation) for situation in COSTS}
    make(admin, [row.stage for row in made.values()])
    for row in made.values():
        comes_to(admin, row.stage, "full", dict.fromkeys(row.cost, 0))
    for row in made.values():
        admin.create(row.claim)
    return made


@pytest.mark.parametrize("situation", COSTS, ids=lambda one: one.__name__.replace("_", "-"))
def test_a_claim_costs_what_was_foretold_and_a_second_is_refused(rows, admin, situation):
    row = rows[situation]
    assert tuple(charge(row.claim["spec"]).values()) == COSTS[situation]
    comes_to(admin, row.stage, "full", row.cost)
    second = row.claim | {"metadata": row.claim["metadata"] | {"name": f"{row.stage.name}-second"}}
    with pytest.raises(httpx.HTTPStatusError) as refusal:
        admin.create(second)
    assert refusal.value.response.status_code == 403
    amounts = ",".join(f"{key}={cost}" for key, cost in sorted(row.cost.items()))
    exceeded = f"requested: {amounts}, used: {amounts}, limited: {amounts}"
    said = refusal.value.response.json()["message"]
    assert said.endswith(f"is forbidden: exceeded quota: {row.stage.name}-full, {exceeded}")


def test_a_class_that_is_missing_is_charged_too(admin):
    stage = Stage("missing-class")
    stage.quota("both", **{own(stage): "9", implicit(stage): "9"})
    make(admin, [stage])
    comes_to(admin, stage, "both", {own(stage): 0, implicit(stage): 0})
    stage.claim("wish", stage.exactly(2))
    claim = admin.create(stage.objects[-1])
    cost = keys(claim["spec"], [])
    comes_to(admin, stage, "both", {key: cost[key] for key in (own(stage), implicit(stage))})


def test_a_template_costs_nothing_but_its_number(admin):
    stage = Stage("template-cost")
    stage.device_class()
    number = "count/resourceclaimtemplates.resource.k8s.io"
    stage.quota("all", **{own(stage): "1", number: "1"})
    make(admin, [stage])
    comes_to(admin, stage, "all", {own(stage): 0, number: 0})
    stage.template("each", stage.exactly(5))
    admin.create(stage.objects[-1])
    comes_to(admin, stage, "all", {own(stage): 0, number: 1})


def test_keys_that_are_accepted_without_effect_stay_at_nothing(admin):
    stage = Stage("without-effect")
    stage.device_class()
    stage.quota("odd", **dict.fromkeys(WITHOUT_EFFECT, "0") | {own(stage): "9"})
    make(admin, [stage])
    nothing = dict.fromkeys(WITHOUT_EFFECT, 0)
    comes_to(admin, stage, "odd", nothing | {own(stage): 0})
    stage.claim("wish", stage.exactly(2))
    admin.create(stage.objects[-1])
    comes_to(admin, stage, "odd", nothing | {own(stage): 2})


def test_a_pod_of_an_extended_resource_pays_once(admin):
    stage = Stage("extended-cost")
    stage.device_class(extendedResourceName=f"{stage.driver}/gpu")
    stage.slice(*devices("gpu-0"))
    stage.pod(resources={f"{stage.driver}/gpu": "1"}, gets=["gpu-0"])
    once = dict.fromkeys((own(stage), implicit(stage), f"requests.{stage.driver}/gpu"), 1)
    stage.quota("one", **dict.fromkeys(once, "1"))
    prepare(admin, [stage])
    comes_to(admin, stage, "one", dict.fromkeys(once, 0))
    (pod,) = run(admin, stage.pods)
    assert pod["spec"].get("nodeName"), pod["status"]
    comes_to(admin, stage, "one", once)
