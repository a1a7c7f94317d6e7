"""Pods that ask for an extended resource, for which the scheduler makes a claim itself."""

from tests.scheduler.stage import Stage, devices


def an_extended_resource(at: Stage) -> None:
    at.device_class(extendedResourceName=f"{at.driver}/gpu")
    at.slice(*devices("gpu-0", "gpu-1", "gpu-2"))
    at.pod(resources={f"{at.driver}/gpu": "2"}, gets=["gpu-0", "gpu-1"])


def an_extended_resource_that_does_not_fit(at: Stage) -> None:
    at.device_class(extendedResourceName=f"{at.driver}/gpu")
    at.slice(*devices("gpu-0"))
    at.pod(resources={f"{at.driver}/gpu": "2"})


def an_implicit_extended_resource(at: Stage) -> None:
    at.usual(*devices("gpu-0"))
    at.pod(resources={f"deviceclass.resource.kubernetes.io/{at.klass}": "1"}, gets=["gpu-0"])


def an_extended_resource_beside_a_claim(at: Stage) -> None:
    at.device_class(extendedResourceName=f"{at.driver}/gpu")
    at.slice(*devices("gpu-0", "gpu-1"))
    at.claim("wish", at.exactly())
    at.pod("wish", resources={f"{at.driver}/gpu": "1"}, gets=["gpu-0", "gpu-1"])
