"""Pages: the list of notices, the bell of the frame, one notice, and marking as read."""

from uuid import UUID

from django import forms
from django.contrib import messages
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse, QueryDict
from django.http.response import HttpResponseBase
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.utils.cache import get_conditional_response, patch_cache_control
from django.views.decorators.http import require_POST, require_safe
from django_filters import ChoiceFilter, FilterSet

from core.errors import cleaned
from core.listing import Column, Listing
from core.text import counted
from core.times import local_text
from notify.forms import PreferencesForm
from notify.models import Notice, NoticeKind
from notify.preferences import preferences_of, store_preferences
from notify.services import mark_read, notices_of, unread_count
from teams.access import user_of

UNREAD, IMPORTANT = "unread", "important"


class NoticeFilter(FilterSet):
    show = ChoiceFilter(
        label="Show",
        choices=[(UNREAD, "Unread"), (IMPORTANT, "Needs my action")],
        method="by_kind",
        empty_label="All",
    )
    kind = ChoiceFilter(label="NoticeKind", choices=NoticeKind, empty_label="All kinds")

    class Meta:
        model = Notice
        fields: tuple[str, ...] = ()
        form = forms.Form

    def by_kind(self, notices: QuerySet[Notice], name: str, value: str) -> QuerySet[Notice]:
        return (
            notices.filter(read_at=None) if value == UNREAD else notices.filter(important=True, read_at=None)
        )


COLUMNS: list[Column[Notice]] = [
    Column("title", "Notice", lambda notice: local_text(notice.title), fixed=True),
    Column("created", "When", lambda notice: notice.created_at.isoformat(), sort="created_at"),
    Column("kind", "NoticeKind", lambda notice: notice.get_kind_display(), shown=False),
    Column("body", "Text", lambda notice: local_text(notice.body), shown=False),
    Column("read", "Read", lambda notice: notice.read_at and notice.read_at.isoformat()),
]


@require_safe
def notice_list(request: HttpRequest) -> HttpResponseBase:
    """List the reader's notices, newest first."""
    listing = Listing(
        request,
        notices_of(user_of(request)),
        columns=COLUMNS,
        title="Notices",
        filters=NoticeFilter,
        search=("title", "body"),
        sort="-created",
    )
    empty = "Changes of your claims and requests that wait for your decision appear here."
    return listing.respond(
        "notify/list.html",
        {"empty_icon": "bell", "empty_title": "No notices", "empty_text": empty},
    )


@require_safe
def bell(request: HttpRequest) -> HttpResponse:
    """Render the bell alone, which the frame of each page polls: 304 while the number is the same."""
    unread = unread_count(user_of(request))
    etag = f'"bell-{unread}"'
    response = get_conditional_response(request, etag=etag)
    if response is None:
        response = render(request, "notify/_bell.html", {"unread": unread})
        response["ETag"] = etag
    patch_cache_control(response, private=True, no_cache=True)
    return response


@require_safe
def open_notice(request: HttpRequest, notice_id: UUID) -> HttpResponse:
    """Redirect to the page that a notice is about, and mark the notice as read."""
    notice = get_object_or_404(Notice, pk=notice_id, user=user_of(request))
    mark_read(by=user_of(request), ids=[notice.pk])
    return redirect(notice.url or reverse("notify:list"))


@require_POST
def read(request: HttpRequest) -> HttpResponse:
    """Mark the given notices as read, or all of them if no id is sent."""
    chosen = cleaned(IdsForm(request.POST))
    count = mark_read(by=user_of(request), ids=chosen["id"])
    messages.success(request, f"{counted(count, 'notice')} marked as read.")
    return redirect("notify:list")


@require_POST
def preferences(request: HttpRequest) -> HttpResponse:
    """Store the channels that the reader chose on the account page for each kind of notice."""
    person = user_of(request)
    form = PreferencesForm(preferences_of(person), request.POST)
    cleaned(form)
    store_preferences(by=person, preferences=form.preferences())
    messages.success(request, "Notices saved.")
    return redirect(f"{reverse('teams:profile')}#notices")


class IdsForm(forms.Form):
    id = forms.TypedMultipleChoiceField(required=False, coerce=UUID, empty_value=None)

    def __init__(self, data: QueryDict) -> None:
        super().__init__(data)
        ids = [(value, value) for value in data.getlist("id")]
        self.fields["id"].choices = ids  # type: ignore[attr-defined]
