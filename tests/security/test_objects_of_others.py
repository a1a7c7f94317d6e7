"""
Every address that names an object, by every verb, as everybody who may not touch it.

The addresses come from the URL conf: a new page or endpoint is tried by itself. Its parameters are filled
with rows of the team vision (`tests.portal.every_address`); one that nothing fills fails here.
"""

import pytest
from django.test import Client

from core.scopes import Scope
from teams.models import Role
from teams.service_accounts import create_account_token, create_service_account
from tests.factories import make_team, make_token, make_user
from tests.portal.every_address import PLACE, SOME, address, one_of_everything, routes
from tests.security.state import differences, stored, writes

pytestmark = pytest.mark.django_db

READING, WRITING = ("GET", "HEAD", "OPTIONS"), ("POST", "PUT", "PATCH", "DELETE")
REFUSED = {401, 403, 404, 405}
# What everybody who is signed in reads: addresses that begin so, with the reason.
SHARED = {
    "help/": "the help of the portal",
    "catalogue/": "the catalogue is for everybody; it names no team",
    "profiles/<slug:slug>/": "a profile is in the catalogue",
    "api/v1/profiles/": "a profile is in the catalogue",
    "clusters/<slug:name>/": "everybody sees which devices a cluster has",
    "clusters/<slug:cluster>/nodes/": "of a cluster, of no team",
    "api/v1/clusters/": "as the page",
    "devices/": "everybody sees the fleet; who holds a device is shown by team",
    "api/v1/devices/": "as the page",
    "api/v1/device-classes/": "of a cluster, of no team",
    "api/v1/nodes/": "of a cluster, of no team",
    "rates/": "prices are for everybody",
    "api/v1/rates/": "prices are for everybody",
    "claims/request/dropped/<int:step>/": "a step of the matching, no object",
}
# Links that are signed, and open something to whoever has them; tests of their pages try wrong ones.
SIGNED = ("accounts/", "join/<str:token>/", "report/unsubscribe/<str:token>/")
OWN = ("me/providers/",)  # one's own link to an identity provider, which the sign-in page names to everybody
ADMIN = "admin/"  # of Django, for platform admins alone
# Parameters of Django's admin, and of what SCIM does not have.
PLAIN = {"app_label": "teams", "object_id": "1", "content_type_id": "1", "url": "x", "id": "1", "rest": "x"}


def with_objects():
    """Return every address that names an object."""
    return [route for route in routes(skipped=SIGNED + OWN) if PLACE.search(route)]


@pytest.fixture
def known():
    found = one_of_everything() | PLAIN
    make_team("nlp")
    return found


@pytest.mark.security("access", "a new address with a parameter that no test fills")
def test_every_parameter_of_an_address_is_filled(known):
    unknown = [route for route in with_objects() if SOME in address(route, known)]
    assert unknown == [], "Add a row for it to tests/portal/every_address.py: one_of_everything()."
    for prefix in SHARED:
        assert any(route.startswith(prefix) for route in with_objects()), f"no address begins with {prefix}"


def signed_in(person):
    client = Client(raise_request_exception=False)
    client.force_login(person)
    return client


def bearer(text):
    return Client(raise_request_exception=False, headers={"Authorization": f"Bearer {text}"})


def member_of_nlp(role):
    person = make_user(f"eve-{role}")
    make_team("nlp").memberships.create(user=person, role=role)
    return person


def pipeline_of_nlp():
    owner = member_of_nlp(Role.OWNER)
    account = create_service_account(by=owner, team=make_team("nlp"), name="ci")
    scopes = [Scope.READ, Scope.REQUEST]
    return bearer(create_account_token(by=owner, account=account, title="ci", scopes=scopes)[1])


OUTSIDERS = {
    "member of another team": lambda: signed_in(member_of_nlp(Role.MEMBER)),
    "owner of another team": lambda: signed_in(member_of_nlp(Role.OWNER)),
    "person without a team": lambda: signed_in(make_user("nobody")),
    "token with every scope of an owner of another team": lambda: bearer(
        make_token(member_of_nlp(Role.OWNER), scopes=list(Scope))[1]
    ),
    "service account of another team": pipeline_of_nlp,
    "nobody": lambda: Client(raise_request_exception=False),
}


def asked(client, method, path):
    body: dict = {} if method in READING else {"data": "{}", "content_type": "application/json"}
    if method == "POST" and not path.startswith("/api/"):
        body = {"data": {}}
    return getattr(client, method.lower())(path, **body)


def methods_of(route, *, is_insider=False):
    """Return what is tried; OPTIONS of the API describes the operation and looks nothing up."""
    if route.startswith(ADMIN):
        return ("GET", "POST")
    if is_insider or route.startswith(tuple(SHARED)):
        return WRITING
    return (*READING[:2], *WRITING) if route.startswith("api/") else READING + WRITING


def answered(client, method, path, no_such):
    """
    Return the status of a request that is not refused, or that is so in a way that tells of the object.

    Who is not signed in is led to the sign-in. A malformed body may be refused before anything is looked up,
    if it is so for an object that there is not (`no_such`; None for what the person may know of); tests/api
    sends well-formed ones.
    """
    answer = asked(client, method, path)
    status = answer.status_code
    if status == 302 and answer["Location"].startswith(("/accounts/login/", "/admin/login/")):
        return None
    if status == 422 and (no_such is None or asked(client, method, no_such).status_code == 422):
        return None
    return None if status in REFUSED else status


def wrong_of(client, known, *, is_insider=False):
    """Return a sentence for each request that was answered, and for each that wrote something."""
    wrong, before, counted = [], stored(), writes()
    for route in with_objects():
        path, is_known = address(route, known), is_insider or route.startswith(tuple(SHARED))
        no_such = None if is_known else address(route, {})
        statuses = {
            method: answered(client, method, path, no_such)
            for method in methods_of(route, is_insider=is_insider)
        }
        wrong += [
            f"{method} {path} ({route}) is answered: {found}" for method, found in statuses.items() if found
        ]
        if (count := writes()) != counted:
            counted, after = count, stored()
            if changed := differences(before, after):
                wrong.append(f"{path} ({route}) has written to {', '.join(changed)}")
            before = after
    return wrong


@pytest.mark.security(
    "access", "each object of another team by its address: every verb, as everybody outside; no table differs"
)
@pytest.mark.parametrize("who", OUTSIDERS)
def test_no_object_of_another_team_is_read_or_changed(who, known):
    wrong = wrong_of(OUTSIDERS[who](), known)
    assert not wrong, "\n".join(wrong)


@pytest.mark.security("access", "each object of the own team by every verb that writes, as a viewer")
def test_a_viewer_changes_nothing_of_the_own_team(known):
    vera = make_user("vera")
    make_team("vision").memberships.create(user=vera, role=Role.VIEWER)
    wrong = wrong_of(signed_in(vera), known, is_insider=True)
    assert not wrong, "\n".join(wrong)
