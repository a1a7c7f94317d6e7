"""What every app builds on, to the letter: lists, pages of the API, inputs, errors, durations, queueing."""

import json
import uuid
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from io import BytesIO
from types import SimpleNamespace
from typing import Any

import pytest
import time_machine
from django.core.exceptions import PermissionDenied
from django.core.exceptions import ValidationError as ModelInvalid
from django.db import DataError, InterfaceError, transaction
from django.db import OperationalError as DatabaseAway
from django.http import HttpResponse, QueryDict
from django.test import RequestFactory
from kombu.exceptions import OperationalError
from rest_framework import exceptions, serializers
from rest_framework.request import Request
from rest_framework.test import APIRequestFactory

from core import undo
from core.errors import (
    Conflict,
    Forbidden,
    IllegalTransition,
    Invalid,
    PortalError,
    QuotaExceeded,
    data_error_refusal,
)
from core.idempotency import idempotency_key
from core.inputs import Cursor, Input, YesNo, is_true, is_whole, mistyped, ordered, positive
from core.listing import Column, Listing, csv_response, escape_formula, wants_csv
from core.middleware import ApiSlashMiddleware, CachingMiddleware, PortalErrorMiddleware
from core.problems import (
    MAX_LEVELS,
    BoundedJSON,
    TooLarge,
    field_errors,
    first_message,
    framework_problem,
    levels,
    not_found,
    server_error,
)
from core.text import money
from core.times import duration, relative, require_date
from core.transactions import after_commit, lock_row, pause, queue
from notify.models import Notice
from teams.models import Membership, Role, User
from tests.factories import make_team, make_user, sign_in_just_now

NOW = datetime(2026, 11, 22, 9, tzinfo=UTC)


def asked(query="", path="/api/v1/x/"):
    return Request(APIRequestFactory().get(f"{path}?{query}"))


@pytest.mark.parametrize(
    ("error", "code", "status"),
    [
        (PortalError, "refused", 409),
        (Invalid, "invalid", 422),
        (Forbidden, "forbidden", 403),
        (Conflict, "conflict", 409),
        (IllegalTransition, "illegal-transition", 409),
        (QuotaExceeded, "quota-exceeded", 409),
    ],
)
def test_each_refusal_has_a_code_and_a_status(error, code, status):
    made = error("No.", field="x", held=1)
    assert (made.code, made.status, made.message, str(made)) == (code, status, "No.", "No.")
    assert made.extra == {"field": "x", "held": 1}


# Pages of the API.


@pytest.mark.parametrize(
    ("query", "size"),
    [("", 50), ("limit=1", 1), ("limit=499", 499), ("limit=500", 500), ("limit=007", 7)],
)
def test_a_page_is_as_long_as_asked(query, size):
    assert Cursor().get_page_size(asked(query)) == size


def test_a_page_of_more_than_five_hundred_rows_is_refused():
    with pytest.raises(Invalid) as refusal:
        Cursor().get_page_size(asked("limit=501"))
    assert refusal.value.message == "limit is at most 500, not 501. Follow `next` for more."


@pytest.mark.parametrize("text", ["0", "-1", "x", "", "1.5", "²", "١"])
def test_malformed_number_is_refused_by_its_name(text):
    query = QueryDict(mutable=True)
    query["limit"] = text
    with pytest.raises(Invalid) as refusal:
        positive(asked(query.urlencode()), "limit")
    assert refusal.value.message == f"limit must be a whole number of at least 1, not “{text}”."
    assert refusal.value.extra == {"field": "limit"}


@pytest.mark.django_db
def test_the_rows_of_a_cursor_come_once_each():
    people = [make_user(f"p{number}") for number in range(5)]
    for person in people:
        Notice.objects.create(user=people[0], key=person.username, title=person.username)

    def page(url):
        cursor = ordered("-created_at", "-id")()
        query = url.partition("?")[2]
        rows = cursor.paginate_queryset(Notice.objects.all(), asked(query))
        return [row.title for row in rows], cursor.get_next_link()

    first, onward = page("?limit=2")
    second, last = page(onward)
    third, end = page(last)
    assert (first, second, third, end) == (["p4", "p3"], ["p2", "p1"], ["p0"], None)


