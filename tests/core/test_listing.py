"""The convention of lists, on a list of people."""

import csv
import io
from operator import attrgetter

import pytest
from django.core.signals import request_finished
from django.db import close_old_connections, connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from core.listing import Column, Listing, escape_formula
from teams.models import User
from tests.factories import make_user

LIST = "/look/people/"


@pytest.fixture
def people(look, alice):
    for name in ("bob", "carol", "dan", "erin", "frank", "grace"):
        make_user(name, first_name=name.title(), theme="dark" if name in ("dan", "erin") else "light")


@pytest.fixture
def listed(browse, people, alice):
    client = browse(alice)

    def names(**query: object) -> list[str]:
        return [user.username for user in client.get(LIST, query).context["listing"].page]

    return names


def test_a_list_begins_sorted_and_is_cut_into_pages(listed):
    assert listed() == ["alice", "bob", "carol", "dan", "erin"]
    assert listed(page=2) == ["frank", "grace"]


def test_more_rows_per_page_are_chosen_by_the_address(browse, people, alice):
    client = browse(alice)
    page = client.get(LIST, {"sort": "-username"})
    assert [(size.rows, size.url, size.is_current) for size in page.context["listing"].sizes] == [
        (5, "?sort=-username", True),
        (100, "?sort=-username&rows=100", False),
        (200, "?sort=-username&rows=200", False),
    ]
    page = client.get(LIST, {"rows": "100", "page": "2"})
    assert page.context["listing"].page.paginator.num_pages == 1
    assert '<input type="hidden" name="rows" value="100" form="listing-form">' in page.text  # filters keep it
    assert client.get(LIST, {"theme": "dark"}).context["listing"].sizes == []


def test_rows_are_compact_where_the_address_says_so(browse, people, alice):
    client = browse(alice)
    for density, is_compact in (("compact", True), ("", False), ("tiny", False)):
        page = client.get(LIST, {"density": density, "theme": "dark"})
        assert ('<table class="dg-table fold compact">' in page.text) == is_compact
        assert ('name="density" value="compact" checked' in page.text) == is_compact
    listing = client.get(LIST, {"density": "compact"}).context["listing"]
    assert all("density=compact" in head.url for head in listing.heads if head.url)  # sorting keeps it
    assert listing.chosen == "density=compact"  # and a saved filter has it


@pytest.mark.parametrize("rows", ["7", "1000000", "x", "", "-1"])
def test_other_numbers_of_rows_are_ignored(listed, rows):
    assert len(listed(rows=rows)) == 5


@pytest.mark.parametrize("page", ["0", "99", "x", "-1"])
def test_page_number_out_of_range_shows_the_last_page(listed, page):
    assert listed(page=page)


@pytest.mark.parametrize("most", [0, 2, 6, 7, 10_000])
def test_pages_of_a_long_list_have_each_row_once(listed, browse, alice, monkeypatch, most):
    monkeypatch.setattr("core.listing.MAX_COUNT", most)
    names = ["alice", "bob", "carol", "dan", "erin", "frank", "grace"]
    assert listed() + listed(page=2) == names
    assert listed(sort="-username") + listed(sort="-username", page=2) == names[::-1]
    assert listed(page=99) == names[5:]
    assert listed(sort="name") + listed(sort="name", page=2) == ["alice", *names[1:]]
    assert listed(page="last") == listed(page=-1) == (names[2:] if most < 7 else names[5:])
    assert listed(page=-2) + listed(page=-1) == names
    assert listed(page=-3) == names[:5], "there are not so many pages"


def test_a_long_list_says_that_it_has_more_rows_than_it_counted(browse, people, alice, monkeypatch):
    monkeypatch.setattr("core.listing.MAX_COUNT", 6)
    first = browse(alice).get(LIST).text
    assert "1 to 5 of 6+" in first
    assert 'href="?page=last"' in first
    last = browse(alice).get(LIST, {"page": "last"}).text
    assert "the last 5 of 6+" in last
    assert ">Last page</span>" in last
    assert 'rel="next"' not in last
    assert 'rel="prev" href="?&amp;page=-2"' in last
    before = browse(alice).get(LIST, {"page": "-2"}).text
    assert "10 to 9 from the end of 6+" not in before
    assert "7 to 6 from the end of 6+" in before
    assert "Page 2 from the end" in before
    assert 'rel="next" href="?&amp;page=-1"' in before
    assert 'rel="prev"' not in before


def test_sorting_goes_both_ways_and_an_unknown_column_is_ignored(listed):
    assert listed(sort="-username")[0] == "grace"
    assert listed(sort="password")[0] == "alice"
    assert listed(sort="theme")[0] == "alice"  # that column cannot sort


