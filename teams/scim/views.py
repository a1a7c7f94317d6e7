"""
The protocol: who asks, what is asked, and the answer or error in SCIM's form (RFC 7644 §3).

Each write reads, changes and stores in one transaction under the lock of its row.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Sequence
from functools import partial, wraps
from http import HTTPStatus
from typing import Any
from uuid import UUID

from django.conf import settings
from django.core.exceptions import RequestDataTooBig
from django.db import DataError, transaction
from django.db.models import Model, QuerySet
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.views.decorators.cache import never_cache
from pydantic import ValidationError
from scim2_models import (
    Context,
    Error,
    InvalidFilterException,
    InvalidSyntaxException,
    ListResponse,
    PatchOp,
    Resource,
    ResponseParameters,
    SCIMException,
    SearchRequest,
)

from core.errors import PortalError, data_error_refusal
from core.origin import Source, came_from, client_address
from core.problems import MAX_LEVELS, levels
from core.rates import address_limit, count, limit
from core.text import is_text
from teams.identity.groups import remove_group
from teams.identity.models import ExternalGroup, IdentityProvider
from teams.scim import filters, people
from teams.scim import groups as scim_groups
from teams.scim.errors import OutOfReach
from teams.scim.models import ScimUser
from teams.scim.resources import (
    CONFIG,
    KEPT,
    MAX_RESULTS,
    POLICY,
    RESOURCE_TYPES,
    SCHEMAS,
    GroupResource,
    UserResource,
    group_resource,
    person_resource,
)
from teams.scim.tokens import find_scim_token
from teams.services import end_refused

CONTENT_TYPE = "application/scim+json"
PARAMETERS = ("attributes", "excludedAttributes")
MAX_OPERATIONS = 1_000  # of a PATCH
ONE_MEMBER = re.compile(r'members\[value eq "([^"\\\\]+)"\]', re.IGNORECASE)

ATTRIBUTE = re.compile(r"[a-z][\w-]*", re.ASCII)  # RFC 7643 §2.1

type View = Callable[..., HttpResponse]


class ScimRefusal(Exception):
    """An answer other than success, as SCIM's `Error`."""

    def __init__(self, status: int, detail: str, scim_type: str = "", **headers: str) -> None:
        super().__init__(detail)
        self.status, self.detail, self.scim_type, self.headers = status, detail, scim_type, headers


def answer(content: dict[str, Any], status: int = 200, **headers: str) -> HttpResponse:
    response = JsonResponse(content, status=status, content_type=CONTENT_TYPE)
    for name, value in headers.items():
        response[name.replace("_", "-")] = value
    return response


def error(status: int, detail: str, scim_type: str = "", **headers: str) -> HttpResponse:
    content = Error(status=status, detail=detail, scim_type=scim_type or None)
    return answer(content.model_dump(), status, **headers)


def scim(*methods: str) -> Callable[[View], View]:
    """Take a request with a token of a provider, which the view gets, and answer errors in SCIM's form."""

    def decorate(view: View) -> View:
        @never_cache
        @wraps(view)
        def checked(request: HttpRequest, *arguments: Any, **named: Any) -> HttpResponse:
            try:
                provider = provider_of(request)
                if request.method not in methods:
                    raise ScimRefusal(
                        405, f"{request.method} is not possible here.", Allow=", ".join(methods)
                    )
                with POLICY:
                    return view(request, provider, *arguments, **named)
            except ScimRefusal as refused:
                return error(refused.status, refused.detail, refused.scim_type, **refused.headers)
            except SCIMException as refused:
                found = refused.to_error()
                return error(found.status or 400, found.detail or "", found.scim_type or "")
            except ValidationError as refused:
                first = Error.from_validation_errors(refused)[0]
                return error(first.status or 400, first.detail or "", first.scim_type or "")
            except PortalError as refused:
                return _refused(provider, refused)
            except DataError as refused:
                if data_error_refusal(refused) is None:
                    raise
                return error(400, "A value cannot be stored.", "invalidValue")

        return checked

    return decorate


