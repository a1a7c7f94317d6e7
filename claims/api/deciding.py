"""Deciding on several wishes of any kind."""

from typing import Any

from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from claims.approval import several
from claims.approval.inbox import Inbox, Item, Kind
from claims.approval.several_preview import preview, together
from core.errors import Invalid
from core.inputs import Input
from teams.access import asker
from teams.keyed import KeyedWrites

KIND_CHOICES = [("claim", "claim"), ("extension", "extension"), ("quota", "quota")]


class WishIn(Input):
    """One wish of the inbox; of a claim that is approved also the hash of the spec that was read."""

    kind = serializers.ChoiceField(choices=KIND_CHOICES)
    id = serializers.UUIDField()
    spec_hash = serializers.CharField(max_length=64, allow_blank=True, default="")


class DecideIn(Input):
    """With `preview` nothing is decided. To deny, `note` is the reason."""

    answer = serializers.ChoiceField(choices=several.Decision.choices)
    wishes = WishIn(  # type: ignore[call-arg]  # of the list that `many` makes
        many=True,
        max_length=several.MOST,
        error_messages={"max_length": gettext_lazy("At most {max_length} can be decided at once.")},
    )
    note = serializers.CharField(max_length=500, allow_blank=True, default="")
    preview = serializers.BooleanField(default=False)


class DecidedOut(serializers.Serializer[Any]):
    """`said` is what approving does to one wish, or what became of it; with a `code` it is why not."""

    kind = serializers.ChoiceField(choices=KIND_CHOICES)
    id = serializers.UUIDField()
    title = serializers.CharField()
    done = serializers.BooleanField()
    said = serializers.CharField()
    warning = serializers.CharField(help_text="What speaks against approving it")
    code = serializers.CharField()


class DecisionsOut(serializers.Serializer[Any]):
    results = DecidedOut(many=True, help_text="Oldest first; what you may not know of is left out")
    together = serializers.ListField(
        child=serializers.CharField(), help_text="Of a preview: what they come to in each quota"
    )


class DecideView(KeyedWrites):
    """Approve or deny several wishes of the inbox, each by itself; 50 at most."""

    @extend_schema(request=DecideIn, responses=DecisionsOut)
    def post(self, request: Request) -> Response:
        asked = DecideIn(data=request.data)
        asked.is_valid(raise_exception=True)
        said = asked.validated_data
        decision = several.Decision(said["answer"])
        if decision == several.Decision.DENY and not said["preview"] and not said["note"].strip():
            raise Invalid(_("Say why: the person who asked sees this sentence."), field="note")
        kinds: tuple[Kind, ...] = ("claim", "extension", "quota")
        ids = {kind: {wish["id"] for wish in said["wishes"] if wish["kind"] == kind} for kind in kinds}
        inbox = Inbox(asker(request))
        wishes = several.chosen(inbox, ids)
        if said["preview"]:
            return Response(DecisionsOut(_previewed(inbox, wishes)).data)
        seen = {wish["id"]: wish["spec_hash"] for wish in said["wishes"]}
        results = [
            {
                **_named(one.item),
                "done": not one.refusal,
                "said": one.refusal or one.done,
                "warning": "",
                "code": one.code,
            }
            for one in several.decide(inbox, wishes, decision, note=said["note"], seen=seen)
        ]
        return Response(DecisionsOut({"results": results, "together": []}).data)


def _previewed(inbox: Inbox, wishes: several.Chosen) -> dict[str, Any]:
    lines = preview(inbox, wishes)
    results = [
        {
            **_named(line.item),
            "done": False,
            "said": line.reason_not or " ".join(line.will),
            "warning": line.warning,
            "code": "refused" if line.reason_not else "",
        }
        for line in lines
    ]
    return {"results": results, "together": together(lines)}


def _named(item: Item) -> dict[str, Any]:
    return {"kind": item.kind, "id": item.pk, "title": item.title}
