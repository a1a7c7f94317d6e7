"""Whose token it is, as the real API server says it: of a pod, for us, valid, and of this cluster."""

import base64
import json
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import padding, rsa

from cluster.credentials import from_kubeconfig
from cluster.kube import KubeGateway, reviewed_token
from cluster.protocol import NAMESPACE, POD, Kind, Refused
from demo.controlplane.client import eventually
from demo.controlplane.harness import ControlPlane

SERVICE_ACCOUNT = Kind("", "v1", "ServiceAccount", "serviceaccounts", namespaced=True)
OURS, SPACE, NAME = "dragoman", "pods-with-tokens", "trainer"


@pytest.fixture
def admin(controlplane: ControlPlane) -> Iterator[KubeGateway]:
    gateway = KubeGateway(from_kubeconfig(controlplane.kubeconfig("admin")))
    if gateway.get(NAMESPACE, SPACE) is None:
        gateway.create(NAMESPACE, {"metadata": {"name": SPACE}})
        gateway.create(SERVICE_ACCOUNT, {"metadata": {"name": NAME, "namespace": SPACE}})
    yield gateway
    gateway.close()


@pytest.fixture
def portal(controlplane: ControlPlane) -> Iterator[KubeGateway]:
    gateway = KubeGateway(from_kubeconfig(controlplane.kubeconfig("portal")))
    yield gateway
    gateway.close()


def requested(admin: KubeGateway, *audiences: str, pod: dict[str, Any] | None = None) -> str:
    """Return a token as the kubelet requests it to project it into a pod (TokenRequest)."""
    spec: dict[str, Any] = {"audiences": list(audiences), "expirationSeconds": 600}
    if pod is not None:
        uid = pod["metadata"]["uid"]
        spec["boundObjectRef"] = {
            "kind": "Pod",
            "apiVersion": "v1",
            "name": pod["metadata"]["name"],
            "uid": uid,
        }
    body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec}
    path = f"{SERVICE_ACCOUNT.path(SPACE, NAME)}/token"
    code, answer = admin._transport.send("POST", path, body=body)
    assert code == 201, answer.data
    return str(json.loads(answer.data)["status"]["token"])


def signed(key: rsa.RSAPrivateKey, uid: str, *, ends_in: int) -> str:
    """Return a token as the API server signs it, which ends in so many seconds."""
    now = int(time.time())
    account = {"name": NAME, "uid": uid}
    claims = {
        "iss": "https://kubernetes.default.svc",
        "sub": f"system:serviceaccount:{SPACE}:{NAME}",
        "aud": [OURS],
        "iat": now - 3600,
        "nbf": now - 3600,
        "exp": now + ends_in,
        "kubernetes.io": {"namespace": SPACE, "serviceaccount": account},
    }
    parts = [json.dumps(part).encode() for part in ({"alg": "RS256", "typ": "JWT"}, claims)]
    text = b".".join(base64.urlsafe_b64encode(part).rstrip(b"=") for part in parts)
    signature = key.sign(text, padding.PKCS1v15(), hashes.SHA256())
    return f"{text.decode()}.{base64.urlsafe_b64encode(signature).rstrip(b'=').decode()}"


@pytest.mark.controlplane
def test_a_token_for_us_names_its_service_account_and_its_end(admin, portal):
    found = portal.review_token(requested(admin, OURS), audience=OURS)
    assert found is not None
    assert (found.namespace, found.service_account, found.pod) == (SPACE, NAME, "")
    left = found.expires_at - datetime.now(UTC)
    assert timedelta(minutes=8) < left <= timedelta(minutes=10)


@pytest.mark.controlplane
def test_a_token_of_a_pod_names_the_pod_until_the_pod_is_gone(admin, portal):
    containers = [{"name": "main", "image": "images.example.org/train:1"}]
    spec = {"serviceAccountName": NAME, "containers": containers, "nodeName": "no-such-node"}
    pod = admin.create(POD, {"metadata": {"name": "train", "namespace": SPACE}, "spec": spec})
    token = requested(admin, OURS, pod=pod)
    found = portal.review_token(token, audience=OURS)
    assert found is not None
    assert found.pod == "train"
    options = {"apiVersion": "v1", "kind": "DeleteOptions", "gracePeriodSeconds": 0}
    code, _answer = admin._transport.send("DELETE", POD.path(SPACE, "train"), body=options)
    assert code == 200
    # The API server remembers a token that it has reviewed for some seconds.
    eventually(lambda: portal.review_token(token, audience=OURS) is None, subject="the pod's token ends")


@pytest.mark.controlplane
@pytest.mark.parametrize("audiences", [("https://kubernetes.default.svc",), ("another",), ()])
def test_a_token_for_others_is_nobodys(admin, portal, audiences):
    assert portal.review_token(requested(admin, *audiences), audience=OURS) is None


@pytest.mark.controlplane
def test_a_token_for_us_and_others_is_ours_too(admin, portal):
    assert portal.review_token(requested(admin, "another", OURS), audience=OURS) is not None


@pytest.mark.controlplane
def test_an_expired_token_and_one_of_another_cluster_are_nobodys(controlplane, admin, portal):
    account = admin.get(SERVICE_ACCOUNT, NAME, namespace=SPACE)
    assert account is not None
    uid = account["metadata"]["uid"]
    text = (controlplane.folder / "service-account.key").read_bytes()
    here = serialization.load_pem_private_key(text, None)
    assert isinstance(here, rsa.RSAPrivateKey)
    assert portal.review_token(signed(here, uid, ends_in=600), audience=OURS) is not None
    assert portal.review_token(signed(here, uid, ends_in=-60), audience=OURS) is None
    elsewhere = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    assert portal.review_token(signed(elsewhere, uid, ends_in=600), audience=OURS) is None


@pytest.mark.controlplane
def test_a_token_of_a_user_is_nobodys(controlplane, portal):
    credentials = from_kubeconfig(controlplane.kubeconfig("alice"))
    assert portal.review_token(credentials.token or "", audience=OURS) is None


@pytest.mark.controlplane
def test_without_the_permission_the_review_is_refused(controlplane, admin):
    reader = KubeGateway(from_kubeconfig(controlplane.kubeconfig("reader")))
    with pytest.raises(Refused, match="tokenreviews"):
        reader.review_token(requested(admin, OURS), audience=OURS)
    reader.close()


def token(**claims: Any) -> str:
    payload = base64.urlsafe_b64encode(json.dumps(claims).encode()).rstrip(b"=").decode()
    return f"head.{payload}.signature"


@pytest.mark.parametrize(
    ("text", "user"),
    [
        (token(exp=2_000_000_000), {"username": "alice"}),
        (token(exp=2_000_000_000), {"username": "system:serviceaccount:a"}),
        (token(), {"username": "system:serviceaccount:a:b"}),
        (token(exp="soon"), {"username": "system:serviceaccount:a:b"}),
        (token(exp=1e300), {"username": "system:serviceaccount:a:b"}),
        ("opaque", {"username": "system:serviceaccount:a:b"}),
    ],
)
def test_without_a_service_account_or_an_end_it_is_nobodys(text, user):
    assert reviewed_token(text, user) is None


def test_the_pod_is_the_one_that_the_cluster_names():
    user = {
        "username": "system:serviceaccount:a:b",
        "extra": {"authentication.kubernetes.io/pod-name": ["train-0"]},
    }
    found = reviewed_token(token(exp=2_000_000_000), user)
    assert found is not None
    assert (found.namespace, found.service_account, found.pod) == ("a", "b", "train-0")
    assert found.expires_at == datetime(2033, 5, 18, 3, 33, 20, tzinfo=UTC)