def _refused(provider: IdentityProvider, refused: PortalError) -> HttpResponse:
    """Answer a refusal, and tell of an account that the provider may not end; nothing else was saved."""
    if isinstance(refused, OutOfReach) and refused.ended:
        end_refused.send(OutOfReach, person=refused.ended, by=provider.title)
    status = 400 if refused.status == HTTPStatus.UNPROCESSABLE_ENTITY else refused.status
    return error(status, refused.message, getattr(refused, "scim_type", ""))


def provider_of(request: HttpRequest) -> IdentityProvider:
    """Return the provider whose token it is, and count the request. Raises ScimRefusal: 401, 429."""
    scheme, _space, text = request.headers.get("Authorization", "").partition(" ")
    token = find_scim_token(text.strip(), request) if scheme.lower() == "bearer" else None
    if token is None:
        (counted,) = count([address_limit(client_address(request))])
        if counted.is_exceeded:
            raise _too_many(counted.reset)
        raise ScimRefusal(
            401,
            "The token is unknown or has ended. A platform admin makes one on the page of the provider.",
            WWW_Authenticate='Bearer realm="Dragoman SCIM"',
        )
    (counted,) = count([limit("scim", "SCIM_RATE", str(token.pk))])
    if counted.is_exceeded:
        raise _too_many(counted.reset)
    provider: IdentityProvider = token.provider
    came_from(Source.TOKEN, f"SCIM of {provider.title}"[:80], token.start, provider.slug)
    return provider


def _too_many(reset: int) -> ScimRefusal:
    return ScimRefusal(429, f"Too many requests. Try again in {reset} s.", Retry_After=str(reset))


def body_of(request: HttpRequest) -> dict[str, Any]:
    """Return the JSON object of a request. Raises ScimRefusal, InvalidSyntaxException."""
    try:
        body = json.loads(request.body)
    except RequestDataTooBig:
        most = settings.DATA_UPLOAD_MAX_MEMORY_SIZE
        raise ScimRefusal(413, f"The request has more than {most} bytes.") from None
    except (ValueError, RecursionError):
        raise InvalidSyntaxException(detail="The body is not JSON.") from None
    if not isinstance(body, dict) or levels(body) > MAX_LEVELS:
        raise InvalidSyntaxException(detail=f"The body is no object of at most {MAX_LEVELS} levels.")
    if not is_text(body):
        raise InvalidSyntaxException(detail="The body has half of a character (a lone surrogate).")
    return body


def key_of(key: str) -> UUID:
    try:
        return UUID(key)
    except ValueError:
        raise _not_found(key) from None


def _not_found(key: str) -> ScimRefusal:
    return ScimRefusal(404, f"There is no resource {key[:60]}.")


def base_of(request: HttpRequest) -> str:
    return request.build_absolute_uri("/scim/v2")


# Representations.


def parameters_of(request: HttpRequest, model: type[Resource[Any]]) -> ResponseParameters[Any]:
    given = {name: request.GET[name] for name in PARAMETERS if name in request.GET}
    return ResponseParameters[model].model_validate(given)  # type: ignore[valid-type]


def etag_of(resource: Resource[Any]) -> str:
    """Return the weak ETag of all that a resource has, whatever the request selects of it."""
    if isinstance(resource, GroupResource):  # which may have thousands of members
        members = sorted(one.value or "" for one in resource.members or [])
        whole: Any = [resource.display_name, resource.external_id, members]
    else:
        whole = resource.model_dump(scim_ctx=Context.RESOURCE_QUERY_RESPONSE, exclude={"meta"})
    return f'W/"{hashlib.sha256(json.dumps(whole, sort_keys=True).encode()).hexdigest()[:32]}"'


