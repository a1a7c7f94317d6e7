"""Pages of the API: by cursor, stable while rows come and go; by number where rows come of several tables."""

from typing import Any

from django.core.exceptions import ValidationError
from rest_framework.exceptions import NotFound
from rest_framework.pagination import CursorPagination, PageNumberPagination
from rest_framework.request import Request

from core.errors import Invalid

MOST = 500


class Bounded:
    """A page has as many rows as `limit` says, and never more than MOST; 422 for no number of rows."""

    page_size: int | None = 50
    max_page_size: int | None = MOST
    page_size_query_param: str | None = "limit"

    def get_page_size(self, request: Request) -> int | None:
        asked = positive(request, "limit")
        return self.page_size if asked is None else min(asked, MOST)

    def get_schema_operation_parameters(self, view: object) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = super().get_schema_operation_parameters(view)  # type: ignore[misc]
        for one in found:
            if one["schema"]["type"] == "integer":
                one["schema"]["minimum"] = 1
            if one["name"] == self.page_size_query_param:
                one["description"] = f"Rows of a page; more than {MOST} are never given."
        return found


class Cursor(Bounded, CursorPagination):
    ordering = "-id"

    def paginate_queryset(self, queryset: Any, request: Request, view: Any = None) -> list[Any] | None:
        try:
            return super().paginate_queryset(queryset, request, view)
        except (NotFound, ValueError, ValidationError):  # no cursor at all, or one of another list
            if "cursor" not in request.query_params:
                raise
            sentence = "This is not a cursor of this list; take the one of `next` or `previous`."
            raise Invalid(sentence, field="cursor") from None


class Numbered(Bounded, PageNumberPagination):
    def get_page_number(self, request: Request, paginator: Any) -> int:
        return positive(request, self.page_query_param) or 1


def positive(request: Request, name: str) -> int | None:
    """Return the number in the query, None without one. Raises Invalid for what is not a positive number."""
    text = request.query_params.get(name)
    if text is None:
        return None
    if not (text.isascii() and text.isdigit() and int(text[:20]) > 0):
        raise Invalid(f"{name} has to be a whole number from 1, not “{text[:20]}”.", field=name)
    return int(text[:20])
