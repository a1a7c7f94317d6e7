"""What platform admins have set, as documents."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC
from typing import Any

from django.db.models import QuerySet

from claims.catalogue.yaml_export import document as profile_document
from claims.catalogue.yaml_export import exported as exported_profiles
from claims.models import ApprovalRule, Budget, Quota
from core.models import Installation
from core.times import spell_duration
from core.yaml_documents import API_VERSION
from dra.manifests import to_yaml
from inventory.models import Cluster, TelemetryAccess
from teams.identity.models import GroupRule, IdentityProvider
from teams.models import Team
from usage.models import Rate

INSTALLATION, CLUSTER, TEAM, RULE, RATE = "Installation", "Cluster", "Team", "ApprovalRule", "Rate"
PROVIDER, GROUP_RULE = "IdentityProvider", "GroupRule"


def exported() -> list[dict[str, Any]]:
    """Return all documents, in the order in which they are applied."""
    return [
        installation_document(Installation.load()),
        *(cluster_document(cluster) for cluster in configured_clusters()),
        *(dict(profile_document(definition)) for definition in exported_profiles()),
        *(team_document(team) for team in Team.objects.filter(archived_at=None).order_by("slug")),
        *(
            rule_document(rule)
            for rule in ApprovalRule.objects.select_related("team", "profile").order_by(
                "team__slug", "profile__slug"
            )
        ),
        *(
            rate_document(rate)
            for rate in Rate.objects.select_related("cluster").order_by("product", "valid_from", "pk")
        ),
        *(provider_document(provider) for provider in IdentityProvider.objects.defer("sealed")),
        *(
            group_rule_document(rule)
            for rule in GroupRule.objects.select_related("provider", "team").order_by(
                "provider__slug", "pattern", "team__slug"
            )
        ),
    ]


def configured_clusters() -> QuerySet[Cluster]:
    rows = Cluster.objects.select_related("telemetry_access").order_by("name")
    return rows.defer("credentials", "telemetry_access__sealed")


def _document(kind: str, **values: Any) -> dict[str, Any]:
    return {"apiVersion": API_VERSION, "kind": kind, **values}


def filled(**values: Any) -> dict[str, Any]:
    """Return the values that are set."""
    return {key: value for key, value in values.items() if value not in (None, "", 0, False)}


def installation_document(installation: Installation) -> dict[str, Any]:
    """Return the document of the settings; a logo is uploaded on their page."""
    return _document(
        INSTALLATION,
        name=installation.name,
        currency=installation.currency,
        timeZone=installation.timezone,
    )


def cluster_document(cluster: Cluster) -> dict[str, Any]:
    """Return the document of a cluster, without credentials and secrets."""
    access = getattr(cluster, "telemetry_access", None) or TelemetryAccess()
    return _document(
        CLUSTER,
        name=cluster.name,
        title=cluster.title,
        readOnly=cluster.read_only,
        writeQuotas=cluster.write_quotas,
        endPolicy=cluster.end_policy,
        prometheus=cluster.prometheus_url,
        exporter=cluster.metrics_url,
        **filled(gramsPerKwh=cluster.grams_per_kwh),
        **filled(telemetryAuthority=access.authority, telemetryTenant=access.tenant),
        **filled(telemetryMatchers=access.matchers),
        telemetryTimeout=access.timeout_seconds,
    )


def team_document(team: Team) -> dict[str, Any]:
    """Return the document of a team; who is in it through groups alone is not named."""
    members = team.memberships.by_hand().select_related("user").order_by("user__username")
    namespaces = team.namespaces.select_related("cluster").order_by("cluster__name")
    quotas = team.quotas.select_related("profile").order_by("counts", "device_class", "profile__slug")
    return _document(
        TEAM,
        slug=team.slug,
        title=team.title,
        **filled(efficiencyGoal=team.efficiency_goal),
        members={member.user.username: member.role_by_hand for member in members},
        namespaces={row.cluster.name: row.namespace for row in namespaces},
        quotas=[{**quota_key(quota), **quota_limits(quota)} for quota in quotas],
        budgets=[
            {**filled(title=budget.title), **budget_terms(budget)}
            for budget in team.budgets.open().order_by("title")
        ],
    )


def budget_terms(budget: Budget) -> dict[str, str]:
    """Return the terms of a budget as a document has them, without what was added for one period."""
    amounts = {"amount": budget.amount, "gpuHours": budget.hours}
    return {
        "from": budget.first.isoformat(),
        **filled(until=budget.last and budget.last.isoformat()),
        **{key: f"{value:.2f}" for key, value in amounts.items() if value is not None},
        "atLimit": str(budget.at_limit),
    }


def quota_key(quota: Quota) -> dict[str, str]:
    """Return what the quota counts, as a document names it."""
    if quota.profile is not None:
        return {"profile": quota.profile.slug}
    return {"deviceClass": quota.device_class} if quota.device_class else {}


def quota_limits(quota: Quota) -> dict[str, int]:
    if quota.counts == Quota.Counts.CLAIMS:
        return {"claims": quota.devices}
    return {"devices": quota.devices, **filled(guaranteed=quota.guaranteed)}


def rule_document(rule: ApprovalRule) -> dict[str, Any]:
    return _document(
        RULE,
        **filled(
            team=rule.team.slug if rule.team else "",
            profile=rule.profile.slug if rule.profile else "",
            approval=str(rule.approval),
            automaticDevices=rule.automatic_devices,
            automaticDuration=rule.automatic_duration and spell_duration(rule.automatic_duration),
            selfApproval=rule.self_approval,
            escalateAfter=rule.escalate_after and spell_duration(rule.escalate_after),
        ),
    )


def rate_document(rate: Rate) -> dict[str, Any]:
    return _document(
        RATE,
        title=rate.title,
        **filled(product=rate.product, driver=rate.driver, cluster=rate.cluster.name if rate.cluster else ""),
        **filled(expression=rate.expression),
        perHour=f"{rate.per_hour.normalize():f}",
        currency=rate.currency,
        validFrom=rate.valid_from.astimezone(UTC).isoformat(timespec="seconds"),
        **filled(
            validUntil=rate.valid_until and rate.valid_until.astimezone(UTC).isoformat(timespec="seconds")
        ),
    )


def provider_document(provider: IdentityProvider) -> dict[str, Any]:
    """Return the document of an identity provider, without its client secret."""
    return _document(
        PROVIDER,
        slug=provider.slug,
        title=provider.title,
        issuer=provider.issuer,
        clientId=provider.client_id,
        scopes=provider.scopes,
        groupsClaim=provider.groups_claim,
        trustsEmail=provider.trusts_email,
        admitsEverybody=provider.admits_everybody,
        externalIdClaim=provider.external_id_claim,
        acrValues=provider.acr_values,
        suspendsTokens=provider.suspends_tokens,
        signsOut=provider.signs_out,
        position=provider.position,
        enabled=provider.enabled,
    )


def group_rule_document(rule: GroupRule) -> dict[str, Any]:
    gives = {"team": rule.team.slug, "role": rule.role} if rule.team else {"platformAdmin": True}
    return _document(GROUP_RULE, provider=rule.provider.slug, group=rule.pattern, **gives)


def config_file(documents: Iterable[dict[str, Any]]) -> str:
    return to_yaml(*documents)
