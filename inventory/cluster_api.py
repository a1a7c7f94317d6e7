"""
API of clusters: what platform admins do on their settings pages, and `manage.py cluster` in a terminal.

Credentials are sent once, as a kubeconfig or as address and token of a service account, and never returned.
"""

from __future__ import annotations

from typing import Any

from django.shortcuts import get_object_or_404
from django.views.decorators.debug import sensitive_variables
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.decorators import action
from rest_framework.request import Request
from rest_framework.response import Response

from cluster.checkup import CheckupVerdict
from cluster.credentials import Credentials, from_kubeconfig, from_token
from core.errors import Conflict, Invalid, PortalError
from core.idempotency import IdempotentWrites
from core.inputs import Input, validate_name
from core.schema import refuses
from core.scopes import Scope, needs
from core.text import counted
from inventory import api, clusters
from inventory.counts import with_device_counts
from inventory.models import Cluster
from inventory.states import EndPolicy
from teams.access import require_admin, user_of

MAX_KUBECONFIG = 256 * 1024  # characters


class CredentialsIn(Input):
    """Either `kubeconfig`, or `server` and `token` of a service account."""

    kubeconfig = serializers.CharField(max_length=MAX_KUBECONFIG, required=False, write_only=True)
    context = serializers.CharField(  # type: ignore[assignment]  # a field of that name
        max_length=253, allow_blank=True, default="", help_text="Of the kubeconfig; empty: its current one"
    )
    server = serializers.CharField(max_length=400, required=False)
    token = serializers.CharField(max_length=16 * 1024, required=False, write_only=True)
    authority = serializers.CharField(
        max_length=64 * 1024,
        allow_blank=True,
        default="",
        help_text="Certificate of the CA of the server in PEM or base64; empty: those that the portal trusts",
    )

    @sensitive_variables()
    def credentials(self) -> Credentials:
        """Return what was sent. Raises Invalid."""
        sent = self.validated_data
        if ("kubeconfig" in sent) == ("token" in sent):
            raise Invalid("Send either a kubeconfig, or a server with a token.", field="kubeconfig")
        if "token" in sent:
            return from_token(sent.get("server", ""), sent["token"], authority=sent["authority"])
        return from_kubeconfig(sent["kubeconfig"], context=sent["context"])


class ModesIn(Input):
    read_only = serializers.BooleanField(  # type: ignore[assignment]  # a field of that name
        default=False, help_text="Nothing is created in the cluster"
    )
    write_quotas = serializers.BooleanField(default=False, help_text="The portal writes ResourceQuotas")
    end_policy = serializers.ChoiceField(
        choices=EndPolicy.choices,
        default=EndPolicy.RUN,
        help_text="What happens to pods that hold devices when their claim ends",
    )


class NewClusterIn(ModesIn, CredentialsIn):
    """A cluster with its credentials. It is checked first, and added if no check fails."""

    name = serializers.CharField(max_length=40, validators=[validate_name])
    title = serializers.CharField(max_length=80, allow_blank=True, default="")


class CheckIn(ModesIn, CredentialsIn):
    """What the portal is to do in the cluster, which decides what it needs."""


class ChangeClusterIn(Input):
    """What is left out stays."""

    title = serializers.CharField(max_length=80, allow_blank=True, required=False)
    read_only = serializers.BooleanField(required=False)  # type: ignore[assignment]
    end_policy = serializers.ChoiceField(choices=EndPolicy.choices, required=False)
    grams_per_kwh = serializers.IntegerField(
        min_value=1, max_value=5000, required=False, allow_null=True, help_text="CO₂; null: none is shown"
    )


class CheckOut(serializers.Serializer[Any]):
    """One thing that was checked; `remedy` says what to do."""

    verdict = serializers.ChoiceField(choices=list(CheckupVerdict))
    subject = serializers.CharField()
    detail = serializers.CharField()
    remedy = serializers.CharField()


class ChecksOut(serializers.Serializer[Any]):
    problem = serializers.CharField(help_text="Why nothing could be checked; empty if it could")
    failed = serializers.IntegerField()
    checks = CheckOut(many=True)


def managed_cluster(request: Request, name: str) -> Cluster:
    """Return the cluster; 403 for everybody but platform admins."""
    require_admin(user_of(request))
    return get_object_or_404(Cluster.objects.defer("credentials"), name=name)


