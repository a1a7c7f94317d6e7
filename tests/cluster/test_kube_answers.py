"""What the gateway makes of answers that a healthy cluster does not give."""

import socket
from collections.abc import Iterator

import pytest

from cluster import transport
from cluster.credentials import Credentials
from cluster.kube import KubeGateway
from cluster.protocol import (
    NODE,
    RESOURCE_CLAIM,
    ClusterConflict,
    ClusterInvalid,
    Expired,
    Refused,
    Unreachable,
)
from tests.cluster.scripted import Answer, Scripted, scripted_server

TOKEN = "the-very-secret-token"


@pytest.fixture
def server() -> Iterator[Scripted]:
    with scripted_server() as running:
        yield running


@pytest.fixture
def gateway(server: Scripted) -> Iterator[KubeGateway]:
    gateway = KubeGateway(Credentials(server=server.address, token=TOKEN))
    yield gateway
    gateway.close()


def status(code: int, message: str = "", reason: str = "", **details: object) -> Answer:
    body = {"kind": "Status", "code": code, "message": message, "reason": reason, "details": details}
    return Answer(code, body)


def node(version: int, what: str = "ADDED") -> dict[str, object]:
    return {"type": what, "object": {"metadata": {"name": "node", "resourceVersion": str(version)}}}


def in_stream(code: int, message: str) -> Answer:
    return Answer(lines=({"type": "ERROR", "object": {"kind": "Status", "code": code, "message": message}},))


def watch(gateway: KubeGateway) -> list[str]:
    return [event.resource_version for event in gateway.watch(NODE, resource_version="7", seconds=1)]


def claim(name: str = "claim") -> dict[str, object]:
    return {"kind": "ResourceClaim", "metadata": {"name": name, "namespace": "vision"}, "spec": {}}


def test_the_token_is_sent_and_the_watch_asks_for_bookmarks_and_an_end(server, gateway):
    server.answers = [Answer(lines=(node(8),))]
    watch(gateway)
    ((_method, path, headers, _body),) = server.asked
    assert headers["authorization"] == f"Bearer {TOKEN}"
    assert path.startswith("/api/v1/nodes?")
    assert {"watch=true", "allowWatchBookmarks=true", "resourceVersion=7", "timeoutSeconds=1"} <= set(
        path.partition("?")[2].split("&")
    )


def test_writes_are_strict_and_name_their_manager(server, gateway):
    server.answers = [Answer(body=claim()), Answer(body=claim())]
    gateway.create(RESOURCE_CLAIM, claim())
    gateway.apply(RESOURCE_CLAIM, claim(), dry_run=True)
    (post, path, _, body), (patch, applied, headers, _) = server.asked
    assert (post, patch) == ("POST", "PATCH")
    assert path.endswith("/vision/resourceclaims?fieldManager=dragoman&fieldValidation=Strict")
    assert applied.endswith("/claim?fieldManager=dragoman&fieldValidation=Strict&force=false&dryRun=All")
    assert headers["content-type"] == "application/apply-patch+yaml"
    assert (body["apiVersion"], body["kind"]) == ("resource.k8s.io/v1", "ResourceClaim")


def test_a_delete_carries_the_uid_as_precondition(server, gateway):
    server.answers = [Answer(body={"kind": "Status"})]
    gateway.delete(RESOURCE_CLAIM, "claim", namespace="vision", uid="u-1")
    assert server.asked[0][3]["preconditions"] == {"uid": "u-1"}


def test_events_that_come_in_pieces_are_put_together(server, gateway):
    server.answers = [Answer(lines=(node(8), node(9, "MODIFIED"), node(10, "BOOKMARK")))]
    assert watch(gateway) == ["8", "9", "10"]


@pytest.mark.parametrize(
    "answer",
    [
        status(410, "too old resource version: 7 (90)", "Expired"),
        in_stream(410, "too old resource version: 7 (90)"),
        in_stream(500, "required storage feature RequestWatchProgress is disabled"),
        in_stream(504, "Too large resource version: 7, current: 3"),
    ],
    ids=["at the door", "in the stream", "etcd without progress", "from the future"],
)
def test_a_watch_that_cannot_go_on_has_expired(server, gateway, answer):
    server.answers = [answer]
    with pytest.raises(Expired):
        watch(gateway)


def test_a_continue_token_that_has_run_out_has_expired(server, gateway):
    first = {"kind": "NodeList", "metadata": {"resourceVersion": "7", "continue": "more"}, "items": []}
    server.answers = [Answer(body=first), status(410, "continue parameter is too old", "Expired")]
    with pytest.raises(Expired):
        list(gateway.list(NODE))


@pytest.mark.parametrize("line", ["<html>", {"ok": True}, 7])
def test_a_stream_of_something_else_is_unreachable(server, gateway, line):
    server.answers = [Answer(lines=(node(8), line))]
    with pytest.raises(Unreachable, match="not a Kubernetes API server"):
        watch(gateway)


def test_one_connection_is_used_again(server, gateway):
    server.answers = [Answer(body={"kind": "Node", "metadata": {}}) for _ in range(5)]
    for _ in range(5):
        gateway.get(NODE, "node")
    assert len(server.clients) == 1


