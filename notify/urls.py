"""Pages of `notify`."""

from django.urls import URLPattern, URLResolver, path

from notify import views

app_name = "notify"
urlpatterns: list[URLPattern | URLResolver] = [
    path("me/notices/", views.notice_list, name="list"),
    path("me/notices/bell/", views.bell, name="bell"),
    path("me/notices/read/", views.read, name="read"),
    path("me/notices/preferences/", views.preferences, name="preferences"),
    path("me/notices/<uuid:notice_id>/", views.open_notice, name="notice"),
]
