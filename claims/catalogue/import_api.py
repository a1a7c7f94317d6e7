"""API of the catalogue as a file, and of the presets, for platform admins."""

from __future__ import annotations

from typing import Any

from django.http import HttpResponse
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.generics import GenericAPIView
from rest_framework.renderers import BaseRenderer
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from claims.catalogue import services
from claims.catalogue.presets import presets
from claims.catalogue.presets.matches import preset_matches
from claims.catalogue.yaml_export import (
    CHANGED,
    NEW,
    RESTORED,
    RETIRED,
    SAME,
    STAYS_RETIRED,
    ProfileChange,
    catalogue_file,
    exported,
    plan_digest,
)
from claims.catalogue.yaml_import import read_definitions
from core.errors import Invalid
from core.idempotency import IdempotentWrites
from core.inputs import Input, Rows, Texts, page_of
from core.schema import refuses
from core.scopes import Scope, needs
from teams.access import require_admin, user_of

MAX_FILE = 1024 * 1024  # characters
KINDS = (NEW, CHANGED, RESTORED, RETIRED, SAME, STAYS_RETIRED)


class ImportIn(Input):
    """The text of a catalogue file. With `dry_run` nothing is changed."""

    text = serializers.CharField(max_length=MAX_FILE, help_text="YAML, as GET /profiles/export/ returns it")
    prune = serializers.BooleanField(default=False, help_text="Retire profiles that the file does not have")
    dry_run = serializers.BooleanField(default=False)
    seen = serializers.CharField(
        max_length=64,
        allow_blank=True,
        default="",
        help_text="`digest` of a dry run: 409 if the catalogue has changed since",
    )


class DifferenceOut(serializers.Serializer[Any]):
    """A key of the file, such as "limits.maxDevices"; an empty value is none."""

    key = serializers.CharField()
    before = serializers.CharField()
    after = serializers.CharField()


class ProfileChangeOut(serializers.Serializer[Any]):
    kind = serializers.ChoiceField(choices=KINDS)
    slug = serializers.CharField()
    title = serializers.CharField()
    differences = DifferenceOut(many=True)
    spec = Texts(help_text="Lines of a unified diff")


class ImportOut(serializers.Serializer[Any]):
    digest = serializers.CharField(help_text="Of these changes; send it as `seen`")
    changes = ProfileChangeOut(many=True)


@needs(Scope.ADMIN)
class ImportView(IdempotentWrites):
    @refuses(409)
    @extend_schema(request=ImportIn, responses=ImportOut)
    def post(self, request: Request) -> Response:
        """Make the catalogue match a file. 422 with `problems`, each with its line."""
        by = user_of(request)
        require_admin(by)
        sent = ImportIn.of(request).validated_data
        definitions = read_definitions(sent["text"], "text")
        if sent["dry_run"]:
            changes = services.plan_import(by=by, definitions=definitions, prune=sent["prune"])
        else:
            changes = services.import_profiles(
                by=by, definitions=definitions, prune=sent["prune"], seen=sent["seen"]
            )
        return Response(ImportOut(changes_out(changes)).data)


def changes_out(changes: list[ProfileChange]) -> dict[str, Any]:
    return {"digest": plan_digest(changes), "changes": changes}


class YamlRenderer(BaseRenderer):
    media_type = "application/yaml"
    format = "yaml"

    def render(self, data: Any, accepted_media_type: Any = None, renderer_context: Any = None) -> bytes:
        return str(data).encode()


@refuses(403)
@needs(Scope.ADMIN, reading=True)
class ExportView(APIView):
    renderer_classes = (YamlRenderer,)

    @extend_schema(responses={(200, "application/yaml"): OpenApiTypes.STR})
    def get(self, request: Request) -> HttpResponse:
        """The catalogue as a file for version control. Platform admins only."""
        require_admin(user_of(request))
        return HttpResponse(catalogue_file(exported()), content_type="application/yaml; charset=utf-8")


class PresetOut(serializers.Serializer[Any]):
    slug = serializers.CharField(source="preset.slug")
    title = serializers.CharField(source="preset.title")
    in_catalogue = serializers.BooleanField()
    matching = serializers.DictField(
        source="counts",
        child=serializers.IntegerField(allow_null=True),
        help_text="Devices by cluster; null where a selector cannot be evaluated",
    )


class PresetsIn(Input):
    slugs = serializers.ListField(child=serializers.CharField(max_length=40), min_length=1, max_length=100)


@needs(Scope.ADMIN, reading=True)
class PresetsView(IdempotentWrites, GenericAPIView[Any]):
    """Profiles that are included with Dragoman. Platform admins only."""

    pagination_class = Rows

    @refuses(403)
    @extend_schema(responses=PresetOut(many=True))
    def get(self, request: Request) -> Response:
        """All presets with the devices that match them."""
        require_admin(user_of(request))
        return page_of(self, preset_matches(), PresetOut)

    @extend_schema(request=PresetsIn, responses=ImportOut)
    def post(self, request: Request) -> Response:
        """Add presets to the catalogue; profiles that are there stay as they are."""
        by = user_of(request)
        require_admin(by)
        body = PresetsIn.of(request)
        by_slug = {preset.slug: preset for preset in presets()}
        slugs = body.validated_data["slugs"]
        if unknown := sorted(set(slugs) - set(by_slug)):
            raise Invalid(f"There is no preset {', '.join(unknown)}.", field="slugs")
        added = services.add_profiles(by=by, definitions=[by_slug[slug] for slug in dict.fromkeys(slugs)])
        return Response(ImportOut(changes_out(added)).data)
