"""The API of `notify`, below /api/v1/."""

from rest_framework.routers import SimpleRouter

from notify.api import NoticeViewSet

router = SimpleRouter(use_regex_path=False)
router.register("notices", NoticeViewSet, basename="api-notice")

urlpatterns = router.urls
