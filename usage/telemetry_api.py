"""API of a cluster's telemetry source, for platform admins: what its settings page changes and tests."""

from __future__ import annotations

from typing import Any

from django.views.decorators.debug import sensitive_variables
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from cluster.checkup import CheckupVerdict
from core.errors import Invalid
from core.idempotency import IdempotentWrites
from core.inputs import Input
from core.schema import refuses
from core.scopes import Scope, needs
from inventory.cluster_api import managed_cluster
from inventory.models import Cluster, TelemetryAccess
from inventory.models.cluster import (
    validate_certificates,
    validate_exporters,
    validate_http_url,
    validate_matchers,
    validate_tenant,
)
from inventory.secret_form import PEM_LIMIT
from inventory.telemetry_access import (
    ADDRESSES,
    NO_SECRET,
    PLAIN,
    TOKEN_LIMIT,
    TelemetrySecret,
    change_telemetry,
)
from teams.access import user_of
from usage.source_report import check_source
from usage.sources import source_of


class SecretIn(Input):
    """A token, or a user with a password, or a client certificate with its key in PEM."""

    token = serializers.CharField(max_length=TOKEN_LIMIT, required=False)
    user = serializers.CharField(max_length=255, required=False)
    password = serializers.CharField(max_length=1024, required=False)
    certificate = serializers.CharField(max_length=PEM_LIMIT, required=False)
    key = serializers.CharField(max_length=PEM_LIMIT, required=False)


class TelemetryIn(Input):
    """What is left out stays. A secret is never returned; null removes it."""

    prometheus_url = serializers.CharField(
        max_length=200, allow_blank=True, required=False, validators=[validate_http_url]
    )
    metrics_url = serializers.CharField(
        max_length=2000,
        allow_blank=True,
        required=False,
        validators=[validate_exporters],
        help_text="Addresses of exporters with spaces between them; {node} and {address} stand for each node",
    )
    authority = serializers.CharField(
        max_length=PEM_LIMIT,
        allow_blank=True,
        required=False,
        validators=[validate_certificates],
        help_text="CA certificate in PEM; empty: those that the portal's machine trusts",
    )
    tenant = serializers.CharField(
        max_length=150,
        allow_blank=True,
        required=False,
        validators=[validate_tenant],
        help_text="Sent as X-Scope-OrgID",
    )
    matchers = serializers.CharField(
        max_length=200,
        allow_blank=True,
        required=False,
        validators=[validate_matchers],
        help_text='Such as cluster="fra-1"',
    )
    timeout_seconds = serializers.IntegerField(min_value=1, max_value=60, required=False)
    secret = SecretIn(required=False, allow_null=True, write_only=True)

    def chosen(self, names: tuple[str, ...]) -> dict[str, Any]:
        return {name: value for name, value in self.validated_data.items() if name in names}

    @sensitive_variables()
    def secret_given(self) -> TelemetrySecret | None:
        """Return the secret that was sent, `NO_SECRET` for null, None to keep the stored one."""
        if "secret" not in self.validated_data:
            return None
        sent = self.validated_data["secret"]
        secret = TelemetrySecret(**sent) if sent else NO_SECRET
        secret.require_sound()
        return secret


class TelemetryOut(serializers.Serializer[Any]):
    prometheus_url = serializers.CharField()
    metrics_url = serializers.CharField(help_text="Of exporters, where there is no Prometheus")
    authority = serializers.CharField()
    tenant = serializers.CharField()
    matchers = serializers.CharField()
    timeout_seconds = serializers.IntegerField()
    kind = serializers.ChoiceField(
        choices=TelemetryAccess.Kind.choices, help_text="Of the stored secret; empty without one"
    )
    server = serializers.CharField(help_text="For which the secret was given; it goes nowhere else")


class QuestionOut(serializers.Serializer[Any]):
    text = serializers.CharField()
    series = serializers.IntegerField()
    milliseconds = serializers.IntegerField()


class FindingOut(serializers.Serializer[Any]):
    verdict = serializers.ChoiceField(choices=list(CheckupVerdict))
    subject = serializers.CharField()
    detail = serializers.CharField()
    remedy = serializers.CharField()


class TelemetryReportOut(serializers.Serializer[Any]):
    problem = serializers.CharField(help_text="Why it cannot be read; empty if it can")
    held = serializers.IntegerField(help_text="Devices that claims hold")
    measured = serializers.IntegerField(help_text="Of these, devices with a measurement")
    published = serializers.IntegerField(help_text="Devices of the cluster")
    questions = QuestionOut(many=True)
    findings = FindingOut(many=True)


@needs(Scope.ADMIN, reading=True)
class TelemetryView(APIView):
    @refuses(403, 404)
    @extend_schema(responses=TelemetryOut)
    def get(self, request: Request, name: str) -> Response:
        """Where a cluster's telemetry is read, and how; without the secret."""
        return shown(managed_cluster(request, name))

    @sensitive_variables()
    @refuses(403, 404, 409)
    @extend_schema(request=TelemetryIn, responses=TelemetryOut)
    def patch(self, request: Request, name: str) -> Response:
        """Change some of it. A secret belongs to one server: with another address, send it again."""
        managed_cluster(request, name)
        body = TelemetryIn.of(request)
        changed = change_telemetry(
            name=name,
            by=user_of(request),
            addresses=body.chosen(ADDRESSES),
            fields=body.chosen(PLAIN),
            secret=body.secret_given(),
        )
        return shown(changed)


@needs(Scope.ADMIN)
class TelemetryTestView(IdempotentWrites):
    @sensitive_variables()
    @refuses(403, 404)
    @extend_schema(request=TelemetryIn, responses=TelemetryReportOut)
    def post(self, request: Request, name: str) -> Response:
        """Read the source now, with what is sent instead of what is stored; nothing is saved."""
        cluster = managed_cluster(request, name)
        body = TelemetryIn.of(request)
        access = TelemetryAccess.objects.filter(cluster=cluster).first() or TelemetryAccess(cluster=cluster)
        for row, names in ((cluster, ADDRESSES), (access, PLAIN)):
            for field, value in body.chosen(names).items():
                setattr(row, field, value)
        if not cluster.telemetry_url:
            raise Invalid("Give an address to test.", field="prometheus_url")
        report = check_source(cluster, source_of(cluster, access, body.secret_given()))
        return Response(TelemetryReportOut(report).data)


def shown(cluster: Cluster) -> Response:
    access = TelemetryAccess.objects.filter(cluster=cluster).first() or TelemetryAccess(cluster=cluster)
    values = {name: getattr(cluster, name) for name in ADDRESSES}
    values |= {name: getattr(access, name) for name in (*PLAIN, "kind", "server")}
    return Response(TelemetryOut(values).data)
