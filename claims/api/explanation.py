"""What the API gives of why a claim is where it is: the same as its page."""

from typing import Any

from rest_framework import serializers

from claims.api.outputs import MatchOut
from claims.explain.groups import PodGroup
from claims.explain.stages import Stage

NAMES = 20  # of pods in a group
ACTORS = ("person", "you", "portal", "cluster", "admin", "nobody")
MENDERS = ("admin", "cluster", "you")


class StepOut(serializers.Serializer[Any]):
    key = serializers.CharField()
    label = serializers.CharField()  # type: ignore[assignment]
    status = serializers.ChoiceField(choices=("done", "now", "ahead", "skipped", "bad"))
    at = serializers.DateTimeField(allow_null=True, help_text="Since when it is now, or when it was done")
    by = serializers.CharField()
    note = serializers.CharField()
    actor = serializers.ChoiceField(choices=ACTORS, help_text="Who can take it")
    next = serializers.CharField(help_text="What is to be done, of the step that is now")


class ToldOut(serializers.Serializer[Any]):
    """One thing that Kubernetes said, in its words and in plain ones; the latter are empty if not known."""

    text = serializers.CharField()
    count = serializers.IntegerField(allow_null=True, help_text="Of how many nodes it was said")
    means = serializers.CharField()
    actor = serializers.ChoiceField(choices=MENDERS, allow_blank=True)
    then = serializers.CharField(help_text="What can be done about it")


class SaidOut(serializers.Serializer[Any]):
    """A message of the scheduler, whole and taken apart."""

    message = serializers.CharField()
    nodes = serializers.IntegerField(allow_null=True)
    parts = ToldOut(many=True)
    preemption = ToldOut(many=True)


class EventOut(serializers.Serializer[Any]):
    reason = serializers.CharField(source="event.reason")
    message = serializers.CharField(source="event.message")
    source = serializers.CharField(source="event.source")  # type: ignore[assignment]
    warning = serializers.BooleanField(source="event.warning")
    count = serializers.IntegerField(source="event.count")
    first_at = serializers.DateTimeField(source="event.first_at")
    last_at = serializers.DateTimeField(source="event.last_at")
    means = serializers.CharField(source="told.means")
    actor = serializers.CharField(source="told.actor")
    then = serializers.CharField(source="told.then")


class PodsOut(serializers.Serializer[Any]):
    """Pods of which the same is to be told."""

    names = serializers.SerializerMethodField(help_text="The first twenty")
    count = serializers.IntegerField()
    stage = serializers.ChoiceField(choices=[str(stage) for stage in Stage], source="first.stage")
    label = serializers.CharField(source="first.label")  # type: ignore[assignment]
    since = serializers.DateTimeField(allow_null=True, help_text="Of the first of them")
    nodes = serializers.ListField(child=serializers.CharField())
    missing = serializers.ListField(
        child=serializers.CharField(), source="first.missing", help_text="Names that are not there"
    )
    told = ToldOut(source="first.told")
    scheduler = SaidOut(source="first.said", allow_null=True)
    events = EventOut(many=True, source="first.events")

    def get_names(self, group: PodGroup) -> list[str]:
        return [view.pod.name for view in group.views[:NAMES]]


class FitOut(serializers.Serializer[Any]):
    """What the portal's picture of the cluster says of one claim now, beside the scheduler."""

    agrees = serializers.BooleanField(allow_null=True, help_text="With the scheduler; null if not comparable")
    sentence = serializers.CharField()
    match = MatchOut(source="preview")


class ExplainOut(serializers.Serializer[Any]):
    """Who acts next and why, the whole way of the claim, and what is seen of its pods."""

    actor = serializers.ChoiceField(choices=ACTORS, source="answer.actor")
    who = serializers.CharField(source="answer.who")
    headline = serializers.CharField(source="answer.headline")
    sentence = serializers.CharField(source="answer.sentence")
    problem = serializers.CharField()
    steps = StepOut(many=True)
    pods = PodsOut(
        many=True,
        source="groups",
        help_text="Those first that need something done; twenty groups at most",
    )
    lost = PodsOut(
        many=True, source="lost_groups", help_text="Pods that others than their owner have ended of late"
    )
    fit = FitOut(allow_null=True, help_text="While a pod waits for the scheduler")
    hears_events = serializers.BooleanField(help_text="False where the portal may not read Events")