@pytest.mark.django_db
def test_malformed_cursor_is_refused():
    for cursor in ("nonsense", "bz1hYmM%3D"):
        with pytest.raises(Invalid) as refusal:
            Cursor().paginate_queryset(User.objects.order_by("id"), asked(f"cursor={cursor}x"))
        assert refusal.value.extra == {"field": "cursor"}
        assert refusal.value.message == "This is not a cursor of this list. Use the one of `next`."

    class Broken(Cursor):
        def get_page_size(self, request):
            raise ValueError("ours")

    with pytest.raises(ValueError, match="ours"):
        Broken().paginate_queryset(User.objects.all(), asked())


# What the API takes.


class Wish(Input):
    name = serializers.CharField(required=False)
    count = serializers.IntegerField(required=False)
    on = serializers.BooleanField(required=False)
    kind = serializers.ChoiceField(choices=["a", "1"], required=False)
    at = serializers.DateTimeField(required=False)
    price = serializers.DecimalField(max_digits=5, decimal_places=2, required=False)
    ids = serializers.ListField(child=serializers.UUIDField(), required=False, allow_null=True)


TEXT, WHOLE, SWITCH = (f"This must be {what}." for what in ("a text", "a whole number", "true or false"))


@pytest.mark.parametrize(
    ("sent", "wrong"),
    [
        ({"name": 0, "count": "1", "on": 1}, {"name": [TEXT], "count": [WHOLE], "on": [SWITCH]}),
        ({"name": True, "count": True, "on": "true"}, {"name": [TEXT], "count": [WHOLE], "on": [SWITCH]}),
        ({"kind": 1, "at": 5, "price": 2.5}, {"kind": [TEXT], "at": [TEXT], "price": [TEXT]}),
        ({"count": 1.5}, {"count": [WHOLE]}),
        ({"ids": [str(uuid.UUID(int=1)), 7]}, {"ids": {"1": [TEXT]}}),
    ],
)
def test_json_of_another_type_is_refused_field_by_field(sent, wrong):
    made = Wish(data=sent)
    assert not made.is_valid()
    assert made.errors == wrong


def test_json_of_the_right_type_is_taken_and_a_form_is_read_as_text():
    sent = {"name": "x", "count": 2.0, "on": False, "kind": "1", "price": "2.50", "ids": None}
    made = Wish(data=sent)
    assert made.is_valid(), made.errors
    assert dict(made.validated_data) == {
        "name": "x", "count": 2, "on": False, "kind": "1", "price": Decimal("2.50"), "ids": None,
    }  # fmt: skip
    form = Wish(data=QueryDict("count=3&on=true&name=5"))
    assert form.is_valid(), form.errors
    assert (form.validated_data["count"], form.validated_data["on"]) == (3, True)
    assert [is_whole(value) for value in (1, 1.0, 1.5, True, "1", None)] == [True, True] + [False] * 4
    assert mistyped(serializers.CharField(), None) == []


@pytest.mark.parametrize(
    ("text", "value"),
    [(word, True) for word in ("true", "1", "yes", "on", "TRUE")]
    + [(word, False) for word in ("false", "0", "no", "off", "")],
)
def test_a_switch_of_the_query_is_read(text, value):
    assert is_true(asked(f"x={text}"), "x") is value
    assert is_true(asked(), "x") is False
    assert YesNo(required=False).clean(text) is (None if text == "" else value)


def test_malformed_boolean_is_refused_by_its_name():
    with pytest.raises(Invalid) as refusal:
        is_true(asked("x=maybe"), "x")
    assert (refusal.value.message, refusal.value.extra) == (
        "x: This must be true or false.",
        {"field": "x"},
    )


@pytest.mark.parametrize(
    ("sent", "key"), [("x" * 80, "x" * 80), (' "run 17" ', "run 17"), ("“ü”", None), ("", None)]
)
def test_a_key_is_kept_up_to_eighty_characters(sent, key):
    request = RequestFactory().post("/", headers={"Idempotency-Key": sent})
    if key:
        assert idempotency_key(request) == key
    else:
        assert idempotency_key(request)
    with pytest.raises(Invalid) as refusal:
        idempotency_key(RequestFactory().post("/", headers={"Idempotency-Key": "x" * 81}))
    assert refusal.value.message == "An Idempotency-Key has at most 80 printable characters."
    assert refusal.value.extra == {"field": "Idempotency-Key"}


