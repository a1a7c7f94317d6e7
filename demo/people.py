"""People, teams, namespaces and clusters of the demo; clusters are read from their servers' kubeconfigs."""

import ssl
from functools import cache
from pathlib import Path
from typing import Any

import httpx
from django.conf import settings
from django.contrib.auth.hashers import make_password

from claims.models import TeamNamespace
from cluster.credentials import Credentials, from_kubeconfig, seal, unseal
from cluster.kube import connect
from cluster.protocol import POD, Gateway, Manifest
from cluster.tls import client_context
from inventory.models import Cluster, TelemetryAccess
from teams.models import Membership, Role, Team, User

PASSWORD = "demo"  # noqa: S105, of sample people on a loopback address

TEAMS = {"vision": "Vision", "nlp": "Language", "speech": "Speech", "robotics": "Robotics"}
# username → first name, {team: role}
PEOPLE: dict[str, tuple[str, dict[str, Role]]] = {
    "engineer": ("Mira", {"vision": Role.MEMBER}),
    "lead": ("Aylin", {"vision": Role.LEAD}),
    "outsider": ("Theo", {"nlp": Role.MEMBER}),
    "admin": ("Lukas", {}),
    "noor": ("Noor", {"vision": Role.OWNER}),
    "jonas": ("Jonas", {"vision": Role.MEMBER}),
    "emil": ("Emil", {"vision": Role.VIEWER}),
    "ines": ("Ines", {"nlp": Role.LEAD}),
    "lena": ("Lena", {"nlp": Role.MEMBER}),
    "ravi": ("Ravi", {"speech": Role.LEAD}),
    "sofia": ("Sofia", {"speech": Role.MEMBER}),
    "kenji": ("Kenji", {"robotics": Role.OWNER}),
}
TEAM_OF = {name: team for name, (_first_name, roles) in PEOPLE.items() for team in roles}
DECIDERS = {"vision": "lead", "nlp": "ines", "speech": "ravi"}  # team → who decides on its requests


def load_people() -> None:
    """Create the people who are missing; do not touch existing ones."""
    hashed = make_password(PASSWORD)
    teams = {}
    for series, (slug, title) in enumerate(TEAMS.items(), start=1):
        teams[slug], _ = Team.objects.get_or_create(slug=slug, defaults={"title": title, "series": series})
    for username, (_first_name, roles) in PEOPLE.items():
        user = load_person(username, hashed)
        for slug, role in roles.items():
            Membership.objects.get_or_create(user=user, team=teams[slug], defaults={"role": role})


def load_person(username: str, hashed: str) -> User:
    """Create one of `PEOPLE` with the hash of a password, or return their account."""
    is_admin = username == "admin"
    user, _ = User.objects.get_or_create(
        username=username,
        defaults={
            "first_name": PEOPLE[username][0],
            "email": f"{username}@example.org",
            "password": hashed,
            "is_staff": is_admin,
            "is_superuser": is_admin,
        },
    )
    return user


def load_namespaces(cluster: Cluster) -> None:
    """Give every team the namespace of its name; that of robotics does not exist in lab-2."""
    for team in Team.objects.filter(slug__in=TEAMS):
        missing = (team.slug, cluster.name) == ("robotics", "lab-2")
        name = "robotics-lab" if missing else team.slug
        TeamNamespace.objects.get_or_create(team=team, cluster=cluster, defaults={"namespace": name})


MERGE = {"Content-Type": "application/merge-patch+json"}
TITLES = {"fra-1": "Frankfurt", "lab-2": "Laboratory"}


def load_cluster(name: str, folder: Path, addresses: dict[str, str]) -> Cluster:
    """Create the cluster, or update credentials and addresses of telemetry: their ports may have changed."""
    credentials = read_credentials(folder, name)
    cluster = Cluster.objects.filter(name=name).first()
    if cluster is None:
        cluster = Cluster.objects.create(
            name=name, title=TITLES.get(name, ""), credentials=seal(credentials), **addresses
        )
        # One Prometheus has the series of all clusters.
        TelemetryAccess.objects.create(cluster=cluster, matchers=f'cluster="{name}"')
    if unseal(cluster.credentials) != credentials or any(
        getattr(cluster, column) != address for column, address in addresses.items()
    ):
        cluster.credentials = seal(credentials)
        for column, address in addresses.items():
            setattr(cluster, column, address)
        cluster.save(update_fields=["credentials", *addresses])
    return cluster


def people_gateway(folder: Path, name: str) -> Gateway:
    """Return the gateway of people who start pods; the portal's own account may not."""
    return connect(seal(read_credentials(folder, f"{name}.people")))


def start_pod(cluster: str, pod: Manifest) -> None:
    """Create a pod as people do; raise ClusterConflict if there is one of its name."""
    people_gateway(Path(settings.PEOPLE_KUBECONFIGS), cluster).create(POD, pod)


def people_patch(folder: Path, name: str, address: str, body: dict[str, Any]) -> None:
    """Merge `body` into the object at this path, as kubectl patch does."""
    _people_api(folder, name).patch(address, json=body, headers=MERGE).raise_for_status()


def people_get(folder: Path, name: str, address: str) -> Manifest:
    """Return the object at this path."""
    manifest: Manifest = _people_api(folder, name).get(address).raise_for_status().json()
    return manifest


@cache
def _people_api(folder: Path, name: str) -> httpx.Client:
    who = read_credentials(folder, f"{name}.people")
    headers = {"Authorization": f"Bearer {who.token}"}
    # The server may close an idle connection at the moment in which it is used again.
    none_kept = httpx.Limits(max_keepalive_connections=0)
    trusted: ssl.SSLContext | bool = client_context(authority=who.authority) or True
    return httpx.Client(base_url=who.server, headers=headers, timeout=60, limits=none_kept, verify=trusted)


def read_credentials(folder: Path, name: str) -> Credentials:
    return from_kubeconfig((folder / f"{name}.kubeconfig").read_text())
