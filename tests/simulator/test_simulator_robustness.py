"""Whatever is sent, the answer is a Status and the cluster goes on."""

import asyncio
import copy
import json

import httpx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from simulator.app import make_app
from simulator.cluster import SimulatedCluster
from tests.simulator.conftest import (
    APPLY,
    CLAIMS,
    DRA,
    JOBS,
    MERGE,
    NOW,
    PODS,
    QUOTAS,
    TEMPLATES,
    make_claim,
    make_pod,
    make_template,
)

GOOD = {
    CLAIMS: make_claim("a", selectors=[{"cel": {"expression": "true"}}], tolerations=[{"key": "x"}]),
    TEMPLATES: {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaimTemplate", **make_template("a")},
    PODS: {"apiVersion": "v1", "kind": "Pod", **make_pod("a", template="a")},
    JOBS: {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "a"},
        "spec": {
            "parallelism": 1,
            "completions": 1,
            "template": {"spec": make_pod("a", template="a")["spec"]},
        },
    },
    QUOTAS: {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "a"},
        "spec": {"hard": {"count/resourceclaims.resource.k8s.io": "1"}},
    },
    f"{DRA}/devicetaintrules": {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "DeviceTaintRule",
        "metadata": {"name": "a"},
        "spec": {"deviceSelector": {"pool": "p"}, "taint": {"key": "k", "effect": "NoExecute"}},
    },
}
ODD = st.sampled_from([None, 1, -1, 1.5, True, "x", "", [], {}, [None], [1], {"a": None}, {"a": "b"}])


def places(value, path=()):
    """Return the way to everything inside a value."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path] * bool(path) + [place for key, item in inner for place in places(item, (*path, key))]


def broken(value, path, odd):
    value = copy.deepcopy(value)
    parent = value
    for key in path[:-1]:
        parent = parent[key]
    parent[path[-1]] = odd
    return value


@st.composite
def broken_objects(draw):
    path = draw(st.sampled_from(sorted(GOOD)))
    return path, broken(GOOD[path], draw(st.sampled_from(places(GOOD[path]))), draw(ODD))


async def send(cluster, path, body):
    transport = httpx.ASGITransport(make_app([cluster], speed=0))
    base, token = f"http://simulator/clusters/{cluster.name}", "Bearer simulator-admin"
    async with httpx.AsyncClient(
        transport=transport, base_url=base, headers={"Authorization": token}
    ) as root:
        await root.post("/api/v1/namespaces", json={"metadata": {"name": "vision"}})
        text, strict = json.dumps(body), {"fieldValidation": "Strict"}
        return [
            await root.post(path, content=text, params=strict),
            await root.patch(f"{path}/b", content=text, headers=APPLY, params={"fieldManager": "me"}),
            await root.post(path, json=GOOD[path]),
            await root.patch(f"{path}/a", content=text, headers=MERGE),
            await root.patch(f"{path}/a", content=text, headers=APPLY, params={"fieldManager": "me"}),
            await root.get(path),
        ]


@settings(max_examples=150, suppress_health_check=[HealthCheck.too_slow])
@given(broken_objects())
def test_a_broken_object_is_refused_or_taken_but_never_breaks_anything(case):
    path, body = case
    cluster = SimulatedCluster("lab", seed=1, now=lambda: NOW)
    for answer in asyncio.run(send(cluster, path, body)):
        said = answer.json()
        assert answer.status_code < 400 or (said["kind"], said["code"]) == ("Status", answer.status_code)
    for _ in range(3):
        cluster.step()


@pytest.mark.parametrize("body", ["", "nonsense", "[]", "{", "null", "3"])
@pytest.mark.parametrize("headers", [{"content-type": "application/json"}, APPLY, MERGE])
def test_a_body_that_is_no_object_is_refused(portal, body, headers):
    portal.post(CLAIMS, json=make_claim("a"))
    answers = [
        portal.post(CLAIMS, content=body),
        portal.patch(f"{CLAIMS}/b", content=body, headers=headers, params={"fieldManager": "me"}),
    ]
    assert all(400 <= answer.status_code < 500 for answer in answers)
    assert all(answer.json()["kind"] == "Status" for answer in answers)