def test_a_compressed_answer_is_read(server, gateway):
    body = {"kind": "Node", "metadata": {"name": "node"}, "spec": {"taints": []}}
    server.answers = [Answer(body=body, compressed=True)]
    assert gateway.get(NODE, "node") == {**body, "apiVersion": "v1"}
    assert server.asked[0][2]["accept-encoding"] == "gzip"


def test_what_was_read_before_a_torn_stream_is_not_lost(server, gateway):
    server.answers = [Answer(lines=(node(8), node(9)), torn=True)]
    seen = []
    with pytest.raises(Unreachable, match="broke off"):
        seen.extend(gateway.watch(NODE, resource_version="7", seconds=1))
    events = gateway.watch(NODE, resource_version="7", seconds=1)
    server.answers = [Answer(lines=(node(8), node(9)), torn=True)]
    assert [next(events).resource_version, next(events).resource_version] == ["8", "9"]
    events.close()


@pytest.mark.parametrize(
    ("answer", "kind", "words"),
    [
        (status(401, "Unauthorized"), Refused, "does not know the credentials"),
        (status(403, "nodes is forbidden: policy x"), Refused, "nodes is forbidden: policy x"),
        (status(404, "the server could not find the requested resource"), ClusterInvalid, "could not find"),
        (status(409, "the object has been modified", "Conflict"), ClusterConflict, "modified"),
        (status(429, "too many requests"), Unreachable, "fewer requests"),
        (status(500, "etcdserver: request timed out"), Unreachable, "etcdserver: request timed out"),
        (Answer(502, text="<html>Bad Gateway</html>"), Unreachable, "502"),
        (Answer(200, text="<html>Sign in</html>"), Unreachable, "not a Kubernetes API server"),
        (Answer(200, {"ok": True}), Unreachable, "not a Kubernetes API server"),
        (Answer(302, text=""), Unreachable, "not a Kubernetes API server"),
    ],
)
def test_every_answer_becomes_one_of_four_errors_with_a_sentence(server, gateway, answer, kind, words):
    server.answers = [answer]
    with pytest.raises(kind, match=words) as problem:
        list(gateway.list(NODE))
    assert problem.value.message.endswith(".")


@pytest.mark.parametrize(
    ("answer", "fixable"),
    [
        (status(401, "Unauthorized"), True),
        (status(403, 'User "p" cannot create resource "pods" in API group ""'), True),
        (status(403, "pods is forbidden: policy x"), False),
        (status(403, "exceeded quota: q, requested: a=1, used: a=1, limited: a=1"), False),
    ],
)
def test_only_what_the_credentials_lack_can_be_mended_by_waiting(server, gateway, answer, fixable):
    server.answers = [answer]
    with pytest.raises(Refused) as problem:
        list(gateway.list(NODE))
    assert problem.value.fixable == fixable


def test_silent_server_is_unreachable(server, gateway, monkeypatch):
    monkeypatch.setitem(transport.Transport.send.__kwdefaults__, "read_seconds", 0.2)
    server.answers = [Answer(silent=True)]
    with pytest.raises(Unreachable, match="did not answer in time"):
        gateway.get(NODE, "node")


def test_a_closed_port_is_unreachable():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    gateway = KubeGateway(Credentials(server=f"http://127.0.0.1:{port}"))
    with pytest.raises(Unreachable, match=f"127.0.0.1:{port} refuses connections"):
        gateway.get(NODE, "node")


@pytest.mark.parametrize("version", ["v1.33.9", "v1.9.0-eks", ""])
def test_a_cluster_that_is_too_old_says_which_version_it_runs(server, gateway, version):
    server.answers = [Answer(body={"gitVersion": version})]
    with pytest.raises(ClusterInvalid, match=rf"runs Kubernetes {version or '.'}.*1\.34"):
        gateway.discover()


def test_a_cluster_with_the_api_switched_off_says_so(server, gateway):
    server.answers = [
        Answer(body={"gitVersion": "v1.35.0"}),
        status(404, "not found"),
        Answer(body={"resources": [{"name": "nodes"}]}),
    ]
    with pytest.raises(ClusterInvalid, match=r"serves no resource\.k8s\.io/v1"):
        gateway.discover()


@pytest.mark.parametrize(
    ("versions", "found"), [(["v1", "v1beta2"], "v1"), (["v1beta2", "v1alpha3"], "v1beta2"), ([], None)]
)
def test_the_newest_taint_rules_are_used(server, gateway, versions, found):
    served = dict.fromkeys(["v1", *versions])
    group = {"versions": [{"groupVersion": f"resource.k8s.io/{version}"} for version in served]}
    server.answers = [Answer(body={"gitVersion": "v1.36.0-simulated"}), Answer(body=group)]
    server.answers.append(Answer(body={"resources": []}))
    for version in served:
        names = (["resourceclaims"] if version == "v1" else []) + (
            ["devicetaintrules"] if version in versions else []
        )
        server.answers.append(Answer(body={"resources": [{"name": name} for name in names]}))
    server.answers += [status(404, "no Kubeflow"), status(404, "no KServe")]
    discovery = gateway.discover()
    assert (discovery.taint_rules and discovery.taint_rules.version) == found
    assert discovery.simulated
