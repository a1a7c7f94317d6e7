"""Devices that are taken in shares (consumable capacity)."""

from tests.scheduler.stage import Json, Stage, device

RANGE = {"default": "1Gi", "validRange": {"min": "1Gi", "max": "16Gi", "step": "1Gi"}}
VALUES = {"default": "5Gi", "validValues": ["5Gi", "10Gi", "20Gi"]}


def _shareable(name: str, memory: str = "23028Mi", policy: Json | None = None, **attributes: str) -> Json:
    capacity = {"memory": {"value": memory} | ({"requestPolicy": policy} if policy else {})}
    return device(name, capacity, raw={"allowMultipleAllocations": True}, **attributes)


def _memory(amount: str) -> Json:
    return {"requests": {"memory": amount}}


def the_default_share(at: Stage) -> None:
    at.usual(_shareable("gpu-0", policy=RANGE))
    at.claim("wish", at.exactly())
    at.pod("wish", gets=["gpu-0"])


def a_share_of_everything(at: Stage) -> None:
    at.usual(_shareable("gpu-0"))
    at.claim("wish", at.exactly())
    at.pod("wish", gets=["gpu-0"])


def a_share_as_asked(at: Stage) -> None:
    at.usual(_shareable("gpu-0"))
    at.claim("wish", at.exactly(capacity=_memory("10Gi")))
    at.pod("wish", gets=["gpu-0"])


def a_share_in_steps(at: Stage) -> None:
    at.usual(_shareable("gpu-0", policy=RANGE))
    at.claim("wish", at.exactly(capacity=_memory("2500Mi")))
    at.pod("wish", gets=["gpu-0"])


def a_share_below_the_least(at: Stage) -> None:
    at.usual(_shareable("gpu-0", policy=RANGE))
    at.claim("wish", at.exactly(capacity=_memory("1Mi")))
    at.pod("wish", gets=["gpu-0"])


def a_share_above_the_most(at: Stage) -> None:
    at.usual(_shareable("gpu-0", policy=RANGE))
    at.claim("wish", at.exactly(capacity=_memory("17Gi")))
    at.pod("wish")


def a_share_of_a_valid_value(at: Stage) -> None:
    at.usual(_shareable("gpu-0", policy=VALUES))
    at.claim("wish", at.exactly(capacity=_memory("6Gi")))
    at.pod("wish", gets=["gpu-0"])


def a_share_in_fractions(at: Stage) -> None:
    policy = {"default": "250m", "validRange": {"min": "250m", "max": "2", "step": "250m"}}
    capacity = {"cores": {"value": "2", "requestPolicy": policy}}
    at.usual(device("gpu-0", capacity, raw={"allowMultipleAllocations": True}))
    at.claim("wish", at.exactly(capacity={"requests": {"cores": "600m"}}))
    at.pod("wish", gets=["gpu-0"])


def a_second_share_of_a_device(at: Stage) -> None:
    at.usual(_shareable("gpu-0"))
    at.claim("theirs", at.exactly(capacity=_memory("10Gi")))
    at.pod("theirs", name="holder", gets=["gpu-0"], earlier=True)
    at.claim("wish", at.exactly(capacity=_memory("10Gi")))
    at.pod("wish", gets=["gpu-0"])


def a_third_share_that_does_not_fit(at: Stage) -> None:
    at.usual(_shareable("gpu-0"))
    for name in ("one", "two"):
        at.claim(name, at.exactly(capacity=_memory("10Gi")))
        at.pod(name, name=f"holder-{name}", gets=["gpu-0"], earlier=True)
    at.claim("wish", at.exactly(capacity=_memory("10Gi")))
    at.pod("wish")


def shares_of_one_device_in_one_claim(at: Stage) -> None:
    at.usual(_shareable("gpu-0"), _shareable("gpu-1"))
    requests = [at.exactly(capacity=_memory("10Gi"), name=name) for name in ("one", "other", "third")]
    at.claim("wish", *requests)
    at.pod("wish", gets=["gpu-0", "gpu-0", "gpu-1"])


def two_shares_in_one_request_are_of_two_devices(at: Stage) -> None:
    at.usual(_shareable("gpu-0"), _shareable("gpu-1"))
    at.claim("wish", at.exactly(2, capacity=_memory("10Gi")))
    at.pod("wish", gets=["gpu-0", "gpu-1"])


def shares_of_different_devices(at: Stage) -> None:
    at.usual(_shareable("gpu-0", serial="a"), _shareable("gpu-1", serial="b"))
    requests = [at.exactly(capacity=_memory("10Gi"), name=name) for name in ("one", "other")]
    at.claim("wish", *requests, constraints=[{"distinctAttribute": f"{at.driver}/serial"}])
    at.pod("wish", gets=["gpu-0", "gpu-1"])


def a_capacity_under_its_full_name(at: Stage) -> None:
    at.usual(_shareable("gpu-0"))
    at.claim("wish", at.exactly(capacity={"requests": {f"{at.driver}/memory": "10Gi"}}))
    at.pod("wish")


def a_capacity_of_a_whole_device(at: Stage) -> None:
    at.usual(device("gpu-0", {"memory": "8Gi"}), device("gpu-1", {"memory": "16Gi"}))
    at.claim("wish", at.exactly(capacity=_memory("10Gi")))
    at.pod("wish", gets=["gpu-1"])


def only_shareable_devices(at: Stage) -> None:
    at.usual(device("gpu-0", {"memory": "40Gi"}), _shareable("gpu-1"))
    at.claim("wish", at.exactly(where="device.allowMultipleAllocations", capacity=_memory("10Gi")))
    at.pod("wish", gets=["gpu-1"])
