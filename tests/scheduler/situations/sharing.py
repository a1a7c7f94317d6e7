"""Devices that are taken in shares (consumable capacity)."""

from tests.scheduler.scenario import Json, Scenario, device

RANGE = {"default": "1Gi", "validRange": {"min": "1Gi", "max": "16Gi", "step": "1Gi"}}
VALUES = {"default": "5Gi", "validValues": ["5Gi", "10Gi", "20Gi"]}


def _shareable(name: str, memory: str = "23028Mi", policy: Json | None = None, **attributes: str) -> Json:
    capacity = {"memory": {"value": memory} | ({"requestPolicy": policy} if policy else {})}
    return device(name, capacity, raw={"allowMultipleAllocations": True}, **attributes)


def _memory(amount: str) -> Json:
    return {"requests": {"memory": amount}}


def the_default_share(scenario: Scenario) -> None:
    scenario.class_and_slice(_shareable("gpu-0", policy=RANGE))
    scenario.claim("claim", scenario.exactly())
    scenario.pod("claim", gets=["gpu-0"])


def a_share_of_everything(scenario: Scenario) -> None:
    scenario.class_and_slice(_shareable("gpu-0"))
    scenario.claim("claim", scenario.exactly())
    scenario.pod("claim", gets=["gpu-0"])


def a_share_as_asked(scenario: Scenario) -> None:
    scenario.class_and_slice(_shareable("gpu-0"))
    scenario.claim("claim", scenario.exactly(capacity=_memory("10Gi")))
    scenario.pod("claim", gets=["gpu-0"])


def a_share_in_steps(scenario: Scenario) -> None:
    scenario.class_and_slice(_shareable("gpu-0", policy=RANGE))
    scenario.claim("claim", scenario.exactly(capacity=_memory("2500Mi")))
    scenario.pod("claim", gets=["gpu-0"])


def a_share_below_the_least(scenario: Scenario) -> None:
    scenario.class_and_slice(_shareable("gpu-0", policy=RANGE))
    scenario.claim("claim", scenario.exactly(capacity=_memory("1Mi")))
    scenario.pod("claim", gets=["gpu-0"])


def a_share_above_the_most(scenario: Scenario) -> None:
    scenario.class_and_slice(_shareable("gpu-0", policy=RANGE))
    scenario.claim("claim", scenario.exactly(capacity=_memory("17Gi")))
    scenario.pod("claim")


def a_share_of_a_valid_value(scenario: Scenario) -> None:
    scenario.class_and_slice(_shareable("gpu-0", policy=VALUES))
    scenario.claim("claim", scenario.exactly(capacity=_memory("6Gi")))
    scenario.pod("claim", gets=["gpu-0"])


def a_share_in_fractions(scenario: Scenario) -> None:
    policy = {"default": "250m", "validRange": {"min": "250m", "max": "2", "step": "250m"}}
    capacity = {"cores": {"value": "2", "requestPolicy": policy}}
    scenario.class_and_slice(device("gpu-0", capacity, raw={"allowMultipleAllocations": True}))
    scenario.claim("claim", scenario.exactly(capacity={"requests": {"cores": "600m"}}))
    scenario.pod("claim", gets=["gpu-0"])


def a_second_share_of_a_device(scenario: Scenario) -> None:
    scenario.class_and_slice(_shareable("gpu-0"))
    scenario.claim("theirs", scenario.exactly(capacity=_memory("10Gi")))
    scenario.pod("theirs", name="holder", gets=["gpu-0"], earlier=True)
    scenario.claim("claim", scenario.exactly(capacity=_memory("10Gi")))
    scenario.pod("claim", gets=["gpu-0"])


def a_third_share_that_does_not_fit(scenario: Scenario) -> None:
    scenario.class_and_slice(_shareable("gpu-0"))
    for name in ("one", "two"):
        scenario.claim(name, scenario.exactly(capacity=_memory("10Gi")))
        scenario.pod(name, name=f"holder-{name}", gets=["gpu-0"], earlier=True)
    scenario.claim("claim", scenario.exactly(capacity=_memory("10Gi")))
    scenario.pod("claim")


def shares_of_one_device_in_one_claim(scenario: Scenario) -> None:
    scenario.class_and_slice(_shareable("gpu-0"), _shareable("gpu-1"))
    requests = [scenario.exactly(capacity=_memory("10Gi"), name=name) for name in ("one", "other", "third")]
    scenario.claim("claim", *requests)
    scenario.pod("claim", gets=["gpu-0", "gpu-0", "gpu-1"])


def two_shares_in_one_request_are_of_two_devices(scenario: Scenario) -> None:
    scenario.class_and_slice(_shareable("gpu-0"), _shareable("gpu-1"))
    scenario.claim("claim", scenario.exactly(2, capacity=_memory("10Gi")))
    scenario.pod("claim", gets=["gpu-0", "gpu-1"])


def shares_of_different_devices(scenario: Scenario) -> None:
    scenario.class_and_slice(_shareable("gpu-0", serial="a"), _shareable("gpu-1", serial="b"))
    requests = [scenario.exactly(capacity=_memory("10Gi"), name=name) for name in ("one", "other")]
    scenario.claim("claim", *requests, constraints=[{"distinctAttribute": f"{scenario.driver}/serial"}])
    scenario.pod("claim", gets=["gpu-0", "gpu-1"])


def a_capacity_under_its_full_name(scenario: Scenario) -> None:
    scenario.class_and_slice(_shareable("gpu-0"))
    scenario.claim("claim", scenario.exactly(capacity={"requests": {f"{scenario.driver}/memory": "10Gi"}}))
    scenario.pod("claim")


def a_capacity_of_a_whole_device(scenario: Scenario) -> None:
    scenario.class_and_slice(device("gpu-0", {"memory": "8Gi"}), device("gpu-1", {"memory": "16Gi"}))
    scenario.claim("claim", scenario.exactly(capacity=_memory("10Gi")))
    scenario.pod("claim", gets=["gpu-1"])


def only_shareable_devices(scenario: Scenario) -> None:
    scenario.class_and_slice(device("gpu-0", {"memory": "40Gi"}), _shareable("gpu-1"))
    scenario.claim(
        "claim", scenario.exactly(where="device.allowMultipleAllocations", capacity=_memory("10Gi"))
    )
    scenario.pod("claim", gets=["gpu-1"])
