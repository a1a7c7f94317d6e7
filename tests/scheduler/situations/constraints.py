"""`matchAttribute` and `distinctAttribute`."""

from tests.scheduler.stage import Json, Stage, device


def _match(at: Stage, *requests: str) -> list[Json]:
    return [{"requests": list(requests), "matchAttribute": f"{at.driver}/root"}]


def _distinct(at: Stage, *requests: str) -> list[Json]:
    return [{"requests": list(requests), "distinctAttribute": f"{at.driver}/root"}]


def two_on_one_root(at: Stage) -> None:
    at.usual(device("gpu-0", root="a"), device("gpu-1", root="b"), device("gpu-2", root="b"))
    at.claim("wish", at.exactly(2), constraints=_match(at, "gpu"))
    at.pod("wish", gets=["gpu-1", "gpu-2"])


def a_device_without_the_attribute(at: Stage) -> None:
    at.usual(device("gpu-0"), device("gpu-1", root="b"), device("gpu-2", root="b"))
    at.claim("wish", at.exactly(2), constraints=_match(at, "gpu"))
    at.pod("wish", gets=["gpu-1", "gpu-2"])


def an_attribute_that_nobody_publishes(at: Stage) -> None:
    at.usual(device("gpu-0"), device("gpu-1"))
    at.claim("wish", at.exactly(1), constraints=_match(at, "gpu"))
    at.pod("wish")


def a_number_is_not_the_same_text(at: Stage) -> None:
    at.usual(device("gpu-0", root="1"), device("gpu-1", root=1))
    at.claim("wish", at.exactly(2), constraints=_match(at, "gpu"))
    at.pod("wish")


def no_two_on_one_root(at: Stage) -> None:
    at.usual(device("gpu-0", root="a"), device("gpu-1", root="b"))
    at.claim("wish", at.exactly(2), constraints=_match(at, "gpu"))
    at.pod("wish")


def one_root_across_requests(at: Stage) -> None:
    at.usual(
        device("gpu-0", root="a", size=80),
        device("gpu-1", root="b", size=80),
        device("gpu-2", root="b", size=40),
    )
    requests = [at.exactly(1, at.has(size=80), "large"), at.exactly(1, at.has(size=40), "small")]
    at.claim("wish", *requests, constraints=_match(at, "large", "small"))
    at.pod("wish", gets=["gpu-1", "gpu-2"])


def a_constraint_on_one_request(at: Stage) -> None:
    at.usual(device("gpu-0", root="a"), device("gpu-1", root="b"), device("gpu-2", root="b"))
    requests = [at.exactly(1, name="any"), at.exactly(2, name="pair")]
    at.claim("wish", *requests, constraints=_match(at, "pair"))
    at.pod("wish", gets=["gpu-0", "gpu-1", "gpu-2"])


def a_constraint_without_requests_is_on_all(at: Stage) -> None:
    at.usual(device("gpu-0", root="a"), device("gpu-1", root="b"), device("gpu-2", root="b"))
    requests = [at.exactly(1, name="one"), at.exactly(1, name="other")]
    at.claim("wish", *requests, constraints=[{"matchAttribute": f"{at.driver}/root"}])
    at.pod("wish", gets=["gpu-1", "gpu-2"])


def two_on_different_roots(at: Stage) -> None:
    at.usual(device("gpu-0", root="a"), device("gpu-1", root="a"), device("gpu-2", root="b"))
    at.claim("wish", at.exactly(2), constraints=_distinct(at, "gpu"))
    at.pod("wish", gets=["gpu-0", "gpu-2"])


def no_two_on_different_roots(at: Stage) -> None:
    at.usual(device("gpu-0", root="a"), device("gpu-1", root="a"))
    at.claim("wish", at.exactly(2), constraints=_distinct(at, "gpu"))
    at.pod("wish")


def all_against_a_constraint(at: Stage) -> None:
    at.usual(device("gpu-0", root="a"), device("gpu-1", root="b"))
    at.claim("wish", at.exactly(allocationMode="All"), constraints=_match(at, "gpu"))
    at.pod("wish", fails=True)
