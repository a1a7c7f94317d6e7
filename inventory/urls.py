"""Pages of `inventory`."""

from django.urls import URLPattern, URLResolver, path

from inventory.views import clusters, devices, fleet, nodes

app_name = "inventory"
urlpatterns: list[URLPattern | URLResolver] = [
    path("fleet/", fleet.fleet, name="fleet"),
    path("clusters/", clusters.clusters, name="clusters"),
    path("clusters/<slug:name>/", clusters.cluster, name="cluster"),
    path("clusters/<slug:cluster>/nodes/<str:name>/", nodes.node, name="node"),
    path("nodes/", nodes.nodes, name="nodes"),
    path("devices/", devices.devices, name="devices"),
    path("devices/<uuid:pk>/", devices.device, name="device"),
]
