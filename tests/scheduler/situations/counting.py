"""How many devices, and in which order they are tried."""

from tests.scheduler.stage import Stage, device, devices


def two_of_three(at: Stage) -> None:
    at.usual(*devices("gpu-0", "gpu-1", "gpu-2"))
    at.claim("wish", at.exactly(2))
    at.pod("wish", gets=["gpu-0", "gpu-1"])


def no_count_is_one(at: Stage) -> None:
    at.usual(*devices("gpu-0", "gpu-1"))
    at.claim("wish", at.exactly())
    at.pod("wish", gets=["gpu-0"])


def a_count_of_nothing_is_one(at: Stage) -> None:
    at.usual(*devices("gpu-0", "gpu-1"))
    at.claim("wish", at.exactly(0))
    at.pod("wish", gets=["gpu-0"])


def four_of_three(at: Stage) -> None:
    at.usual(*devices("gpu-0", "gpu-1", "gpu-2"))
    at.claim("wish", at.exactly(4))
    at.pod("wish")


def all_that_match(at: Stage) -> None:
    at.usual(device("gpu-0", size=80), device("gpu-1", size=40), device("gpu-2", size=80))
    at.claim("wish", at.exactly(where=at.has(size=80), allocationMode="All"))
    at.pod("wish", gets=["gpu-0", "gpu-2"])


def all_of_none(at: Stage) -> None:
    at.usual(device("gpu-0", size=80))
    at.claim("wish", at.exactly(where=at.has(size=40), allocationMode="All"))
    at.pod("wish")


def requests_in_order(at: Stage) -> None:
    at.usual(device("gpu-0", size=80), device("gpu-1", size=40), device("gpu-2", size=40))
    at.claim("wish", at.exactly(2, at.has(size=40), "small"), at.exactly(1, at.has(size=80), "large"))
    at.pod("wish", gets=["gpu-1", "gpu-2", "gpu-0"])


def an_earlier_request_gives_way(at: Stage) -> None:
    at.usual(device("gpu-0", size=80), device("gpu-1", size=40))
    at.claim("wish", at.exactly(1, name="any"), at.exactly(1, at.has(size=80), "large"))
    at.pod("wish", gets=["gpu-1", "gpu-0"])


def claims_in_order(at: Stage) -> None:
    at.usual(*devices("gpu-0", "gpu-1", "gpu-2"))
    at.claim("second", at.exactly(1))
    at.claim("first", at.exactly(2))
    at.pod("first", "second", gets=["gpu-0", "gpu-1", "gpu-2"])


def claims_that_do_not_fit_together(at: Stage) -> None:
    at.usual(*devices("gpu-0", "gpu-1", "gpu-2"))
    at.claim("one", at.exactly(2))
    at.claim("other", at.exactly(2))
    at.pod("one", "other")


def devices_in_the_order_of_the_slice(at: Stage) -> None:
    at.usual(*devices("gpu-2", "gpu-0", "gpu-1"))
    at.claim("wish", at.exactly(2))
    at.pod("wish", gets=["gpu-2", "gpu-0"])


def slices_in_the_order_of_their_names(at: Stage) -> None:
    at.usual(*devices("gpu-0"), name="b", of=2)
    at.slice(*devices("gpu-1"), name="a", of=2)
    at.claim("wish", at.exactly(2))
    at.pod("wish", gets=["gpu-1", "gpu-0"])


def pools_in_the_order_of_their_names(at: Stage) -> None:
    at.usual(*devices("gpu-0"), pool="pools-b")
    at.slice(*devices("gpu-1"), pool="pools-a")
    at.claim("wish", at.exactly(2))
    at.pod("wish", gets=["gpu-1", "gpu-0"])


def thirty_two(at: Stage) -> None:
    names = [f"gpu-{number:02}" for number in range(33)]
    at.usual(*devices(*names))
    at.claim("wish", at.exactly(32))
    at.pod("wish", gets=names[:32])


def thirty_three(at: Stage) -> None:
    at.usual(*devices(*(f"gpu-{number:02}" for number in range(33))))
    at.claim("wish", at.exactly(33))
    at.pod("wish", fails=True)


def thirty_three_in_two_requests(at: Stage) -> None:
    at.usual(*devices(*(f"gpu-{number:02}" for number in range(33))))
    at.claim("wish", at.exactly(20, name="some"), at.exactly(13, name="more"))
    at.pod("wish", fails=True)


def all_of_thirty_three(at: Stage) -> None:
    at.usual(*devices(*(f"gpu-{number:02}" for number in range(33))))
    at.claim("wish", at.exactly(allocationMode="All"))
    at.pod("wish", fails=True)
