"""
What is served: the attributes of RFC 7643 that the portal keeps, and what it says of itself.

Attributes beyond these are accepted and dropped in POST, PUT and PATCH (RFC 7644 §3.3 leaves that to the
service), and so is what only the portal says: what a provider sends sets what is `KEPT`.
"""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field
from scim2_models import (
    URN,
    AuthenticationScheme,
    Bulk,
    CaseExact,
    ChangePassword,
    ComplexAttribute,
    ETag,
    Filter,
    Meta,
    Mutability,
    Patch,
    Reference,
    Required,
    Resource,
    ResourceType,
    Schema,
    ScimPolicy,
    ServiceProviderConfig,
    Sort,
    Uniqueness,
)

from teams.identity.models import ExternalGroup
from teams.scim.models import ScimUser

MAX_RESULTS = 200
# What Entra ID and Okta send although the RFC does not have it.
POLICY = ScimPolicy(
    unknown=ScimPolicy.Unknown.ignore,
    remove_value_as_filter=ScimPolicy.RemoveValue.apply,
    unmatched_path_filter=ScimPolicy.UnmatchedPathFilter.create,
)


class PersonName(ComplexAttribute):
    given_name: str | None = None
    """The first name."""

    family_name: str | None = None
    """The last name."""


class EmailAddress(ComplexAttribute):
    value: str | None = None
    """The address. Mails of the portal go to the primary one, else to the first."""

    type: str | None = None
    """A label, such as "work"."""

    primary: bool | None = None
    """Whether mails go to it."""


class GroupOfUser(ComplexAttribute):
    value: Annotated[str | None, Mutability.read_only, CaseExact.true] = None
    """The id of the group."""

    display: Annotated[str | None, Mutability.read_only] = None
    """Its name."""


class UserResource(Resource[Any]):
    """A person with an account of the portal."""

    __schema__ = URN("urn:ietf:params:scim:schemas:core:2.0:User")

    user_name: Annotated[str | None, Uniqueness.server, Required.true] = None
    """The user name."""

    name: PersonName | None = None
    """The components of the name."""

    display_name: Annotated[str | None, Mutability.read_only] = None
    """The name as the portal shows it."""

    active: Annotated[bool | None, Required.true] = None
    """Whether the person may sign in. False ends sessions and revokes API tokens; claims stay."""

    emails: list[EmailAddress] | None = None
    """Email addresses."""

    groups: Annotated[list[GroupOfUser] | None, Mutability.read_only] = None
    """The groups of the provider of which the person is a member."""


class MemberOfGroup(ComplexAttribute):
    value: Annotated[str | None, Mutability.immutable, CaseExact.true, Required.true] = None
    """The id of the user."""

    ref: Annotated[Reference["User"] | None, Mutability.immutable] = Field(  # type: ignore[name-defined]  # noqa: F821, UP037
        None, serialization_alias="$ref", validation_alias="$ref"
    )
    """The address of the user."""


class GroupResource(Resource[Any]):
    """A group of the provider; rules of the portal say which roles it gives."""

    __schema__ = URN("urn:ietf:params:scim:schemas:core:2.0:Group")

    display_name: Annotated[str | None, Required.true, Uniqueness.server] = None
    """The name, which the rules name."""

    members: list[MemberOfGroup] | None = None
    """Its members: users only, no groups."""


# What a provider may set, in small letters; `id` and `schemas` it may only repeat. All else is dropped.
KEPT: dict[type[Resource[Any]], frozenset[str]] = {
    UserResource: frozenset(("schemas", "id", "externalid", "username", "name", "active", "emails")),
    GroupResource: frozenset(("schemas", "id", "externalid", "displayname", "members")),
}
RESOURCE_TYPES = [ResourceType.from_resource(model) for model in (UserResource, GroupResource)]
SCHEMAS: list[Schema] = [UserResource.to_schema(), GroupResource.to_schema()]
for schema, resource_type in zip(SCHEMAS, RESOURCE_TYPES, strict=True):
    schema.name = resource_type.name  # that of the standard, and not of the class
CONFIG = ServiceProviderConfig(
    patch=Patch(supported=True),
    bulk=Bulk(supported=False, max_operations=0, max_payload_size=0),
    filter=Filter(supported=True, max_results=MAX_RESULTS),
    change_password=ChangePassword(supported=False),
    sort=Sort(supported=False),
    etag=ETag(supported=True),
    authentication_schemes=[
        AuthenticationScheme(
            type=AuthenticationScheme.Type.oauthbearertoken,
            name="Bearer token",
            description="The token of the provider, from its page in the portal.",
            primary=True,
        )
    ],
)


def person_resource(row: ScimUser, base: str, *, groups: list[ExternalGroup] = []) -> UserResource:  # noqa: B006
    """Return a person as SCIM has them. The row has its `user`."""
    user = row.user
    return UserResource(
        id=str(row.pk),
        external_id=row.external_id or None,
        user_name=row.user_name,
        name=PersonName(given_name=user.first_name or None, family_name=user.last_name or None),
        display_name=user.label,
        active=user.is_active,
        emails=[EmailAddress(**one) for one in row.emails] or None,
        groups=[GroupOfUser(value=str(group.pk), display=group.name) for group in groups] or None,
        meta=Meta(
            resource_type="User",
            created=row.created_at,
            last_modified=row.changed_at,
            location=f"{base}/Users/{row.pk}",
        ),
    )


def member(pk: str, base: str) -> MemberOfGroup:
    return MemberOfGroup.model_validate({"value": pk, "$ref": f"{base}/Users/{pk}"})


def group_resource(group: ExternalGroup, base: str, members: list[str]) -> GroupResource:
    """Return a group with the ids of its members."""
    return GroupResource(
        id=str(group.pk),
        external_id=group.external_id or None,
        display_name=group.name,
        members=[member(pk, base) for pk in members] or None,
        meta=Meta(resource_type="Group", location=f"{base}/Groups/{group.pk}"),
    )
