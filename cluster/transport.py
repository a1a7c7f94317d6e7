"""The HTTP transport: the official client's connection pool, with responses as raw bytes."""

import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import urllib3
from kubernetes.client import ApiClient, Configuration
from kubernetes.client.exceptions import ApiException
from kubernetes.config.config_exception import ConfigException
from kubernetes.config.incluster_config import load_incluster_config
from urllib3.connection import HTTPConnection, HTTPSConnection

from cluster.credentials import Credentials
from cluster.protocol import Unreachable
from cluster.tls import client_context
from core.addresses import reason_to_refuse_host
from core.errors import Invalid
from core.origin import current_request_id

CONNECT_SECONDS = 5.0
READ_SECONDS = 30.0
POOL = 32  # connections to one cluster that are kept: one per mirrored resource, and room for deliveries
# The gateway's callers decide about another try; the API of Kubernetes does not redirect.
NO_RETRIES = urllib3.Retry(total=0, connect=0, read=0, redirect=0, other=0, raise_on_redirect=False)
CONTENT = {"PATCH": "application/apply-patch+yaml"}


class MachineAddress(urllib3.exceptions.HTTPError):
    """The name of a cluster leads to the machine itself, where clouds hand out credentials."""


def _require_other_machine(connection: HTTPConnection) -> None:
    """Raise MachineAddress after connecting and before anything is sent; of a proxy it is its address."""
    line = connection.sock
    if line is not None and (reason := reason_to_refuse_host(line.getpeername()[0])):
        connection.close()
        raise MachineAddress(reason)


class _Plain(HTTPConnection):
    def connect(self) -> None:
        super().connect()
        _require_other_machine(self)


class _Secured(HTTPSConnection):
    def connect(self) -> None:
        super().connect()
        _require_other_machine(self)


class _PlainPool(urllib3.HTTPConnectionPool):
    ConnectionCls = _Plain


class _SecuredPool(urllib3.HTTPSConnectionPool):
    ConnectionCls = _Secured


CHECKED = {"http": _PlainPool, "https": _SecuredPool}


class Transport:
    """
    Sends requests to one cluster as one identity.

    The typed layer of the client is not used: it drops fields it does not know, and cannot watch claims.
    """

    def __init__(self, credentials: Credentials) -> None:
        self.address = credentials.address
        self._client = ApiClient(configuration(credentials))
        self._client.user_agent = "dragoman"
        if not credentials.proxy.startswith("socks"):  # which connects by pools of its own
            self._client.rest_client.pool_manager.pool_classes_by_scheme = CHECKED
        if credentials.server.startswith("https:"):
            # Set here and not by file names, so that no key stays on the disk.
            self._client.rest_client.pool_manager.connection_pool_kw["ssl_context"] = tls(credentials)

    def __repr__(self) -> str:
        return f"<Transport to {self.address}>"

    def close(self) -> None:
        self._client.rest_client.pool_manager.clear()

    def send(
        self,
        method: str,
        path: str,
        *,
        query: dict[str, Any] | None = None,
        body: object = None,
        read_seconds: float = READ_SECONDS,
        stream: bool = False,
    ) -> tuple[int, urllib3.BaseHTTPResponse]:
        """
        Return the status and the answer, whose body is read unless `stream`. Raise `Unreachable`.

        It is raised here and not where it happens: the exceptions of the client and the variables beside them
        hold the headers, and with them the token.
        """
        answer = self._attempt(method, path, query or {}, body, read_seconds, stream=stream)
        if isinstance(answer, str):
            raise Unreachable(answer)
        return answer.status, answer

    def _attempt(
        self,
        method: str,
        path: str,
        query: dict[str, Any],
        body: object,
        read_seconds: float,
        *,
        stream: bool,
    ) -> urllib3.BaseHTTPResponse | str:
        """Return the response, or a sentence why there is none."""
        headers = {"Accept": "application/json", "Content-Type": CONTENT.get(method, "application/json")}
        if not stream:
            headers["Accept-Encoding"] = "gzip"  # from 128 KiB on; a watch is never compressed
        if request_id := current_request_id():
            headers["Audit-ID"] = request_id  # the API server's audit log has the id of the person's request
        try:
            request = self._client.param_serialize(
                method,
                path,
                query_params=list(query.items()),
                header_params=headers,
                body=body,
                auth_settings=["BearerToken"],
            )
            answer: urllib3.BaseHTTPResponse = self._client.call_api(
                *request, _request_timeout=(CONNECT_SECONDS, read_seconds)
            ).response
            if not stream:
                answer.read(cache_content=True, decode_content=True)
        except (urllib3.exceptions.HTTPError, ApiException, OSError) as failure:
            return sentence(self.address, failure)
        return answer

    @contextmanager
    def streaming(
        self, path: str, *, query: dict[str, Any], read_seconds: float
    ) -> Iterator[tuple[int, urllib3.BaseHTTPResponse]]:
        """Return a response to stream. Its connection is not reused."""
        status, answer = self.send("GET", path, query=query, read_seconds=read_seconds, stream=True)
        try:
            yield status, answer
        finally:
            answer.close()
            answer.release_conn()


