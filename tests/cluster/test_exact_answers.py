"""What a cluster answers, as the exact error; what it is asked, as the exact request."""

import base64
import json
import socket
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any, cast

import pytest
import urllib3
from kubernetes.client.exceptions import ApiException

from cluster import kube
from cluster import kube as connections
from cluster.checkup import CheckupFinding, CheckupVerdict, checkup
from cluster.credentials import IN_CLUSTER, Credentials, from_kubeconfig, seal
from cluster.errors import ApiCall, cluster_error, error_status, unknown_fields
from cluster.kube import KubeGateway
from cluster.protocol import (
    DEVICE_TAINT_RULE_VERSIONS,
    NODE,
    RESOURCE_CLAIM,
    ClusterConflict,
    ClusterInvalid,
    Discovery,
    Expired,
    Permission,
    Refused,
    Unreachable,
)
from cluster.transport import NO_RETRIES, configuration, sentence
from core.errors import Invalid
from tests.cluster.scripted import Answer, Scripted, scripted_server

CLAIM = ApiCall("create", RESOURCE_CLAIM, "sam", "vision")
NODES = ApiCall("list", NODE)
IT = "resourceclaims “sam” in namespace “vision”"


def facts(error: Any) -> dict[str, Any]:
    return {name: value for name, value in vars(error).items() if name != "extra"}


def refused(message: str, **more: Any) -> tuple[type, dict[str, Any]]:
    plain = {"verb": "", "resource": "", "quota": False, "fixable": False}
    return Refused, {"message": message, **plain, **more}


def malformed(message: str, *causes: tuple[str, str]) -> tuple[type, dict[str, Any]]:
    return ClusterInvalid, {"message": message, "causes": causes}


ANSWERS: list[tuple[int, dict[str, Any], ApiCall, tuple[type, dict[str, Any]]]] = [
    (
        401,
        {},
        NODES,
        refused(
            "The cluster does not know the credentials: they are wrong, or have run out.", fixable=True
        ),
    ),
    (
        403,
        {"message": 'User "p" cannot create resource "pods" in API group ""'},
        CLAIM,
        refused(
            f"The credentials may not create {IT}: they lack “create” on “pods”.",
            verb="create",
            resource="pods",
            fixable=True,
        ),
    ),
    (
        403,
        {"message": 'User "p" cannot list resource "resourceclaims" in API group "resource.k8s.io"'},
        NODES,
        refused(
            "The credentials may not list nodes: they lack “list” on “resourceclaims.resource.k8s.io”.",
            verb="list",
            resource="resourceclaims",
            fixable=True,
        ),
    ),
    (
        403,
        {"message": " exceeded quota: q, requested: a=1 "},
        CLAIM,
        refused(
            "exceeded quota: q, requested: a=1", verb="create", resource="resourceclaims", quota=True
        ),
    ),
    (
        403,
        {"message": "policy says no."},
        CLAIM,
        refused(
            f"The cluster does not allow to create {IT}: policy says no.",
            verb="create",
            resource="resourceclaims",
        ),
    ),
    (403, {}, NODES,
     refused("The cluster does not allow to list nodes: 403.", verb="list", resource="nodes")),
    (404, {"message": "not there."}, CLAIM, malformed(f"The cluster cannot create {IT}: not there.")),
    (405, {}, NODES, malformed("The cluster cannot list nodes: 405.")),
    (
        409,
        {"reason": "AlreadyExists", "message": "x"},
        CLAIM,
        (ClusterConflict, {"message": f"The cluster has {IT} already."}),
    ),
    (
        409,
        {"details": {"causes": [{"field": ".spec", "message": "by kubectl"}, {"field": ".a"}]}},
        CLAIM,
        (ClusterConflict, {"message": f"Others manage fields of {IT}: .spec (by kubectl); .a ()."}),
    ),
    (
        409,
        {"reason": "Conflict", "message": "modified."},
        CLAIM,
        (ClusterConflict, {"message": f"The cluster holds other {IT} by now: modified."}),
    ),
    (
        422,
        {"details": {"causes": [{"field": "spec.a", "message": "Required"}, {"message": "b."}]}},
        CLAIM,
        malformed(f"The cluster refused {IT}: spec.a: Required; b.", ("spec.a", "Required"), ("", "b.")),
    ),
    (
        400,
        {"message": 'strict decoding error: unknown field "spec.x", duplicate field "spec.y"'},
        CLAIM,
        malformed(
            f"The cluster refused {IT}: spec.x: unknown field; spec.y: unknown field.",
            ("spec.x", "unknown field"),
            ("spec.y", "unknown field"),
        ),
    ),
    (413, {"message": "too large"}, CLAIM, malformed(f"The cluster refused {IT}: too large.")),
    (415, {"message": "what?"}, CLAIM, malformed(f"The cluster refused {IT}: what?.")),
    (
        429,
        {"message": "x"},
        CLAIM,
        (Unreachable, {"message": "The cluster asks for fewer requests (429); it will be tried again."}),
    ),
    (
        500,
        {"message": "failed to create typed patch object (a): .spec.x: field not declared in schema"},
        CLAIM,
        malformed(f"The cluster refused {IT}: spec.x: unknown field.", ("spec.x", "unknown field")),
    ),
    (
        500,
        {"message": "etcd timed out." + "x" * 400},
        NODES,
        (
            Unreachable,
            {"message": "The cluster failed to list nodes (500): etcd timed out." + "x" * 285 + "."},
        ),
    ),
    (
        503,
        {},
        NODES,
        (Unreachable, {"message": "The cluster failed to list nodes (503): without saying why."}),
    ),
]  # fmt: skip


