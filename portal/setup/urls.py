"""Pages of `portal.setup`; they stand before those of the apps, in whose folders some are."""

from django.urls import URLPattern, URLResolver, path

from portal.setup import cluster_add, clusters, installation, member_requests, people, team_list, teams

app_name = "setup"
urlpatterns: list[URLPattern | URLResolver] = [
    path("setup/", installation.setup_page, name="setup"),
    path("setup/skip", installation.setup_skip, name="setup_skip"),
    path("setup/hide", installation.setup_hide, name="setup_hide"),
    path("settings/", installation.settings_page, name="settings"),
    path("settings/mail", installation.send_test_mail, name="test_mail"),
    path("logo.png", installation.logo, name="logo"),
    path("setup/cluster/", cluster_add.cluster_add, name="cluster_add"),
    path("clusters/<slug:name>/settings/", clusters.cluster_settings, name="cluster"),
    path("clusters/<slug:name>/settings/checks/", clusters.cluster_checks, name="cluster_checks"),
    path("clusters/<slug:name>/settings/telemetry", clusters.cluster_telemetry, name="cluster_telemetry"),
    path("clusters/<slug:name>/credentials/", clusters.cluster_credentials, name="cluster_credentials"),
    path("clusters/<slug:name>/pause/", clusters.cluster_pause, name="cluster_pause"),
    path("clusters/<slug:name>/resume", clusters.cluster_resume, name="cluster_resume"),
    path("clusters/<slug:name>/remove/", clusters.cluster_remove, name="cluster_remove"),
    path("teams/", team_list.team_list, name="teams"),
    path("setup/team/", teams.team_new, name="team_new"),
    path("teams/<slug:slug>/settings/", teams.team_settings, name="team"),
    path("teams/<slug:slug>/settings/namespace", teams.team_namespace, name="team_namespace"),
    path("teams/<slug:slug>/settings/invite", teams.team_invite, name="team_invite"),
    path("teams/<slug:slug>/archive/", teams.team_archive, name="team_archive"),
    path("teams/<slug:slug>/restore", teams.team_restore, name="team_restore"),
    path("teams/<slug:slug>/people/ask/", member_requests.member_ask, name="member_ask"),
    path("people/", people.people, name="people"),
    path("people/invite/", people.person_invite, name="person_invite"),
    path("people/<uuid:person_id>/", people.person, name="person"),
    path("people/<uuid:person_id>/admin/", people.person_admin, name="person_admin"),
    path("people/<uuid:person_id>/break-glass/", people.person_break_glass, name="person_break_glass"),
    path("people/<uuid:person_id>/deactivate/", people.person_deactivate, name="person_deactivate"),
    path("people/<uuid:person_id>/sign-out/", people.person_sign_out, name="person_sign_out"),
    path("people/<uuid:person_id>/reactivate", people.person_reactivate, name="person_reactivate"),
    path(
        "people/invitations/<uuid:invitation_id>/resend", people.invitation_resend, name="invitation_resend"
    ),
    path(
        "people/invitations/<uuid:invitation_id>/revoke", people.invitation_revoke, name="invitation_revoke"
    ),
    path("join/<str:token>/", people.join, name="join"),
]
