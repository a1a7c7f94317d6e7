"""API of what people do about idle claims: snooze one, remind its owner, change the policy."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.shortcuts import get_object_or_404
from django.utils import timezone
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from claims.api_types import SecondsField, SpelledDuration
from claims.inbox.api import RemindedOut
from claims.models import Claim
from core.idempotency import IdempotentWrites
from core.inputs import Input
from core.schema import refuses
from core.scopes import Scope, needs
from teams.access import require_admin, user_of
from usage.idle.reminders import remind_owner
from usage.idle.services import MAX_SNOOZES, change_policy, snooze
from usage.models import IdlePolicy


class SnoozedOut(serializers.Serializer[Any]):
    snoozed_until = serializers.DateTimeField()


def claim_for(request: Request, claim_id: UUID) -> Claim:
    visible = Claim.objects.visible_to(user_of(request)).select_related("team", "requested_by")
    return get_object_or_404(visible, pk=claim_id)


@needs(Scope.REQUEST)
class SnoozeView(IdempotentWrites):
    @extend_schema(request=None, responses=SnoozedOut)
    def post(self, request: Request, pk: UUID) -> Response:
        """Keep an idle claim from the later steps for a while. 409 if not idle, or snoozed too often."""
        until = snooze(claim=claim_for(request, pk), by=user_of(request), now=timezone.now())
        return Response({"snoozed_until": until})


@needs(Scope.APPROVE)
class RemindOwnerView(IdempotentWrites):
    @extend_schema(request=None, responses=RemindedOut)
    def post(self, request: Request, pk: UUID) -> Response:
        """Ask the owner whether the claim is still needed, once a day. Leads and platform admins."""
        people = remind_owner(claim=claim_for(request, pk), by=user_of(request), now=timezone.now())
        return Response({"reminded": [person.username for person in people]})


class IdlePolicyOut(serializers.ModelSerializer[IdlePolicy]):
    """Idle times in seconds; null is never."""

    notify_owner_after = SecondsField(allow_null=True)
    snooze_for = SecondsField()
    notify_leads_after = SecondsField(allow_null=True)
    release_after = SecondsField(allow_null=True)

    class Meta:
        model = IdlePolicy
        fields = ("notify_owner_after", "snoozes", "snooze_for", "notify_leads_after", "release_after")
        read_only_fields = fields


class IdlePolicyIn(Input):
    """Durations such as 24h; null is never."""

    notify_owner_after = SpelledDuration(allow_null=True)
    snoozes = serializers.IntegerField(min_value=0, max_value=MAX_SNOOZES, help_text="Per idle time")
    snooze_for = SpelledDuration()
    notify_leads_after = SpelledDuration(allow_null=True)
    release_after = SpelledDuration(allow_null=True)


@needs(Scope.ADMIN)
class IdlePolicyView(APIView):
    """What is done about idle claims."""

    @extend_schema(responses=IdlePolicyOut)
    def get(self, request: Request) -> Response:
        return Response(IdlePolicyOut(IdlePolicy.load()).data)

    @refuses(403)
    @extend_schema(request=IdlePolicyIn, responses=IdlePolicyOut)
    def put(self, request: Request) -> Response:
        """Change it, from the next run on. Platform admins only."""
        require_admin(user_of(request))
        body = IdlePolicyIn.of(request)
        return Response(IdlePolicyOut(change_policy(by=user_of(request), **body.validated_data)).data)
