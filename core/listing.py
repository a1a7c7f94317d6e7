"""
Lists on pages: search, filters, columns, sort, CSV and pages; the address has all of their state.

A view makes a `Listing` and returns `listing.respond(template)`. The template includes `_listing.html`, which
draws everything but the rows; these come from the partial `rows` of the page. Without JavaScript it is a GET
form; htmx requests the same address and takes `#listing-body` from the response. A list needs one query for
the count, one for the page, one for the saved filters and one per prefetch, for any number of rows.

`csv_response` is for short lists without search and pages, `csv_stream` for long ones.
"""

import csv
import io
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property, reduce
from itertools import accumulate, islice
from operator import and_, or_
from typing import Any

from django.core.exceptions import FieldDoesNotExist
from django.core.paginator import Page, Paginator
from django.db import transaction
from django.db.models import F, Model, Q, QuerySet
from django.db.models.expressions import Combinable, Expression, OrderBy
from django.http import HttpRequest, HttpResponse, QueryDict, StreamingHttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import redirect, render
from django.utils import timezone
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString
from django.utils.text import slugify
from django_filters import CharFilter, FilterSet

from core.errors import use
from core.filters import unknown_value
from core.models import SavedFilter
from core.saved_filters import default_of, saved_query


def wants_csv(request: HttpRequest) -> bool:
    """Return whether the address has `?format=csv`."""
    return request.GET.get("format") == "csv"


def csv_response(name: str, heads: Sequence[str], rows: Iterable[Sequence[object]]) -> HttpResponse:
    """Return `<name>.csv` with a line of heads and one per row; None is an empty cell."""
    response = HttpResponse(_lines(heads, rows), content_type="text/csv; charset=utf-8")
    response["Content-Disposition"] = f'attachment; filename="{name}.csv"'
    return response


