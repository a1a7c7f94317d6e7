"""Filters of devices and nodes, on pages and in the API."""

from functools import partial
from typing import Any, ClassVar
from uuid import UUID

from django import forms
from django.db.models import QuerySet
from django.http import HttpRequest
from django_filters import ChoiceFilter, FilterSet

from core.filters import RowFilter
from core.prepared import Prepared
from inventory.counts import device_groups, fleet_counts
from inventory.models import Cluster, Device, DeviceClass, Node
from inventory.models.device import CURRENT_USE, IS_GPU, DeviceQuerySet
from inventory.states import DeviceState, DeviceUse
from teams.access import is_platform_admin

GIB = 2**30
# A card of "80 GB" publishes 79.6 GiB: people enter a round number, so the bound is below it.
MEMORY = [(str(size), f"≥ {size} GB") for size in (16, 24, 40, 48, 80, 141)]
ROUNDED = 0.95
# Platform admins see which held devices are idle or not measured; to others, every held device is in use.
HELD = "held"
ADMIN_STATES = [
    (HELD, "Held"),
    DeviceState.choices[0],
    *DeviceUse.choices,
    *DeviceState.choices[1:],
]


CLUSTERS = Prepared(lambda: Cluster.objects.order_by("name").values_list("name", "pk"))


def clusters(request: HttpRequest | None) -> dict[str, UUID]:
    return dict(CLUSTERS.rows())


any_cluster = partial(
    RowFilter, Cluster, clusters, label="Cluster", to_field_name="name", empty_label="Any cluster"
)


def product_choices() -> list[tuple[str, str]]:
    names = {group.product for _cluster, group in device_groups(fleet_counts().values())}
    return [(name, name) for name in sorted(names) if name]


def class_choices() -> list[tuple[str, str]]:
    names = DeviceClass.objects.filter(gone_at=None).order_by("name").values_list("name", flat=True)
    return [(name, name) for name in names.distinct()]


class DeviceFilter(FilterSet):
    """The names of its fields are those of the API's parameters."""

    cluster = any_cluster()
    product = ChoiceFilter(label="Product", choices=product_choices, empty_label="Any product")
    state = ChoiceFilter(
        label="State", choices=DeviceState.choices, method="by_state", empty_label="Any state"
    )
    device_class = ChoiceFilter(
        label="Class", choices=class_choices, method="by_class", empty_label="Any class"
    )
    gpu = ChoiceFilter(
        label="GPUs",
        choices=[("yes", "GPUs only"), ("no", "Other devices only")],
        method="by_gpu",
        empty_label="GPUs and others",
    )
    memory = ChoiceFilter(label="Memory", choices=MEMORY, method="by_memory", empty_label="Any memory")

    class Meta:
        model = Device
        fields: ClassVar[tuple[str, ...]] = ()
        form = forms.Form

    def __init__(self, *args: Any, **more: Any) -> None:
        super().__init__(*args, **more)
        self.with_uses = self.request is not None and is_platform_admin(self.request.user)
        if self.with_uses:
            self.filters["state"].extra["choices"] = ADMIN_STATES

    def by_class(self, devices: DeviceQuerySet, name: str, value: str) -> DeviceQuerySet:
        return devices.filter(classes__contains=[value])

    def by_state(self, devices: DeviceQuerySet, name: str, value: str) -> DeviceQuerySet:
        if value in DeviceUse:
            return devices.in_use(value)
        if value == HELD:
            return devices.in_state(DeviceState.IN_USE)
        states = devices.in_state(value)
        return states.exclude(CURRENT_USE) if value == DeviceState.IN_USE and self.with_uses else states

    def by_gpu(self, devices: DeviceQuerySet, name: str, value: str) -> DeviceQuerySet:
        return devices.gpus() if value == "yes" else devices.exclude(IS_GPU)

    def by_memory(self, devices: DeviceQuerySet, name: str, value: str) -> DeviceQuerySet:
        return devices.filter(memory_bytes__gte=int(int(value) * GIB * ROUNDED))


class NodeFilter(FilterSet):
    cluster = any_cluster()
    state = ChoiceFilter(
        label="State",
        choices=[
            ("ready", "Ready"),
            ("cordoned", "Cordoned"),
            ("not-ready", "Not ready"),
            ("devices", "With devices"),
            ("plugin", "GPUs outside DRA"),
        ],
        method="by_state",
        empty_label="Any state",
    )

    class Meta:
        model = Node
        fields: ClassVar[tuple[str, ...]] = ()
        form = forms.Form

    def by_state(self, nodes: QuerySet[Node], name: str, value: str) -> QuerySet[Node]:
        if value == "plugin":
            return nodes.exclude(plugin_devices={})
        if value == "devices":
            return nodes.filter(count__devices__gt=0)
        if value == "not-ready":
            return nodes.filter(ready=False)
        return nodes.filter(ready=True, unschedulable=value == "cordoned")
