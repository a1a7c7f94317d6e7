"""`firstAvailable`: the first alternative that fits."""

from tests.scheduler.stage import Json, Stage, device


def _first_of(*alternatives: Json) -> Json:
    names = ("large", "small", "pair")
    return {
        "name": "gpu",
        "firstAvailable": [{"name": name, **one} for name, one in zip(names, alternatives, strict=False)],
    }


def the_first_alternative(at: Stage) -> None:
    at.usual(device("gpu-0", size=40), device("gpu-1", size=80))
    at.claim("wish", _first_of(at.asks(1, at.has(size=80)), at.asks(1, at.has(size=40))))
    at.pod("wish", gets=["gpu-1"])


def the_second_alternative(at: Stage) -> None:
    at.usual(device("gpu-0", size=40), device("gpu-1", size=40))
    at.claim("wish", _first_of(at.asks(1, at.has(size=80)), at.asks(2, at.has(size=40))))
    at.pod("wish", gets=["gpu-0", "gpu-1"])


def no_alternative(at: Stage) -> None:
    at.usual(device("gpu-0", size=40))
    at.claim("wish", _first_of(at.asks(1, at.has(size=80)), at.asks(2, at.has(size=40))))
    at.pod("wish")


def a_constraint_on_one_alternative(at: Stage) -> None:
    at.usual(
        device("gpu-0", size=40, root="a"),
        device("gpu-1", size=40, root="b"),
        device("gpu-2", size=40, root="b"),
    )
    wish = _first_of(at.asks(1, at.has(size=80)), at.asks(3, at.has(size=40)), at.asks(2, at.has(size=40)))
    constraints = [
        {"requests": ["gpu/small"], "matchAttribute": f"{at.driver}/root"},
        {"requests": ["gpu/pair"], "matchAttribute": f"{at.driver}/root"},
    ]
    at.claim("wish", wish, constraints=constraints)
    at.pod("wish", gets=["gpu-1", "gpu-2"])


def a_constraint_on_another_alternative(at: Stage) -> None:
    at.usual(device("gpu-0", size=40, root="a"), device("gpu-1", size=40, root="b"))
    wish = _first_of(at.asks(2, at.has(size=80)), at.asks(2, at.has(size=40)))
    constraints = [{"requests": ["gpu/large"], "matchAttribute": f"{at.driver}/root"}]
    at.claim("wish", wish, constraints=constraints)
    at.pod("wish", gets=["gpu-0", "gpu-1"])


def a_later_request_takes_the_first_alternative_away(at: Stage) -> None:
    at.usual(device("gpu-0", size=80), device("gpu-1", size=40))
    wish = _first_of(at.asks(1, at.has(size=80)), at.asks(1, at.has(size=40)))
    at.claim("wish", wish, at.exactly(1, at.has(size=80), "must"))
    at.pod("wish", gets=["gpu-1", "gpu-0"])


def a_node_with_an_earlier_alternative_is_preferred(at: Stage) -> None:
    at.node()
    at.usual(device("gpu-0", size=40))
    at.node("b")
    at.slice(device("gpu-1", size=80), node="b")
    at.claim("wish", _first_of(at.asks(1, at.has(size=80)), at.asks(1, at.has(size=40))))
    at.pod("wish", gets=["gpu-1"])


def an_alternative_of_a_class_that_is_missing(at: Stage) -> None:
    at.usual(device("gpu-0", size=40))
    at.claim("wish", _first_of(at.asks(1), at.asks(1, klass="missing.example.com")))
    at.pod("wish", fails=True)


def an_alternative_over_the_limit_is_passed_over(at: Stage) -> None:
    names = [f"gpu-{number:02}" for number in range(40)]
    at.usual(*(device(name) for name in names))
    at.claim("wish", _first_of(at.asks(20), at.asks(10)), at.exactly(15, name="must"))
    at.pod("wish", gets=names[:25])
