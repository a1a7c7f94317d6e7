"""`firstAvailable`: the first alternative that fits."""

from tests.scheduler.scenario import Json, Scenario, device


def _first_of(*alternatives: Json) -> Json:
    names = ("large", "small", "pair")
    return {
        "name": "gpu",
        "firstAvailable": [{"name": name, **one} for name, one in zip(names, alternatives, strict=False)],
    }


def the_first_alternative(scenario: Scenario) -> None:
    scenario.class_and_slice(device("gpu-0", size=40), device("gpu-1", size=80))
    scenario.claim(
        "claim",
        _first_of(
            scenario.exact_request(1, scenario.has(size=80)), scenario.exact_request(1, scenario.has(size=40))
        ),
    )
    scenario.pod("claim", gets=["gpu-1"])


def the_second_alternative(scenario: Scenario) -> None:
    scenario.class_and_slice(device("gpu-0", size=40), device("gpu-1", size=40))
    scenario.claim(
        "claim",
        _first_of(
            scenario.exact_request(1, scenario.has(size=80)), scenario.exact_request(2, scenario.has(size=40))
        ),
    )
    scenario.pod("claim", gets=["gpu-0", "gpu-1"])


def no_alternative(scenario: Scenario) -> None:
    scenario.class_and_slice(device("gpu-0", size=40))
    scenario.claim(
        "claim",
        _first_of(
            scenario.exact_request(1, scenario.has(size=80)), scenario.exact_request(2, scenario.has(size=40))
        ),
    )
    scenario.pod("claim")


def a_constraint_on_one_alternative(scenario: Scenario) -> None:
    scenario.class_and_slice(
        device("gpu-0", size=40, root="a"),
        device("gpu-1", size=40, root="b"),
        device("gpu-2", size=40, root="b"),
    )
    request = _first_of(
        scenario.exact_request(1, scenario.has(size=80)),
        scenario.exact_request(3, scenario.has(size=40)),
        scenario.exact_request(2, scenario.has(size=40)),
    )
    constraints = [
        {"requests": ["gpu/small"], "matchAttribute": f"{scenario.driver}/root"},
        {"requests": ["gpu/pair"], "matchAttribute": f"{scenario.driver}/root"},
    ]
    scenario.claim("claim", request, constraints=constraints)
    scenario.pod("claim", gets=["gpu-1", "gpu-2"])


def a_constraint_on_another_alternative(scenario: Scenario) -> None:
    scenario.class_and_slice(device("gpu-0", size=40, root="a"), device("gpu-1", size=40, root="b"))
    request = _first_of(
        scenario.exact_request(2, scenario.has(size=80)), scenario.exact_request(2, scenario.has(size=40))
    )
    constraints = [{"requests": ["gpu/large"], "matchAttribute": f"{scenario.driver}/root"}]
    scenario.claim("claim", request, constraints=constraints)
    scenario.pod("claim", gets=["gpu-0", "gpu-1"])


def a_later_request_takes_the_first_alternative_away(scenario: Scenario) -> None:
    scenario.class_and_slice(device("gpu-0", size=80), device("gpu-1", size=40))
    request = _first_of(
        scenario.exact_request(1, scenario.has(size=80)), scenario.exact_request(1, scenario.has(size=40))
    )
    scenario.claim("claim", request, scenario.exactly(1, scenario.has(size=80), "must"))
    scenario.pod("claim", gets=["gpu-1", "gpu-0"])


def a_node_with_an_earlier_alternative_is_preferred(scenario: Scenario) -> None:
    scenario.node()
    scenario.class_and_slice(device("gpu-0", size=40))
    scenario.node("b")
    scenario.slice(device("gpu-1", size=80), node="b")
    scenario.claim(
        "claim",
        _first_of(
            scenario.exact_request(1, scenario.has(size=80)), scenario.exact_request(1, scenario.has(size=40))
        ),
    )
    scenario.pod("claim", gets=["gpu-1"])


def an_alternative_of_a_class_that_is_missing(scenario: Scenario) -> None:
    scenario.class_and_slice(device("gpu-0", size=40))
    scenario.claim(
        "claim",
        _first_of(scenario.exact_request(1), scenario.exact_request(1, class_name="missing.example.com")),
    )
    scenario.pod("claim", fails=True)


def an_alternative_over_the_limit_is_passed_over(scenario: Scenario) -> None:
    names = [f"gpu-{number:02}" for number in range(40)]
    scenario.class_and_slice(*(device(name) for name in names))
    scenario.claim(
        "claim",
        _first_of(scenario.exact_request(20), scenario.exact_request(10)),
        scenario.exactly(15, name="must"),
    )
    scenario.pod("claim", gets=names[:25])
