"""Answers of the API, as types: the schema is made from them."""

from typing import Any

from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from dra.objects import expressions
from inventory.models import Cluster, Device, DeviceClass, Freshness, Node
from inventory.states import DeviceState


class FreshnessOut(serializers.ModelSerializer[Freshness]):
    """How old the mirror of one resource is. `error` is the sentence of the last failure."""

    class Meta:
        model = Freshness
        fields = ("resource", "listed_at", "seen_at", "failed_at", "error")
        read_only_fields = fields


class ClusterOut(serializers.ModelSerializer[Cluster]):
    """`missing` are permissions that the credentials lack, as "watch nodes"."""

    freshness = FreshnessOut(many=True, read_only=True)
    missing = serializers.ListField(child=serializers.CharField(), read_only=True)
    devices = serializers.IntegerField(source="device_count", read_only=True)
    devices_held = serializers.IntegerField(source="held_count", read_only=True)

    class Meta:
        model = Cluster
        fields = (
            "id",
            "name",
            "title",
            "version",
            "simulated",
            "read_only",
            "enabled",
            "halted_because",
            "missing",
            "devices",
            "devices_held",
            "freshness",
        )
        read_only_fields = fields


class NodeOut(serializers.ModelSerializer[Node]):
    """`id` is the uid of the Node object."""

    id = serializers.CharField(source="uid", read_only=True)
    cluster = serializers.CharField(source="cluster.name", read_only=True)
    labels = serializers.DictField(child=serializers.CharField(), read_only=True)
    devices = serializers.IntegerField(source="device_count", read_only=True)
    devices_held = serializers.IntegerField(source="held_count", read_only=True)
    devices_free = serializers.IntegerField(source="free_count", read_only=True)

    class Meta:
        model = Node
        fields = (
            "id",
            "cluster",
            "name",
            "ready",
            "unschedulable",
            "labels",
            "devices",
            "devices_held",
            "devices_free",
            "created_at",
        )
        read_only_fields = fields


class TaintOut(serializers.Serializer[dict[str, str]]):
    """`source` is "slice" for a taint of the driver, else the name of a DeviceTaintRule."""

    key = serializers.CharField()
    value = serializers.CharField()
    effect = serializers.CharField()
    source = serializers.CharField()  # type: ignore[assignment]  # a field may be called like an option
    timeAdded = serializers.CharField()


class HolderOut(serializers.Serializer[Any]):
    """Who holds a device, in words for the asker; `masked` where they may not know."""

    text = serializers.CharField()
    url = serializers.CharField()
    masked = serializers.BooleanField()


class DeviceOut(serializers.ModelSerializer[Device]):
    """A device as the cluster publishes it. What is unknown is empty or null, never 0."""

    cluster = serializers.CharField(source="cluster.name", read_only=True)
    state = serializers.ChoiceField(choices=DeviceState.choices, read_only=True)
    classes = serializers.ListField(child=serializers.CharField(), read_only=True)
    taints = TaintOut(many=True, read_only=True)
    holder = HolderOut(read_only=True, allow_null=True)

    class Meta:
        model = Device
        fields: tuple[str, ...] = (
            "id",
            "cluster",
            "node_name",
            "driver",
            "pool",
            "name",
            "product",
            "kind",
            "partition",
            "uuid",
            "parent_uuid",
            "memory_bytes",
            "state",
            "pool_complete",
            "shareable",
            "classes",
            "taints",
            "holder",
            "appeared_at",
            "changed_at",
        )
        read_only_fields: tuple[str, ...] = fields


class DeviceDetailOut(DeviceOut):
    """With all attributes and capacities, as in the ResourceSlice."""

    attributes = serializers.DictField(read_only=True)
    capacity = serializers.DictField(read_only=True)

    class Meta(DeviceOut.Meta):
        fields = (*DeviceOut.Meta.fields, "attributes", "capacity")
        read_only_fields = fields


class DeviceClassOut(serializers.ModelSerializer[DeviceClass]):
    """`id` is the uid of the DeviceClass object; `selectors` are its CEL expressions."""

    id = serializers.CharField(source="uid", read_only=True)
    cluster = serializers.CharField(source="cluster.name", read_only=True)
    selectors = serializers.SerializerMethodField()

    class Meta:
        model = DeviceClass
        fields = ("id", "cluster", "name", "selectors", "extended_resource", "created_at")
        read_only_fields = fields

    @extend_schema_field(serializers.ListField(child=serializers.CharField()))
    def get_selectors(self, row: DeviceClass) -> list[str]:
        return expressions(row.raw.get("spec") or {})