def test_every_word_of_a_search_must_be_found_somewhere(listed):
    assert listed(q="ca ro") == ["carol"]
    assert listed(q="Carol Dan") == []


@pytest.mark.security("injection", "wildcards of SQL in a search")
def test_a_search_for_a_wildcard_is_a_search_for_that_sign(listed):
    assert listed(q="%") == []
    make_user("heidi", first_name="50 %")
    assert listed(q="%") == ["heidi"]


def test_active_filter_is_shown_with_a_link_to_remove_it(browse, people, alice):
    page = browse(alice).get(LIST, {"theme": "dark", "sort": "-username"})
    listing = page.context["listing"]
    assert [user.username for user in listing.page] == ["erin", "dan"]
    (condition,) = listing.conditions
    assert condition.text == "Theme: Dark"
    assert condition.without == "?sort=-username"


def test_filters_are_counted_without_the_search(browse, people, alice):
    page = browse(alice).get(LIST, {"theme": "dark", "q": "e"})
    assert [condition.text for condition in page.context["listing"].filters] == ["Theme: Dark"]
    assert len(page.context["listing"].conditions) == 2


def test_an_invalid_filter_breaks_nothing(browse, people, alice):
    assert browse(alice).get(LIST, {"theme": "pink", "is_active": "perhaps"}).status_code == 200


def test_columns_are_chosen_and_a_fixed_one_cannot_be_hidden(browse, people, alice):
    heads = browse(alice).get(LIST, {"col": "email"}).context["listing"].heads
    assert [head.column.name for head in heads] == ["username", "email"]


def test_the_state_of_a_list_survives_in_its_links(browse, people, alice):
    listing = browse(alice).get(LIST, {"q": "a", "col": "email", "page": "1"}).context["listing"]
    assert listing.heads[0].url == "?q=a&col=email&sort=-username"
    assert listing.csv_url == "?q=a&col=email&format=csv"


def rows_of(answer) -> list[list[str]]:
    return list(csv.reader(io.StringIO(answer.getvalue().decode())))


def test_the_csv_has_all_that_matches_in_the_chosen_columns(browse, people, alice):
    answer = browse(alice).get(LIST, {"format": "csv", "col": "theme", "sort": "-username"})
    assert answer.headers["Content-Type"] == "text/csv; charset=utf-8"
    assert answer.headers["Content-Disposition"] == 'attachment; filename="people-of-the-world.csv"'
    rows = rows_of(answer)
    assert rows[0] == ["User name", "Theme"]
    assert len(rows) == 1 + User.objects.count()
    assert rows[1] == ["grace", "Light"]


def exported(look, rf, user, **more):
    request = rf.get(LIST, {"format": "csv"})
    request.user = user
    rows = User.objects.order_by("username")
    columns = [Column("username", "User name", attrgetter("username")), *more.pop("columns", ())]
    return Listing(request, rows, columns=columns, title="People", **more).as_csv()


@pytest.fixture
def kept_connection():
    """The end of a response leaves the connection of the test open."""
    request_finished.disconnect(close_old_connections)
    yield
    request_finished.connect(close_old_connections)


def test_a_csv_is_read_from_a_cursor_that_ends_with_the_response(
    look, rf, people, alice, monkeypatch, kept_connection
):
    monkeypatch.setattr("core.listing.LINES", 2)
    outer = len(connection.savepoint_ids)
    response = exported(look, rf, alice)
    with CaptureQueriesContext(connection) as queries:
        lines = iter(response)
        assert next(lines).decode().splitlines() == ["User name", "alice", "bob"]
        assert len(connection.savepoint_ids) == outer + 1
        response.close()
    assert len(connection.savepoint_ids) == outer
    (declared,) = [query["sql"] for query in queries if query["sql"].startswith("DECLARE")]
    assert "WITH HOLD" not in declared  # that would store all rows before the first is sent
    assert User.objects.count() == 7


def test_cells_of_a_csv_are_in_the_time_zone_of_the_request(look, rf, alice):
    zone = Column[User]("zone", "Zone", lambda user: timezone.get_current_timezone_name())
    with timezone.override("Asia/Tokyo"):
        response = exported(look, rf, alice, columns=[zone])
    assert rows_of(response)[1] == ["alice", "Asia/Tokyo"]


def test_rows_of_a_csv_are_completed_in_batches(look, rf, people, alice, monkeypatch):
    monkeypatch.setattr("core.listing.LINES", 2)
    monkeypatch.setattr("core.listing.BATCH", 3)
    sizes = []

    def prepare(users):
        sizes.append(len(users))
        for user in users:
            user.shout = user.username.upper()

    shout = Column[User]("shout", "Shout", attrgetter("shout"))
    response = exported(look, rf, alice, columns=[shout], prepare=prepare)
    assert [row[1] for row in rows_of(response)[1:3]] == ["ALICE", "BOB"]
    assert sizes == [2, 3, 2]