def represent(request: HttpRequest, resource: Resource[Any], status: int = 200) -> HttpResponse:
    """Answer with a resource, or 304 if the client has it."""
    etag = etag_of(resource)
    if request.method in ("GET", "HEAD") and etag in _etags(request, "If-None-Match"):
        response = HttpResponse(status=304)
        response["ETag"] = etag
        return response
    assert resource.meta is not None  # noqa: S101 - both kinds of resources have it
    resource.meta.version = etag
    parameters = parameters_of(request, type(resource))
    content = resource.model_dump(scim_ctx=Context.RESOURCE_QUERY_RESPONSE, response_parameters=parameters)
    return answer(content, status, ETag=etag, Location=str(resource.meta.location))


def _etags(request: HttpRequest, header: str) -> list[str]:
    return [one.strip() for one in request.headers.get(header, "").split(",") if one.strip()]


def require_match(request: HttpRequest, resource: Resource[Any]) -> None:
    """Raise ScimRefusal if the resource is not as `If-Match` names it (RFC 7644 §3.14)."""
    wanted = _etags(request, "If-Match")
    if wanted and "*" not in wanted and etag_of(resource) not in wanted:
        raise ScimRefusal(412, "The resource has changed since it was read. Read it again.")


def page(
    request: HttpRequest,
    model: type[Resource[Any]],
    rows: Any,
    attributes: Any,
    resources: Callable[[Sequence[Any], ResponseParameters[Any]], Sequence[Resource[Any]]],
) -> HttpResponse:
    """Answer with a page of the rows that a filter lets through (RFC 7644 §3.4.2)."""
    names = ("startIndex", "count", "filter", *PARAMETERS)
    given = {name: request.GET[name] for name in names if name in request.GET}
    if len(given.get("filter", "")) > filters.MAX_LENGTH:
        raise InvalidFilterException(detail=f"A filter has at most {filters.MAX_LENGTH} characters.")
    search = SearchRequest[model].model_validate(given)  # type: ignore[valid-type]
    if search.filter is not None:
        rows = rows.filter(filters.condition_of(search.filter.ast, attributes)).distinct()
    total = rows.count()
    start = search.start_index_0 or 0
    most = MAX_RESULTS if search.count is None else min(search.count, MAX_RESULTS)
    found = list(rows.order_by("pk")[start : start + most]) if start < total else []
    items = [
        item.model_dump(scim_ctx=Context.RESOURCE_QUERY_RESPONSE, response_parameters=search)
        for item in resources(found, search)
    ]
    content = ListResponse[model](  # type: ignore[valid-type]
        total_results=total, start_index=start + 1, items_per_page=len(items)
    ).model_dump()
    return answer(content | {"Resources": items})


def operations_of[T: Resource[Any]](request: HttpRequest, model: type[T]) -> PatchOp[T]:
    """Return the operations of a PATCH (RFC 7644 §3.5.2). Raises ScimRefusal, ValidationError."""
    body = body_of(request)
    sent = next((body.pop(name) for name in [*body] if name.lower() == "operations"), None)
    if not isinstance(sent, list) or not sent:
        raise InvalidSyntaxException(detail="Operations is a list with at least one operation.")
    body["Operations"] = [
        one for operation in sent for each in _with_paths(operation) for one in _kept(each, model)
    ]
    if len(body["Operations"]) > MAX_OPERATIONS:
        raise ScimRefusal(413, f"A PATCH has at most {MAX_OPERATIONS} operations.")
    if not body["Operations"]:
        return PatchOp[model].model_construct(operations=[])  # type: ignore[valid-type]
    return PatchOp[model].model_validate(body, scim_ctx=Context.RESOURCE_PATCH_REQUEST)  # type: ignore[valid-type]


def _with_paths(operation: Any) -> list[Any]:
    """
    Return an operation whose value has paths for names as one operation for each, which Entra ID means by
    `{"emails[type eq \\"work\\"].value": "mia@corp.example"}`.
    """
    value = operation.get("value") if isinstance(operation, dict) else None
    if not isinstance(value, dict) or operation.get("path") or not any("[" in name for name in value):
        return [operation]
    plain = {name: part for name, part in value.items() if "[" not in name}
    return [
        *([operation | {"value": plain}] if plain else []),
        *(operation | {"path": name, "value": part} for name, part in value.items() if "[" in name),
    ]


