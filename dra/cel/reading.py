"""
Which attributes and capacities an expression reads, found without running it.

Devices that agree in what is read agree in the result, so thousands of devices need a handful of evaluations.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from dra.cel.access import reference, table
from dra.cel.syntax import Call, Fold, Ident, Node, Select
from dra.facts import Ref


@dataclass(slots=True)
class Reading:
    """
    What an expression reads of a device, besides driver and `allowMultipleAllocations`.

    `names` holds "attributes" or "capacity" where it matters which names there are, `whole` where the values
    of any name may matter, as in a loop over names and values.
    """

    refs: set[Ref] = field(default_factory=set)
    names: set[str] = field(default_factory=set)
    whole: set[str] = field(default_factory=set)


def reading(tree: Node) -> Reading:
    """Tell what a tree reads; too much where a local variable is named `device`."""
    found = Reading()
    _visit(tree, found)
    return found


def _visit(node: Node, found: Reading) -> None:
    ref = reference(node)
    if ref:
        found.refs.add(ref[0])
        return
    match node:
        case Ident(name="device" | ".device"):
            found.whole |= {"attributes", "capacity"}
        case Select(operand=Ident(name="device" | ".device"), test=False):
            if part := table(node):
                found.whole.add(part)
        case Call(function="@in", args=[one, other]) if part := _names(other):
            found.names.add(part)
            _visit(one, found)
        case Call(function="size") if part := _names(node.children()[0]):
            found.names.add(part)
        case Fold() if not node.second and (part := _names(node.range)):
            found.names.add(part)
            for child in node.children()[1:]:
                _visit(child, found)
        case _:
            for child in node.children():
                _visit(child, found)


def _names(node: Node) -> str:
    """Return the table that `device.attributes` or `device.attributes["domain"]` is of; "" if neither."""
    if part := table(node):
        return part
    match node:
        case Call(function="_[_]", args=[operand, _]) | Select(operand=operand, test=False):
            return table(operand)
    return ""
