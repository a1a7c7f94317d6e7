"""What of a kubeconfig is followed, and what is refused with a sentence."""

import base64
from typing import Any

import pytest
import yaml

from cluster.credentials import from_kubeconfig
from core.errors import Invalid

PEM = "-----BEGIN CERTIFICATE-----\nabc\n-----END CERTIFICATE-----\n"
DATA = base64.b64encode(PEM.encode()).decode()


def kubeconfig(*, user: dict[str, Any] | None = None, **cluster: Any) -> str:
    cluster = {"server": "https://cluster.example:6443"} | cluster
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [
            {"name": "fra", "cluster": cluster},
            {"name": "lab", "cluster": {"server": "http://lab"}},
        ],
        "users": [{"name": "portal", "user": {"token": "t"} if user is None else user}],
        "contexts": [
            {"name": "fra-1", "context": {"cluster": "fra", "user": "portal"}},
            {"name": "lab-2", "context": {"cluster": "lab", "user": "portal"}},
        ],
        "current-context": "fra-1",
    }
    return yaml.safe_dump(document)


def test_the_current_context_is_read():
    details: dict[str, Any] = {
        "certificate-authority-data": DATA,
        "tls-server-name": "api",
        "proxy-url": "http://p:1",
    }
    found = from_kubeconfig(kubeconfig(**details))
    assert (found.server, found.token) == ("https://cluster.example:6443", "t")
    assert (found.authority, found.server_name, found.proxy) == (PEM, "api", "http://p:1")
    assert found.address == "cluster.example:6443"
    assert not found.insecure


def test_another_context_can_be_named():
    assert from_kubeconfig(kubeconfig(), context="lab-2").server == "http://lab"


def test_client_certificates_are_read():
    found = from_kubeconfig(kubeconfig(user={"client-certificate-data": DATA, "client-key-data": DATA}))
    assert (found.certificate, found.key) == (PEM, PEM)


@pytest.mark.security("injection", "a kubeconfig that runs a program or reads a file")
@pytest.mark.parametrize(
    ("user", "words"),
    [
        ({"exec": {"command": "aws"}}, "a program (“exec”), which the portal does not run"),
        ({"auth-provider": {"name": "gcp"}}, "a program (“auth-provider”)"),
        ({"tokenFile": "/etc/shadow"}, "a file (“tokenFile”), which the portal does not read"),
        ({"client-certificate": "/a", "client-key": "/b"}, "a file (“client-certificate”)"),
        ({"username": "admin", "password": "p"}, "holds a password"),
        ({"token": "t", "as": "system:admin"}, "acts as somebody else (“as”)"),
        ({"client-certificate-data": DATA}, "without its key"),
        ({"client-certificate-data": "%%", "client-key-data": "%%"}, "not a PEM text in base64"),
    ],
)
def test_what_the_portal_will_not_do_for_a_user_is_a_sentence(user, words):
    with pytest.raises(Invalid) as problem:
        from_kubeconfig(kubeconfig(user=user))
    assert words in problem.value.message


@pytest.mark.security("outbound", "a kubeconfig for an address of the machine itself")
@pytest.mark.parametrize(
    ("cluster", "words"),
    [
        ({"certificate-authority": "/etc/ca.crt"}, "kubectl config view --raw --flatten --minify"),
        ({"server": "https://admin:secret@cluster"}, "contains a password"),
        ({"server": "unix:///run/sock"}, "no server address"),
        ({"server": None}, "no server address"),
        ({"server": "cluster:6443"}, "no server address"),
        ({"server": "https://[::1"}, "no server address"),
        ({"server": "https://cluster:99999"}, "no server address"),
        ({"server": "https://cluster:abc"}, "no server address"),
        ({"server": "https://cluster:0"}, "no server address"),
        ({"server": "https://cluster\n"}, "no server address"),
        ({"server": "https://clus ter"}, "no server address"),
        ({"server": "https://cluster?a=b"}, "must end before “?” and “#”"),
        ({"server": "https://cluster#a"}, "must end before “?” and “#”"),
        ({"server": "http://169.254.169.254"}, "leads to 169.254.169.254, an address of the machine itself"),
        ({"server": "https://[fe80::1]:6443"}, "leads to fe80::1"),
        ({"proxy-url": "ftp://proxy"}, "proxy-url of the kubeconfig is not an address"),
        ({"proxy-url": 5}, "proxy-url of the kubeconfig is not an address"),
        ({"proxy-url": "http://169.254.169.254"}, "leads to 169.254.169.254"),
        ({"insecure-skip-tls-verify": "false"}, "insecure-skip-tls-verify of the kubeconfig must be true or"),
        ({"insecure-skip-tls-verify": 1}, "insecure-skip-tls-verify of the kubeconfig must be true or"),
        ({"certificate-authority-data": 5}, "certificate-authority-data of the kubeconfig must be text"),
        ({"certificate-authority-data": ["a"]}, "certificate-authority-data of the kubeconfig must be text"),
        ({"tls-server-name": True}, "tls-server-name of the kubeconfig must be text"),
    ],
)
def test_what_the_portal_will_not_do_for_a_cluster_is_a_sentence(cluster, words):
    with pytest.raises(Invalid) as problem:
        from_kubeconfig(kubeconfig(**cluster))
    assert words in problem.value.message


