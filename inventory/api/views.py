"""
Clusters, nodes, devices and device classes. Everybody with an account may read them; nobody writes here.
"""

from typing import Any

from django.db.models import Count, Model, Q, QuerySet
from django_filters.rest_framework import DjangoFilterBackend
from rest_framework.serializers import BaseSerializer
from rest_framework.viewsets import ReadOnlyModelViewSet

from core.paging import Cursor
from inventory.api import filters, outputs
from inventory.masking import name_holders
from inventory.models import Cluster, Device, DeviceClass, Node
from inventory.views.nodes import nodes_for_list


class ByName(Cursor):
    ordering = "name"


class Inventory[M: Model](ReadOnlyModelViewSet[M]):
    """What all four have in common: filters by query parameter."""

    filter_backends = (DjangoFilterBackend,)


class ClusterViewSet(Inventory[Cluster]):
    """Clusters, with the age of what the portal knows of them."""

    serializer_class = outputs.ClusterOut
    filterset_class = filters.ClusterFilter
    lookup_field = "name"
    queryset = Cluster.objects.none()

    def get_queryset(self) -> QuerySet[Cluster]:
        here = Q(devices__gone_at=None)
        return (
            Cluster.objects.defer("credentials", "discovery")
            .prefetch_related("freshness")
            .annotate(
                device_count=Count("devices", filter=here),
                held_count=Count("devices", filter=here & Q(devices__held_by__isnull=False)),
            )
        )


class NodeViewSet(Inventory[Node]):
    """Nodes with the count of their devices."""

    serializer_class = outputs.NodeOut
    filterset_class = filters.NodeFilter
    pagination_class = ByName
    lookup_field = "uid"
    queryset = Node.objects.none()

    def get_queryset(self) -> QuerySet[Node]:
        return nodes_for_list()


class DeviceViewSet(Inventory[Device]):
    """Devices of all clusters. Who holds one is told to those who may know."""

    serializer_class: type[BaseSerializer[Any]] = outputs.DeviceOut
    filterset_class = filters.DeviceFilter
    queryset = Device.objects.none()

    def get_queryset(self) -> QuerySet[Device]:
        devices = Device.objects.present()
        if self.action == "list":
            return devices.for_list()
        return devices.with_state().select_related("cluster", "held_by").defer("cluster__credentials")

    def get_serializer_class(self) -> type[BaseSerializer[Any]]:
        return outputs.DeviceDetailOut if self.action == "retrieve" else outputs.DeviceOut

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

    serializer_class = outputs.DeviceClassOut
    filterset_class = filters.OfCluster
    pagination_class = ByName
    lookup_field = "uid"
    queryset = DeviceClass.objects.none()

    def get_queryset(self) -> QuerySet[DeviceClass]:
        rows = DeviceClass.objects.filter(gone_at=None).select_related("cluster")
        return rows.defer("cluster__credentials")
