"""Which features a case uses, read from the case itself: so replayed and shrunk cases count as well."""

from collections.abc import Iterator


def features_used(case: dict) -> set[str]:
    return set(_of_claims(case)) | set(_of_slices(case)) | set(_of_rest(case))


def _of_claims(case: dict) -> Iterator[str]:
    for claim in case.get("claims", ()):
        devices = claim["spec"].get("devices", {})
        for request in devices.get("requests") or ():
            if request.get("firstAvailable"):
                yield "firstAvailable"
            for ask in request.get("firstAvailable") or [request.get("exactly") or {}]:
                yield from _of_ask(ask)
        for constraint in devices.get("constraints") or ():
            yield from constraint.keys() & {"matchAttribute", "distinctAttribute"}
        if devices.get("config"):
            yield "config"


def _of_ask(ask: dict) -> Iterator[str]:
    names = {
        "selectors": "selectors",
        "tolerations": "tolerations",
        "capacity": "capacity requests",
        "adminAccess": "adminAccess",
        "derivedAttributes": "derivedAttributes",
    }
    yield from (name for key, name in names.items() if key in ask)
    if ask.get("allocationMode") == "All":
        yield "all"
    if isinstance(ask.get("count"), int) and ask["count"] > 10:
        yield "large counts"


def _of_slices(case: dict) -> Iterator[str]:
    pools: dict[tuple[str, str], list[dict]] = {}
    for one in case.get("slices", ()):
        spec = one["spec"]
        pools.setdefault((spec["driver"], spec["pool"]["name"]), []).append(spec)
        if "nodeSelector" in spec:
            yield "node selectors"
        if spec.get("perDeviceNodeSelection"):
            yield "perDeviceNodeSelection"
        if "skipNodeOperations" in spec:
            yield "skipNodeOperations"
        for device in spec.get("devices") or ():
            yield from _of_device(device)
    for specs in pools.values():
        newest = max((spec["pool"]["generation"] for spec in specs), key=str)
        current = [spec for spec in specs if spec["pool"]["generation"] == newest]
        if len(current) < len(specs):
            yield "generations"
        if len(current) != current[0]["pool"]["resourceSliceCount"]:
            yield "incomplete pools"


def _of_device(device: dict) -> Iterator[str]:
    names = {
        "taints": "taints",
        "consumesCounters": "counters",
        "bindingConditions": "binding conditions",
        "bindsToNode": "binding conditions",
    }
    yield from (name for key, name in names.items() if key in device)
    if device.get("allowMultipleAllocations"):
        yield "shareable devices"
    if any("compatibilityGroups" in one for one in device.get("consumesCounters", ())):
        yield "compatibilityGroups"
    if any(
        value.keys() & {"ints", "strings", "bools", "versions"}
        for value in (device.get("attributes") or {}).values()
    ):
        yield "list attributes"


def _of_rest(case: dict) -> Iterator[str]:
    if case.get("allocated") or any("status" in claim for claim in case.get("claims", ())):
        yield "held devices"
    if sum("status" not in claim for claim in case.get("claims", ())) > 1:
        yield "several claims"
    if any("config" in one["spec"] for one in case.get("classes", ())):
        yield "config"