def sentence(address: str, failure: Exception) -> str:
    """Return a sentence for a transport error, without the request."""
    cause = failure
    if isinstance(failure, urllib3.exceptions.MaxRetryError) and failure.reason is not None:
        cause = failure.reason
    match cause:
        case MachineAddress():
            return f"{address} leads to the machine itself: {cause}"
        case urllib3.exceptions.NameResolutionError():
            return f"The name of {address} is not known here."
        case urllib3.exceptions.NewConnectionError():  # before its base class, the time-out
            return f"{address} refuses connections, or no way leads there."
        case urllib3.exceptions.ConnectTimeoutError():
            return f"{address} took no connection within {f'{CONNECT_SECONDS:.0f}'} seconds."
        case urllib3.exceptions.ReadTimeoutError():
            return f"{address} took the request and did not answer in time."
        case urllib3.exceptions.SSLError() | ssl.SSLError():
            return f"{address} is not who the kubeconfig says: its certificate is not trusted."
        case ApiException():  # how the client wraps a TLS failure
            return f"{address} is not who the kubeconfig says: its certificate is not trusted."
    return f"The connection to {address} broke off."


def configuration(credentials: Credentials) -> Configuration:
    """Return the client's settings. Raise `Invalid` outside a cluster for in-cluster credentials."""
    options: dict[str, Any] = {"retries": NO_RETRIES, "connection_pool_maxsize": POOL}
    if credentials.in_cluster:
        settings = Configuration(**options)
        problem = ""
        try:
            load_incluster_config(client_configuration=settings)  # type: ignore[no-untyped-call]
        except ConfigException as failure:
            problem = str(failure)
        if problem:
            raise Invalid(f"The portal does not run inside a cluster: {problem}")
    else:
        if credentials.proxy:
            options["proxy"] = credentials.proxy
        settings = Configuration(host=credentials.server, **options)
        settings.verify_ssl = not credentials.insecure  # urllib3 sets it on the context once more
        settings.tls_server_name = credentials.server_name or None
        if credentials.token:
            # The key is BearerToken since 36; under the old one alone requests go out as anonymous.
            settings.api_key = {"BearerToken": f"Bearer {credentials.token}"}
    settings.keep_alive = True  # a watch is silent for long; a gateway on the way would forget it
    return settings


def tls(credentials: Credentials) -> ssl.SSLContext:
    """Return an in-memory SSL context with the CA and the client certificate."""
    context = client_context(
        authority=credentials.authority, certificate=credentials.certificate, key=credentials.key
    )
    if context is None:
        raise Invalid(
            "The certificates of the kubeconfig cannot be used: they are damaged, or the key fits no "
            "certificate."
        )
    if credentials.insecure:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
        # `manage.py cluster check` has told it; a warning for every request would hide others.
        urllib3.disable_warnings(urllib3.exceptions.InsecureRequestWarning)
    return context
