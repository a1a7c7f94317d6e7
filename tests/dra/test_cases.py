"""Cases: one question to the allocator as JSON, and its answer; bad input gets a sentence."""

import io
import json

import pytest

from dra.cases import evaluate_case, evaluate_line, serve
from tests.dra.clusters import IS_GPU, NVIDIA, gpu, node, resource_slice

DEVICES = {"driver": NVIDIA, "pool": "node-a"}


def case(*asks, devices=None, **more):
    requests = [
        {"name": f"r{place}", "exactly": {"deviceClassName": NVIDIA, "allocationMode": "ExactCount"} | ask}
        for place, ask in enumerate(asks)
    ]
    return {
        "name": "a case",
        "features": {},
        "classes": [{"metadata": {"name": NVIDIA}, "spec": {"selectors": [{"cel": {"expression": IS_GPU}}]}}],
        "slices": [resource_slice(devices=devices or [gpu(number) for number in range(3)])],
        "node": node(),
        "claims": [{"metadata": {"name": "mine"}, "spec": {"devices": {"requests": requests}}}],
    } | more


def names(answered):
    assert answered["error"] is None
    return [
        [one["device"] for one in result["devices"].get("results", ())]
        for result in answered["results"] or ()
    ]


def test_a_case_is_answered_with_the_status_of_each_claim():
    assert evaluate_case(case({"count": 2})) == {
        "name": "a case",
        "error": None,
        "results": [
            {
                "devices": {
                    "results": [
                        {"request": "r0", **DEVICES, "device": "gpu-0"},
                        {"request": "r0", **DEVICES, "device": "gpu-1"},
                    ]
                },
                "nodeSelector": {
                    "nodeSelectorTerms": [
                        {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["node-a"]}]}
                    ]
                },
            }
        ],
    }


def test_what_does_not_fit_has_neither_results_nor_an_error():
    assert evaluate_case(case({"count": 4})) == {"name": "a case", "error": None, "results": None}


def test_nothing_asked_for_is_nothing_given():
    assert evaluate_case({}) == {"name": "", "error": None, "results": []}
    assert evaluate_case(case())["results"] == [{"devices": {}}]


def test_what_is_absent_is_empty_and_not_filled_in():
    assert names(evaluate_case(case({}))) == [[]]  # count 0
    assert "allocation mode “”" in evaluate_case(case({"allocationMode": "", "count": 1}))["error"]


def test_devices_in_use_are_told_in_three_ways():
    taken = {"devices": [DEVICES | {"device": "gpu-0"}], "shared": [DEVICES | {"device": "gpu-1"}]}
    assert names(evaluate_case(case({"count": 1}, allocated=taken))) == [
        ["gpu-1"]
    ]  # no shares: the feature is off
    shareable = [gpu(0, allowMultipleAllocations=True)]
    asked = {"count": 1, "capacity": {"requests": {"memory": "2Gi"}}}
    for left, expected in (("77Gi", [["gpu-0"]]), ("78Gi", [])):
        told = case(
            asked,
            devices=shareable,
            features={"ConsumableCapacity": True},
            allocated={"consumedCapacity": {f"{NVIDIA}/node-a/gpu-0": {"memory": left}}},
        )
        assert names(evaluate_case(told)) == expected


def test_pools_may_have_slashes_in_their_names():
    pool = resource_slice(pool="rack/1", devices=[gpu(0, allowMultipleAllocations=True)])
    told = case(
        {"count": 1},
        slices=[pool],
        features={"ConsumableCapacity": True},
        allocated={"consumedCapacity": {f"{NVIDIA}/rack/1/gpu-0": {"memory": "1"}}},
    )
    assert evaluate_case(told)["results"] is None


def test_allocated_claims_hold_their_devices_and_get_no_result():
    held = {"status": {"allocation": {"devices": {"results": [DEVICES | {"device": "gpu-0"}]}}}}
    told = case({"count": 1})
    told["claims"].insert(0, held)
    assert names(evaluate_case(told)) == [["gpu-1"]]


def test_a_share_takes_the_whole_device_where_sharing_is_off():
    result = DEVICES | {"device": "gpu-0", "shareID": "1"}
    told = case({"count": 1})
    told["claims"].insert(0, {"status": {"allocation": {"devices": {"results": [result]}}}})
    assert names(evaluate_case(told)) == [["gpu-1"]]


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("", "The line is empty."),
        ("{", "The line is not valid JSON"),
        ('{"name": NaN}', "NaN is no number of JSON"),
        ("[" * 100_000, "nested too deeply"),
        ("[]", "The line is []: an object is expected."),
        ("null", "The line is null: an object is expected."),
        ('{"node": null}', "node is null: an object is expected."),
        ('{"name": 1}', "name is 1: a text is expected."),
        ('{"claims": {}}', "claims is {}: a list is expected."),
        ('{"claims": [null]}', "claims[0] is null: an object is expected."),
        ('{"features": {"AdminAccess": "yes"}}', 'features.AdminAccess is "yes": true or false is expected.'),
        ('{"features": {"Magic": true}}', "features has Magic, which is none"),
        ('{"allocated": {"consumedCapacity": {"a/b": {}}}}', "a/b of allocated.consumedCapacity"),
        (
            '{"slices": [{"spec": {"devices": [{"capacity": {"memory": {"value": "plenty"}}}]}}]}',
            'slices[0].spec.devices[0].capacity.memory.value is "plenty": a quantity',
        ),
        (
            '{"claims": [{"spec": {"devices": {"requests": [{}, {"exactly": {"count": "x"}}]}}}]}',
            'claims[0].spec.devices.requests[1].exactly.count is "x": a whole number is expected.',
        ),
        (
            '{"claims": [{"spec": {"devices": {"requests": [{"exactly": {"count": 1e30}}]}}}]}',
            "count is 1e+30: a whole number is expected.",
        ),
        ('{"slices": [{"spec": {"pool": {"generation": 9223372036854775808}}}]}', "64 bits"),
    ],
)
def test_a_line_that_is_no_case_is_answered_with_a_sentence(line, said):
    answered = evaluate_line(line)
    assert answered["results"] is None
    assert said in answered["error"]


def test_the_name_is_kept_where_it_can_be_read():
    assert evaluate_line('{"name": "x", "node": 3}')["name"] == "x"
    assert evaluate_line('{"name": {}, "node": 3}')["name"] == ""


def test_null_is_as_good_as_absent_where_the_api_may_leave_something_out():
    told = case({"count": 1, "selectors": None, "tolerations": None, "capacity": None}, allocated={})
    told["slices"][0]["spec"]["devices"][0] |= {"taints": None, "bindingConditions": None}
    assert names(evaluate_case(told)) == [["gpu-0"]]


def test_every_line_gets_an_answer_in_order():
    lines = [json.dumps({"name": "first"}).encode() + b"\n", b"\n", b"\xff\n", b'{"name": "last"}']
    out = io.StringIO()
    serve(lines, out)
    answers = [json.loads(line) for line in out.getvalue().splitlines()]
    assert [one["name"] for one in answers] == ["first", "", "", "last"]
    assert [one["error"] is None for one in answers] == [True, False, False, True]
