"""The manifests of a claim over the API: the same options, the same check as on its page."""

from __future__ import annotations

from typing import Any

from django.utils.translation import gettext as _
from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers
from rest_framework.request import Request

from claims import manifests
from claims.forms.snippet import ISOLATED, OPEN, PLAIN, RESTRICTED, SnippetForm
from claims.models import Claim
from claims.snippets import KINDS, Snippet, check_of, landing_of, snippets_of
from core.errors import Invalid
from core.inputs import Input
from dra import cuda
from dra.landing import Landing
from dra.manifests import to_yaml
from dra.workloads import Options


class ManifestIn(Input):
    """Options of the snippets, as on the page of the claim; `SnippetForm` says what they may be."""

    kind = serializers.ChoiceField(
        [one.key for one in KINDS],
        required=False,
        allow_blank=True,
        help_text="Only this snippet; all without it",
    )
    image = serializers.CharField(required=False, allow_blank=True, help_text="That the containers run")
    cuda = serializers.CharField(
        required=False, allow_blank=True, help_text="Version in the image, for the check: 12.9"
    )
    request = serializers.CharField(
        required=False, allow_blank=True, help_text="The only request that the container sees"
    )
    pods = serializers.IntegerField(required=False, min_value=1, help_text="At once")
    completions = serializers.IntegerField(required=False, min_value=1, help_text="Pods of a Job in all")
    port = serializers.IntegerField(required=False, min_value=1)
    priority = serializers.CharField(required=False, allow_blank=True, help_text="PriorityClass")
    capacity = serializers.CharField(
        required=False,
        allow_blank=True,
        help_text="Label of the nodes, as karpenter.sh/capacity-type=spot, or assumed",
    )
    tolerate = serializers.ListField(
        child=serializers.CharField(), required=False, help_text="Taints of nodes: key=value:NoSchedule"
    )
    security = serializers.ChoiceField([RESTRICTED, PLAIN], required=False, allow_blank=True)
    network = serializers.ChoiceField([OPEN, ISOLATED], required=False, allow_blank=True)
    weights_claim = serializers.CharField(
        required=False, allow_blank=True, help_text="PersistentVolumeClaim with the model"
    )
    weights_image = serializers.CharField(
        required=False, allow_blank=True, help_text="OCI image with the model"
    )


class CudaPartOut(serializers.Serializer[Any]):
    level = serializers.ChoiceField([level.value for level in cuda.Level], source="verdict.level")
    sentence = serializers.CharField(source="verdict.sentence")
    devices = serializers.IntegerField()


class CudaOut(serializers.Serializer[Any]):
    """The image over all devices that match; `level` is the worst, since the claim may get any of them."""

    version = serializers.CharField()
    level = serializers.ChoiceField([level.value for level in cuda.Level])
    parts = CudaPartOut(many=True)


class SnippetOut(serializers.Serializer[Any]):
    key = serializers.CharField()
    title = serializers.CharField()
    language = serializers.CharField()
    text = serializers.CharField()
    group = serializers.CharField(help_text="run, notebook, serve, train or shell")
    filename = serializers.CharField()
    image = serializers.CharField(help_text="That its container runs; empty for none")
    cuda = serializers.SerializerMethodField(help_text="Null where no version is known, or none matters")

    @extend_schema_field(CudaOut(allow_null=True))
    def get_cuda(self, snippet: Snippet) -> Any:
        chosen: Options = self.context["options"]
        found: Landing = self.context["landing"]
        check = check_of(snippet, chosen, found)
        return CudaOut(check).data if check else None


class ManifestOut(serializers.Serializer[Any]):
    """The object that the portal writes, and what a person pastes to use it."""

    manifest = serializers.JSONField()
    yaml = serializers.CharField()
    snippets = SnippetOut(many=True)


def manifest_of(claim: Claim, request: Request) -> Any:
    """
    Return the answer to a GET with `ManifestIn` in its query.

    Raise `Invalid` for an option that there is not, and the serializer's error for a value that cannot be.
    """
    asked = ManifestIn(data=request.query_params)
    if unknown := sorted(set(request.query_params) - {*asked.fields, "format"}):
        raise Invalid(
            _("There is no option %(name)s. There are: %(all)s.")
            % {"name": ", ".join(unknown), "all": ", ".join(asked.fields)}
        )
    asked.is_valid(raise_exception=True)
    found = landing_of(claim)
    form = SnippetForm(request.query_params, use=manifests.use_of(claim, maker=found.maker), landing=found)
    if form.is_bound and not form.is_valid():
        told = {name: [str(one) for one in errors] for name, errors in form.errors.items()}
        raise serializers.ValidationError(told)
    options = form.options()
    base_url = request.build_absolute_uri("/").rstrip("/")
    every = snippets_of(claim, base_url=base_url, options=options, maker=found.maker)
    kind = asked.validated_data.get("kind")
    written = manifests.object_of(claim)
    shown = {
        "manifest": written,
        "yaml": to_yaml(written),
        "snippets": [one for one in every if kind in (None, one.key)],
    }
    return ManifestOut(shown, context={"options": options, "landing": found}).data
