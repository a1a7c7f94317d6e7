"""What lasts until a moment counts up to it and from it on no more: a row for each thing with such an end."""

from datetime import UTC, datetime, timedelta

import pytest
import time_machine
from django.test import RequestFactory

from claims.approvals.authority import active_delegations
from claims.approvals.views import delegations_context
from claims.budgets.cards import left_of_budgets
from claims.models import Delegation
from claims.quotas.counts import class_quotas
from claims.quotas.quota_requests import GRANTED
from claims.quotas.quota_usage import running_increases, team_usage
from cluster.credentials import seal_fields
from notify.webhooks.delivery import secrets_of
from notify.webhooks.models import Webhook
from portal.setup.people import person_use
from teams.invitations import open_invitations_of
from teams.models import ApiToken, Invitation, User
from teams.tokens import TokensSuspended, find_token
from tests.factories import GPU_CLASS, make_budget, make_quota, make_raise, make_team, make_token, make_user
from usage.models import Rate
from usage.rates import PriceGroup, RateCard

pytestmark = pytest.mark.django_db
END = datetime(2026, 12, 1, tzinfo=UTC)
BEGIN, DAY = END - timedelta(days=10), timedelta(days=1)
MOMENTS = {"before": END - timedelta(microseconds=1), "at the end": END, "after": END + DAY}


@pytest.fixture
def vision(db):
    return make_team("vision", leads=(make_user("lena"),), members=(make_user("alice"), make_user("bob")))


def delegation(team):
    """The delegate decides, both see it as current, and it ends with either account."""
    lena, bob = User.objects.get(username="lena"), User.objects.get(username="bob")
    Delegation.objects.create(team=team, lead=lena, to=bob, starts_at=BEGIN, ends_at=END)
    request = RequestFactory().get("/")
    request.user = lena
    yield lambda: active_delegations().exists()
    yield lambda: bool(delegations_context(request)["current"])
    yield lambda: not delegations_context(request)["past"].exists()
    yield lambda: person_use(bob)["delegations"] == 1


def increase_of_a_quota(team):
    quota = make_quota(team, 8)
    make_raise(quota, 2, starts_at=BEGIN, ends_at=END)
    now = lambda: datetime.now(UTC)  # noqa: E731
    yield lambda: [use.limit for use in team_usage([team])] == [10]
    yield lambda: class_quotas([team.pk])[team.pk][1] == 10
    yield lambda: sum(total for _class, total in GRANTED.rows(GPU_CLASS, now())) == 10
    yield lambda: bool(running_increases(quota))


def budget(team):
    make_budget(team, first=BEGIN.date(), last=(END - DAY).date(), title="Grant")
    yield lambda: bool(left_of_budgets([team.pk], now=datetime.now(UTC)))


def rate(team):
    Rate.objects.create(title="All", per_hour=2, currency="EUR", valid_from=BEGIN, valid_until=END)
    group = PriceGroup(team.pk, GPU_CLASS, "H100", None)
    yield lambda: RateCard.load().at(group, datetime.now(UTC)) is not None


def token(team):
    alice = User.objects.get(username="alice")
    row, text = make_token(alice)
    ApiToken.objects.filter(pk=row.pk).update(expires_at=END)
    yield lambda: find_token(text) is not None
    yield lambda: person_use(alice)["tokens"] == 1


def previous_text_of_a_token(team):
    row, text = make_token(User.objects.get(username="alice"))
    new = {"digest": "0" * 64, "previous_digest": row.digest, "previous_ends_at": END}
    ApiToken.objects.filter(pk=row.pk).update(expires_at=END + 9 * DAY, rotated_at=BEGIN, **new)
    yield lambda: find_token(text) is not None


def tokens_that_are_suspended_later(team):
    alice = User.objects.get(username="alice")
    row, text = make_token(alice)
    ApiToken.objects.filter(pk=row.pk).update(expires_at=END + 9 * DAY)
    User.objects.filter(pk=alice.pk).update(tokens_suspended_at=END)

    def is_valid():
        try:
            return find_token(text) is not None
        except TokensSuspended:
            return False

    yield is_valid


def invitation(team):
    lena = User.objects.get(username="lena")
    dates = {"sent_at": BEGIN, "expires_at": END}
    Invitation.objects.create(email="zoe@x.example", team=team, invited_by=lena, **dates)
    yield lambda: bool(open_invitations_of("ZOE@x.example"))


def earlier_secret_of_a_webhook(team):
    lena = User.objects.get(username="lena")
    new, old = (seal_fields({"secret": name}) for name in ("new", "old"))
    hook = Webhook.objects.create(
        team=team, url="https://x.example/", kinds=[], sealed=new, earlier=old, earlier_until=END,
        created_by=lena,
    )  # fmt: skip
    yield lambda: secrets_of(hook, datetime.now(UTC)) == ["new", "old"]


@pytest.mark.parametrize(("moment", "counts"), [("before", True), ("at the end", False), ("after", False)])
@pytest.mark.parametrize(
    "thing",
    [
        *(delegation, increase_of_a_quota, budget, rate, token, previous_text_of_a_token),
        *(tokens_that_are_suspended_later, invitation, earlier_secret_of_a_webhook),
    ],
)
def test_what_ends_counts_until_its_end_and_not_from_it_on(vision, thing, moment, counts):
    with time_machine.travel(BEGIN + DAY, tick=False):
        questions = list(thing(vision))
    with time_machine.travel(MOMENTS[moment], tick=False):
        assert [question() for question in questions] == [counts] * len(questions)
