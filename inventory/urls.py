"""Pages of `inventory`."""

from django.urls import URLPattern, URLResolver, path

from inventory import views

app_name = "inventory"
urlpatterns: list[URLPattern | URLResolver] = [
    path("fleet/", views.fleet, name="fleet"),
    path("fleet/freshness/", views.freshness, name="freshness"),
    path("clusters/", views.clusters, name="clusters"),
    path("clusters/<slug:name>/", views.cluster, name="cluster"),
    path("clusters/<slug:cluster>/nodes/<str:name>/", views.node, name="node"),
    path("nodes/", views.nodes, name="nodes"),
    path("devices/", views.devices, name="devices"),
    path("devices/<uuid:pk>/", views.device, name="device"),
]
