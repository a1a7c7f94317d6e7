"""A pod of the real control plane gets a token of the portal for the one that Kubernetes gave it."""

import json
from datetime import datetime, timedelta

import pytest
from django.utils import timezone
from rest_framework.test import APIClient

from claims.delivery import deliver
from claims.workloads.services import allow
from cluster.protocol import Kind
from teams.models import Membership, Role
from teams.service_accounts import create_service_account
from tests.factories import make_user

pytestmark = [pytest.mark.controlplane, pytest.mark.django_db(transaction=True)]
SERVICE_ACCOUNT = Kind("", "v1", "ServiceAccount", "serviceaccounts", namespaced=True)


@pytest.fixture
def trainer(gateway, admin, namespace, vision, fra, monkeypatch):
    """A service account in the namespace of vision, whose pods an owner lets act as ci."""
    monkeypatch.setattr("claims.workloads.services.gateway_for", deliver.gateway_for)
    admin.create(SERVICE_ACCOUNT, {"metadata": {"name": "trainer", "namespace": namespace}})
    olga = make_user("olga")
    Membership.objects.create(user=olga, team=vision, role=Role.OWNER)
    account = create_service_account(by=olga, team=vision, name="ci")
    allow(by=olga, account=account, cluster=fra.name, service_account="trainer")
    return account


def projected(admin, namespace, audience):
    spec = {"audiences": [audience], "expirationSeconds": 600}
    body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec}
    path = f"{SERVICE_ACCOUNT.path(namespace, 'trainer')}/token"
    code, answer = admin._transport.send("POST", path, body=body)
    assert code == 201
    return json.loads(answer.data)["status"]["token"]


def login(cluster, token):
    body = {"cluster": cluster.name, "token": token}
    return APIClient().post("/api/v1/login/kubernetes/", body, format="json")


def test_a_pod_requests_with_the_token_that_it_gets(trainer, admin, namespace, fra):
    answer = login(fra, projected(admin, namespace, "dragoman"))
    assert answer.status_code == 200, answer.json()
    client = APIClient()
    client.credentials(HTTP_AUTHORIZATION=f"Bearer {answer.json()['access_token']}")
    me = client.get("/api/v1/me/").json()
    assert (me["username"], [row["team"] for row in me["teams"]]) == ("ci@vision", ["vision"])
    assert datetime.fromisoformat(me["token"]["expires_at"]) <= timezone.now() + timedelta(minutes=10)


def test_a_token_for_the_api_server_is_refused(trainer, admin, namespace, fra):
    assert login(fra, projected(admin, namespace, "https://kubernetes.default.svc")).status_code == 401