@needs(Scope.ADMIN)
class ClusterAdminViewSet(IdempotentWrites, api.ClusterViewSet):
    """Clusters with the age of their data. Platform admins add, change, pause and remove them."""

    volatile = frozenset(("freshness", "version", "halt_reason", "missing", "devices", "devices_held"))

    @sensitive_variables()
    @refuses(403, 502, 503)
    @extend_schema(request=NewClusterIn, responses={201: api.ClusterOut})
    def create(self, request: Request) -> Response:
        """Check a cluster and add it. 409 if a check fails, or if it was added already."""
        require_admin(user_of(request))
        body = NewClusterIn.of(request)
        credentials, sent = body.credentials(), body.validated_data
        modes = {name: sent[name] for name in ("read_only", "write_quotas", "end_policy")}
        failed = [row for row in _checks(credentials, modes)["checks"] if row.verdict == CheckupVerdict.BAD]
        if failed:
            checks = counted(len(failed), "check")
            raise Conflict(
                f"{checks} failed: {failed[0].subject}: {failed[0].detail}",
                checks=CheckOut(failed, many=True).data,
            )
        name = sent["name"]
        clusters.add_cluster(
            name=name, credentials=credentials, by=user_of(request), title=sent["title"], **modes
        )
        return self._shown(name, status=201)

    @sensitive_variables()
    @refuses(403, 502, 503)
    @extend_schema(request=CheckIn, responses=ChecksOut)
    @action(detail=False, methods=["post"])
    def check(self, request: Request) -> Response:
        """Check a cluster that is not added, with these credentials. Nothing is stored."""
        require_admin(user_of(request))
        body = CheckIn.of(request)
        sent = body.validated_data
        modes = {name: sent[name] for name in ("read_only", "write_quotas", "end_policy")}
        return Response(ChecksOut(_checks(body.credentials(), modes)).data)

    @refuses(403, 409)
    @extend_schema(request=ChangeClusterIn, responses=api.ClusterOut)
    def partial_update(self, request: Request, name: str) -> Response:
        """Change title, mode, end policy or CO₂ of the electricity."""
        managed_cluster(request, name)
        fields = ChangeClusterIn.of(request).validated_data
        clusters.change_cluster(name=name, by=user_of(request), **fields)
        return self._shown(name)

    @refuses(403, 409)
    def destroy(self, request: Request, name: str) -> Response:
        """Remove a cluster and its mirror from the portal. 409 if it ever had claims: pause it instead."""
        managed_cluster(request, name)
        clusters.remove_cluster(name=name, by=user_of(request))
        return Response(status=204)

    @refuses(403)
    @extend_schema(responses=ChecksOut)
    @action(detail=True)
    def checks(self, request: Request, name: str) -> Response:
        """Connect to the cluster now, and say what works. Platform admins only."""
        managed_cluster(request, name)
        try:
            content = _counted(clusters.check_cluster(Cluster.objects.get(name=name)))
        except PortalError as refusal:  # what is wrong is the answer, as on the page
            content = {"problem": refusal.message, "failed": 1, "checks": []}
        return Response(ChecksOut(content).data)

    @sensitive_variables()
    @refuses(403, 409, 502, 503)
    @extend_schema(request=CredentialsIn, responses=api.ClusterOut)
    @action(detail=True, methods=["put"])
    def credentials(self, request: Request, name: str) -> Response:
        """Replace the credentials, once the new ones have reached the same cluster."""
        managed_cluster(request, name)
        credentials = CredentialsIn.of(request).credentials()
        clusters.renew_credentials(name=name, credentials=credentials, by=user_of(request))
        return self._shown(name)

    @extend_schema(request=None, responses=api.ClusterOut)
    @action(detail=True, methods=["post"])
    def pause(self, request: Request, name: str) -> Response:
        """Neither read nor write the cluster, until it is resumed."""
        managed_cluster(request, name)
        clusters.set_enabled(name=name, enabled=False, by=user_of(request))
        return self._shown(name)

    @extend_schema(request=None, responses=api.ClusterOut)
    @action(detail=True, methods=["post"])
    def resume(self, request: Request, name: str) -> Response:
        """Follow the cluster again, within a minute."""
        managed_cluster(request, name)
        clusters.set_enabled(name=name, enabled=True, by=user_of(request))
        return self._shown(name)

    def _shown(self, name: str, status: int = 200) -> Response:
        (cluster,) = with_device_counts([self.get_queryset().get(name=name)])
        return Response(api.ClusterOut(cluster).data, status=status)


@sensitive_variables()
def _checks(credentials: Credentials, modes: dict[str, Any]) -> dict[str, Any]:
    findings, _preview = clusters.preview_cluster(
        credentials,
        read_only=modes["read_only"],
        write_quotas=modes["write_quotas"],
        evict_pods=modes["end_policy"] != EndPolicy.RUN,
    )
    return _counted(findings)


def _counted(findings: list[Any]) -> dict[str, Any]:
    return {
        "problem": "",
        "failed": sum(row.verdict == CheckupVerdict.BAD for row in findings),
        "checks": findings,
    }