def _kept(operation: Any, model: type[Resource[Any]]) -> list[Any]:
    """Return an operation without what the portal does not keep, and no operation if that is all."""
    if not isinstance(operation, dict):
        return [operation]
    path, value = operation.get("path"), operation.get("value")
    if isinstance(path, str) and is_dropped(path, model):
        return []
    if path or not isinstance(value, dict):
        return [operation]
    kept = without_dropped(value, model)
    return [operation | {"value": kept}] if kept or not value else []


def without_dropped(content: dict[str, Any], model: type[Resource[Any]]) -> dict[str, Any]:
    """Return attributes without those that the portal accepts and does not keep, in whatever form."""
    return {name: value for name, value in content.items() if not is_dropped(name, model)}


def is_dropped(path: str, model: type[Resource[Any]]) -> bool:
    attribute = attribute_of(path)
    return bool(ATTRIBUTE.fullmatch(attribute)) and attribute not in KEPT[model]


def whole_body(request: HttpRequest, model: type[Resource[Any]]) -> dict[str, Any]:
    """Return what a POST or PUT says, without what is dropped; who does not speak of `active` says true."""
    body = without_dropped(body_of(request), model)
    says = [name for name, value in body.items() if attribute_of(name) == "active" and value is not None]
    return body if says or model is not UserResource else {**body, "active": True}


def attribute_of(path: str) -> str:
    """
    Return the attribute of a path, in small letters: "username" of "urn:…:core:2.0:User:userName"; of another
    schema "x".
    """
    schema, colon, name = path.rpartition(":") if path.lower().startswith("urn:") else ("", "", path)
    if colon and not schema.lower().startswith("urn:ietf:params:scim:schemas:core:2.0:"):
        return "x"
    return re.split(r"[.\[]", name)[0].lower()


def one[Row: Model, R: Resource[Any]](
    request: HttpRequest,
    pk: UUID,
    rows: QuerySet[Row],
    model: type[R],
    *,
    lock: Callable[[UUID], Row | None],
    resources: Callable[[Sequence[Row]], list[R]],
    delete: Callable[[Row], object],
    save: Callable[[Row, R], Row],
    is_brief: bool = False,
    patch: Callable[[Row, PatchOp[R]], bool] = lambda _row, _operations: False,
) -> HttpResponse:
    """
    Read, replace, patch or delete one of the rows. A write happens under its lock, and answers with what
    there is then, or with 204 if it `is_brief`. `patch` may carry operations out on the row, if it can.
    """
    if request.method in ("GET", "HEAD"):
        row = rows.filter(pk=pk).first()
        if row is None:
            raise _not_found(str(pk))
        return represent(request, resources([row])[0])
    with transaction.atomic():
        row = lock(pk)
        if row is None:
            raise _not_found(str(pk))
        operations = operations_of(request, model) if request.method == "PATCH" else None
        if operations and is_brief and "If-Match" not in request.headers and patch(row, operations):
            return HttpResponse(status=204)
        (resource,) = resources([row])
        require_match(request, resource)
        if request.method == "DELETE":
            delete(row)
            return HttpResponse(status=204)
        if request.method == "PUT":
            scim_ctx = Context.RESOURCE_REPLACEMENT_REQUEST
            resource = model.model_validate(whole_body(request, model), scim_ctx=scim_ctx)
        elif operations:
            operations.patch(resource)
        row = save(row, resource)
    return HttpResponse(status=204) if is_brief else represent(request, resources([row])[0])


# What the service says of itself.


def _listed(content: list[dict[str, Any]]) -> HttpResponse:
    head = ListResponse[UserResource](total_results=len(content), start_index=1, items_per_page=len(content))
    return answer(head.model_dump() | {"Resources": content})