def csv_text(heads: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Return the same text as `csv_response`, for a mail."""
    return "".join(_lines(heads, rows))


def _lines(heads: Sequence[str], rows: Iterable[Sequence[object]]) -> Iterator[str]:
    writer = csv.writer(Echo())
    yield writer.writerow(heads)
    for row in rows:
        yield writer.writerow([escape_formula(cell) for cell in row])


PER_PAGE = 50
MORE_PER_PAGE = (100, 200)  # that a reader may choose: ?rows=100
COMPACT = "compact"  # ?density=compact: lower rows
MAX_COUNT = 5_000  # rows that a list counts before it shows "5,000+"
MAX_SEARCH = 200  # characters: each word of them is compared with the rows
MAX_COMPARED = 1_000  # of a search that compares row after row; counting more takes longer than the page
LAST = "last"  # ?page=last; of a list with more rows than are counted -1, and -2 is the page before it
ALL = "?all=1"  # all rows, of a list with a saved default
LINES = 200  # of a CSV that are sent at once
BATCH = 1000  # rows of a CSV that are read at once
# Start of a formula in a spreadsheet, also in full width: OWASP, CSV injection.
FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "\uff1d", "\uff0b", "\uff0d", "\uff20")


@dataclass(frozen=True)
class Column[M: Model]:
    """
    One column: `value` returns its cell in the CSV; `sort` has the fields to order by, if it is sortable.

    `value` gets the row, or with `fields` their values: a CSV whose columns all have them makes no models.
    A `fixed` column cannot be hidden; a column that is not `shown` is hidden until the reader chooses it.
    """

    name: str
    label: str
    value: Callable[..., object]
    sort: str | tuple[str | Expression, ...] = ()
    numeric: bool = False
    fixed: bool = False
    shown: bool = True
    fields: tuple[str | Combinable, ...] = ()


@dataclass(frozen=True)
class ActiveFilter:
    """An active filter as text, with the address without it."""

    text: str
    without: str


@dataclass(frozen=True)
class PageSize:
    """A number of rows per page that may be chosen."""

    rows: int
    url: str
    is_current: bool


@dataclass(frozen=True)
class Head:
    """The head of a shown column; `direction` is "", "ascending" or "descending"."""

    column: Column[Any]
    url: str
    direction: str


def sum_of_columns(columns: Iterable[Column[Any]], cells: Mapping[str, str]) -> SafeString:
    """Draw the last row of a list, with what `cells` has for a column by its name; others are empty."""
    drawn = (
        (
            "wide" if column.fixed else "dg-n" if column.name in cells else "hide",
            "" if column.fixed else column.label,
            cells.get(column.name, ""),
        )
        for column in columns
    )
    return format_html(
        '<tr class="sumrow">{}</tr>', format_html_join("", '<td class="{}" data-l="{}">{}</td>', drawn)
    )


class Echo:
    """A file for csv.writer whose `write` returns the text."""

    def write(self, text: str) -> str:
        return text


class Listing[M: Model]:
    def __init__(
        self,
        request: HttpRequest,
        queryset: QuerySet[M],
        *,
        columns: Sequence[Column[M]],
        title: str,
        filters: type[FilterSet] | None = None,
        search: Sequence[str | Callable[[str], Q]] = (),
        sort: str = "",
        per_page: int = PER_PAGE,
        prepare: Callable[[list[M]], None] | None = None,
        load: Callable[[Sequence[Any]], list[Any]] | None = None,
        read_batch: Callable[[Sequence[tuple[Any, ...]], Mapping[str, int]], None] | None = None,
        scan_once: Callable[[], bool] | None = None,
    ) -> None:
        """
        `sort` is the column to sort by, with "-" for descending; "" keeps the order of the queryset. `search`
        has fields that may contain a word, and functions that return a condition for it. `prepare` completes
        the rows of a page, and those of a CSV in batches. `load` reads the rows of a page by their keys, in
        their order, in place of the queryset. `read_batch` reads what the columns of a CSV without models
        need beside their fields: it gets the values of a batch, and where each field is. `scan_once` is for a
        search that compares many rows: it returns whether all of them are read anyway, so that their keys are
        counted in order; else MAX_COMPARED of them are counted.
        """
        self.request = request
        self.query: QueryDict = request.GET
        self.queryset = queryset
        self.all_columns = columns
        self.title = title
        self.search = search
        self.default_sort = sort
        self.usual_per_page = per_page
        chosen = self.query.get("rows", "")
        self.per_page = next((number for number in MORE_PER_PAGE if str(number) == chosen), per_page)
        self.is_compact = self.query.get("density") == COMPACT
        self.prepare, self.load, self.read_batch = prepare, load, read_batch
        self.scan_once = scan_once
        self.filterset: FilterSet | None = filters(self.query, queryset, request=request) if filters else None

    @cached_property
    def q(self) -> str:
        return self.query.get("q", "")[:MAX_SEARCH].strip() if self.search else ""

    @cached_property
    def sort(self) -> str:
        requested = self.query.get("sort", "")
        sortable = {column.name for column in self.all_columns if column.sort}
        return requested if requested.removeprefix("-") in sortable else self.default_sort

    @cached_property
    def columns(self) -> list[Column[M]]:
        """The chosen columns in the order of `all_columns`; the default ones if none is chosen."""
        chosen = set(self.query.getlist("col"))
        if not chosen & {column.name for column in self.all_columns}:
            chosen = {column.name for column in self.all_columns if column.shown}
        return [column for column in self.all_columns if column.fixed or column.name in chosen]

    @cached_property
    def shows(self) -> dict[str, bool]:
        """Whether each column is shown: `{% if listing.shows.node %}` around a cell."""
        shown = {column.name for column in self.columns}
        return {column.name: column.name in shown for column in self.all_columns}

    @cached_property
    def rows(self) -> QuerySet[M]:
        """The matching rows in order; the primary key breaks ties, so that pages do not overlap."""
        rows: QuerySet[M] = self.filterset.qs if self.filterset else self.queryset
        rows = with_words(rows, self.q, self.search)
        return rows.order_by(*self.ordering()) if self.sort else rows

    def ordering(self) -> Iterator[OrderBy]:
        """
        Yield the order; null comes last in both directions.

        NULLS LAST is set only for nullable fields: a descending index has nulls first, and without an index
        all rows are sorted to show fifty.
        """
        name = self.sort.removeprefix("-")
        fields = next(column.sort for column in self.all_columns if column.name == name)
        for field in (*((fields,) if isinstance(fields, str) else fields), "pk"):
            last = True if isinstance(field, str) and may_be_null(self.queryset.model, field) else None
            expression = F(field) if isinstance(field, str) else field
            yield OrderBy(expression, descending=self.sort.startswith("-"), nulls_last=last)

    @cached_property
    def page(self) -> Page[M]:
        pages = Pages(self.rows, self.queryset, self.per_page, self.load)
        if self.q and self.scan_once:
            pages.scan_once = self.scan_once()
            pages.most = MAX_COUNT if pages.scan_once else MAX_COMPARED
        page = pages.get_page(self.query.get("page", 1))
        if self.prepare:
            self.prepare(list(page.object_list))
        return page

    @property
    def loaded(self) -> Iterable[Any]:
        """The rows of the page as `load` returns them."""
        return self.page.object_list

    @property
    def total(self) -> int:
        """Return the number of matching rows; one more than are counted stands for more, see `total_text`."""
        return self.page.paginator.count

    @property
    def total_text(self) -> str:
        return f"{self.total - 1:,}+" if self.is_open else str(self.total)

    @property
    def is_open(self) -> bool:
        """Whether there are more rows than were counted."""
        pages = self.page.paginator
        return isinstance(pages, Pages) and pages.is_open

    @property
    def rows_text(self) -> str:
        """Return "51 to 100 of 5,000+", or of a page from the end "the last 50 of 5,000+"."""
        page = self.page
        if page.number > 0:
            return f"{page.start_index()} to {page.end_index()} of {self.total_text}"
        if page.number == -1:
            return f"the last {len(page)} of {self.total_text}"
        after = self.per_page * (-page.number - 1)
        return f"{after + len(page)} to {after + 1} from the end of {self.total_text}"

    @property
    def page_text(self) -> str:
        """Return "Page 2 of 7", "Page 2" of a list that was not counted to its end, or "Last page"."""
        page = self.page
        if page.number < 0:
            return "Last page" if page.number == -1 else f"Page {-page.number} from the end"
        return f"Page {page.number}" if self.is_open else f"Page {page.number} of {page.paginator.num_pages}"

    def url(self, *drop: str, **changes: str) -> str:
        """Return the address of this list with changes, from its first page."""
        query = self.query.copy()
        for name in ("page", "format", *drop, *changes):
            query.pop(name, None)
        for name, value in changes.items():
            query[name] = value
        return f"?{query.urlencode()}"

    @property
    def sizes(self) -> list[PageSize]:
        """Return the numbers of rows per page; none if the smallest page has all rows."""
        if self.total <= self.usual_per_page:
            return []
        usual = self.url("rows")
        urls = {self.usual_per_page: ALL if usual == "?" and self.saved_default else usual}
        urls |= {number: self.url(rows=str(number)) for number in MORE_PER_PAGE}
        return [PageSize(number, url, number == self.per_page) for number, url in urls.items()]

    @cached_property
    def saved(self) -> list[SavedFilter]:
        """The filters of this list that the reader has saved, by name; one query."""
        user = getattr(self.request, "user", None)
        if user is None or not user.is_authenticated:
            return []
        return list(SavedFilter.objects.filter(user=user.pk, path=self.request.path).order_by("name"))

    @property
    def saved_default(self) -> SavedFilter | None:
        return default_of(self.saved)

    @cached_property
    def chosen(self) -> str:
        """Return what can be saved of this address: "" if it has neither filters nor columns nor order."""
        return saved_query(self.query)

    @property
    def may_save(self) -> bool:
        """Whether this address has something that the reader has not saved yet."""
        return bool(self.chosen) and self.chosen not in {saved.query for saved in self.saved}

    @property
    def heads(self) -> list[Head]:
        return [self.head(column) for column in self.columns]

    def head(self, column: Column[M]) -> Head:
        if not column.sort:
            return Head(column, "", "")
        is_current = self.sort.removeprefix("-") == column.name
        descends = is_current and self.sort.startswith("-")
        following = column.name if descends or not is_current else f"-{column.name}"
        direction = "" if not is_current else "descending" if descends else "ascending"
        return Head(column, self.url(sort=following), direction)

    @property
    def sorted_by(self) -> str:
        name = self.sort.removeprefix("-")
        return next((str(column.label) for column in self.all_columns if column.name == name), "")

    @cached_property
    def conditions(self) -> list[ActiveFilter]:
        """The active filters, including the search."""
        return ([ActiveFilter(f"“{self.q}”", self.url("q"))] if self.q else []) + self.filters

    @property
    def ignored(self) -> list[str]:
        """Return a sentence for each filter of the address whose value the list does not know."""
        if self.filterset is None or self.filterset.form.is_valid():
            return []
        form, sentences = self.filterset.form, []
        for name in form.errors:
            (value, known), label = unknown_value(form, name), form[name].label or name
            sentences.append(f"{label}: “{value[:40]}” is unknown, and not filtered by.{use(known)}")
        return sentences

    @cached_property
    def filters(self) -> list[ActiveFilter]:
        """The active filters, without the search."""
        active = []
        if self.filterset and self.filterset.form.is_valid():
            for name, value in self.filterset.form.cleaned_data.items():
                if value not in (None, "", []) and not (hasattr(value, "exists") and not value):
                    label = self.filterset.form.fields[name].label or name
                    active.append(ActiveFilter(f"{label}: {self.words(name, value)}", self.url(name)))
        return active

    def words(self, name: str, value: object) -> str:
        """Return the value of a filter as its form shows it: the label of a choice, not its key."""
        labels = {str(key): str(label) for key, label in getattr(self.form_field(name), "choices", ())}
        values: Iterable[object] = value if isinstance(value, list | tuple | QuerySet) else [value]
        return ", ".join(labels.get(str(getattr(item, "pk", item)), str(item)) for item in values)

    def form_field(self, name: str) -> object:
        return self.filterset.form.fields[name] if self.filterset else None

    @property
    def clear_url(self) -> str:
        address = self.url("q", *(self.filterset.form.fields if self.filterset else ()))
        return ALL if address == "?" and self.saved_default else address

    @property
    def csv_url(self) -> str:
        return self.url(format="csv")

    @property
    def previous_url(self) -> str:
        return self.url() + f"&page={self.page.previous_page_number()}"

    @property
    def last_url(self) -> str:
        return self.url(page=LAST)

    @property
    def next_url(self) -> str:
        return self.url() + f"&page={self.page.next_page_number()}"

    def respond(self, template: str, context: Mapping[str, object] | None = None) -> HttpResponseBase:
        """
        Return the page; the CSV of all matching rows for `?format=csv`; for the address alone a redirect to
        the default that the reader has saved.
        """
        if self.query.get("format") == "csv":
            return self.as_csv()
        if not self.query and self.saved_default:
            return redirect(self.saved_default.url)
        page = {"listing": self, "rows_template": f"{template}#rows", **(context or {})}
        return render(self.request, template, page)

    def as_csv(self) -> StreamingHttpResponse:
        name = slugify(str(self.title)) or "list"
        return csv_stream(name, [column.label for column in self.columns], self._csv_rows())

    def _csv_rows(self) -> Generator[list[object]]:
        if all(column.fields for column in self.columns):
            yield from self._cells_of_values()
            return
        for batch in _batches(self.rows):
            if self.prepare:
                self.prepare(batch)
            for row in batch:
                yield [column.value(row) for column in self.columns]

    def _cells_of_values(self) -> Iterator[list[object]]:
        names = [field for column in self.columns for field in column.fields]
        widths = [len(column.fields) for column in self.columns]
        ends = list(accumulate(widths))
        cells = [
            (column.value, slice(end - width, end))
            for column, width, end in zip(self.columns, widths, ends, strict=True)
        ]
        places = {name: place for place, name in enumerate(names) if isinstance(name, str)}
        for batch in _batches(self.rows.prefetch_related(None).values_list(*names), LINES):
            if self.read_batch:
                self.read_batch(batch, places)
            for values in batch:
                yield [value(*values[part]) for value, part in cells]


def csv_stream(name: str, heads: Sequence[object], rows: Generator[list[object]]) -> StreamingHttpResponse:
    """Return `<name>.csv`, of which lines are sent while the next ones are read."""
    response = StreamingHttpResponse(_streamed(heads, rows), content_type="text/csv; charset=utf-8")
    response["Content-Disposition"] = f'attachment; filename="{name}.csv"'
    return response


def _streamed(heads: Sequence[object], rows: Generator[list[object]]) -> Iterator[str]:
    """
    Yield the lines of a CSV, the head first, LINES at a time, in the time zone of whoever calls.

    The transaction keeps the cursor open on the server, so that neither side holds all rows. It ends with the
    last line, or when the response is closed.
    """
    zone = timezone.get_current_timezone()  # the middleware has left it when the lines are sent

    def lines() -> Iterator[str]:
        with timezone.override(zone), transaction.atomic(), closing(rows):
            buffer = io.StringIO()
            writer = csv.writer(buffer)
            writer.writerow(heads)
            for number, row in enumerate(rows, 1):
                writer.writerow(map(escape_formula, row))
                if number % LINES == 0:
                    yield buffer.getvalue()
                    buffer.seek(0)
                    buffer.truncate()
            yield buffer.getvalue()

    return lines()


def _batches(rows: QuerySet[Any, Any], fetched: int = BATCH) -> Iterator[list[Any]]:
    """Yield the rows in lists of at most BATCH, the first of LINES; a cursor fetches `fetched` at a time."""
    cursor = rows.iterator(chunk_size=fetched)
    size = LINES
    while batch := list(islice(cursor, size)):
        yield batch
        size = BATCH


class Pages[M: Model](Paginator[M]):
    """
    Pages that cost what they show, however long the list is.

    Rows are counted up to `most`, or to the end of a page behind that. Keys are sorted without the rows, and
    from the end if the page is nearer to it. Where rows are left uncounted, pages are numbered from the end
    too: -1 is the last one. `source` loads the rows of a page.
    """

    def __init__(
        self,
        rows: QuerySet[M],
        source: QuerySet[M],
        per_page: int,
        load: Callable[[Sequence[Any]], list[Any]] | None = None,
    ) -> None:
        super().__init__(rows, per_page)
        self.rows, self.source, self.load = rows, source, load
        self.is_open = self.scan_once = False
        self.most = MAX_COUNT

    @cached_property
    def first_keys(self) -> list[Any]:
        """The keys of the rows that are counted, in order."""
        return list(self.rows.values_list("pk", flat=True)[: self.most + 1])

    @cached_property
    def count(self) -> int:
        count = len(self.first_keys) if self.scan_once else self._count_to(self.most)
        self.is_open = count > self.most
        return count

    def _count_to(self, most: int) -> int:
        return self.rows.order_by()[: most + 1].count()

    def get_page(self, number: Any) -> Page[M]:
        text = str(number)[:12]
        from_end = 1 if text == LAST else int(text[1:]) if text[:1] == "-" and text[1:].isdecimal() else 0
        if from_end and self.count > self.most:
            return self.page_from_end(from_end)
        if text.isdecimal() and int(text) * self.per_page > self.most and self.count > self.most:
            self.__dict__.update(most=int(text) * self.per_page, scan_once=False)
            for name in ("count", "num_pages"):
                self.__dict__.pop(name, None)
        return super().get_page(max(self.num_pages + 1 - from_end, 1) if from_end else number)

    def page(self, number: Any) -> Page[M]:
        number = self.validate_number(number)
        start = (number - 1) * self.per_page
        end = min(start + self.per_page, self.count)
        keys = self.rows.values("pk")
        backwards = start > self.count - end and not self.is_open
        keys = keys.reverse()[self.count - end : self.count - start] if backwards else keys[start:end]
        if self.load and self.scan_once and end <= len(self.first_keys):
            return Page(self.load(self.first_keys[start:end]), number, self)
        return Page(self._loaded(keys, backwards=backwards), number, self)

    def page_from_end(self, number: int) -> Page[M]:
        """Return the page that is `number` pages before the end; the first page if there are not so many."""
        keys = self.rows.values("pk").reverse()[(number - 1) * self.per_page : number * self.per_page]
        rows = self._loaded(keys, backwards=True)
        return PageFromEnd(rows, -number, self) if rows else self.get_page(1)

    def _loaded(self, keys: QuerySet[Any, Any], *, backwards: bool) -> list[Any]:
        if self.load:
            chosen = list(keys.values_list("pk", flat=True))
            return self.load(chosen[::-1] if backwards else chosen)
        order = self.rows.query.order_by
        rows = self.source.order_by(*order) if order else self.source
        return list(rows.filter(pk__in=keys))


class PageFromEnd[M: Model](Page[M]):
    """A page of a list that was not counted to its end; its number is -1 for the last one."""

    def has_next(self) -> bool:
        return self.number < -1

    def has_previous(self) -> bool:
        return len(self) == self.paginator.per_page

    def next_page_number(self) -> int:
        return self.number + 1

    def previous_page_number(self) -> int:
        return self.number - 1


def with_words[M: Model](
    rows: QuerySet[M], text: str, search: Sequence[str | Callable[[str], Q]]
) -> QuerySet[M]:
    """Return the rows of which every word of the text is in a field of `search`, or meets its condition."""
    words = [reduce(or_, (_contains(field, word) for field in search)) for word in text[:MAX_SEARCH].split()]
    return rows.filter(reduce(and_, words)) if words else rows


class WordFilter(CharFilter):
    """`?q=` of the API, which is the search of the page: of fields, or as `search` of the reader says."""

    def __init__(self, *search: str, by: Callable[[Any], Callable[[str], Q]] | None = None) -> None:
        super().__init__(label="Words, as on the page")
        self.search, self.by = search, by

    def filter(self, qs: Any, value: str) -> Any:
        by = [self.by(self.parent.request.user)] if self.by else []
        return with_words(qs, value or "", (*self.search, *by))


def _contains(field: str | Callable[[str], Q], word: str) -> Q:
    return Q((f"{field}__icontains", word)) if isinstance(field, str) else field(word)


def may_be_null(model: type[Model], path: str) -> bool:
    """Return whether the field at the end of a path may be null; True for an annotation."""
    options: Any = model._meta
    *ways, last = (options.pk.name if path == "pk" and options.pk else path).split("__")
    try:
        for way in ways:
            field = options.get_field(way)
            if getattr(field, "null", True) or field.related_model is None:
                return True
            options = field.related_model._meta
        return bool(getattr(options.get_field(last), "null", True))
    except FieldDoesNotExist:
        return True


def escape_formula(value: object) -> object:
    """Return the cell so that no spreadsheet runs it as a formula."""
    if value is None or isinstance(value, int | float | Decimal):
        return "" if value is None else value
    text = str(value)
    return f"'{text}" if text.startswith(FORMULA) else text
