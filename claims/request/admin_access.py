"""
Who may ask for devices that others hold, and where (`adminAccess` of a request).

Such a claim sees every device that matches and takes none away, so it is for monitoring and diagnosis. The
API server takes it only in a namespace with a label of its own; the portal asks for more: the person is a
platform admin.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.utils.translation import gettext as _

from core.errors import Forbidden
from dra.objects import asks
from inventory.models import Cluster, Namespace
from teams.access import is_platform_admin
from teams.models import User

# Exactly so, with a small "true": the API server compares bytes.
LABEL, VALUE = "resource.kubernetes.io/admin-access", "true"


def has_admin_access(spec: Mapping[str, Any]) -> bool:
    return any(ask.admin for ask in asks(spec))


def person_problems(by: User, spec: Mapping[str, Any]) -> list[str]:
    """Return why `by` may not ask for `spec`, a well-formed ResourceClaim spec; nothing for most specs."""
    if not has_admin_access(spec) or is_platform_admin(by):
        return []
    return [_("Only a platform admin may ask for admin access, which sees devices that others hold.")]


def require_person(by: User, spec: Mapping[str, Any]) -> None:
    """Raise Forbidden for a spec with admin access and somebody who is no platform admin."""
    if problems := person_problems(by, spec):
        raise Forbidden(problems[0])


def place_problems(spec: Mapping[str, Any], cluster: Cluster, namespace: str) -> list[str]:
    """
    Return why the API server would refuse `spec` in this namespace, as far as its mirror knows.

    One query for a spec with admin access, none for others.
    """
    if not namespace or not has_admin_access(spec):
        return []
    labels = (
        Namespace.objects.filter(cluster=cluster, name=namespace, gone_at=None)
        .values_list("labels", flat=True)
        .first()
    )
    if (labels or {}).get(LABEL) == VALUE:
        return []
    return [
        _(
            "Admin access needs a namespace with the label %(label)s: “%(value)s”, which %(namespace)s of "
            "%(cluster)s does not have. An admin of the cluster sets it: kubectl label namespace "
            "%(namespace)s %(label)s=%(value)s"
        )
        % {"label": LABEL, "value": VALUE, "namespace": namespace, "cluster": cluster}
    ]