@pytest.mark.parametrize(("code", "body", "asked", "expected"), ANSWERS)
def test_an_answer_is_an_error_with_its_sentence_and_what_follows_from_it(code, body, asked, expected):
    error = cluster_error(code, json.dumps(body).encode(), asked)
    assert (type(error), facts(error)) == expected


@pytest.mark.parametrize(
    ("code", "message"),
    [(410, "too old"), (500, "no RequestWatchProgress here"), (504, "Too large resource version: 7")],
)
def test_an_answer_that_says_list_again_is_no_error_to_show(code, message):
    error = cluster_error(code, json.dumps({"message": message}).encode(), NODES)
    assert (type(error), str(error)) == (Expired, message)


@pytest.mark.parametrize("body", [b"<html>", b"[]", b"7", b""])
def test_a_page_of_a_proxy_is_no_status(body):
    assert error_status(body) == {}


def test_what_was_asked_is_told_with_the_parts_that_are_known():
    assert [
        asked.object
        for asked in (
            NODES,
            CLAIM,
            ApiCall("get", NODE, "a"),
            ApiCall("list", RESOURCE_CLAIM, namespace="ml"),
        )
    ] == ["nodes", IT, "nodes “a”", "resourceclaims in namespace “ml”"]
    assert unknown_fields("nothing of the kind") == ()


ADDRESS = "fra:6443"


@pytest.mark.parametrize(
    ("failure", "text"),
    [
        (
            urllib3.exceptions.NameResolutionError("fra", None, socket.gaierror()),
            "The name of fra:6443 is not known here.",
        ),
        (
            urllib3.exceptions.NewConnectionError(None, "x"),
            "fra:6443 refuses connections, or no way leads there.",
        ),
        (urllib3.exceptions.ConnectTimeoutError(), "fra:6443 took no connection within 5 seconds."),
        (
            urllib3.exceptions.ReadTimeoutError(None, "", ""),
            "fra:6443 took the request and did not answer in time.",
        ),
        (
            urllib3.exceptions.MaxRetryError(None, "", urllib3.exceptions.SSLError()),
            "fra:6443 is not who the kubeconfig says: its certificate is not trusted.",
        ),
        (ApiException(), "fra:6443 is not who the kubeconfig says: its certificate is not trusted."),
        (urllib3.exceptions.MaxRetryError(None, ""), "The connection to fra:6443 broke off."),
        (OSError(), "The connection to fra:6443 broke off."),
    ],
)
def test_what_went_wrong_on_the_way_is_told(failure, text):
    assert sentence(ADDRESS, failure) == text


def test_the_settings_of_a_connection():
    made = configuration(
        Credentials(server="https://fra", token="t", server_name="api", insecure=True, proxy="http://p:1")
    )
    assert (made.host, made.proxy, made.verify_ssl, made.tls_server_name, made.api_key) == (
        "https://fra",
        "http://p:1",
        False,
        "api",
        {"BearerToken": "Bearer t"},
    )
    assert (made.retries, made.connection_pool_maxsize, made.keep_alive) == (NO_RETRIES, 32, True)
    plain = configuration(Credentials(server="https://fra"))
    assert (plain.proxy, plain.verify_ssl, plain.tls_server_name, plain.api_key) == (None, True, None, {})


