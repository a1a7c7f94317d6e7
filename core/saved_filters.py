"""
Filters of lists that a person has saved: the query of an address under a name, for that person alone.

A list shows them above its rows (`Listing.saved`), each as a link. One may be the default: the address of the
list without a query then leads to it, so what is shown always stands in the address.
"""

from __future__ import annotations

from typing import Any, cast
from uuid import UUID

from django.contrib import messages
from django.contrib.auth.models import AbstractBaseUser
from django.http import HttpRequest, HttpResponse, QueryDict
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import Resolver404, resolve
from django.utils import timezone
from django.views.decorators.http import require_POST, require_safe

from core.errors import Conflict, Invalid
from core.models import SavedFilter
from core.transactions import service, unless_taken

MOST = 20  # of one list, for one person
MAX_QUERY = 2000
NO_FILTER = ("page", "format", "all", "csrfmiddlewaretoken")  # parts of a query that choose no rows


def saved_query(query: QueryDict) -> str:
    """Return what is saved of a query: filters, columns and order, in the order of their names."""
    kept = QueryDict(mutable=True)
    for name in sorted(query):
        values = [value for value in query.getlist(name) if value and "\x00" not in value]
        if values and name not in NO_FILTER:
            kept.setlist(name, values)
    return kept.urlencode()


@service
def save_filter(
    *, by: AbstractBaseUser, path: str, title: str, name: str, query: str, is_default: bool
) -> SavedFilter:
    """Save a query under a name; the same name again replaces it. Raises Invalid, Conflict."""
    text = saved_query(QueryDict(query))
    name = valid_name(name)
    if not _is_list(path):
        raise Invalid("This is no address of a list.", field="list")
    if not text or len(text) > MAX_QUERY:
        raise Invalid(f"Choose filters or columns first; together they have at most {MAX_QUERY} characters.")
    mine = SavedFilter.objects.filter(user=by.pk, path=path)
    if mine.exclude(name=name).count() >= MOST:
        raise Conflict(f"You have saved {MOST} filters of this list. Delete one first.")
    values: dict[str, Any] = {"query": text}
    if title:
        values["title"] = title[:60]
    if is_default:
        values["default_since"] = timezone.now()
    saved, _made = SavedFilter.objects.update_or_create(
        user_id=by.pk, path=path, name=name, defaults=values, create_defaults={"title": path, **values}
    )
    return saved


def rename_filter(*, saved: SavedFilter, name: str) -> None:
    """Raises Invalid, Conflict."""
    name = valid_name(name)
    with unless_taken(Conflict(f"You have already saved filters of {saved.title} as “{name}”.")):
        SavedFilter.objects.filter(pk=saved.pk).update(name=name)


@service
def make_default(*, saved: SavedFilter, is_default: bool) -> None:
    """Make it the default of its list, or leave the list without one. The newest of two at once is it."""
    if is_default:
        SavedFilter.objects.filter(pk=saved.pk).update(default_since=timezone.now())
    else:
        SavedFilter.objects.filter(user=saved.user_id, path=saved.path).update(default_since=None)


def default_of(saved: list[SavedFilter]) -> SavedFilter | None:
    """Return the default among the saved filters of a list."""
    chosen = [one for one in saved if one.default_since]
    return max(chosen, key=lambda one: (one.default_since, one.pk), default=None)


def valid_name(name: str) -> str:
    name = name.strip()
    if not name or len(name) > 60 or not name.isprintable():
        raise Invalid("A name has 1 to 60 printable characters.", field="name")
    return name


def _is_list(path: str) -> bool:
    try:
        resolve(path)
    except Resolver404:
        return False
    return path.startswith("/") and not path.startswith(("//", "/api/")) and len(path) <= 200


# Pages.


@require_POST
def save(request: HttpRequest) -> HttpResponse:
    """Save the filters of the list that sent the form, and show it with them."""
    saved = save_filter(
        by=cast(AbstractBaseUser, request.user),
        path=request.POST.get("list", ""),
        title=request.POST.get("title", "").strip(),
        name=request.POST.get("name", ""),
        query=request.POST.get("query", ""),
        is_default=bool(request.POST.get("is_default")),
    )
    messages.success(request, f"Saved as “{saved.name}”.")
    return redirect(saved.url)


@require_safe
def saved_filters(request: HttpRequest) -> HttpResponse:
    lists: dict[str, list[SavedFilter]] = {}
    for saved in SavedFilter.objects.filter(user=request.user.pk).order_by("title", "path", "name"):
        lists.setdefault(saved.path, []).append(saved)
    rows = [(saved, default_of(group) == saved) for group in lists.values() for saved in group]
    return render(request, "core/saved_filters.html", {"rows": rows})


@require_POST
def change(request: HttpRequest, saved_id: UUID) -> HttpResponse:
    """Rename it, make it the default or not, or delete it; that of another person is 404."""
    saved = get_object_or_404(SavedFilter, pk=saved_id, user=request.user.pk)
    match request.POST.get("do"):
        case "rename":
            rename_filter(saved=saved, name=request.POST.get("name", ""))
        case "default":
            make_default(saved=saved, is_default=True)
        case "no-default":
            make_default(saved=saved, is_default=False)
        case "delete":
            with service:
                saved.delete()
            messages.success(request, f"“{saved.name}” was deleted.")
        case _:
            raise Invalid("Choose what to do: rename, default, no-default or delete.", field="do")
    return redirect("saved_filters")
