"""An OpenID Connect provider on a loopback port that says whatever a test wants it to say."""

from __future__ import annotations

import base64
import hashlib
import json
import secrets
import time
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any
from urllib.parse import parse_qs, urlsplit

import jwt
from cryptography.hazmat.primitives.asymmetric import rsa

CLIENT, SECRET = "dragoman", "of-the-client"
LOGOUT = "http://schemas.openid.net/event/backchannel-logout"


class SigningKey:
    def __init__(self, kid: str) -> None:
        self.kid = kid
        self.private = rsa.generate_private_key(public_exponent=65537, key_size=2048)

    @property
    def public(self) -> dict[str, Any]:
        key = json.loads(jwt.algorithms.RSAAlgorithm.to_jwk(self.private.public_key()))
        return {**key, "kid": self.kid, "use": "sig", "alg": "RS256"}


KEYS = {kid: SigningKey(kid) for kid in ("first", "second", "forged")}


class Issuer:
    """`claims` are what the next sign-in says of a person; `code` is what the browser brings back."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.keys = [KEYS["first"]]
        self.signs_with = KEYS["first"]
        self.claims: dict[str, Any] = {}
        self.userinfo: dict[str, Any] | None = None  # None: what the claims say
        self.changes: dict[str, Any] = {}  # of the claims of the ID token alone
        self.metadata: dict[str, Any] = {}
        self.refresh_token: str | None = "refresh-1"
        self.type = "JWT"  # of signed tokens
        self.scope: str | None = None  # of the answer with tokens: None leaves it out
        self.renews_id_token = False  # with a refresh token
        self.refused = ""  # the error of the token endpoint for a refresh token
        self.status = 200  # of everything, if it is another
        self.encoding = ""  # of what is sent, which is plain all the same
        self.drips = False  # bodies without end
        self.redirects: dict[str, str] = {}  # path → where it sends whoever asks
        self.asked: list[tuple[str, dict[str, list[str]]]] = []
        self.challenges: dict[str, str] = {}
        self.nonces: dict[str, str] = {}

    def document(self) -> dict[str, Any]:
        return {
            "issuer": self.url,
            "authorization_endpoint": f"{self.url}/auth",
            "token_endpoint": f"{self.url}/token",
            "userinfo_endpoint": f"{self.url}/userinfo",
            "jwks_uri": f"{self.url}/keys",
            "scopes_supported": ["openid", "profile", "email", "offline_access"],
            "claims_supported": ["sub", "groups"],
            "code_challenge_methods_supported": ["S256"],
            "grant_types_supported": ["authorization_code", "refresh_token"],
            "token_endpoint_auth_methods_supported": ["client_secret_basic", "client_secret_post"],
            "backchannel_logout_supported": True,
            **self.metadata,
        }

    def authorize(self, url: str) -> dict[str, str]:
        """What the browser brings back after a person has signed in on the page of the provider."""
        asked = {name: values[0] for name, values in parse_qs(urlsplit(url).query).items()}
        assert asked["code_challenge_method"] == "S256"
        assert asked["client_id"] == CLIENT
        code = secrets.token_hex(8)
        self.challenges[code], self.nonces[code] = asked["code_challenge"], asked["nonce"]
        return {"code": code, "state": asked["state"]}

    def signed(self, claims: dict[str, Any], *, algorithm: str = "RS256", kid: str = "") -> str:
        key = self.signs_with
        return jwt.encode(
            claims, key.private, algorithm=algorithm, headers={"kid": kid or key.kid, "typ": self.type}
        )

    def id_token(self, **changes: Any) -> str:
        now = int(time.time())
        claims = {
            "iss": self.url, "aud": CLIENT, "iat": now, "exp": now + 300, "sid": "session-1", **self.claims,
            **changes,
        }  # fmt: skip
        return self.signed({name: value for name, value in claims.items() if value is not None})

    def logout_token(self, **changes: Any) -> str:
        now = int(time.time())
        claims = {
            "iss": self.url, "aud": CLIENT, "iat": now, "exp": now + 120, "jti": secrets.token_hex(8),
            "events": {LOGOUT: {}}, "sub": self.claims.get("sub"), **changes,
        }  # fmt: skip
        return self.signed({name: value for name, value in claims.items() if value is not None})

    def answer(self, path: str, form: dict[str, list[str]]) -> tuple[int, dict[str, Any]]:
        self.asked.append((path, form))
        if self.status != 200:
            return self.status, {"error": "away"}
        if path == "/.well-known/openid-configuration":
            return 200, self.document()
        if path == "/keys":
            return 200, {"keys": [key.public for key in self.keys]}
        if path == "/userinfo":
            return 200, self.claims if self.userinfo is None else self.userinfo
        if path == "/token":
            return self.token({name: values[0] for name, values in form.items()})
        return 404, {}

    def token(self, form: dict[str, str]) -> tuple[int, dict[str, Any]]:
        if form.get("client_secret") != SECRET:
            return 401, {"error": "invalid_client"}
        if form["grant_type"] == "refresh_token":
            if self.refused or form["refresh_token"] != self.refresh_token:
                return 400, {"error": self.refused or "invalid_grant"}
            again = {"access_token": "access", "token_type": "Bearer"}
            return 200, again | ({"id_token": self.id_token(**self.changes)} if self.renews_id_token else {})
        challenge = self.challenges.pop(form["code"], None)
        digest = hashlib.sha256(form.get("code_verifier", "").encode()).digest()
        if challenge is None or base64.urlsafe_b64encode(digest).rstrip(b"=").decode() != challenge:
            return 400, {"error": "invalid_grant"}
        tokens: dict[str, Any] = {"access_token": "access", "token_type": "Bearer", "expires_in": 60}
        tokens["id_token"] = self.id_token(**{"nonce": self.nonces[form["code"]], **self.changes})
        if self.refresh_token:
            tokens["refresh_token"] = self.refresh_token
        return 200, tokens | ({} if self.scope is None else {"scope": self.scope})


@contextmanager
def running():
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.reply({})

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0))).decode()
            self.reply(parse_qs(body))

        def reply(self, form: dict[str, list[str]]) -> None:
            status, content = issuer.answer(urlsplit(self.path).path, form)
            body = json.dumps(content).encode()
            target = issuer.redirects.get(urlsplit(self.path).path)
            self.send_response(302 if target else status)
            if target:
                self.send_header("Location", target)
            self.send_header("Content-Type", "application/json")
            if issuer.encoding:
                self.send_header("Content-Encoding", issuer.encoding)
            if issuer.drips:
                self.end_headers()
                self.drip()
                return
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def drip(self) -> None:
            with suppress(OSError):  # who reads has hung up
                for _ in range(200):
                    self.wfile.write(b" ")
                    self.wfile.flush()
                    time.sleep(0.05)

        def log_message(self, *args: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    issuer = Issuer(f"http://127.0.0.1:{server.server_address[1]}")
    Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
    try:
        yield issuer
    finally:
        server.shutdown()
        server.server_close()