@pytest.mark.django_db
@pytest.mark.parametrize(("depth", "told"), [(MAX_LEVELS, False), (MAX_LEVELS + 1, True)])
def test_json_may_be_as_deep_as_the_limit(client, depth, told):
    sign_in_just_now(client, make_user("alice"))
    answer = client.post("/api/v1/tokens/", "[" * depth + "]" * depth, content_type="application/json")
    assert answer.status_code == 422
    assert (answer.json()["detail"] == "The JSON has more than 64 levels.") is told
    assert levels([[], {"a": {}}]) == 3


def test_a_body_may_be_as_long_as_the_limit(settings):
    body = json.dumps({"title": "ci"}).encode()
    settings.DATA_UPLOAD_MAX_MEMORY_SIZE = len(body)
    assert BoundedJSON().parse(BytesIO(body)) == {"title": "ci"}
    with pytest.raises(TooLarge) as refusal:
        BoundedJSON().parse(BytesIO(body + b" "))
    assert refusal.value.status_code == 413
    assert str(refusal.value.detail) == f"The request has more than {len(body)} bytes."


# Problem documents.

HERE: Any = RequestFactory().get("/api/v1/x/")


def said(exception, status):
    document = framework_problem(exception, status, HERE)
    assert document.pop("type") == f"http://testserver/help/api/#{document['code']}"
    assert (document.pop("request_id"), document.pop("instance")) == ("", "/api/v1/x/")
    return document


@pytest.mark.parametrize(
    ("exception", "status", "document"),
    [
        (
            exceptions.ParseError("Bad."),
            400,
            {"status": 422, "code": "invalid", "title": "The request is malformed", "detail": "Bad."},
        ),
        (
            PermissionDenied(),
            403,
            {
                "status": 403,
                "code": "forbidden",
                "title": "Forbidden",
                "detail": "Your role does not allow this.",
            },
        ),
        (
            PermissionDenied("You are viewer."),
            403,
            {"status": 403, "code": "forbidden", "title": "Forbidden", "detail": "You are viewer."},
        ),
        (
            exceptions.NotAuthenticated("Who?"),
            401,
            {
                **{"status": 401, "code": "unauthenticated", "title": "Unauthorized"},
                "detail": "You are not signed in. Send a token of the page API tokens: Authorization: Bearer "
                "drg_…",
            },
        ),
        (
            exceptions.MethodNotAllowed("PUT"),
            405,
            {
                "status": 405,
                "code": "method-not-allowed",
                "title": "Method Not Allowed",
                "detail": "Method \"PUT\" not allowed.",
            },
        ),
        (
            exceptions.Throttled(),
            429,
            {
                "status": 429,
                "code": "too-often",
                "title": "Too Many Requests",
                "detail": "Request was throttled.",
            },
        ),
        (
            exceptions.ValidationError({"a": [{"b": ["No.", "Never."]}, {}], "non_field_errors": ["All."]}),
            400,
            {
                "status": 422,
                "code": "invalid",
                "title": "The request is malformed",
                "detail": "The request is malformed: a.0.b: No.",
                "errors": [
                    {"field": "a.0.b", "message": "No.", "code": "invalid"},
                    {"field": "a.0.b", "message": "Never.", "code": "invalid"},
                    {"field": "", "message": "All.", "code": "invalid"},
                ],
            },
        ),
    ],
)  # fmt: skip
def test_what_django_and_drf_refuse_is_a_problem_document(exception, status, document):
    assert said(exception, status) == document


def test_errors_are_told_with_their_path_or_without_one():
    assert first_message([]) == ""
    assert first_message([{"field": "", "message": "All."}]) == "All."
    assert field_errors("Plain.") == [{"field": "", "message": "Plain.", "code": "invalid"}]
    assert field_errors({"a": {"non_field_errors": ["x"]}}) == [
        {"field": "a", "message": "x", "code": "invalid"}
    ]
    assert ModelInvalid({"name": ["Too long."]}).message_dict == {"name": ["Too long."]}


@pytest.mark.parametrize(
    ("handler", "status", "code", "detail"),
    [
        (
            lambda request: not_found(request, Exception()),
            404,
            "not-found",
            "There is nothing at this address.",
        ),
        (
            server_error,
            500,
            "internal",
            "This is a fault of the portal; it was logged. No change was saved. Try again, or "
            "contact a platform admin.",
        ),
    ],
)
def test_unknown_api_address_and_error_are_problem_documents(rf, handler, status, code, detail):
    answer = handler(rf.get("/api/v1/nothing/"))
    assert (answer.status_code, answer["Content-Type"]) == (status, "application/problem+json")
    document = json.loads(answer.content)
    assert (document["status"], document["code"], document["detail"], document["instance"]) == (
        status,
        code,
        detail,
        "/api/v1/nothing/",
    )