@pytest.mark.parametrize("flag", [True, False])
def test_verification_of_the_certificate_is_switched_off_by_a_boolean_only(flag):
    assert from_kubeconfig(kubeconfig(**{"insecure-skip-tls-verify": flag})).insecure is flag


@pytest.mark.parametrize(("plural", "singular"), [("clusters", "cluster"), ("contexts", "context")])
@pytest.mark.parametrize("value", ["text", ["list"], 5])
def test_section_without_fields_is_refused(plural, singular, value):
    document = yaml.safe_load(kubeconfig())
    document[plural][0][singular] = value
    with pytest.raises(Invalid, match="of the kubeconfig has no fields"):
        from_kubeconfig(yaml.safe_dump(document))


def test_user_without_fields_is_refused():
    document = yaml.safe_load(kubeconfig())
    document["users"][0]["user"] = ["list"]
    with pytest.raises(Invalid, match="user “portal” of the kubeconfig has no fields"):
        from_kubeconfig(yaml.safe_dump(document))


def test_token_that_is_no_text_is_refused():
    with pytest.raises(Invalid, match="token of the kubeconfig must be text"):
        from_kubeconfig(kubeconfig(user={"token": 5}))


@pytest.mark.security("bombs", "a kubeconfig of thousands of levels")
def test_deeply_nested_text_is_refused():
    with pytest.raises(Invalid, match="This is not a kubeconfig"):
        from_kubeconfig("[" * 3000)


def test_a_context_that_is_missing_is_named():
    with pytest.raises(Invalid, match="no context “paris”"):
        from_kubeconfig(kubeconfig(), context="paris")


def test_without_a_current_context_the_choice_is_told():
    document = yaml.safe_load(kubeconfig())
    del document["current-context"]
    with pytest.raises(Invalid, match="name one of: fra-1, lab-2"):
        from_kubeconfig(yaml.safe_dump(document))


@pytest.mark.parametrize(
    "text", ["", "[]", "kind: Pod", "a: [", "kind: Config\ncontexts: 5\ncurrent-context: a"]
)
def test_what_is_no_kubeconfig_is_refused(text):
    with pytest.raises(Invalid):
        from_kubeconfig(text)


@pytest.mark.security("injection", "a kubeconfig that makes an object of Python")
def test_an_object_in_the_yaml_is_not_made():
    with pytest.raises(Invalid):
        from_kubeconfig("!!python/object/apply:os.system ['true']")


@pytest.mark.security("injection", "a kubeconfig that names a file")
@pytest.mark.parametrize("key", ["certificate-authority", "client-certificate", "client-key", "tokenFile"])
@pytest.mark.parametrize("place", ["user", "cluster"])
def test_no_file_is_read_whoever_names_it(key, place):
    text = kubeconfig(user={key: "/etc/shadow"}) if place == "user" else kubeconfig(**{key: "/etc/shadow"})  # type: ignore[arg-type]
    with pytest.raises(Invalid) as problem:
        from_kubeconfig(text)
    assert problem.value.message == (
        f"The kubeconfig refers to a file (“{key}”), which the portal does not read. "
        "Put its contents in with “kubectl config view --raw --flatten --minify”."
    )


@pytest.mark.parametrize("key", ["as", "as-uid", "as-groups", "as-user-extra", "impersonate"])
def test_the_portal_acts_as_nobody_else(key):
    with pytest.raises(Invalid) as problem:
        from_kubeconfig(kubeconfig(user={"token": "t", key: "x"}))
    told = f"The kubeconfig acts as somebody else (“{key}”); the portal acts as itself only."
    assert problem.value.message == told


@pytest.mark.parametrize(
    ("user", "words"),
    [
        ({"username": "admin"}, "holds a password"),
        ({"password": "p"}, "holds a password"),
        ({"client-key-data": DATA}, "or a key without it"),
        ({"client-certificate-data": DATA}, "without its key"),
    ],
)
def test_incomplete_credentials_are_refused(user, words):
    with pytest.raises(Invalid, match=words):
        from_kubeconfig(kubeconfig(user=user))


@pytest.mark.parametrize("server", ["https://admin@cluster", "https://:secret@cluster"])
def test_an_address_with_a_name_or_a_password_is_refused(server):
    with pytest.raises(Invalid, match="contains a password"):
        from_kubeconfig(kubeconfig(server=server))


def test_the_only_context_is_taken_where_none_is_current():
    document = yaml.safe_load(kubeconfig())
    document["current-context"] = ""
    document["contexts"] = document["contexts"][1:]
    assert from_kubeconfig(yaml.safe_dump(document)).server == "http://lab"
    document["contexts"] = []
    with pytest.raises(Invalid, match="name one of: –"):
        from_kubeconfig(yaml.safe_dump(document))


@pytest.mark.parametrize(
    ("part", "name", "words"),
    [("clusters", "cluster", "no cluster “fra”"), ("users", "user", "no user “portal”")],
)
def test_a_part_that_a_context_names_and_the_file_lacks_is_told(part, name, words):
    document = yaml.safe_load(kubeconfig())
    document[part] = [{"name": "another", name: {}}]
    with pytest.raises(Invalid, match=words):
        from_kubeconfig(yaml.safe_dump(document))
    document[part] = [{name: {}}]
    with pytest.raises(Invalid, match=f"“{part}” of the kubeconfig is not a list of named entries"):
        from_kubeconfig(yaml.safe_dump(document))