def _described(request: HttpRequest, resource: Resource[Any], path: str) -> dict[str, Any]:
    kind = path.strip("/").partition("/")[0].removesuffix("s")
    content = resource.model_dump(scim_ctx=Context.RESOURCE_QUERY_RESPONSE)
    return content | {"meta": {"resourceType": kind, "location": f"{base_of(request)}{path}"}}


def _refuse_filter(request: HttpRequest) -> None:
    if "filter" in request.GET:  # RFC 7644 §4: 403
        raise ScimRefusal(403, "What the service says of itself is not filtered.")


@scim("GET", "HEAD")
def config(request: HttpRequest, provider: IdentityProvider) -> HttpResponse:
    _refuse_filter(request)
    return answer(_described(request, CONFIG, "/ServiceProviderConfig"))


@scim("GET", "HEAD")
def resource_types(request: HttpRequest, provider: IdentityProvider, key: str = "") -> HttpResponse:
    _refuse_filter(request)
    found = {str(one.name): _described(request, one, f"/ResourceTypes/{one.name}") for one in RESOURCE_TYPES}
    return _one_or_all(found, key)


@scim("GET", "HEAD")
def schemas(request: HttpRequest, provider: IdentityProvider, key: str = "") -> HttpResponse:
    _refuse_filter(request)
    found = {str(one.id): _described(request, one, f"/Schemas/{one.id}") for one in SCHEMAS}
    return _one_or_all(found, key)


def _one_or_all(found: dict[str, dict[str, Any]], key: str) -> HttpResponse:
    if not key:
        return _listed(list(found.values()))
    if key not in found:
        raise _not_found(key)
    return answer(found[key])


@scim("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE")
def unknown(request: HttpRequest, provider: IdentityProvider, rest: str) -> HttpResponse:
    raise ScimRefusal(404, f"There is no address /scim/v2/{rest[:60]}.")


@scim("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE")
def not_implemented(request: HttpRequest, provider: IdentityProvider) -> HttpResponse:
    """Refuse what the RFC leaves to the service: searches by POST, bulk operations, /Me (RFC 7644 §3.11)."""
    raise ScimRefusal(501, "The portal does not do this. /ServiceProviderConfig says what it does.")


# People.


def _people(request: HttpRequest, rows: Sequence[ScimUser]) -> list[UserResource]:
    groups = scim_groups.groups_of_users([row.user_id for row in rows], rows[0].provider) if rows else {}
    return [person_resource(row, base_of(request), groups=groups[row.user_id]) for row in rows]


def said(resource: UserResource) -> people.ProvisionedPerson:
    """Return what a resource says of a person."""
    name = resource.name
    emails = [one.model_dump(scim_ctx=None, exclude_none=True) for one in resource.emails or [] if one.value]
    return people.ProvisionedPerson(
        user_name=resource.user_name or "",
        external_id=resource.external_id or "",
        first_name=(name.given_name if name else "") or "",
        last_name=(name.family_name if name else "") or "",
        emails=tuple(emails),
        active=resource.active is not False,
    )


@scim("GET", "HEAD", "POST")
def users(request: HttpRequest, provider: IdentityProvider) -> HttpResponse:
    if request.method != "POST":
        rows = people.people_of(provider).annotate(label=filters.LABEL)
        return page(
            request, UserResource, rows, filters.USERS, lambda found, _search: _people(request, found)
        )
    body = whole_body(request, UserResource)
    resource = UserResource.model_validate(body, scim_ctx=Context.RESOURCE_CREATION_REQUEST)
    row = people.create(provider, said(resource))
    return represent(request, _people(request, [row])[0], 201)


