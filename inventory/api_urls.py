"""The API of `inventory`, below /api/v1/."""

from django.urls import URLPattern, URLResolver
from rest_framework.routers import SimpleRouter

from inventory.api import ClusterViewSet, DeviceClassViewSet, DeviceViewSet, NodeViewSet

router = SimpleRouter()
router.register("clusters", ClusterViewSet, "api-cluster")
router.register("nodes", NodeViewSet, "api-node")
router.register("devices", DeviceViewSet, "api-device")
router.register("device-classes", DeviceClassViewSet, "api-device-class")

urlpatterns: list[URLPattern | URLResolver] = router.urls
