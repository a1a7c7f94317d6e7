"""Field selectors of listings, as far as tests/fakes.py needs them."""

from collections.abc import Callable

from cluster.protocol import ClusterInvalid, Kind, Manifest

EVERY = ("metadata.name", "metadata.namespace")
MORE = {"events": ("involvedObject.kind", "involvedObject.name", "involvedObject.uid", "reason", "type")}


def chosen(kind: Kind, selector: str) -> Callable[[Manifest], bool]:
    """Return a test for "path=value,…". Raise ClusterInvalid for a path that the kind has no index of."""
    wanted = [part.split("=", 1) for part in selector.split(",") if part]
    for path, _ in wanted:
        if path not in (*EVERY, *MORE.get(kind.plural, ())):
            raise ClusterInvalid(f"{kind.plural} cannot be selected by {path}.")
    return lambda item: all(_value(item, path) == value for path, value in wanted)


def _value(item: Manifest, path: str) -> object:
    for part in path.split("."):
        item = item.get(part) or {}
    return item or ""
