"""API of identity providers and group rules, for platform admins."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from django.db.models import QuerySet
from django.views.decorators.debug import sensitive_variables
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.decorators import action
from rest_framework.request import Request
from rest_framework.response import Response

from cluster.checkup import CheckupVerdict
from core.errors import Invalid
from core.idempotency import Objects
from core.inputs import Input, ordered, validate_name
from core.schema import refuses
from core.scopes import Scope, needs
from teams.access import require_admin, user_of
from teams.identity import services
from teams.identity.checkup import check_provider
from teams.identity.models import DEFAULT_SCOPES, GroupRule, IdentityProvider
from teams.identity.rules import AccessChange
from teams.identity.views import addresses_of
from teams.models import Role, Team

COLUMNS = tuple(services.FIELDS)


class IdentityProviderOut(serializers.ModelSerializer[IdentityProvider]):
    """The client secret is never returned. `problem` is why groups could not be read again, or empty."""

    class Meta:
        model = IdentityProvider
        fields = ("slug", *COLUMNS, "enabled", "secret_set_at", "problem")
        read_only_fields = fields


class ChangeIdentityProviderIn(Input):
    """What is left out stays. Another issuer or client disables the provider and forgets its secret."""

    title = serializers.CharField(max_length=80, required=False)
    issuer = serializers.CharField(
        max_length=300, required=False, help_text="The address before /.well-known/openid-configuration"
    )
    client_id = serializers.CharField(max_length=200, required=False)
    scopes = serializers.CharField(max_length=200, required=False, help_text=f"Default: {DEFAULT_SCOPES}")
    groups_claim = serializers.CharField(
        max_length=80, allow_blank=True, required=False, help_text="Default: groups; empty: only SCIM"
    )
    trusts_email = serializers.BooleanField(
        required=False, help_text="All email addresses of this provider count as verified"
    )
    admits_everybody = serializers.BooleanField(
        required=False, help_text="Everybody who signs in there gets an account"
    )
    external_id_claim = serializers.CharField(
        max_length=80,
        allow_blank=True,
        required=False,
        help_text="Claim with the externalId of SCIM; default: sub; empty: only addresses count",
    )
    acr_values = serializers.CharField(
        max_length=200,
        allow_blank=True,
        required=False,
        help_text="Values of the claim acr that count, the preferred one first; empty: each sign-in does",
    )
    suspends_tokens = serializers.BooleanField(
        required=False,
        help_text="API tokens of a person stop while the provider refuses their sign-in; default: true",
    )
    signs_out = serializers.BooleanField(
        required=False, help_text="Who signs out here is signed out there too; default: true"
    )
    position = serializers.IntegerField(min_value=0, max_value=999, required=False, help_text="Of the button")
    enabled = serializers.BooleanField(
        required=False, help_text="False ends the sessions that began through it"
    )


class IdentityProviderIn(ChangeIdentityProviderIn):
    slug = serializers.CharField(max_length=40, validators=[validate_name])
    title = serializers.CharField(max_length=80)
    issuer = serializers.CharField(
        max_length=300, help_text="The address before /.well-known/openid-configuration"
    )
    client_id = serializers.CharField(max_length=200)
    secret = serializers.CharField(
        max_length=1000, allow_blank=True, default="", write_only=True, help_text="Of the client"
    )
    enabled = serializers.BooleanField(default=False)


class ClientSecretIn(Input):
    secret = serializers.CharField(max_length=1000, write_only=True)


class ProviderFindingOut(serializers.Serializer[Any]):
    verdict = serializers.ChoiceField(choices=[verdict.value for verdict in CheckupVerdict])
    subject = serializers.CharField()
    detail = serializers.CharField()
    remedy = serializers.CharField(help_text="What to do; empty where nothing is needed")


class ProviderTestOut(serializers.Serializer[Any]):
    redirect_uri = serializers.CharField(help_text="To register at the provider")
    logout_uri = serializers.CharField(help_text="For back-channel logout")
    post_logout_uri = serializers.CharField(help_text="Where people come back after signing out there")
    findings = ProviderFindingOut(many=True)


class AccessChangeOut(serializers.Serializer[Any]):
    """What changes for a person; `team` null: whether they are platform admin."""

    person = serializers.CharField(help_text="User name")
    team = serializers.CharField(allow_null=True)
    before = serializers.CharField(help_text="The role before, empty for none")
    after = serializers.CharField(help_text="The role after, empty for none")
    reason = serializers.CharField()
    refused = serializers.CharField(help_text="Why nothing changes; empty where it does")


class AccessChangesOut(serializers.Serializer[Any]):
    changes = AccessChangeOut(many=True)


def changes_out(changes: Iterable[AccessChange]) -> list[dict[str, Any]]:
    """Return what changes for people, as `AccessChangeOut` has it."""
    visible = [change for change in changes if change.is_visible or change.refused]
    teams = Team.objects.in_bulk([change.team_id for change in visible if change.team_id])
    return [
        {
            "person": change.name,
            "team": teams[change.team_id].slug if change.team_id else None,
            "before": change.old_role,
            "after": change.new_role,
            "reason": change.reason,
            "refused": change.refused,
        }
        for change in visible
    ]


@needs(Scope.ADMIN, reading=True)
@refuses(403)
class IdentityProviderViewSet(Objects[IdentityProvider]):
    """OpenID Connect providers through which people sign in. Platform admins only."""

    serializer_class = IdentityProviderOut
    volatile = frozenset(("problem",))
    lookup_field = "slug"
    pagination_class = ordered("slug")
    queryset = IdentityProvider.objects.none()

    def get_queryset(self) -> QuerySet[IdentityProvider]:
        require_admin(user_of(self.request))
        return IdentityProvider.objects.defer("sealed")

    @sensitive_variables()
    @extend_schema(request=IdentityProviderIn, responses={201: IdentityProviderOut})
    def create(self, request: Request) -> Response:
        """Add a provider. 409 if its slug, or its issuer with this client, is taken."""
        by = user_of(request)
        require_admin(by)
        saved = services.add_provider(by=by, **IdentityProviderIn.of(request).validated_data)
        return Response(self._out(saved), status=201)

    @refuses(403, 404, 409)
    @extend_schema(request=ChangeIdentityProviderIn, responses=IdentityProviderOut)
    def partial_update(self, request: Request, slug: str) -> Response:
        """Change, enable or disable a provider."""
        by, provider = user_of(request), self.get_object()
        fields = ChangeIdentityProviderIn.of(request).validated_data
        services.change_provider(by=by, provider=provider, **fields)
        return Response(self._out(provider))

    @refuses(403, 404, 409)
    @extend_schema(responses={200: AccessChangesOut})
    def destroy(self, request: Request, slug: str) -> Response:
        """Forget a provider with its groups and rules; returns which roles that took away."""
        changes = services.remove_provider(by=user_of(request), provider=self.get_object())
        return Response({"changes": changes_out(changes)})

    @sensitive_variables()
    @refuses(403, 404)
    @extend_schema(request=ClientSecretIn, responses=IdentityProviderOut)
    @action(detail=True, methods=["post"])
    def secret(self, request: Request, slug: str) -> Response:
        """Replace the client secret, from the next sign-in on."""
        provider, fields = self.get_object(), ClientSecretIn.of(request).validated_data
        services.set_secret(by=user_of(request), provider=provider, **fields)
        return Response(self._out(provider))

    @refuses(403, 404)
    @extend_schema(request=None, responses=ProviderTestOut)
    @action(detail=True, methods=["post"])
    def test(self, request: Request, slug: str) -> Response:
        """Ask the provider, and say what works and what does not."""
        self.get_object()
        provider = IdentityProvider.objects.get(slug=slug)
        addresses = addresses_of(request._request, slug)
        findings = check_provider(provider, redirect_uri=addresses.redirect_uri)
        content = {
            "redirect_uri": addresses.redirect_uri,
            "logout_uri": addresses.logout_uri,
            "post_logout_uri": addresses.post_logout_uri,
            "findings": ProviderFindingOut(findings, many=True).data,
        }
        return Response(content)

    def _out(self, provider: IdentityProvider) -> Any:
        return IdentityProviderOut(self.get_queryset().get(pk=provider.pk)).data


class GroupRuleOut(serializers.ModelSerializer[GroupRule]):
    """`team` null: members of the group are platform admins, and `role` is empty."""

    provider = serializers.CharField(source="provider.slug")
    group = serializers.CharField(source="pattern")
    team = serializers.CharField(source="team.slug", allow_null=True, default=None)

    class Meta:
        model = GroupRule
        fields = ("id", "provider", "group", "team", "role")
        read_only_fields = fields


class SavedGroupRuleOut(GroupRuleOut):
    changes = AccessChangeOut(many=True, read_only=True)

    class Meta:
        model = GroupRule
        fields = (*GroupRuleOut.Meta.fields, "changes")
        read_only_fields = fields


class GroupRuleIn(Input):
    provider = serializers.CharField(max_length=40, help_text="Slug")
    group = serializers.CharField(
        max_length=200, help_text="Name or ID, as the provider sends it; * stands for any text"
    )
    team = serializers.CharField(
        max_length=40, allow_null=True, default=None, help_text="Slug; null: members are platform admins"
    )
    role = serializers.ChoiceField(choices=Role.choices, allow_blank=True, default="")


@needs(Scope.ADMIN, reading=True)
@refuses(403)
class GroupRuleViewSet(Objects[GroupRule]):
    """What the members of groups are given. Platform admins only."""

    serializer_class = GroupRuleOut
    lookup_value_converter = "uuid"
    pagination_class = ordered("id")
    queryset = GroupRule.objects.none()

    def get_queryset(self) -> QuerySet[GroupRule]:
        require_admin(user_of(self.request))
        return GroupRule.objects.select_related("provider", "team")

    @refuses(403, 409)
    @extend_schema(request=GroupRuleIn, responses={201: SavedGroupRuleOut})
    def create(self, request: Request) -> Response:
        """Add a rule and apply it; returns what that changed for people."""
        return self._saved(request, None, status=201)

    @refuses(403, 404, 409)
    @extend_schema(request=GroupRuleIn, responses=SavedGroupRuleOut)
    def update(self, request: Request, pk: str) -> Response:
        """Change a rule and apply it; returns what that changed for people. What is left out stays."""
        return self._saved(request, self.get_object(), status=200)

    @refuses(403, 404)
    @extend_schema(responses={200: AccessChangesOut})
    def destroy(self, request: Request, pk: str) -> Response:
        """Remove a rule; returns which roles that took away."""
        changes = services.remove_rule(by=user_of(request), rule=self.get_object())
        return Response({"changes": changes_out(changes)})

    @extend_schema(request=GroupRuleIn, responses=AccessChangesOut)
    @action(detail=False, methods=["post"])
    def preview(self, request: Request) -> Response:
        """Say what a rule would change for whom; nothing is saved."""
        require_admin(user_of(request))
        rule = services.sound_rule(**_rule_fields(request))
        return Response({"changes": changes_out(services.preview(rule))})

    def _saved(self, request: Request, rule: GroupRule | None, *, status: int) -> Response:
        require_admin(user_of(request))
        fields = _rule_fields(request, rule)
        saved, changes = services.save_rule(by=user_of(request), rule=rule, **fields)
        row = self.get_queryset().get(pk=saved.pk)
        return Response({**GroupRuleOut(row).data, "changes": changes_out(changes)}, status=status)


def _rule_fields(request: Request, rule: GroupRule | None = None) -> dict[str, Any]:
    """Return the arguments of `save_rule`. Raises Invalid for what does not exist."""
    fields = GroupRuleIn.of(request).validated_data
    team_sent = request.data.get("team", "") if isinstance(request.data, dict) else ""
    if rule is not None and team_sent is not None:  # null: platform admins, without a role
        fields = GroupRuleIn.of(request, GroupRuleOut(rule).data).validated_data
    provider = IdentityProvider.objects.filter(slug=fields["provider"]).first()
    if provider is None:
        raise Invalid(f"There is no identity provider {fields['provider']}.", field="provider")
    team = Team.objects.active().filter(slug=fields["team"]).first() if fields["team"] else None
    if fields["team"] and team is None:
        raise Invalid(f"There is no team {fields['team']}.", field="team")
    return {"provider": provider, "pattern": fields["group"], "team": team, "role": fields["role"]}
