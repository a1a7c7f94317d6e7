"""Kubeconfigs that kubectl accepts in another shape are read alike."""

import base64
from typing import Any

import pytest
import yaml

from cluster.credentials import from_kubeconfig
from core.errors import Invalid

PEM = "-----BEGIN CERTIFICATE-----\n" + "A" * 64 + "\n-----END CERTIFICATE-----\n"
ENCODED = base64.b64encode(PEM.encode()).decode()


def kubeconfig(cluster: dict[str, Any], user: dict[str, Any], **more: Any) -> str:
    whole = {
        "kind": "Config",
        "current-context": "c",
        "contexts": [{"name": "c", "context": {"cluster": "k", "user": "u"}}],
        "clusters": [{"name": "k", "cluster": {"server": "https://10.0.0.1:6443", **cluster}}],
        "users": [{"name": "u", "user": {"token": "t", **user}}],
        **more,
    }
    return yaml.safe_dump({name: value for name, value in whole.items() if value is not None})


@pytest.mark.parametrize("line", ["\n", "\r\n"])
@pytest.mark.parametrize("every", [1, 60, 64, 76, 10_000])
def test_base64_with_line_breaks_is_read_as_kubectl_does(line, every):
    folded = line.join(ENCODED[at : at + every] for at in range(0, len(ENCODED), every)) + line
    text = kubeconfig({"certificate-authority-data": folded}, {})
    assert from_kubeconfig(text).authority == PEM


@pytest.mark.parametrize(
    "encoded", [f"{ENCODED} x", ENCODED.replace("=", "") + "!", "no base64", " " + ENCODED]
)
def test_base64_with_anything_else_within_is_refused(encoded):
    with pytest.raises(Invalid, match="is not a PEM text in base64"):
        from_kubeconfig(kubeconfig({"certificate-authority-data": encoded}, {}))


@pytest.mark.parametrize("token", ["abc", "abc\n", "abc\r\n", " abc "])
def test_token_has_no_line_break_at_its_end(token):
    assert from_kubeconfig(kubeconfig({}, {"token": token})).token == "abc"


@pytest.mark.parametrize("kind", ["Config", "", None])
def test_kind_may_be_missing(kind):
    assert from_kubeconfig(kubeconfig({}, {}, kind=kind)).token == "t"


def test_another_kind_is_refused():
    with pytest.raises(Invalid, match="kind Config is expected"):
        from_kubeconfig(kubeconfig({}, {}, kind="Secret"))
