"""Pages of `notify`."""

from django.urls import URLPattern, URLResolver, path

from notify import views
from notify.webhooks import views as webhooks

app_name = "notify"
urlpatterns: list[URLPattern | URLResolver] = [
    path("me/notices/", views.notice_list, name="list"),
    path("me/notices/bell/", views.bell, name="bell"),
    path("me/notices/read/", views.read, name="read"),
    path("me/notices/preferences/", views.preferences, name="preferences"),
    path("me/notices/<uuid:notice_id>/", views.open_notice, name="notice"),
    path("settings/webhooks/", webhooks.webhooks, name="webhooks"),
    path("teams/<slug:slug>/webhooks/", webhooks.team_webhooks, name="team_webhooks"),
    path("webhooks/new/", webhooks.webhook_new, name="webhook_new"),
    path("webhooks/<uuid:webhook_id>/", webhooks.webhook, name="webhook"),
    path("webhooks/<uuid:webhook_id>/act", webhooks.webhook_act, name="webhook_act"),
    path(
        "webhooks/<uuid:webhook_id>/deliveries/<uuid:delivery_id>/replay",
        webhooks.delivery_replay,
        name="delivery_replay",
    ),
]