@pytest.mark.parametrize("error", [DatabaseAway("gone"), InterfaceError("closed")])
def test_database_that_is_away_is_503_with_a_time_to_try_again(rf, error):
    """Outside of tests Django calls the handler while it handles the exception."""
    try:
        raise error
    except type(error):
        page, document = server_error(rf.get("/claims/")), server_error(rf.get("/api/v1/claims/"))
    assert (page.status_code, document.status_code) == (503, 503)
    assert (page["Retry-After"], document["Retry-After"]) == ("30", "30")
    assert "<h1>The database does not respond</h1>" in page.content.decode()
    assert '<p class="card-footer">503</p>' in page.content.decode()
    assert json.loads(document.content)["code"] == "unavailable"


def test_page_of_an_internal_error_says_that_it_is_one(rf):
    page = server_error(rf.get("/claims/"))
    assert page.status_code == 500
    assert "<h1>Internal error</h1>" in page.content.decode()
    assert "Retry-After" not in page.headers


def broken(sqlstate):
    error = DataError("no")
    error.__cause__ = SimpleError(sqlstate)
    return error


class SimpleError(Exception):
    def __init__(self, sqlstate):
        self.sqlstate = sqlstate


@pytest.mark.parametrize("sqlstate", [None, "22001", "22003", "22007", "22008", "22021", "22P02", "22P05"])
def test_value_that_the_database_cannot_store_is_malformed(sqlstate):
    refusal = data_error_refusal(broken(sqlstate))
    assert isinstance(refusal, Invalid)
    assert refusal.message == "It has a character, a number or a date that cannot be stored."


@pytest.mark.parametrize("sqlstate", ["22012", "42P01"])
def test_other_database_errors_are_not_refusals(sqlstate):
    assert data_error_refusal(broken(sqlstate)) is None


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("error", "status"),
    [
        (Conflict("Taken."), 409),
        (Invalid("No."), 422),
        (broken("22001"), 422),
        (broken("22012"), None),
        (KeyError(), None),
    ],
)
def test_a_refusal_is_a_page_with_its_status_and_a_fault_is_not(rf, error, status):
    request = rf.get("/")
    request.user = make_user("alice")
    answer = PortalErrorMiddleware(lambda request: HttpResponse()).process_exception(request, error)
    assert (answer and answer.status_code) == status
    if isinstance(error, PortalError):
        assert error.message in answer.text


# What stands before every view.


@pytest.mark.parametrize(
    ("path", "read"),
    [("/api/v1/x", "/api/v1/x/"), ("/api/v1/x/", "/api/v1/x/"), ("/me", "/me"), ("/apis", "/apis")],
)
def test_a_slash_is_added_to_addresses_of_the_api_only(rf, path, read):
    request = rf.get(path)
    ApiSlashMiddleware(lambda request: HttpResponse())(request)
    assert request.path_info == read


@pytest.mark.parametrize(
    ("kind", "signed_in", "control", "vary", "cache"),
    [
        ("text/html", True, None, "HX-Request", "private"),
        ("text/html", False, None, "HX-Request", None),
        ("text/csv", True, None, None, "private"),
        ("text/html", True, "no-store", "HX-Request", "no-store"),
    ],
)
def test_caches_keep_readers_and_fragments_apart(rf, kind, signed_in, control, vary, cache):
    request = rf.get("/")
    request.user = SimpleNamespace(is_authenticated=signed_in)
    headers = {"Cache-Control": control} if control else {}
    answer = CachingMiddleware(lambda request: HttpResponse(content_type=kind, headers=headers))(request)
    assert (answer.headers.get("Vary"), answer.headers.get("Cache-Control")) == (vary, cache)


# Lists.


COLUMNS = (
    Column[User]("name", "Name", lambda user: user.username, sort="username", fixed=True),
    Column[User]("seen", "Seen", lambda user: user.last_login, sort=("last_login", "username")),
    Column[User]("mail", "Mail", lambda user: user.email, shown=False),
)


def listing(rf, query="", **options):
    defaults = {"columns": COLUMNS, "title": "People", "search": ("username", "email")}
    return Listing(rf.get(f"/x/?{query}"), User.objects.all(), **{**defaults, **options})


