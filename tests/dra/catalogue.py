"""A small fleet to check a catalogue against, and what the check finds."""

from dra.lint import NamedSpec, Subject, lint
from tests.dra.clusters import gpu, resource_slice, snapshot

MEMORY = 'device.capacity["gpu.nvidia.com"].?memory.orValue(quantity("0")).compareTo(quantity("{}")) >= 0'
ATTRIBUTES = 'device.attributes["gpu.nvidia.com"]'


def small(number, **more):
    return gpu(number, product="NVIDIA L4", memory="23034Mi", **more)


def fleet(*claims, **more):
    """Two nodes: four H100 and two L4."""
    slices = [
        resource_slice("node-a", [gpu(number) for number in range(4)]),
        resource_slice("node-b", [small(number) for number in range(2)]),
    ]
    return snapshot(slices, *claims, **more)


def findings(claim_spec, seen=None, **named):
    return [
        one
        for one in lint(seen or fleet(), [NamedSpec("p", claim_spec, **named)]).findings
        if one.subject == Subject.PROFILE
    ]


def only(found, code):
    (one,) = [finding for finding in found if finding.code == code]
    return one


def codes(found):
    return [one.code for one in found]


def mended(claim_spec, found, seen=None):
    """What is found after the fix."""
    return findings(found.fix.apply(claim_spec), seen)
