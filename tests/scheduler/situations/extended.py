"""Pods that ask for an extended resource, for which the scheduler makes a claim itself."""

from tests.scheduler.scenario import Scenario, devices


def an_extended_resource(scenario: Scenario) -> None:
    scenario.device_class(extendedResourceName=f"{scenario.driver}/gpu")
    scenario.slice(*devices("gpu-0", "gpu-1", "gpu-2"))
    scenario.pod(resources={f"{scenario.driver}/gpu": "2"}, gets=["gpu-0", "gpu-1"])


def an_extended_resource_that_does_not_fit(scenario: Scenario) -> None:
    scenario.device_class(extendedResourceName=f"{scenario.driver}/gpu")
    scenario.slice(*devices("gpu-0"))
    scenario.pod(resources={f"{scenario.driver}/gpu": "2"})


def an_implicit_extended_resource(scenario: Scenario) -> None:
    scenario.class_and_slice(*devices("gpu-0"))
    scenario.pod(resources={f"deviceclass.resource.kubernetes.io/{scenario.class_name}": "1"}, gets=["gpu-0"])


def an_extended_resource_beside_a_claim(scenario: Scenario) -> None:
    scenario.device_class(extendedResourceName=f"{scenario.driver}/gpu")
    scenario.slice(*devices("gpu-0", "gpu-1"))
    scenario.claim("claim", scenario.exactly())
    scenario.pod("claim", resources={f"{scenario.driver}/gpu": "1"}, gets=["gpu-0", "gpu-1"])
