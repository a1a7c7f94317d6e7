"""What is wrong with the catalogue."""

from typing import Any

from django.core.exceptions import PermissionDenied
from django.utils.translation import gettext as _
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from claims.catalogue.lint import catalogue_report
from core.schema import refuses
from dra.lint import Code, Severity, Subject
from teams.access import is_platform_admin


class LintToldOut(serializers.Serializer[Any]):
    """A sentence, and the clusters of which it is true."""

    clusters = serializers.ListField(child=serializers.CharField())
    message = serializers.CharField()


class LintFixOut(serializers.Serializer[Any]):
    """Another expression for the one at `path`."""

    path = serializers.CharField()
    before = serializers.CharField()
    after = serializers.CharField()


class LintFindingOut(serializers.Serializer[Any]):
    subject = serializers.ChoiceField(choices=[one.value for one in Subject])
    name = serializers.CharField()
    code = serializers.ChoiceField(choices=[one.value for one in Code])
    severity = serializers.ChoiceField(choices=[one.value for one in Severity])
    path = serializers.CharField()
    told = LintToldOut(many=True)
    fix = LintFixOut(allow_null=True)


class LintOut(serializers.Serializer[Any]):
    """Findings, the worst first. Nothing was checked in `silent` clusters: no device is published there."""

    profiles = serializers.IntegerField()
    checked = serializers.ListField(child=serializers.CharField())
    silent = serializers.ListField(child=serializers.CharField())
    findings = LintFindingOut(many=True)


@refuses(403)
class LintView(APIView):
    """Profiles and device classes that match nothing, fail, or miss by a rounding; for platform admins."""

    @extend_schema(responses=LintOut)
    def get(self, request: Request) -> Response:
        if not is_platform_admin(request.user):
            raise PermissionDenied(_("Only a platform admin checks the catalogue."))
        return Response(LintOut(catalogue_report()).data)
