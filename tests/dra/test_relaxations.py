"""What would help: one thing less at a time, what fits now first."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dra import relaxations
from dra.match import preview
from dra.relaxations import RelaxationKind, find_relaxations
from tests.dra.clusters import NVIDIA, PCIE, exactly, gpu, holds, resource_slice, snapshot, spec

TAINT = {"key": "example.com/maintenance", "value": "true", "effect": "NoSchedule"}
DRIVER = f'device.attributes["{NVIDIA}"].driverVersion.compareTo(semver("570.0.0")) >= 0'


def memory(least: str) -> str:
    return f'device.capacity["{NVIDIA}"].?memory.orValue(quantity("0")).compareTo(quantity("{least}")) >= 0'


def old(number: int, **more):
    return gpu(number, attributes={"driverVersion": {"version": "550.1.0"}}, **more)


def said(seen, claim_spec, claims=1):
    return [one.sentence for one in find_relaxations(seen, claim_spec, claims)]


def test_a_condition_less_and_a_lower_bound_say_how_many_more():
    devices = [gpu(0, memory="24Gi"), gpu(1, memory="39Gi"), old(2, memory="40Gi"), gpu(3, memory="16Gi")]
    seen = snapshot([resource_slice(devices=devices)])
    claim_spec = spec(exactly(1, f"{memory('40Gi')} && {DRIVER}"))
    assert said(seen, claim_spec) == [
        "without memory ≥ 40 GiB: fits now",
        "memory 39 GiB instead of 40 GiB: fits now",
        "driverVersion 550.1.0 instead of 570.0.0: fits now",
    ]
    found = find_relaxations(seen, claim_spec)
    assert [one.more_devices for one in found] == [3, 1, 1]
    assert all(preview(seen, one.spec).fits for one in found)


def test_fewer_devices_and_no_constraint_help_where_devices_stand_apart():
    seen = snapshot([resource_slice(devices=[gpu(0), gpu(2), gpu(4)])])
    assert said(seen, spec(exactly(2), constraints=[PCIE])) == [
        "1 device instead of 2: fits now",
        "without the constraint on resource.kubernetes.io/pcieRoot: fits now",
    ]


def test_the_largest_count_that_fits_is_named():
    seen = snapshot([resource_slice(devices=[gpu(number) for number in range(8)])], holds("gpu-1", "gpu-5"))
    (relaxation,) = find_relaxations(seen, spec(exactly(8)))
    assert (relaxation.kind, relaxation.current, relaxation.proposed) == (RelaxationKind.COUNT, "8", "6")


def test_a_taint_is_named_with_what_it_keeps_away():
    devices = [gpu(number, taints=[TAINT]) for number in range(3)]
    (relaxation,) = find_relaxations(snapshot([resource_slice(devices=devices)]), spec(exactly(1)))
    assert relaxation.sentence == "tolerating example.com/maintenance=true:NoSchedule: fits now"
    assert relaxation.more_devices == 3
    assert relaxation.spec["devices"]["requests"][0]["exactly"]["tolerations"] == [
        {**TAINT, "operator": "Equal"}
    ]


def test_what_only_brings_more_devices_comes_after_what_fits():
    devices = [gpu(0), gpu(1), old(2), gpu(3, taints=[TAINT]), gpu(4, taints=[TAINT])]
    seen = snapshot([resource_slice(devices=devices)])
    assert said(seen, spec(exactly(5, DRIVER))) == [
        "2 devices instead of 5: fits now",
        "tolerating example.com/maintenance=true:NoSchedule: 2 more free",
        "driverVersion 550.1.0 instead of 570.0.0: 1 more free",
    ]


def test_what_fits_hears_only_of_more():
    devices = [gpu(0), old(1), gpu(2, memory="24Gi")]
    seen = snapshot([resource_slice(devices=devices)])
    claim_spec = spec(exactly(1, f"{memory('40Gi')} && {DRIVER} && device.driver != 'amd.com'"))
    assert said(seen, claim_spec) == [
        "memory 24 GiB instead of 40 GiB: 1 more free",
        "driverVersion 550.1.0 instead of 570.0.0: 1 more free",
    ]


def test_alternatives_are_relaxed_one_by_one():
    seen = snapshot([resource_slice(devices=[gpu(0, memory="24Gi")])])
    options = [
        {"name": name, **exactly(1, memory(least))["exactly"]}
        for name, least in (("a", "40Gi"), ("b", "80Gi"))
    ]
    found = find_relaxations(seen, spec({"name": "gpu", "firstAvailable": options}))
    assert {(one.request, one.kind) for one in found} == {
        ("gpu/a", RelaxationKind.THRESHOLD),
        ("gpu/b", RelaxationKind.THRESHOLD),
    }


@pytest.mark.parametrize(
    "claim_spec",
    [
        spec(),
        spec(exactly(1, class_name="nobody")),
        spec(exactly(1, "device.name")),
        spec(exactly(1, "ip('::')")),
    ],
)
def test_nothing_helps_where_nothing_can_be_told(claim_spec):
    assert find_relaxations(snapshot([resource_slice(devices=[gpu(0)])]), claim_spec) == []


def test_number_of_previews_is_bounded(monkeypatch):
    times = []
    monkeypatch.setattr(relaxations, "preview", lambda *args: times.append(args) or preview(*args))
    conditions = [f'device.attributes["{NVIDIA}"].?productName.orValue("") != "{n}"' for n in range(60)]
    seen = snapshot([resource_slice(devices=[gpu(0)])], holds("gpu-0"))
    assert find_relaxations(seen, spec(exactly(4, " && ".join(conditions)))) == []
    assert len(times) == relaxations.MAX_PREVIEWS + 1


devices = st.builds(
    lambda number, small, aged, tainted: gpu(
        number,
        memory="10Gi" if small else "81559Mi",
        attributes={"driverVersion": {"version": "550.1.0" if aged else "580.95.5"}},
        **({"taints": [TAINT]} if tainted else {}),
    ),
    st.integers(0, 7),
    st.booleans(),
    st.booleans(),
    st.booleans(),
)


@given(
    st.lists(devices, max_size=6, unique_by=lambda one: one["name"]),
    st.integers(1, 3),
    st.booleans(),
    st.integers(1, 2),
)
def test_every_relief_says_what_a_preview_of_its_spec_says(listed, count, same, claims):
    seen = snapshot([resource_slice(devices=listed)])
    claim_spec = spec(exactly(count, f"{memory('40Gi')} && {DRIVER}"), constraints=[PCIE] if same else [])
    now = preview(seen, claim_spec, claims)
    for relaxation in find_relaxations(seen, claim_spec, claims, now):
        fewer = relaxation.kind == RelaxationKind.CLAIMS
        then = preview(seen, relaxation.spec, int(relaxation.proposed) if fewer else claims)
        assert relaxation.fits == (then.fits and not now.fits)
        assert relaxation.more_devices == max(then.free - now.free, 0)


def test_claims_of_which_only_some_fit_are_offered_fewer_pods():
    seen = snapshot([resource_slice(name, [gpu(number) for number in range(8)]) for name in ("a", "b")])
    kinds = {row.kind: row for row in find_relaxations(seen, spec(exactly(8)), claims=8)}
    fewer = kinds[RelaxationKind.CLAIMS]
    assert (fewer.sentence, fewer.fits) == ("2 pods instead of 8: fits now", True)
    assert RelaxationKind.COUNT in kinds
    for claims in (1, 2):
        found = find_relaxations(seen, spec(exactly(8)), claims=claims)
        assert RelaxationKind.CLAIMS not in {row.kind for row in found}