def test_the_address_of_credentials_is_host_and_port():
    assert Credentials(server="https://fra:6443/k8s/clusters/c").address == "fra:6443"
    assert IN_CLUSTER.address == "the cluster that the portal runs in"


def test_a_plain_kubeconfig_has_nothing_that_it_does_not_name():
    found = from_kubeconfig(
        "{kind: Config, clusters: [{name: c, cluster: "
        "{server: 'https://fra/', insecure-skip-tls-verify: true}}],"
        " users: [{name: u, user: {}}], contexts: [{name: x, context: {cluster: c, user: u}}],"
        " current-context: x}"
    )
    assert found == Credentials(server="https://fra", insecure=True)


@pytest.fixture
def server() -> Iterator[Scripted]:
    with scripted_server() as running:
        yield running


@pytest.fixture
def gateway(server: Scripted) -> Iterator[KubeGateway]:
    gateway = KubeGateway(Credentials(server=server.address))
    yield gateway
    gateway.close()


def asked(server: Scripted) -> list[tuple[str, str, Any]]:
    return [(method, path, body) for method, path, _headers, body in server.asked]


def test_a_listing_asks_page_after_page_and_gives_each_object_its_kind(server, gateway):
    def page(name: str, version: str, *, following: str, **more: Any) -> Answer:
        items = [{"metadata": {"name": name, "managedFields": []}}]
        more["continue"] = following
        return Answer(body={"kind": "List", "metadata": more | {"resourceVersion": version}, "items": items})

    last = Answer(body={"kind": "List", "metadata": {"resourceVersion": "9"}, "items": None})
    server.answers = [page("a", "7", remainingItemCount=3, following="c1")]
    server.answers += [page("b", "8", following="c2"), last]
    pages = list(
        gateway.list(RESOURCE_CLAIM, namespace="ml", label_selector="a=b", field_selector="c=d", limit=2)
    )

    def item(name: str) -> dict[str, Any]:
        return {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": {"name": name}}

    assert [(page.items, page.resource_version, page.remaining) for page in pages] == [
        ([item("a")], "7", 3),
        ([item("b")], "8", None),
        ([], "9", None),
    ]
    query = "limit=2&labelSelector=a%3Db&fieldSelector=c%3Dd"
    path = f"/apis/resource.k8s.io/v1/namespaces/ml/resourceclaims?{query}"
    assert asked(server) == [
        ("GET", path, None),
        ("GET", f"{path}&continue=c1", None),
        ("GET", f"{path}&continue=c2", None),
    ]


def test_a_listing_without_a_selector_asks_for_five_hundred_at_a_time(server, gateway):
    server.answers = [Answer(body={"kind": "List", "metadata": {"resourceVersion": "7"}, "items": []})]
    assert [page.items for page in gateway.list(NODE)] == [[]]
    assert asked(server) == [("GET", "/api/v1/nodes?limit=500", None)]


def test_delete_returns_whether_the_object_existed(server, gateway):
    server.answers = [Answer(body={"kind": "Status"}), Answer(404, {"kind": "Status"}), Answer(409, {})]
    assert gateway.delete(RESOURCE_CLAIM, "a", namespace="ml") is True
    assert gateway.delete(RESOURCE_CLAIM, "a", namespace="ml", uid="u") is False
    with pytest.raises(ClusterConflict, match="resourceclaims “a” in namespace “ml”"):
        gateway.delete(RESOURCE_CLAIM, "a", namespace="ml", uid="u")
    path = "/apis/resource.k8s.io/v1/namespaces/ml/resourceclaims/a"
    plain = {"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": "Background"}
    fenced = plain | {"preconditions": {"uid": "u"}}
    assert asked(server) == [("DELETE", path, plain), ("DELETE", path, fenced), ("DELETE", path, fenced)]


def test_create_and_apply_return_the_object(server, gateway):
    claim = {"metadata": {"name": "a", "namespace": "ml"}, "spec": {}}
    answer = Answer(body={"kind": "ResourceClaim", "metadata": {"name": "a", "managedFields": [1]}})
    server.answers = [answer] * 4
    for call in (
        lambda: gateway.create(RESOURCE_CLAIM, claim),
        lambda: gateway.create(RESOURCE_CLAIM, claim, dry_run=True),
        lambda: gateway.apply(RESOURCE_CLAIM, claim),
        lambda: gateway.apply(RESOURCE_CLAIM, claim, dry_run=True, force=True),
    ):
        assert call() == {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "ResourceClaim",
            "metadata": {"name": "a"},
        }
    sent = {**claim, "apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim"}
    all_, strict = (
        "/apis/resource.k8s.io/v1/namespaces/ml/resourceclaims",
        "?fieldManager=dragoman&fieldValidation=Strict",
    )
    assert asked(server) == [
        ("POST", f"{all_}{strict}", sent),
        ("POST", f"{all_}{strict}&dryRun=All", sent),
        ("PATCH", f"{all_}/a{strict}&force=false", sent),
        ("PATCH", f"{all_}/a{strict}&force=true&dryRun=All", sent),
    ]
    assert "kind" not in claim


def test_an_object_that_is_not_there_is_none_and_a_cluster_without_kube_system_is_refused(server, gateway):
    server.answers = [Answer(404, {"kind": "Status"}), Answer(404, {"kind": "Status"})]
    assert gateway.get(RESOURCE_CLAIM, "a", namespace="ml") is None
    with pytest.raises(ClusterInvalid, match="has no kube-system namespace"):
        gateway.identity()
    assert [path for _method, path, _body in asked(server)] == [
        "/apis/resource.k8s.io/v1/namespaces/ml/resourceclaims/a",
        "/api/v1/namespaces/kube-system",
    ]


@pytest.mark.parametrize("allowed", [True, False])
def test_a_permission_is_asked_for_in_full(server, gateway, allowed):
    server.answers = [Answer(201, {"kind": "SelfSubjectAccessReview", "status": {"allowed": allowed}})]
    fields = Permission(
        "list", "resourceclaims", "resource.k8s.io", subresource="status", namespace="ml", name="sam2"
    )
    assert gateway.allowed(fields) is allowed
    [(method, path, body)] = asked(server)
    assert (method, path) == ("POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews")
    assert body["spec"]["resourceAttributes"] == {
        "verb": "list",
        "group": "resource.k8s.io",
        "resource": "resourceclaims",
        "subresource": "status",
        "namespace": "ml",
        "name": "sam2",
    }


def test_an_event_of_an_unknown_type_is_no_event(server, gateway):
    line = {"type": "RENAMED", "object": {"metadata": {"resourceVersion": "8"}}}
    server.answers = [Answer(lines=(line,))]
    with pytest.raises(Unreachable, match="the unknown type “RENAMED”"):
        list(gateway.watch(NODE, resource_version="7", seconds=1))


def test_stream_error_without_code_is_a_server_failure(server, gateway):
    server.answers = [Answer(lines=({"type": "ERROR", "object": {"message": "boom"}},))]
    with pytest.raises(Unreachable, match=r"failed to watch nodes \(500\): boom"):
        list(gateway.watch(NODE, resource_version="7", seconds=1))


@pytest.mark.parametrize(
    ("namespace", "told"), [(None, "nodes"), ("ml", "nodes in namespace “ml”")], ids=["all", "one"]
)
def test_what_is_refused_is_told_with_its_namespace(server, gateway, namespace, told):
    server.answers = [Answer(403, {"message": "no"}), Answer(400, {"kind": "Status", "message": "no"})]
    with pytest.raises(Refused) as listing:
        list(gateway.list(NODE, namespace=namespace))
    assert listing.value.message == f"The cluster does not allow to list {told}: no."
    with pytest.raises(ClusterInvalid) as watching:
        list(gateway.watch(NODE, resource_version="7", seconds=1, namespace=namespace))
    assert watching.value.message == f"The cluster refused {told}: no."


def test_a_stream_is_left_when_the_server_does_not_end_it_in_time(server, gateway, monkeypatch):
    now = iter([100.0, 126.0, 126.1])  # asked for 11 seconds, with 15 of grace; an event is two chunks
    monkeypatch.setattr(kube, "time", SimpleNamespace(monotonic=lambda: next(now)))
    lines = [{"type": "ADDED", "object": {"metadata": {"resourceVersion": str(n)}}} for n in range(1, 9)]
    server.answers = [Answer(lines=tuple(lines))]
    seen = [event.resource_version for event in gateway.watch(NODE, resource_version="0", seconds=11)]
    assert seen == ["1"]


class Cluster:
    """A gateway for a checkup."""

    def __init__(self, *, rules: bool = True, lacks: tuple[str, ...] = (), broken: Exception | None = None):
        self.rules = DEVICE_TAINT_RULE_VERSIONS[0] if rules else None
        self.lacks, self.broken = lacks, broken

    def discover(self) -> Discovery:
        if self.broken:
            raise self.broken
        return Discovery("v1.37.1", (1, 37), self.rules, frozenset(), simulated=False)

    def identity(self) -> str:
        return "u-1"

    def allowed(self, permission: Permission) -> bool:
        return f"{permission.verb} {permission.resource}" not in self.lacks


SAFE = Credentials(server="https://fra:6443")


def found(cluster: Cluster, credentials: Credentials = SAFE, **how: Any) -> list[CheckupFinding]:
    return list(checkup(credentials, cast(Any, cluster), **how))


@pytest.mark.parametrize(
    ("credentials", "verdict", "detail", "remedy"),
    [
        (SAFE, CheckupVerdict.GOOD, "fra:6443", ""),
        (
            Credentials(server="http://fra"),
            CheckupVerdict.NOTE,
            "fra: no TLS: traffic is not encrypted",
            "Use an address that starts with https://.",
        ),
        (
            Credentials(server="https://fra", insecure=True),
            CheckupVerdict.NOTE,
            "fra: its certificate is not checked; anybody can pretend to be it",
            "Put the certificate of its CA into the credentials.",
        ),
    ],
)
def test_a_checkup_tells_of_the_way(credentials, verdict, detail, remedy):
    assert found(Cluster(), credentials)[0] == CheckupFinding(verdict, "Address", detail, remedy)


def test_a_checkup_of_a_sound_cluster_finds_everything_good():
    findings = found(Cluster(), uid="u-1")
    assert [(one.verdict, one.subject, one.detail) for one in findings[:4]] == [
        ("good", "Address", "fra:6443"),
        ("good", "Kubernetes", "v1.37.1"),
        ("good", "Identity", "u-1"),
        ("good", "DeviceTaintRules", "resource.k8s.io/v1"),
    ]
    assert {(one.verdict, one.detail) for one in findings[4:]} == {("good", "allowed")}
    asked_for = {one.subject.split()[1].partition(".")[0] for one in findings[4:]}
    assert asked_for == {
        "deviceclasses",
        "resourceslices",
        "devicetaintrules",
        "resourceclaims",
        "resourceclaimtemplates",
        "namespaces",
        "nodes",
        "pods",
        "pods/eviction",
        "events",
        "resourcequotas",
        "tokenreviews",
    }
    assert found(Cluster())[2] == CheckupFinding(CheckupVerdict.GOOD, "Identity", "u-1")
    reads = [one.subject for one in found(Cluster(), read_only=True)]
    assert "list nodes" in reads
    writes = [what for what in reads if what.startswith(("create", "patch", "delete"))]
    assert writes == ["create tokenreviews.authentication.k8s.io"]  # which changes nothing


def test_a_checkup_tells_what_is_missing_and_what_is_only_needed_for_quotas():
    lacks = ("create resourcequotas", "patch resourcequotas", "list resourcequotas", "delete resourceclaims")

    def missing(**how: Any) -> dict[str, tuple[str, str]]:
        return {
            one.subject: (str(one.verdict), one.remedy or one.detail.partition(";")[2])
            for one in found(Cluster(lacks=lacks), **how)
            if one.detail.startswith("missing")
        }

    role = (
        "Apply the permissions again: they are on the settings page of the cluster, and "
        "“manage.py cluster rbac” prints them."
    )
    quota_role = role.replace("rbac", "rbac --write-quotas")
    bad = {
        "create resourcequotas": ("bad", quota_role),
        "patch resourcequotas “dragoman”": ("bad", quota_role),
        "list resourcequotas": ("bad", role),
        "delete resourceclaims.resource.k8s.io": ("bad", role),
    }
    assert missing() == bad
    needed = ("note", " needed where quotas are written to the cluster")
    note = {"create resourcequotas": needed, "patch resourcequotas “dragoman”": needed}
    assert missing(write_quotas=False) == bad | note


@pytest.mark.parametrize("needed", [True, False])
def test_a_missing_permission_to_evict_is_bad_only_where_the_end_policy_needs_it(needed):
    found_by = {one.subject: one for one in found(Cluster(lacks=("create pods",)), evict_pods=needed)}
    finding = found_by["create pods/eviction"]
    assert finding.verdict == (CheckupVerdict.BAD if needed else CheckupVerdict.NOTE)
    if needed:
        assert "rbac --evict-pods" in finding.remedy
    else:
        assert finding.detail == "missing; needed where the end policy is to evict pods, or to ask before"


def test_a_checkup_sees_another_cluster_and_one_without_rules():
    findings = {one.subject: one for one in found(Cluster(rules=False), uid="u-2")}
    assert findings["Identity"] == CheckupFinding(
        CheckupVerdict.BAD,
        "Identity",
        "kube-system has uid u-1, and the mirror is of u-2: this is another cluster",
        "Upload credentials of the cluster that was added, or add this one under its own name.",
    )
    assert findings["DeviceTaintRules"].verdict == CheckupVerdict.NOTE
    assert not [what for what in findings if "devicetaintrules" in what]
    assert "list nodes" in findings


def test_a_checkup_ends_with_what_broke():
    findings = found(Cluster(broken=Unreachable("fra does not answer.")))
    assert findings[1:] == [
        CheckupFinding(
            CheckupVerdict.BAD,
            "The cluster cannot be reached",
            "fra does not answer.",
            "Compare the address with that of the API server, and check that this portal reaches it.",
        )
    ]


def test_the_connection_unused_longest_is_closed_when_there_are_too_many(monkeypatch):
    closed: list[str] = []

    class Gateway:
        def __init__(self, credentials: Credentials) -> None:
            self.server = credentials.server

        def close(self) -> None:
            closed.append(self.server)

    connections.forget()
    monkeypatch.setattr(connections, "KubeGateway", Gateway)
    monkeypatch.setattr(connections, "MAX_CONNECTIONS", 2)
    a, b, c = (seal(Credentials(server=f"https://{name}")) for name in "abc")
    try:
        first = connections.connect(a)
        connections.connect(b)
        assert connections.connect(a) is first
        assert closed == []
        connections.connect(c)
        assert closed == ["https://b"]
        assert connections.connect(a) is first
        assert closed == ["https://b"]
    finally:
        connections.forget()


def test_credentials_that_cannot_be_read_leave_no_connection_behind():
    connections.forget()
    with pytest.raises(Invalid):
        connections.connect(b"nonsense")
    assert not connections._open


def service_account_token(claims: object) -> str:
    """Return a token as `kubectl create token` prints it; its signature is not read."""
    return ".".join(
        base64.urlsafe_b64encode(part).decode().rstrip("=")
        for part in (b'{"alg":"RS256"}', json.dumps(claims).encode(), b"signature")
    )


@pytest.mark.parametrize(
    ("left", "verdict", "detail", "replaces"),
    [
        (timedelta(days=60, minutes=1), CheckupVerdict.GOOD, "expire in 60 d", False),
        (timedelta(days=13, minutes=1), CheckupVerdict.NOTE, "expire in 13 d", True),
        (timedelta(hours=-2, minutes=-1), CheckupVerdict.BAD, "expired 2 h", True),
    ],
)
def test_a_checkup_says_when_the_credentials_expire(left, verdict, detail, replaces):
    token = service_account_token({"exp": int((datetime.now(UTC) + left).timestamp())})
    findings = found(Cluster(), Credentials(server="https://fra", token=token))
    (finding,) = [finding for finding in findings if finding.subject == "Credentials"]
    assert (finding.verdict, bool(finding.remedy)) == (verdict, replaces)
    assert finding.detail.startswith(detail)


NO_EXPIRY: tuple[object, ...] = ({}, [], {"exp": "x"})


@pytest.mark.parametrize(
    "token", ["opaque", "a.b.c", "a.!.c", *(service_account_token(claims) for claims in NO_EXPIRY)]
)
def test_a_token_that_does_not_say_when_it_expires_is_no_finding(token):
    credentials = Credentials(server="https://fra", token=token)
    assert credentials.expires_at is None
    assert "Credentials" not in {finding.subject for finding in found(Cluster(), credentials)}
