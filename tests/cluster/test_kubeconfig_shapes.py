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


PAIR = {"client-certificate-data": ENCODED, "client-key-data": ENCODED}
CONTEXT = {"cluster": "k", "user": "u"}
MACHINE = "an address of the machine itself"
FILE, PROGRAM = "refers to a file", "gets its token from a program"
ADDRESS = "names no server address that starts with https:// or http://"

# What kubectl accepts: of the cluster, of the user, of the whole; then what is read, or the refusal in words.
VARIANTS: dict[str, tuple[dict[str, Any], dict[str, Any], dict[str, Any], str | dict[str, Any]]] = {
    "kind missing": ({}, {}, {"kind": None}, {"token": "t"}),
    "kind empty": ({}, {}, {"kind": ""}, {"token": "t"}),
    "another kind": ({}, {}, {"kind": "Secret"}, "kind Config is expected"),
    "program of GKE": ({}, {"exec": {"command": "gke-gcloud-auth-plugin"}}, {}, PROGRAM),
    "program of OIDC": ({}, {"auth-provider": {"name": "oidc", "config": {}}}, {}, PROGRAM),
    "program of another user": (
        {},
        {},
        {"users": [{"name": "u", "user": {"token": "t"}}, {"name": "z", "user": {"exec": {"command": "x"}}}]},
        {"token": "t"},
    ),
    "CA in a file": ({"certificate-authority": "ca.crt"}, {}, {}, FILE),
    "certificate in a file": ({}, {"client-certificate": "a.crt", "client-key": "a.key"}, {}, FILE),
    "token in a file": ({}, {"tokenFile": "/var/run/token"}, {}, FILE),
    "acts as another": ({}, {"as": "root"}, {}, "acts as somebody else"),
    "password": ({}, {"username": "a", "password": "b"}, {}, "holds a password"),
    "certificate and key": ({}, PAIR, {}, {"certificate": PEM, "key": PEM}),
    "certificate alone": (
        {},
        {"client-certificate-data": ENCODED},
        {},
        "a client certificate without its key",
    ),
    "certificate and token": ({}, {**PAIR, "token": "t"}, {}, {"token": "t", "key": PEM}),
    "user without anything": ({}, {"token": ""}, {}, {"token": "", "certificate": ""}),
    "user that is missing": ({}, {}, {"users": []}, "has no user “u”"),
    "cluster that is missing": ({}, {}, {"clusters": None}, "has no cluster “k”"),
    "Rancher": (
        {"server": "https://rancher.example/k8s/clusters/c-m-1/"},
        {},
        {},
        {"server": "https://rancher.example/k8s/clusters/c-m-1"},
    ),
    "address in IPv6": ({"server": "https://[fd00::1]:6443"}, {}, {}, {"server": "https://[fd00::1]:6443"}),
    "scheme in capitals": ({"server": "HTTPS://k8s.example"}, {}, {}, {"server": "HTTPS://k8s.example"}),
    "address without scheme": ({"server": "k8s.example:6443"}, {}, {}, ADDRESS),
    "address with a space": ({"server": "https://k8s example"}, {}, {}, ADDRESS),
    "address with a password": ({"server": "https://a:b@k8s.example"}, {}, {}, "contains a password"),
    "metadata of a cloud": ({"server": "https://169.254.169.254"}, {}, {}, MACHINE),
    "metadata in IPv6": ({"server": "https://[::ffff:169.254.169.254]"}, {}, {}, MACHINE),
    "metadata as a number": ({"server": "https://2852039166"}, {}, {}, MACHINE),
    "proxy": ({"proxy-url": "socks5://proxy.example:1080"}, {}, {}, {"proxy": "socks5://proxy.example:1080"}),
    "proxy on the machine": ({"proxy-url": "http://169.254.169.254"}, {}, {}, MACHINE),
    "proxy of another kind": (
        {"proxy-url": "ftp://proxy.example"},
        {},
        {},
        "starts with http, https or socks5",
    ),
    "unchecked as text": (
        {"insecure-skip-tls-verify": "true"},
        {},
        {},
        "must be true or false, without quotes",
    ),
    "unchecked with a CA": (
        {"insecure-skip-tls-verify": True, "certificate-authority-data": ENCODED},
        {},
        {},
        {"insecure": True, "authority": PEM},
    ),
    "no current context, one there": ({}, {}, {"current-context": ""}, {"token": "t"}),
    "no current context, two there": (
        {},
        {},
        {"current-context": "", "contexts": [{"name": name, "context": CONTEXT} for name in "ab"]},
        "has no current context; name one of: a, b",
    ),
    "current context that is missing": ({}, {}, {"current-context": "x"}, "has no context “x”"),
    "context with a number for a name": (
        {},
        {},
        {"current-context": 123, "contexts": [{"name": 123, "context": CONTEXT}]},
        {"token": "t"},
    ),
    "extensions and preferences": (
        {"extensions": [{"name": "x", "extension": {}}]},
        {},
        {"preferences": {}, "extensions": []},
        {"token": "t"},
    ),
    "token as a number": ({}, {"token": 5}, {}, "token of the kubeconfig must be text"),
    "clusters as a map": ({}, {}, {"clusters": {"k": {}}}, "is not a list of named entries"),
}


@pytest.mark.parametrize("variant", VARIANTS.values(), ids=VARIANTS)
def test_variant_of_kubectl_is_read_or_refused_with_its_sentence(variant):
    cluster, user, more, expected = variant
    text = kubeconfig(cluster, user, **more)
    if isinstance(expected, dict):
        found = from_kubeconfig(text)
        assert {name: getattr(found, name) for name in expected} == expected
        return
    with pytest.raises(Invalid) as refusal:
        from_kubeconfig(text)
    assert expected in refusal.value.message
