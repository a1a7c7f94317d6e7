"""What the portal had to tell a person: the list, the bell above every page, and reading."""

from uuid import UUID

from django import forms
from django.contrib import messages
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse, QueryDict
from django.http.response import HttpResponseBase
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.views.decorators.http import require_POST, require_safe
from django_filters import ChoiceFilter, FilterSet

from core.listing import Column, Listing
from core.text import counted
from teams.access import asker
from teams.models import Notice
from teams.notices import mark_read

UNREAD, IMPORTANT = "unread", "important"


class NoticeFilter(FilterSet):
    show = ChoiceFilter(
        label="Show",
        choices=[(UNREAD, "unread"), (IMPORTANT, "what needs me")],
        method="by_kind",
        empty_label="All",
    )

    class Meta:
        model = Notice
        fields: tuple[str, ...] = ()
        form = forms.Form

    def by_kind(self, notices: QuerySet[Notice], name: str, value: str) -> QuerySet[Notice]:
        return notices.filter(read_at=None) if value == UNREAD else notices.filter(important=True)


COLUMNS: list[Column[Notice]] = [
    Column("title", "Notice", lambda notice: notice.title, fixed=True),
    Column("created", "When", lambda notice: notice.created_at.isoformat(), sort="created_at"),
    Column("body", "What it says", lambda notice: notice.body, shown=False),
    Column("read", "Read", lambda notice: notice.read_at and notice.read_at.isoformat()),
]


@require_safe
def notices(request: HttpRequest) -> HttpResponseBase:
    """The notices of the reader, newest first."""
    listing = Listing(
        request,
        Notice.objects.filter(user=asker(request)),
        columns=COLUMNS,
        title="Notices",
        filters=NoticeFilter,
        search=("title", "body"),
        sort="-created",
    )
    empty = "What happens to your claims, and what waits for your decision, will stand here."
    return listing.respond(
        "teams/notices.html",
        {"empty_icon": "bell", "empty_title": "Nothing to tell", "empty_text": empty},
    )


@require_safe
def bell(request: HttpRequest) -> HttpResponse:
    """The bell alone, which renews itself."""
    return render(request, "teams/_bell.html")


@require_safe
def follow(request: HttpRequest, notice_id: UUID) -> HttpResponse:
    """Go to what a notice is about. It counts as read from then on, which is all that this changes."""
    notice = get_object_or_404(Notice, pk=notice_id, user=asker(request))
    mark_read(by=asker(request), ids=[notice.pk])
    return redirect(notice.url or reverse("teams:notices"))


@require_POST
def read(request: HttpRequest) -> HttpResponse:
    """Mark the notices that are named as read, or all of them where none is."""
    chosen = IdsForm(request.POST)
    if not chosen.is_valid():
        return HttpResponse("A notice is named by its id.", status=422)
    count = mark_read(by=asker(request), ids=chosen.cleaned_data["id"])
    messages.success(request, f"{counted(count, 'notice is', 'notices are')} read.")
    return redirect("teams:notices")


class IdsForm(forms.Form):
    id = forms.TypedMultipleChoiceField(required=False, coerce=UUID, empty_value=None)

    def __init__(self, data: QueryDict) -> None:
        super().__init__(data)
        ids = [(value, value) for value in data.getlist("id")]
        self.fields["id"].choices = ids  # type: ignore[attr-defined]
