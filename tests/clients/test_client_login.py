"""Sign-in through the browser (RFC 8628), as the portal answers it."""

import httpx
import pytest
from dragoman import Conflict
from dragoman._sync.login import DeviceCode, LoginFailed, device_login

from tests.clients.portals import URL, Scripted, answer, problem

CODE = {
    "device_code": "secret",
    "user_code": "WDJB-MJHT",
    "verification_uri": f"{URL}/device/",
    "verification_uri_complete": f"{URL}/device/?code=WDJB-MJHT",
    "expires_in": 600,
    "interval": 5,
}
TOKEN = {
    "access_token": "drg_new",
    "token_type": "Bearer",
    "expires_at": "2026-12-26T10:00:00Z",
    "scopes": ["read", "request"],
}


def not_yet(error):
    return problem(400, error, error=error)


def login(script, show=print):
    http = httpx.Client(transport=httpx.MockTransport(script))
    return device_login(URL, show, client_name="dragoman CLI on here", http=http)


def test_the_token_comes_once_a_person_has_approved(no_pauses):
    script = Scripted(answer(**CODE), not_yet("authorization_pending"), answer(**TOKEN))
    shown: list[DeviceCode] = []
    token = login(script, shown.append)
    assert (token.access_token, token.scopes) == ("drg_new", ("read", "request"))
    assert token.expires_at.year == 2026
    assert shown[0].user_code == "WDJB-MJHT"
    assert script.bodies() == [
        {"client": "dragoman CLI on here", "scopes": ["read", "request"]},
        {"device_code": "secret"},
        {"device_code": "secret"},
    ]
    assert no_pauses == [5, 5]
    assert all("Authorization" not in request.headers for request in script.asked)


def test_it_asks_less_often_when_the_portal_wants_that(no_pauses):
    script = Scripted(answer(**CODE), not_yet("slow_down"), not_yet("authorization_pending"), answer(**TOKEN))
    login(script)
    assert no_pauses == [5, 10, 10]


def test_a_denial_is_a_sentence(no_pauses):
    with pytest.raises(LoginFailed, match="denied in the browser"):
        login(Scripted(answer(**CODE), not_yet("access_denied")))


def test_an_expired_code_says_what_to_do(no_pauses):
    with pytest.raises(LoginFailed, match=r"WDJB-MJHT in time. Run the command again"):
        login(Scripted(answer(**CODE), not_yet("expired_token")))


def test_it_does_not_ask_beyond_the_life_of_the_code(no_pauses):
    script = Scripted(answer(**CODE | {"expires_in": 0}))
    with pytest.raises(LoginFailed):
        login(script)
    assert len(script.asked) == 1


def test_another_refusal_is_itself(no_pauses):
    with pytest.raises(Conflict):
        login(Scripted(answer(**CODE), problem(409, "conflict")))