@scim("GET", "HEAD", "PUT", "PATCH", "DELETE")
def user(request: HttpRequest, provider: IdentityProvider, key: str) -> HttpResponse:
    def save(row: ScimUser, resource: UserResource) -> ScimUser:
        people.change(row, said(resource))
        return row

    return one(
        request,
        key_of(key),
        people.people_of(provider),
        UserResource,
        lock=partial(people.locked, provider),
        resources=partial(_people, request),
        delete=people.delete,
        save=save,
    )


# Groups.


def _groups(
    request: HttpRequest, rows: Sequence[ExternalGroup], *, members: bool = True
) -> list[GroupResource]:
    found = scim_groups.members_of(rows) if members else {}
    return [group_resource(row, base_of(request), found.get(row.pk, [])) for row in rows]


def _wants_members(parameters: ResponseParameters[Any]) -> bool:
    """Return whether members are asked for: those of a large group are many, and providers leave them out."""
    only = [str(path).rpartition(":")[2].lower() for path in parameters.attributes or ()]
    without = [str(path).rpartition(":")[2].lower() for path in parameters.excluded_attributes or ()]
    return "members" not in without and (not only or any(name.startswith("members") for name in only))


@scim("GET", "HEAD", "POST")
def groups(request: HttpRequest, provider: IdentityProvider) -> HttpResponse:
    if request.method != "POST":
        rows = scim_groups.groups_of(provider)

        def resources(found: Sequence[Any], search: ResponseParameters[Any]) -> Sequence[Resource[Any]]:
            return _groups(request, found, members=_wants_members(search))

        return page(request, GroupResource, rows, filters.GROUPS, resources)
    body = whole_body(request, GroupResource)
    resource = GroupResource.model_validate(body, scim_ctx=Context.RESOURCE_CREATION_REQUEST)
    with transaction.atomic():
        row = _save_group(provider, resource, None)
    return represent(request, _groups(request, [row])[0], 201)


@scim("GET", "HEAD", "PUT", "PATCH", "DELETE")
def group(request: HttpRequest, provider: IdentityProvider, key: str) -> HttpResponse:
    return one(
        request,
        key_of(key),
        scim_groups.groups_of(provider),
        GroupResource,
        lock=partial(scim_groups.locked, provider),
        resources=partial(_groups, request),
        delete=remove_group,
        save=lambda row, resource: _save_group(provider, resource, row),
        # A provider adds a member at a time to groups of thousands.
        is_brief=request.method == "PATCH" and not any(name in request.GET for name in PARAMETERS),
        patch=_patch_members,
    )


def _patch_members(row: ExternalGroup, operations: PatchOp[GroupResource]) -> bool:
    """Add and remove single members without reading the others; return whether that is all there is to do."""
    joined: dict[str, None] = {}
    left: dict[str, None] = {}
    for operation in operations.operations or ():
        ids = _single_members(operation)
        if not ids:
            return False
        came, gone = (joined, left) if operation.op == operation.Op.add else (left, joined)
        for pk in ids:
            came[pk] = None
            gone.pop(pk, None)
    scim_groups.change_members(row, joined=joined.keys(), left=left.keys())
    return True


def _single_members(operation: Any) -> list[str]:
    """Return the ids that an operation adds or removes one by one, as Entra ID and Okta do, else none."""
    path, value = str(operation.path or ""), operation.value
    if operation.op == operation.Op.remove and value is None:
        found = ONE_MEMBER.fullmatch(path)
        return [found[1]] if found else []
    if operation.op == operation.Op.replace_ or path.lower() != "members" or not isinstance(value, list):
        return []
    ids = [one.get("value") for one in value if isinstance(one, dict)]
    texts = [pk for pk in ids if isinstance(pk, str) and pk]
    return texts if len(texts) == len(value) else []


def _save_group(
    provider: IdentityProvider, resource: GroupResource, row: ExternalGroup | None
) -> ExternalGroup:
    return scim_groups.save(
        provider,
        name=resource.display_name or "",
        external_id=resource.external_id or "",
        members=[member.value for member in resource.members or [] if member.value],
        group=row,
    )
