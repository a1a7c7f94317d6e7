"""Query parameters of the API. Names are free text here: an unknown one finds nothing."""

from django.db.models import QuerySet
from django_filters import rest_framework as filters

from core.inputs import BooleanFilter
from inventory.filters import GIB
from inventory.models import Device
from inventory.models.device import DeviceQuerySet
from inventory.states import DeviceState


class ClusterFilter(filters.FilterSet):
    name = filters.CharFilter()
    enabled = BooleanFilter()


class OfCluster(filters.FilterSet):
    cluster = filters.CharFilter(field_name="cluster__name")
    name = filters.CharFilter()


class NodeFilter(OfCluster):
    ready = BooleanFilter()
    unschedulable = BooleanFilter()


class DeviceFilter(OfCluster):
    node = filters.CharFilter(field_name="node_name")
    driver = filters.CharFilter()
    pool = filters.CharFilter()
    product = filters.CharFilter(lookup_expr="icontains")
    uuid = filters.CharFilter()
    state = filters.MultipleChoiceFilter(choices=DeviceState.choices)
    device_class = filters.CharFilter(method="by_class")
    memory_gib = filters.NumberFilter(method="by_memory", label="At least so many GiB of memory.")

    def by_class(self, devices: DeviceQuerySet, name: str, value: str) -> DeviceQuerySet:
        return devices.filter(classes__contains=[value])

    def by_memory(self, devices: QuerySet[Device], name: str, value: float) -> QuerySet[Device]:
        return devices.filter(memory_bytes__gte=int(value * GIB))
