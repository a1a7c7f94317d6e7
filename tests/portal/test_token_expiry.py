"""Owners of tokens are reminded before a token expires."""

from datetime import UTC, datetime, timedelta

import pytest

from notify.models import Notice, NoticeKind
from portal import tasks
from portal.tasks import remind_of_expiry
from teams.models import ApiToken, User
from teams.service_accounts import create_account_token, create_service_account
from tests.factories import make_team, make_token, make_user

pytestmark = pytest.mark.django_db

END = datetime(2027, 1, 20, 12, tzinfo=UTC)
DAY = timedelta(days=1)


def token_until(end: datetime, *, lasting: timedelta, by: User) -> ApiToken:
    row, _text = make_token(by, "notebook")
    ApiToken.objects.filter(pk=row.pk).update(created_at=end - lasting, expires_at=end)
    return row


def test_7_days_and_1_day_before_once_each():
    token_until(END, lasting=90 * DAY, by=make_user("alice"))
    for days in (8, 7, 6.5, 2, 1, 0.5, 0, -1):
        remind_of_expiry(END - days * DAY)
    rows = list(Notice.objects.order_by("created_at").values_list("user__username", "title", "kind", "url"))
    title = "The API token “notebook” expires on Wed 20 Jan 2027, 12:00 UTC"
    assert rows == [("alice", title, NoticeKind.TOKEN, "/me/tokens/")] * 2


def test_a_rotated_token_is_reminded_of_again():
    row = token_until(END, lasting=90 * DAY, by=make_user("alice"))
    remind_of_expiry(END - 6 * DAY)
    ApiToken.objects.filter(pk=row.pk).update(rotated_at=END - 5 * DAY, expires_at=END + 85 * DAY)
    remind_of_expiry(END - 1 * DAY)
    assert Notice.objects.count() == 1
    remind_of_expiry(END + 80 * DAY)
    assert Notice.objects.count() == 2


@pytest.mark.parametrize(("lasting", "notices"), [(timedelta(hours=1), 0), (7 * DAY, 1), (30 * DAY, 2)])
def test_a_short_token_gets_no_reminder_that_says_nothing_new(lasting, notices):
    token_until(END, lasting=lasting, by=make_user("alice"))
    for before in (6 * DAY, timedelta(minutes=30)):
        remind_of_expiry(END - before)
    assert Notice.objects.count() == notices


def test_revoked_tokens_are_not_reminded_of():
    row = token_until(END, lasting=90 * DAY, by=make_user("alice"))
    ApiToken.objects.filter(pk=row.pk).update(revoked_at=END - 9 * DAY)
    remind_of_expiry(END - DAY)
    assert not Notice.objects.exists()


def test_leads_and_owners_are_reminded_of_tokens_of_service_accounts():
    olga, lena = make_user("olga"), make_user("lena")
    vision = make_team("vision", owners=(olga,), leads=(lena,), members=(make_user("alice"),))
    account = create_service_account(by=lena, team=vision, name="ci")
    row, _text = create_account_token(by=lena, account=account, title="nightly")
    ApiToken.objects.filter(pk=row.pk).update(created_at=END - 90 * DAY, expires_at=END)
    remind_of_expiry(END - DAY)
    found = Notice.objects.order_by("user__username").values_list("user__username", "url")
    page = f"/teams/vision/service-accounts/{account.pk}/"
    assert list(found) == [("lena", page), ("olga", page)]


def test_the_task_reminds_as_of_now():
    token_until(datetime.now(UTC) + timedelta(hours=3), lasting=90 * DAY, by=make_user("alice"))
    tasks.remind_of_token_expiry()
    assert Notice.objects.count() == 1
