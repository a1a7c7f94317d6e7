"""The realms that the tests import into Keycloak."""

from __future__ import annotations

from typing import Any

CLIENT, SECRET = "dragoman", "secret-of-the-portal"
PASSWORD = "of-keycloak"
OTHER_CLIENT = "another-application"


def realm(name: str, people: dict[str, list[str]]) -> dict[str, Any]:
    """Return a realm with these people in these groups, and the portal as a client."""
    groups = sorted({group for of_person in people.values() for group in of_person})
    return {
        "realm": name,
        "enabled": True,
        "sslRequired": "none",
        "groups": [{"name": group} for group in groups],
        "users": [user(name, username, of_person) for username, of_person in people.items()],
        "clients": [client(CLIENT), client(OTHER_CLIENT)],
    }


def user(realm_name: str, username: str, groups: list[str]) -> dict[str, Any]:
    return {
        "username": username,
        "enabled": True,
        "firstName": username.title(),
        "lastName": "Keys",
        "email": f"{username}@{realm_name}.example",
        "emailVerified": True,
        "credentials": [{"type": "password", "value": PASSWORD, "temporary": False}],
        "groups": [f"/{group}" for group in groups],
        "realmRoles": ["offline_access"],  # the right to offline tokens, which imported people lack
    }


def client(client_id: str) -> dict[str, Any]:
    """The addresses of the portal are set when it runs."""
    return {
        "clientId": client_id,
        "secret": SECRET,
        "protocol": "openid-connect",
        "publicClient": False,
        "standardFlowEnabled": True,
        "directAccessGrantsEnabled": True,  # so that tests get real tokens without a browser
        "attributes": {"pkce.code.challenge.method": "S256"} if client_id == CLIENT else {},
        "redirectUris": [],
        "protocolMappers": [
            {
                "name": "groups",
                "protocol": "openid-connect",
                "protocolMapper": "oidc-group-membership-mapper",
                "config": {
                    "claim.name": "groups",
                    "full.path": "false",
                    "id.token.claim": "true",
                    "access.token.claim": "true",
                    "userinfo.token.claim": "true",
                },
            }
        ],
    }