@pytest.fixture
def people(db):
    for number, seen in ((1, None), (2, NOW), (3, NOW - timedelta(days=1)), (4, NOW)):
        make_user(f"p{number}", email=f"mail{number}@example.org", last_login=seen)


def shown(of):
    return [user.username for user in of.page]


def test_null_is_last_in_both_directions_and_ties_are_broken(rf, people):
    assert shown(listing(rf, "sort=seen")) == ["p3", "p2", "p4", "p1"]
    assert shown(listing(rf, "sort=-seen")) == ["p4", "p2", "p3", "p1"]


def test_a_word_is_searched_in_any_field_and_every_word_has_to_be_found(rf, people):
    assert shown(listing(rf, "q=MAIL2", sort="name")) == ["p2"]
    assert shown(listing(rf, "q=p+mail&sort=-name")) == ["p4", "p3", "p2", "p1"]
    assert shown(listing(rf, "q=p1+mail2", sort="name")) == []
    assert listing(rf, "q=p1", search=()).q == ""


def test_pages_and_their_links(rf, people):
    second = listing(rf, "page=2&sort=-name&q=p", per_page=1)
    assert (shown(second), second.total) == (["p3"], 4)
    assert second.previous_url == "?sort=-name&q=p&page=1"
    assert second.next_url == "?sort=-name&q=p&page=3"
    assert second.csv_url == "?sort=-name&q=p&format=csv"
    assert second.clear_url == "?sort=-name"
    assert second.sorted_by == "Name"
    assert shown(listing(rf, "page=99", per_page=3, sort="name")) == ["p4"]


def test_heads_lead_to_the_other_direction(rf, people):
    def heads(query):
        return [
            (head.column.name, head.url, head.direction) for head in listing(rf, query, sort="name").heads
        ]

    assert heads("") == [("name", "?sort=-name", "ascending"), ("seen", "?sort=seen", "")]
    assert heads("sort=-name&page=2") == [("name", "?sort=name", "descending"), ("seen", "?sort=seen", "")]
    assert heads("col=mail&sort=seen") == [
        ("name", "?col=mail&sort=name", ""),
        ("mail", "", ""),
    ]
    assert listing(rf, "col=nonsense").shows == {"name": True, "seen": True, "mail": False}
    assert listing(rf, "col=mail").shows == {"name": True, "seen": False, "mail": True}


def test_the_csv_of_a_list_has_every_row_whatever_the_page(rf, people):
    answer = listing(rf, "format=csv&page=2&sort=name&col=mail", per_page=1).respond("none.html")
    assert answer.getvalue().decode().split("\r\n") == [
        "Name,Mail",
        "p1,mail1@example.org",
        "p2,mail2@example.org",
        "p3,mail3@example.org",
        "p4,mail4@example.org",
        "",
    ]
    nameless = listing(rf, "format=csv", title="–").respond("none.html")
    assert nameless["Content-Disposition"] == 'attachment; filename="list.csv"'


@pytest.mark.parametrize("first", ["=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠"])
def test_a_cell_that_begins_like_a_formula_is_text(first):
    assert escape_formula(f"{first}1") == f"'{first}1"
    assert escape_formula(f"a{first}") == f"a{first}"


def test_numbers_and_empty_cells_are_not_escaped(rf):
    assert [escape_formula(value) for value in (0, -1.5, Decimal("-2"), None, "", True)] == [
        0, -1.5, Decimal("-2"), "", "", True,
    ]  # fmt: skip
    answer = csv_response("x", ("A", "B"), [(None, 0), ("=1", "b")])
    assert answer.getvalue().decode() == "A,B\r\n,0\r\n'=1,b\r\n"
    assert answer["Content-Disposition"] == 'attachment; filename="x.csv"'
    assert [wants_csv(rf.get(f"/?format={kind}")) for kind in ("csv", "xls", "")] == [True, False, False]


# Queueing, locking, undo.


@pytest.fixture
def task():
    sent = []
    return SimpleNamespace(name="a.task", delay=lambda *args: sent.append(args), sent=sent)


@pytest.mark.django_db
def test_a_task_is_queued_after_the_commit_with_its_arguments(task, django_capture_on_commit_callbacks):
    with django_capture_on_commit_callbacks(execute=True):
        after_commit(task, 1, "x")
        assert task.sent == []
        with transaction.atomic():
            after_commit(task, 2)
            transaction.set_rollback(True)
    assert task.sent == [(1, "x")]


