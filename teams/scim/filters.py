"""
Filters of lists as conditions of a query (RFC 7644 §3.4.2.2): `eq` on what identifies something, `and`, `or`.

That is what providers ask. Everything else is refused as `invalidFilter`: it is either a mistake, or would
need an index that nobody uses.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any
from uuid import UUID

from django.db.models import Q, Value
from django.db.models.functions import Concat, Trim
from scim2_models import InvalidFilterException
from scim2_models.path import (
    CompareOperator,
    Comparison,
    FilterNode,
    FilterVisitor,
    LogicalExpr,
    LogicalOperator,
    Not,
    Present,
    ValuePath,
)

from core.text import is_text

MAX_LENGTH = 2_000  # characters; a filter of a provider has about 100
MAX_TERMS = 50

type Condition = Callable[[Any], Q]


def by_key(column: str) -> Condition:
    """Compare with a primary key; a text that is none matches nothing."""

    def condition(value: Any) -> Q:
        try:
            return Q(**{column: UUID(str(value))})
        except ValueError:
            return Q(pk__in=[])

    return condition


def by_text(column: str) -> Condition:
    return lambda value: Q(**{column: str(value)})


USERS: Mapping[str, Condition] = {
    "id": by_key("pk"),
    "username": by_text("user_name__iexact"),
    "externalid": by_text("external_id"),
    "displayname": by_text("label__iexact"),
    "emails": by_text("user__email__iexact"),
    "emails.value": by_text("user__email__iexact"),
    "name.givenname": by_text("user__first_name__iexact"),
    "name.familyname": by_text("user__last_name__iexact"),
    "active": lambda value: Q(user__is_active=value is True or str(value).lower() == "true"),
}
GROUPS: Mapping[str, Condition] = {
    "id": by_key("pk"),
    "displayname": by_text("name__iexact"),
    "externalid": by_text("external_id"),
    "members": by_key("members__scim_user__pk"),
    "members.value": by_key("members__scim_user__pk"),
}
LABEL = Trim(Concat("user__first_name", Value(" "), "user__last_name"))


class ConditionVisitor(FilterVisitor[Q]):
    """Makes a condition of a filter, with the attributes of one kind of resource."""

    def __init__(self, attributes: Mapping[str, Condition]) -> None:
        self.attributes = attributes
        self.terms = 0

    def visit_comparison(self, node: Comparison) -> Q:
        return self.compare(str(node.attr_path.attr), node.attr_path.sub_attr, node)

    def compare(self, attribute: str, sub: str | None, node: Comparison) -> Q:
        self.terms += 1
        name = f"{attribute}.{sub}" if sub else attribute
        condition = self.attributes.get(name.lower())
        if condition is None or node.op != CompareOperator.eq or self.terms > MAX_TERMS:
            known = ", ".join(f"{one} eq" for one in self.attributes)
            raise InvalidFilterException(
                detail=f"{name} {node.op.value} is not supported. Supported: {known}, and, or; at most "
                f"{MAX_TERMS} comparisons."
            )
        if node.value is None or "\x00" in str(node.value) or not is_text(str(node.value)):
            return Q(pk__in=[])
        return condition(node.value)

    def visit_logical_expr(self, node: LogicalExpr) -> Q:
        terms = [self.visit(term) for term in node.terms]
        return Q(*terms, _connector=Q.AND if node.op == LogicalOperator.and_ else Q.OR)

    def visit_value_path(self, node: ValuePath) -> Q:
        """Read `emails[type eq "work" and value eq "x"]` as `emails.value eq "x"`: there is one address."""
        inner = node.val_filter
        terms = (
            inner.terms if isinstance(inner, LogicalExpr) and inner.op == LogicalOperator.and_ else (inner,)
        )
        conditions = [
            self.compare(node.attr_path.attr, term.attr_path.attr, term)
            for term in terms
            if isinstance(term, Comparison) and term.attr_path.attr.lower() not in ("type", "primary")
        ]
        if not conditions:
            raise InvalidFilterException(detail=f"{node} compares no value.")
        return Q(*conditions)

    def visit_not(self, node: Not) -> Q:
        raise InvalidFilterException(detail="not is not supported.")

    def visit_present(self, node: Present) -> Q:
        raise InvalidFilterException(detail="pr is not supported.")


def condition_of(node: FilterNode, attributes: Mapping[str, Condition]) -> Q:
    """Return the condition of a filter. Raises InvalidFilterException for what is not supported."""
    return ConditionVisitor(attributes).visit(node)