def test_a_csv_of_values_is_that_of_rows(look, rf, people, alice):
    of_rows = Column[User]("name", "Name", lambda user: f"{user.first_name} ({user.theme})")
    of_values = Column[User]("name", "Name", "{} ({})".format, fields=("first_name", "theme"))
    request = rf.get(LIST, {"format": "csv"})
    request.user = alice
    rows = User.objects.order_by("username")
    by_rows, by_values = (
        rows_of(Listing(request, rows, columns=[column], title="People").as_csv())
        for column in (of_rows, of_values)
    )
    assert by_values == by_rows
    assert ["Dan (dark)"] in by_values


def test_values_of_a_csv_are_completed_in_batches(look, rf, people, alice, monkeypatch):
    monkeypatch.setattr("core.listing.LINES", 2)
    batches: list[int] = []
    names: dict[object, str] = {}

    def read_batch(values, places):
        batches.append(len(values))
        names.update((row[places["pk"]], row[places["username"]].upper()) for row in values)

    columns = [
        Column[User]("username", "User name", str, fields=("username",)),
        Column[User]("shout", "Shout", lambda pk: names[pk], fields=("pk",)),
    ]
    request = rf.get(LIST, {"format": "csv"})
    request.user = alice
    rows = User.objects.order_by("username")
    listing = Listing(request, rows, columns=columns, title="People", read_batch=read_batch)
    assert [row[1] for row in rows_of(listing.as_csv())[1:3]] == ["ALICE", "BOB"]
    assert batches == [2, 5]


@pytest.mark.parametrize("most", [3, 6, 100])
@pytest.mark.parametrize("page", ["1", "2", "4", "last"])
def test_a_search_that_reads_all_rows_once_has_the_same_pages(rf, people, alice, monkeypatch, most, page):
    monkeypatch.setattr("core.listing.MAX_COUNT", most)
    monkeypatch.setattr("core.listing.MAX_COMPARED", most)
    request = rf.get(LIST, {"q": "a", "page": page})
    request.user = alice
    columns = [Column[User]("username", "User name", attrgetter("username"), sort="username")]
    once, twice = (
        Listing(
            request, User.objects.all(), columns=columns, title="People", search=("username", "email"),
            sort="-username", per_page=2, load=list, scan_once=scan_once,
        )
        for scan_once in (lambda: True, lambda: False)
    )  # fmt: skip
    assert list(once.page.object_list) == list(twice.page.object_list) != []
    assert (once.total_text, once.page.number) == (twice.total_text, twice.page.number)


@pytest.mark.parametrize(("scan_once", "total"), [(None, "4+"), (lambda: True, "4+"), (lambda: False, "2+")])
def test_a_search_that_compares_rows_counts_fewer(rf, people, alice, monkeypatch, scan_once, total):
    monkeypatch.setattr("core.listing.MAX_COUNT", 4)
    monkeypatch.setattr("core.listing.MAX_COMPARED", 2)
    columns = [Column[User]("username", "User name", attrgetter("username"), sort="username")]

    def listing(**query):
        request = rf.get(LIST, query)
        request.user = alice
        return Listing(
            request, User.objects.all(), columns=columns, title="People", search=("username",),
            sort="username", per_page=2, scan_once=scan_once,
        )  # fmt: skip

    assert listing(q="a").total_text == total
    assert listing(q="a", page="last").total_text == total
    assert listing().total_text == "4+", "without a search all lists count the same"


@pytest.mark.security("injection", "formulas in the cells of a CSV")
def test_cells_that_start_a_formula_are_escaped():
    assert escape_formula("=HYPERLINK(1)") == "'=HYPERLINK(1)"
    assert escape_formula(-5) == -5
    assert escape_formula(None) == ""


def test_a_list_without_rows_says_so_and_one_without_matches_offers_a_way_back(browse, people, alice):
    page = browse(alice).get(LIST, {"q": "zzz"})
    assert "Nothing matches" in page.text
    assert 'href="?"' in page.text


def test_a_list_costs_the_same_for_one_row_and_for_a_page_full(
    browse, look, alice, django_assert_max_num_queries
):
    client = browse(alice)
    with django_assert_max_num_queries(20) as one:
        client.get(LIST)
    for number in range(20):
        make_user(f"person-{number}")
    with django_assert_max_num_queries(len(one)):
        client.get(LIST)