def test_broker_that_hangs_is_waited_for_once(task, monkeypatch):
    asked: list[Any] = []

    def refuse(*args):
        asked.append(args)
        raise OperationalError("away")

    task.delay = refuse
    monkeypatch.setattr(pause, "until", 0.0)
    for number in range(20):
        queue(task, number)
    assert asked == [(0,)]


@pytest.mark.django_db
def test_unreachable_broker_does_not_fail_the_request(task, django_capture_on_commit_callbacks, monkeypatch):
    monkeypatch.setattr(pause, "until", 0.0)
    for error in (ValueError("ours"), OperationalError("away")):

        def refuse(*args, error=error):
            raise error

        task.delay = refuse
        with django_capture_on_commit_callbacks() as callbacks:
            after_commit(task)
        [callback] = callbacks
        if isinstance(error, ValueError):
            with pytest.raises(ValueError, match="ours"):
                callback()
        else:
            callback()


@pytest.mark.django_db
def test_locked_row_is_read_with_its_joins(django_assert_num_queries):
    alice = make_user("alice")
    team = make_team("vision", owners=(alice,))
    make_team("nlp", owners=(alice,))
    rows = Membership.objects.select_related("team").filter(role=Role.OWNER)
    row = team.memberships.get()
    with django_assert_num_queries(2) as queries:
        locked = lock_row(rows, row.pk)
        assert locked.team.slug == "vision"
    first, second = (query["sql"] for query in queries)
    assert first.endswith("FOR NO KEY UPDATE")
    assert "FOR " not in second
    with pytest.raises(Membership.DoesNotExist):
        lock_row(rows.filter(role=Role.VIEWER), row.pk)


def test_only_a_toast_with_a_button_has_an_offer():
    def message(tags):
        return SimpleNamespace(extra_tags=tags)

    assert [undo.undo_action(message(tags)) for tags in (None, "", "plain")] == [None] * 3
    button = json.dumps({"url": "/x/", "label": "Undo", "post": False})
    assert undo.undo_action(message(button)) == undo.UndoAction("/x/", "Undo", post=False)


# Times and money.


@pytest.mark.parametrize(
    ("span", "parts", "words"),
    [
        (timedelta(seconds=60), 2, "1 min"),
        (timedelta(seconds=3599), 2, "59 min"),
        (timedelta(hours=24), 2, "1 d"),
        (timedelta(days=1, hours=1, minutes=1), 1, "1 d"),
        (timedelta(days=1, hours=1, minutes=1), 3, "1 d 1 h 1 min"),
        (timedelta(days=1, minutes=1), 3, "1 d"),
        (timedelta(milliseconds=999), 2, "0 s"),
    ],
)
def test_a_duration_at_its_bounds(span, parts, words):
    assert duration(span, parts=parts) == words


def test_relative_times_at_their_bounds():
    second = timedelta(seconds=1)
    assert [relative(NOW + span, now=NOW) for span in (second, -second, second / 2, -second / 2)] == [
        "in 1 s",
        "1 s ago",
        "now",
        "now",
    ]
    with time_machine.travel(NOW, tick=False):
        assert relative(NOW - timedelta(hours=2)) == "2 h ago"


@pytest.mark.parametrize("year", [1970, 2200])
def test_a_date_at_the_bounds_is_meant(year):
    require_date(datetime(year, 6, 1, tzinfo=UTC))
    require_date(None)


@pytest.mark.parametrize("year", [1969, 2201])
def test_a_date_beyond_the_bounds_is_refused_with_its_year(year):
    with pytest.raises(Invalid) as refusal:
        require_date(datetime(year, 6, 1, tzinfo=UTC))
    assert refusal.value.message == f"A date lies between 1970 and 2200; the year {year} was sent."


@pytest.mark.parametrize(
    ("amount", "options", "text"),
    [
        ("0.005", {}, "€0.01"),
        ("-0.005", {}, "−€0.01"),
        ("0.0049", {}, "€0.00"),
        ("1234567.5", {"currency": "GBP", "digits": 0}, "£1,234,568"),
        ("-1", {"currency": "CHF"}, "−CHF 1.00"),
    ],
)
def test_money_at_its_bounds(amount, options, text):
    assert money(Decimal(amount), **options) == text
