"""Who uses a claim, and how many more may."""

from typing import Any
from uuid import UUID

from django.shortcuts import get_object_or_404
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from claims.explain.pods import views
from claims.life.room import room_of
from claims.models import Claim
from claims.observed.sightings import look
from teams.access import asker


class ConsumerOut(serializers.Serializer[Any]):
    """A pod that has not ended. `reserved` says whether it holds a place, or still waits for one."""

    pod = serializers.CharField(source="pod.name")
    uid = serializers.CharField(source="pod.uid")
    workload = serializers.CharField(help_text='What made the pod, as "Job train"')
    node = serializers.CharField(source="pod.node_name")
    stage = serializers.CharField()
    since = serializers.DateTimeField(allow_null=True)
    reserved = serializers.SerializerMethodField()

    def get_reserved(self, view: Any) -> bool:
        return view.pod.uid in self.context["reserved"]


class ConsumersOut(serializers.Serializer[Any]):
    """Null for a template, which makes a claim for each pod, and for a claim that is not in the cluster."""

    taken = serializers.IntegerField(allow_null=True)
    most = serializers.IntegerField(allow_null=True)
    sentence = serializers.CharField()
    snippet = serializers.CharField()
    consumers = ConsumerOut(many=True)


class ConsumersView(APIView):
    """The pods of a claim. All of them must end before its devices are free."""

    @extend_schema(responses=ConsumersOut)
    def get(self, request: Request, claim_id: UUID) -> Response:
        visible = Claim.objects.visible_to(asker(request)).select_related("cluster")
        claim = get_object_or_404(visible, pk=claim_id)
        seen = look([claim])[claim.pk]
        room = room_of(claim, seen)
        shown = {
            "taken": room.taken if room else None,
            "most": room.most if room else None,
            "sentence": room.sentence if room else "",
            "snippet": room.snippet if room else "",
            "consumers": views(claim, seen.users),
        }
        context = {"reserved": room.reserved if room else frozenset()}
        return Response(ConsumersOut(shown, context=context).data)
