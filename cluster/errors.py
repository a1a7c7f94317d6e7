"""Errors between the portal and a cluster: four kinds, each with a sentence for people."""

from core.errors import PortalError


class ClusterError(PortalError):
    """Base of the four. `cluster.errors` never carry credentials, headers or URLs with user data."""

    code = "cluster"
    status = 503
    title = "The cluster did not do this"


class Unreachable(ClusterError):
    """No response, or an overloaded or failing server (timeout, connection, 429, 5xx). Retry later."""

    code = "cluster-unreachable"
    title = "The cluster cannot be reached"


class Refused(ClusterError):
    """
    401 or 403. `verb` and `resource` are what the credentials lack.

    `quota` is True for an exceeded ResourceQuota; the message is then the cluster's own sentence. `mendable`
    is True where the credentials lack something that a platform admin can give them, and also while an API
    server starts, which refuses everybody until it has read its roles.
    """

    code = "cluster-refused"
    status = 502

    def __init__(
        self, message: str, *, verb: str = "", resource: str = "", quota: bool = False, mendable: bool = False
    ) -> None:
        super().__init__(message)
        self.verb = verb
        self.resource = resource
        self.quota = quota
        self.mendable = mendable


class ClusterConflict(ClusterError):
    """409: the object exists, was replaced (uid precondition), or another field manager owns a field."""

    code = "cluster-conflict"
    status = 409


class ClusterInvalid(ClusterError):
    """400 or 422: `causes` are (field, reason) pairs as the API server words them."""

    code = "cluster-invalid"
    status = 422

    def __init__(self, message: str, causes: tuple[tuple[str, str], ...] = ()) -> None:
        super().__init__(message)
        self.causes = causes


class Expired(Exception):
    """410 Gone, or a watch that cannot go on from its resource version: list again. Not an error to show."""
