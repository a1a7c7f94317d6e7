"""
The API of clusters, nodes, devices and device classes: read-only, for everybody with an account.

No response has the credentials of a cluster.
"""

from typing import Any

from django.db.models import Model, QuerySet
from django_filters import rest_framework as filters
from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers
from rest_framework.serializers import BaseSerializer
from rest_framework.viewsets import ReadOnlyModelViewSet

from core.filters import Filters
from core.inputs import BooleanFilter, Texts, ordered
from core.listing import WordFilter
from dra.objects import expressions
from inventory.counts import with_device_counts
from inventory.device_search import device_has_text
from inventory.filters import GIB, any_cluster
from inventory.holders import name_holders
from inventory.models import Cluster, Device, DeviceClass, Freshness, Node
from inventory.models.device import DeviceQuerySet
from inventory.states import DeviceState
from inventory.views import SEARCHED, nodes_for_list


class ClusterFilter(filters.FilterSet):
    name = filters.CharFilter()
    enabled = BooleanFilter()


class OfCluster(filters.FilterSet):
    cluster = any_cluster()
    name = filters.CharFilter()


class NodeApiFilter(OfCluster):
    q = WordFilter(*SEARCHED)
    ready = BooleanFilter()
    unschedulable = BooleanFilter()


class DeviceApiFilter(OfCluster):
    q = WordFilter(by=lambda _reader: device_has_text)
    node = filters.CharFilter(field_name="node_name")
    driver = filters.CharFilter()
    pool = filters.CharFilter()
    product = filters.CharFilter(lookup_expr="icontains")
    uuid = filters.CharFilter()
    state = filters.MultipleChoiceFilter(choices=DeviceState.choices, method="by_state")
    device_class = filters.CharFilter(method="by_class")
    memory_gib = filters.NumberFilter(method="by_memory", label="Minimum memory in GiB.")

    def by_class(self, devices: DeviceQuerySet, name: str, value: str) -> DeviceQuerySet:
        return devices.filter(classes__contains=[value])

    def by_state(self, devices: DeviceQuerySet, name: str, value: list[str]) -> DeviceQuerySet:
        return devices.in_state(*value) if value else devices

    def by_memory(self, devices: QuerySet[Device], name: str, value: float) -> QuerySet[Device]:
        return devices.filter(memory_bytes__gte=int(value * GIB))


class FreshnessOut(serializers.ModelSerializer[Freshness]):
    """How old the mirror of one resource is. `error` is the message of the last failure."""

    class Meta:
        model = Freshness
        fields = ("resource", "listed_at", "seen_at", "failed_at", "error")
        read_only_fields = fields


class ClusterOut(serializers.ModelSerializer[Cluster]):
    """`missing` are permissions that the credentials lack, as "watch nodes"."""

    freshness = FreshnessOut(many=True, read_only=True)
    missing = Texts(read_only=True)
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
            "end_policy",
            "grams_per_kwh",
            "enabled",
            "halt_reason",
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
    plugin_devices = serializers.DictField(
        child=serializers.ListField(child=serializers.IntegerField()),
        read_only=True,
        help_text="GPUs outside DRA: capacity and allocatable by extended resource.",
    )

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
            "plugin_devices",
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
    """The holder of a device; `masked` if the user may not see it."""

    text = serializers.CharField()
    url = serializers.CharField()
    masked = serializers.BooleanField()


class DeviceOut(serializers.ModelSerializer[Device]):
    """A device as the cluster publishes it. Unknown values are empty or null, never 0."""

    cluster = serializers.CharField(source="cluster.name", read_only=True)
    state = serializers.ChoiceField(choices=DeviceState.choices, read_only=True)
    classes = Texts(read_only=True)
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

    @extend_schema_field(Texts())
    def get_selectors(self, row: DeviceClass) -> list[str]:
        return expressions(row.raw.get("spec") or {})


class Inventory[M: Model](ReadOnlyModelViewSet[M]):
    """Base of all viewsets: filters by query parameter."""

    filter_backends = (Filters,)


class ClusterViewSet(Inventory[Cluster]):
    """Clusters with the freshness of their mirror."""

    serializer_class = ClusterOut
    filterset_class = ClusterFilter
    lookup_field = "name"
    queryset = Cluster.objects.none()

    def get_queryset(self) -> QuerySet[Cluster]:
        return Cluster.objects.defer("credentials", "discovery").prefetch_related("freshness")

    def paginate_queryset(self, queryset: Any) -> Any:
        return with_device_counts(super().paginate_queryset(queryset) or ())

    def get_object(self) -> Cluster:
        return with_device_counts([super().get_object()])[0]


class NodeViewSet(Inventory[Node]):
    """Nodes with the count of their devices."""

    serializer_class = NodeOut
    filterset_class = NodeApiFilter
    pagination_class = ordered("name")
    lookup_field = "uid"
    queryset = Node.objects.none()

    def get_queryset(self) -> QuerySet[Node]:
        return nodes_for_list()


class DeviceViewSet(Inventory[Device]):
    """Devices of all clusters. The holder is shown to users who may see it."""

    serializer_class: type[BaseSerializer[Any]] = DeviceOut
    filterset_class = DeviceApiFilter
    queryset = Device.objects.none()

    def get_queryset(self) -> QuerySet[Device]:
        devices = Device.objects.present()
        if self.action == "list":
            return devices.for_list()
        return devices.with_state().select_related("cluster", "held_by").defer("cluster__credentials")

    def get_serializer_class(self) -> type[BaseSerializer[Any]]:
        return DeviceDetailOut if self.action == "retrieve" else DeviceOut

    def paginate_queryset(self, queryset: Any) -> Any:
        page = super().paginate_queryset(queryset)
        name_holders(self.request.user, page or ())
        return page

    def get_object(self) -> Device:
        device = super().get_object()
        name_holders(self.request.user, [device])
        return device


class DeviceClassViewSet(Inventory[DeviceClass]):
    """Device classes and their selectors."""

    serializer_class = DeviceClassOut
    filterset_class = OfCluster
    pagination_class = ordered("name")
    lookup_field = "uid"
    queryset = DeviceClass.objects.none()

    def get_queryset(self) -> QuerySet[DeviceClass]:
        rows = DeviceClass.objects.filter(gone_at=None).select_related("cluster")
        return rows.defer("cluster__credentials")
