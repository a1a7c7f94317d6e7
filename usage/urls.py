"""Pages of `usage`."""

from django.urls import URLPattern, URLResolver, path

from usage import fleet_views, oversized_views, overstay_views, saved_report_views, team_views, views
from usage.alerts import views as alerts
from usage.idle import views as idle
from usage.tracking import views as tracking

app_name = "usage"
urlpatterns: list[URLPattern | URLResolver] = [
    path("claims/<uuid:claim_id>/usage/", views.fragment, name="claim_fragment"),
    path("claims/<uuid:claim_id>/runs.csv", tracking.claim_runs_csv, name="claim_runs_csv"),
    path("claims/<uuid:claim_id>/right-size/", views.right_size_panel, name="right_size"),
    path("teams/<slug:slug>/cost/", team_views.team, name="team"),
    path("teams/<slug:slug>/cost.csv", team_views.team_csv, name="team_csv"),
    path("alerts/", alerts.alerts, name="alerts"),
    path("waste/", idle.waste, name="waste"),
    path("waste/oversized/", oversized_views.oversized, name="oversized"),
    path("waste/overstay/", overstay_views.overstay, name="overstay"),
    path("waste/bulk/", idle.waste_bulk, name="waste_bulk"),
    path("waste/policy/", idle.policy, name="idle_policy"),
    path("claims/<uuid:claim_id>/snooze/", idle.snooze, name="snooze"),
    path("claims/<uuid:claim_id>/remind/", idle.remind, name="remind"),
    path("devices/<uuid:device_id>/usage/", views.device_usage, name="device"),
    path("report/", fleet_views.report, name="report"),
    path("report/save/", saved_report_views.save, name="report_save"),
    path("report/saved/", saved_report_views.saved_reports, name="reports_saved"),
    path("report/saved/<uuid:saved_id>/", saved_report_views.change, name="report_change"),
    path("report/unsubscribe/<str:token>/", saved_report_views.unsubscribe, name="report_unsubscribe"),
    path("report/close/", fleet_views.close, name="close"),
    path("settings/tracking/", tracking.servers, name="tracking"),
    path("settings/tracking/new/", tracking.server_new, name="tracking_new"),
    path("settings/tracking/wandb/", tracking.runs_link, name="runs_link"),
    path("settings/tracking/<uuid:server_id>/", tracking.server_edit, name="tracking_edit"),
    path("settings/tracking/<uuid:server_id>/remove", tracking.server_remove, name="tracking_remove"),
    path("rates/", views.rates, name="rates"),
    path("rates/examples/", views.rate_examples, name="rate_examples"),
    path("rates/new/", views.rate_new, name="rate_new"),
    path("rates/<uuid:rate_id>/", views.rate_edit, name="rate_edit"),
    path("rates/<uuid:rate_id>/retire/", views.rate_retire, name="rate_retire"),
    path("rates/<uuid:rate_id>/remove/", views.rate_remove, name="rate_remove"),
]
