"""What operators bring is found where it is served, and is no condition of anything."""

import pytest

from cluster.credentials import Credentials
from cluster.kube import KubeGateway
from cluster.protocol import INFERENCE_SERVICE, NOTEBOOK, PYTORCH_JOB, Unreachable
from tests.cluster.scripted import Answer, scripted_server

BASE = (
    Answer(body={"gitVersion": "v1.37.1"}),
    Answer(body={"versions": [{"groupVersion": "resource.k8s.io/v1"}]}),
    Answer(body={"resources": [{"name": "nodes"}]}),
    Answer(body={"resources": [{"name": "resourceclaims"}]}),
)
ABSENT = Answer(404, {"kind": "Status", "code": 404, "message": "not found"})
FORBIDDEN = Answer(403, {"kind": "Status", "code": 403, "message": "no"})


def served(*names: str) -> Answer:
    return Answer(body={"resources": [{"name": name} for name in names]})


def discovered(*answers: Answer):
    with scripted_server() as server:
        server.answers = [*BASE, *answers]
        gateway = KubeGateway(Credentials(server=server.address, token="t"))
        try:
            return gateway.discover().kinds, [path for _method, path, _headers, _body in server.asked]
        finally:
            gateway.close()


def key(kind):
    return f"{kind.api_version}/{kind.plural}"


def test_two_requests_find_what_operators_bring():
    kinds, asked = discovered(served("notebooks", "notebooks/status", "tfjobs"), served("inferenceservices"))
    assert {key(NOTEBOOK), key(INFERENCE_SERVICE)} <= kinds
    assert key(PYTORCH_JOB) not in kinds
    assert not any("tfjobs" in kind or "status" in kind for kind in kinds)
    assert asked[-2:] == ["/apis/kubeflow.org/v1", "/apis/serving.kserve.io/v1beta1"]


@pytest.mark.parametrize("answer", [ABSENT, FORBIDDEN], ids=["absent", "forbidden"])
def test_cluster_without_operators_is_valid(answer):
    kinds, _asked = discovered(answer, answer)
    assert kinds == {"v1/nodes", "resource.k8s.io/v1/resourceclaims"}


def test_a_cluster_that_does_not_answer_is_told():
    with pytest.raises(Unreachable):
        discovered(Answer(503, {"kind": "Status", "code": 503, "message": "busy"}))
