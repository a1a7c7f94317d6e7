"""The CSV of a list that is no `core.listing.Listing`: short ones that are never searched or turned over."""

import csv
from collections.abc import Iterable, Iterator, Sequence

from django.http import HttpRequest, HttpResponse
from django.utils.functional import Promise

from core.listing import Echo, harmless


def wants_sheet(request: HttpRequest) -> bool:
    """Tell whether the address asks for the CSV of its page: `?format=csv`, as everywhere."""
    return request.GET.get("format") == "csv"


def sheet(name: str, heads: Sequence[str | Promise], rows: Iterable[Sequence[object]]) -> HttpResponse:
    """Return a file `<name>.csv` with a line of heads and one for each row; None is an empty cell."""
    response = HttpResponse(_lines(heads, rows), content_type="text/csv; charset=utf-8")
    response["Content-Disposition"] = f'attachment; filename="{name}.csv"'
    return response


def _lines(heads: Sequence[str | Promise], rows: Iterable[Sequence[object]]) -> Iterator[str]:
    writer = csv.writer(Echo())
    yield writer.writerow(heads)
    for row in rows:
        yield writer.writerow([harmless(cell) for cell in row])
