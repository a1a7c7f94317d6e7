"""Identity providers, their groups, what groups give, and the sign-ins that are read again."""

from __future__ import annotations

from fnmatch import fnmatchcase

from django.db import models
from django.db.models import Q
from django.utils import timezone

from core.models import uuid7

OFFLINE = "offline_access"  # the scope of refresh tokens that outlive the session (OpenID Connect Core §11)
DEFAULT_SCOPES = "openid profile email"


class IdentityProvider(models.Model):
    """
    An OpenID Connect provider through which people sign in; only an enabled one is offered.

    `sealed` is the client secret, encrypted as the credentials of clusters are, empty while none was given.
    `groups_claim` names the claim with the groups of a person, "" if the provider tells of none there.
    `trusts_email` takes each address of this provider for verified, although its tokens do not say so.
    `admits_everybody` creates an account for whoever signs in; else only for whom a rule or invitation names.
    `external_id_claim` names the claim whose value SCIM sends as `externalId`, "" if there is none.
    `acr_values` are the strengths of a sign-in that count, the preferred one first, "" if each does.
    `suspends_tokens`: API tokens of a person stop when the provider refuses to renew their sign-in.
    `signs_out`: who signs out here is signed out there too. After `failures` in a row it is read again at
    `retry_at`; `problem` is the last of them.
    """

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    slug = models.SlugField(max_length=40, unique=True)
    title = models.CharField(max_length=80)
    issuer = models.CharField(max_length=300)
    client_id = models.CharField(max_length=200)
    sealed = models.BinaryField(default=b"", editable=False)
    secret_set_at = models.DateTimeField(null=True, editable=False)
    scopes = models.CharField(max_length=200, default=DEFAULT_SCOPES)
    groups_claim = models.CharField(max_length=80, blank=True, default="groups")
    trusts_email = models.BooleanField(default=False)
    admits_everybody = models.BooleanField(default=False)
    external_id_claim = models.CharField(max_length=80, blank=True, default="sub")
    acr_values = models.CharField(max_length=200, blank=True, default="")
    suspends_tokens = models.BooleanField(default=True)
    signs_out = models.BooleanField(default=True)
    enabled = models.BooleanField(default=False)
    position = models.PositiveSmallIntegerField(default=0)  # of its button
    failures = models.PositiveSmallIntegerField(default=0, editable=False)
    retry_at = models.DateTimeField(null=True, editable=False)
    problem = models.TextField(blank=True, default="", editable=False)

    class Meta:
        ordering = ("position", "slug")
        constraints = (
            models.UniqueConstraint(fields=["issuer", "client_id"], name="identityprovider_client_once"),
        )

    def __str__(self) -> str:
        return self.slug


class ExternalGroup(models.Model):
    """
    A group of a provider with its members; only `teams.identity.groups` writes it.

    `name` is what the claim or SCIM calls it, `external_id` the provider's own id where SCIM tells it. What a
    token says does not change a group that SCIM keeps.
    """

    class Keeper(models.TextChoices):
        CLAIM = "claim", "tokens of its members"
        SCIM = "scim", "SCIM"

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    provider = models.ForeignKey(IdentityProvider, models.CASCADE, related_name="groups")
    name = models.CharField(max_length=200)
    external_id = models.CharField(max_length=200, blank=True, default="")
    kept_by = models.CharField(max_length=5, choices=Keeper, default=Keeper.CLAIM)
    members = models.ManyToManyField("teams.User", related_name="external_groups")

    class Meta:
        ordering = ("name",)
        constraints = (
            models.UniqueConstraint(fields=["provider", "name"], name="externalgroup_name_once"),
            models.UniqueConstraint(
                fields=["provider", "external_id"],
                condition=~Q(external_id=""),
                name="externalgroup_external_id_once",
            ),
        )

    def __str__(self) -> str:
        return self.name


class GroupRule(models.Model):
    """
    What the members of a group are given: a role in a team, or platform admin without a team.

    `pattern` is the name or the external id of the group, or has "*" for any text.
    """

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    provider = models.ForeignKey(IdentityProvider, models.CASCADE, related_name="rules")
    pattern = models.CharField(max_length=200)
    team = models.ForeignKey("teams.Team", models.CASCADE, null=True, blank=True, related_name="group_rules")
    role = models.CharField(max_length=6, blank=True, default="")

    class Meta:
        ordering = ("provider__position", "provider__slug", "pattern", "team__slug")
        constraints = (
            models.UniqueConstraint(
                fields=["provider", "pattern", "team"], nulls_distinct=False, name="grouprule_once"
            ),
            models.CheckConstraint(
                condition=Q(team=None, role="")
                | Q(team__isnull=False, role__in=("viewer", "member", "lead", "owner")),
                name="grouprule_gives_one_thing",
            ),
        )

    def __str__(self) -> str:
        gives = f"{self.role} in {self.team}" if self.team else "platform admin"
        return f"{self.pattern} of {self.provider}: {gives}"

    def matches(self, name: str, external_id: str = "") -> bool:
        """Return whether it is about a group; only "*" has a meaning in the pattern, and case counts."""
        pattern = self.pattern.replace("[", "[[]").replace("?", "[?]")
        return fnmatchcase(name, pattern) or bool(external_id and fnmatchcase(external_id, pattern))


class IdentityGrant(models.Model):
    """
    That a person signed in through a provider, and what is needed to read their groups again.

    `sealed` is the refresh token, empty where the provider gave none; `due_at` is when it is used next. It
    outlives the session there, the provider's `sid`, if the sign-in `is_offline`; `signed_out_at` is when a
    sign-out ended that session. `refused_at` is from when it counts that the provider has refused the token
    (`teams.identity.suspension`).
    """

    user = models.ForeignKey("teams.User", models.CASCADE, related_name="identity_grants")
    provider = models.ForeignKey(IdentityProvider, models.CASCADE, related_name="grants")
    subject = models.CharField(max_length=255)
    sealed = models.BinaryField(default=b"", editable=False)
    signed_in_at = models.DateTimeField()
    read_at = models.DateTimeField()
    due_at = models.DateTimeField(null=True)
    is_offline = models.BooleanField(default=False)
    sid = models.CharField(max_length=255, blank=True, default="")
    signed_out_at = models.DateTimeField(null=True)
    refused_at = models.DateTimeField(null=True)

    class Meta:
        constraints = (
            models.UniqueConstraint(fields=["user", "provider"], name="identitygrant_once"),
            models.UniqueConstraint(fields=["provider", "subject"], name="identitygrant_subject_once"),
        )
        indexes = (
            models.Index(fields=["due_at"], condition=Q(due_at__isnull=False), name="identitygrant_due"),
        )

    def __str__(self) -> str:
        return f"{self.user} through {self.provider}"

    @property
    def counts(self) -> bool:
        """Whether the provider's refusal counts by now."""
        return self.refused_at is not None and self.refused_at <= timezone.now()
