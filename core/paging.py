"""Pages of the API: by cursor, which is stable while rows change; by number for rows of several tables."""

from typing import Any

from django.core.exceptions import ValidationError
from rest_framework.exceptions import NotFound
from rest_framework.pagination import CursorPagination, PageNumberPagination
from rest_framework.request import Request

from core.errors import Invalid

MAX_ROWS = 500


class Bounded:
    """A page has `limit` rows, at most MAX_ROWS. Raises Invalid for a malformed limit."""

    page_size: int | None = 50
    max_page_size: int | None = MAX_ROWS
    page_size_query_param: str | None = "limit"

    def get_page_size(self, request: Request) -> int | None:
        limit = positive(request, "limit")
        return self.page_size if limit is None else min(limit, MAX_ROWS)

    def get_schema_operation_parameters(self, view: object) -> list[dict[str, Any]]:
        parameters: list[dict[str, Any]] = super().get_schema_operation_parameters(view)  # type: ignore[misc]
        for parameter in parameters:
            if parameter["schema"]["type"] == "integer":
                parameter["schema"]["minimum"] = 1
            if parameter["name"] == self.page_size_query_param:
                parameter["description"] = f"Rows per page, at most {MAX_ROWS}."
        return parameters


class Cursor(Bounded, CursorPagination):
    ordering = "-id"

    def paginate_queryset(self, queryset: Any, request: Request, view: Any = None) -> list[Any] | None:
        try:
            return super().paginate_queryset(queryset, request, view)
        except (NotFound, ValueError, ValidationError):  # malformed, or a cursor of another list
            if "cursor" not in request.query_params:
                raise
            sentence = "This is not a cursor of this list. Use the one of `next` or `previous`."
            raise Invalid(sentence, field="cursor") from None


class Numbered(Bounded, PageNumberPagination):
    def get_page_number(self, request: Request, paginator: Any) -> int:
        return positive(request, self.page_query_param) or 1


def positive(request: Request, name: str) -> int | None:
    """Return the number in the query, None without it. Raises Invalid unless it is positive."""
    text = request.query_params.get(name)
    if text is None:
        return None
    if not (text.isascii() and text.isdigit() and int(text[:20]) > 0):
        raise Invalid(f"{name} must be a whole number of at least 1, not “{text[:20]}”.", field=name)
    return int(text[:20])
