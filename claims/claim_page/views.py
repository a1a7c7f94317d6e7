"""
The page of one claim: key figures, actions, explanation, devices, snippets, and repairs after drift.

The page polls its own parts. Relative times are `<time>` elements that the browser keeps current, so they
cause no new response.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from shlex import quote
from typing import Any
from urllib.parse import urlencode
from uuid import UUID

from django.conf import settings
from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseNotModified
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.cache import patch_cache_control
from django.utils.html import format_html
from django.utils.module_loading import import_string
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from claims.access import reason_not_to_release, visible_claim
from claims.approvals.authority import may_decide
from claims.approvals.forms import EndForm
from claims.claim_page.explain import explain
from claims.claim_page.forms import SnippetForm, node_count
from claims.claim_page.snippets import GROUPS, Snippet, claim_snippets, cuda_check, placement_for
from claims.delivery import eviction
from claims.delivery.eviction import holding_pods, pods_after_end
from claims.inbox.views import thread_context
from claims.lifecycle import services
from claims.lifecycle.consumers import sharing_slots
from claims.lifecycle.extension_rules import ExtensionPolicy, pending_extension
from claims.lifecycle.facts import Facts, claim_facts, claim_stamp
from claims.lifecycle.views import ask_or_act
from claims.match_page import funnel_rows
from claims.models import Claim
from claims.models.limits import Delivery
from claims.models.profile import Purpose
from claims.observation import drift
from claims.plans.changes import request_again_url
from claims.plans.plan import claim_use
from claims.states import FINAL, LOOK, RENEWABLE, RUNNING, UNAPPROVED, USABLE, ClaimState
from cluster.protocol import ClusterConflict
from core.attempt import posted
from core.errors import Conflict
from core.text import counted
from core.times import ago, at_short, duration, elapsed
from dra import cuda, workloads
from dra.placement import Placement
from dra.workload_parts import ASSUMED, WorkloadOptions
from inventory.states import EndPolicy
from teams.access import require_role, role_in, user_of
from teams.models import Role, User


@dataclass(frozen=True)
class KeyFigure:
    """A label, a value and a line below it; each may be safe HTML."""

    label: str
    value: str
    sub: str


def key_figures(facts: Facts) -> list[KeyFigure]:
    """Return the figures of every claim: state, end, size, and of one that holds devices these."""
    claim = facts.claim
    return [state_figure(claim), end_figure(claim), size_figure(facts)]


def state_figure(claim: Claim) -> KeyFigure:
    sub = format_html("since {when}", when=at_short(claim.state_since))
    return KeyFigure(str(claim.get_state_display()), elapsed(claim.state_since), sub)


def end_figure(claim: Claim) -> KeyFigure:
    if claim.state in FINAL:
        return KeyFigure("Ended", duration(claim.state_since - claim.created_at), "after the request")
    if claim.is_in_grace:
        sub = format_html("expired {when}", when=at_short(claim.expires_at))
        return KeyFigure("Grace ends", ago(claim.deleted_at), sub)
    if claim.state == ClaimState.RELEASING:
        return KeyFigure("Ends", "with its last pod", release_end(claim))
    if claim.expires_at is not None:
        expires, grace = at_short(claim.expires_at), claim.profile_version.grace
        if grace:
            expires = format_html("{}, then {} of grace", expires, duration(grace))
        return KeyFigure("Ends", ago(claim.expires_at), expires)
    if claim.decide_by is not None and claim.state == ClaimState.REQUESTED:
        sub = format_html("from approval; the request expires {when}", when=at_short(claim.decide_by))
        return KeyFigure("Duration", duration(claim.duration), sub)
    return KeyFigure("Duration", duration(claim.duration), "from approval")


def release_end(claim: Claim) -> str:
    """Return when a claim that is being released ends."""
    if claim.evict_at is None or claim.end_policy == EndPolicy.RUN:
        return "billed until then"
    return format_html("pods are evicted {when}", when=at_short(claim.evict_at))


def size_figure(facts: Facts) -> KeyFigure:
    """Return how many devices were requested, and below it what is held now."""
    claim, held = facts.claim, [row.allocation for row in facts.held if row.allocation.product]
    value = str(claim.devices)
    if claim.delivery == Delivery.TEMPLATE:
        value = f"{claim.devices} per pod"
    products = sorted({f"{row.product} {row.part if row.share_id else ''}".strip() for row in held})
    sub = f"{len(facts.held)} held now" if facts.held else "none held, nothing is billed"
    if claim.delivery == Delivery.TEMPLATE:
        sub = f"up to {counted(claim.parallel, 'pod')} at once, {sub}"
    return KeyFigure("Devices", value, ": ".join(filter(None, (sub, ", ".join(products)))))


def lifecycle_context(facts: Facts, user: User) -> dict[str, Any]:
    """
    Return the context of `claims/claim_page/_actions.html` and `claims/claim_page/_life.html`.

    `free_extension` is by how much the reader may extend the claim without approval.
    """
    claim = facts.claim
    running = claim.state in RUNNING
    may_change = running and not reason_not_to_release(user, claim, facts.role)
    successor = facts.successor
    predecessor = claim.replaces
    timed = may_change and claim.expires_at is not None
    overstaying = holding_pods(facts.seen) if claim.state == ClaimState.RELEASING else []
    may_evict = bool(overstaying) and not reason_not_to_release(user, claim, facts.role)
    return {
        "can_evict": may_evict and claim.end_policy != EndPolicy.RUN and not eviction.is_due(claim),
        "overstaying": overstaying,
        "pods_after_end": pods_after_end(claim.end_policy),
        "kept_alive": claim.state in RENEWABLE and claim.ends_unless_renewed_at is not None,
        "may_keep": not reason_not_to_release(user, claim, facts.role),
        "can_extend": timed and successor is None,
        "can_shorten": timed and not claim.is_in_grace,
        "can_transfer": may_change,
        "can_change": may_change and successor is None and (predecessor is None or predecessor.is_final),
        "successor": successor if running else None,
        "replaced_by": successor if claim.is_final else None,
        "predecessor": predecessor,
        "is_crowded": predecessor is not None and waits_for_predecessor(claim, predecessor),
        "may_release_predecessor": predecessor is not None
        and predecessor.state in RUNNING
        and not reason_not_to_release(user, predecessor, facts.role),
        "extension": pending_extension(claim) if running and facts.has("extensions") else None,
        "in_grace": claim.is_in_grace,
        "deleted_at": claim.deleted_at,
        "free_extension": ExtensionPolicy(claim, by=user).at_a_time if timed and successor is None else None,
    }


def waits_for_predecessor(claim: Claim, predecessor: Claim) -> bool:
    """Return whether a claim waits for devices while the claim that it replaces holds some."""
    return claim.state == ClaimState.PROVISIONED and predecessor.state == ClaimState.ALLOCATED


@dataclass(frozen=True)
class DriftActions:
    """The drift of a claim and what one reader may do about it."""

    drift: drift.Drift
    may_accept: bool
    may_label: bool


def drift_actions(facts: Facts, user: User) -> DriftActions | None:
    claim_drift = drift.find_drift(facts.claim, facts.seen)
    if claim_drift is None:
        return None
    may_end = not reason_not_to_release(user, facts.claim, facts.role)
    return DriftActions(
        claim_drift,
        may_accept=claim_drift.code == drift.REPLACED and user.is_platform_admin,
        may_label=claim_drift.code == drift.UNLABELED and may_end,
    )


# Level of a CUDA verdict → color family and icon.
LEVEL_STYLES = {
    cuda.Level.OK: ("held", "circle-check"),
    cuda.Level.UNKNOWN: ("unknown", "help"),
    cuda.Level.WARNING: ("wait", "alert-triangle"),
    cuda.Level.ERROR: ("bad", "alert-circle"),
}


# The first tab for what a profile is for; a pod for any other.
USUAL = {Purpose.TRAINING: "job", Purpose.INFERENCE: "vllm", Purpose.NOTEBOOKS: "jupyter"}


def snippets_context(request: HttpRequest, claim: Claim, key: str) -> dict[str, Any]:
    """Return the context of `_snippets.html`; an unknown `key` shows what the profile is for."""
    placement = placement_for(claim)
    form = SnippetForm(request.GET, use=claim_use(claim, placement), placement=placement)
    options = form.options() if not form.is_bound or form.is_valid() else WorkloadOptions()
    base_url = request.build_absolute_uri("/").rstrip("/")
    snippets = claim_snippets(claim, base_url=base_url, options=options, placement=placement)
    usual = USUAL.get(Purpose(claim.profile_version.profile.purpose), "")
    shown = next((one for wanted in (key, usual) for one in snippets if one.key == wanted), snippets[0])
    check = cuda_check(shown, options, placement)
    query = urlencode(form.query(), doseq=True)
    kubeconfig = people_kubeconfig(claim)
    return {
        "snippet": shown,
        "snippets": [snippet for snippet in snippets if snippet.group == shown.group],
        "snippet_groups": group_tabs(snippets, shown),
        "snippet_form": form,
        "snippet_has_options": options.chosen,
        "snippet_options": f"?{query}" if query else "",
        "snippet_more_options": f"&{query}" if query else "",
        "snippet_query": urlencode({"snippet": shown.key, **form.query()}, doseq=True),
        "snippet_check": check,
        "snippet_verdicts": [(part, *LEVEL_STYLES[part.verdict.level]) for part in check.parts]
        if check
        else [],
        "snippet_nodes": matching_nodes_sentence(placement, options),
        "snippet_starts": not form.errors and may_start(user_of(request), claim),
        "snippet_kubeconfig": kubeconfig and shown.language != "python" and quote(str(kubeconfig)),
    }


def people_kubeconfig(claim: Claim) -> Path | None:
    """Return the file by which people of the demo reach the claim's cluster; None elsewhere."""
    file = Path(settings.PEOPLE_KUBECONFIGS, f"{claim.cluster.name}.people.kubeconfig")
    return file if settings.PEOPLE_KUBECONFIGS and file.exists() else None


def may_start(user: User, claim: Claim) -> bool:
    """Return whether the page starts a pod for the user: in a simulated cluster of the demo only."""
    simulated = claim.cluster.simulated and people_kubeconfig(claim) is not None
    role = role_in(user, claim.team) if simulated and claim.state in USABLE else None
    return role is not None and role.rank >= Role.MEMBER.rank


def group_tabs(snippets: list[Snippet], shown: Snippet) -> list[tuple[str, str, bool]]:
    """Return (title, key of its first snippet, whether it is open) for each group with snippets."""
    first_keys = {snippet.group: snippet.key for snippet in reversed(snippets)}
    return [
        (title, first_keys[group], group == shown.group)
        for group, title in GROUPS.items()
        if group in first_keys
    ]


def matching_nodes_sentence(placement: Placement, options: WorkloadOptions) -> str:
    """Return how many nodes accept the pods with these options; "" if no node has matching devices."""
    if placement.problem or not placement.nodes:
        return ""
    labels = None if not options.capacity else ["" if options.capacity == ASSUMED else options.capacity]
    number = placement.eligible_nodes(options.tolerate, labels)
    nodes = node_count(placement.nodes)
    return f"{number} of {nodes} with matching devices accept these pods (taints and labels)."


CLAIM_CHANGED = "claim-changed"  # the event on which the parts that do not poll reload

# Step of the timeline → its icon, unless the step is done.
STEP_ICONS = {
    "requested": "send",
    "quota": "gauge",
    "approved": "user-check",
    "written": "file-text",
    "waiting": "cube-plus",
    "scheduler": "route",
    "prepared": "tool",
    "used": "cpu",
    "releasing": "progress-down",
    "released": "circle-minus",
}


@dataclass(frozen=True)
class ClaimStateStyle:
    """Color family and icon of a state; the family says who acts next."""

    family: str
    icon: str


@require_safe
def detail(request: HttpRequest, claim_id: UUID) -> HttpResponse:
    claim = visible_claim(request, claim_id)
    user = user_of(request)
    page = claim_context(claim_facts(claim, user, stamp=claim_stamp(claim_id, user)), user)
    snippets = {} if claim.is_final else snippets_context(request, claim, request.GET.get("snippet", ""))
    return render(request, "claims/claim_page/detail.html", page | snippets)


@require_safe
def detail_live(request: HttpRequest, claim_id: UUID) -> HttpResponse:
    """
    Render the part that polls: 304 until something changes; a final claim polls no more.

    A tag with the current stamp needs no look at the claim. Otherwise the page may still be the same, and the
    browser hears the new tag.
    """
    user = user_of(request)
    stamp, tag = claim_stamp(claim_id, user), request.headers.get("If-None-Match", "")
    if re.fullmatch(rf'"\w+-{stamp}"', tag):
        return polled(HttpResponseNotModified(), tag)
    facts = claim_facts(visible_claim(request, claim_id), user, stamp=stamp)
    if tag.startswith(f'"{facts.digest}-'):
        return polled(HttpResponseNotModified(), facts.etag)
    seen = request.GET.get("seen", "")
    page = claim_context(facts, user) | {"seen": seen}
    response = polled(render(request, "claims/claim_page/live.html", page), facts.etag)
    if facts.claim.state not in (seen, *UNAPPROVED):
        response["HX-Trigger"] = CLAIM_CHANGED
    return response


def polled(response: HttpResponse, etag: str) -> HttpResponse:
    response["ETag"] = etag
    patch_cache_control(response, private=True, no_cache=True)
    return response


def claim_context(facts: Facts, user: User) -> dict[str, Any]:
    """Return the context of everything that can change while the page is open."""
    claim = facts.claim
    history = list(claim.history.select_related("by"))
    explanation = explain(claim, facts.seen, facts.age, history)
    action = explanation.next_action
    may_request = facts.role is not None and facts.role.rank >= Role.MEMBER.rank
    may_end = not reason_not_to_release(user, claim, facts.role)
    return {
        "claim": claim,
        "alternatives": facts.alternatives,
        "look": ClaimStateStyle(*LOOK[claim.state]),
        "etag": facts.etag,
        "polls": not claim.is_final,
        "has_use": claim.state not in UNAPPROVED,
        "figures": key_figures(facts),
        "next_action": action,
        "headline": action.headline_for(claim, user),
        "steps": [(step, STEP_ICONS[step.key]) for step in explanation.shown_steps],
        "explanation": explanation,
        "match": explanation.fit and explanation.fit.preview,
        "funnel": funnel_rows(explanation.fit.preview) if explanation.fit else [],
        "held": facts.held,
        "age": facts.age,
        "past_count": 0 if facts.held else claim.allocations.count(),
        "consumers": explanation.pods,
        "slots": sharing_slots(claim, facts.seen),
        "history": [(transition, ClaimStateStyle(*LOOK[transition.new])) for transition in reversed(history)],
        "may_decide": claim.state == ClaimState.REQUESTED and may_decide(user, claim),
        "drift_actions": drift_actions(facts, user),
        "can_withdraw": claim.state == ClaimState.REQUESTED and may_end,
        "can_release": claim.state in RUNNING and may_end,
        "again_url": request_again_url(claim, facts.alternatives) if may_request else "",
        **thread_context(claim, user, facts.role, is_empty=not facts.has("comments")),
    } | lifecycle_context(facts, user)


@require_http_methods(["GET", "HEAD", "POST"])
def accept(request: HttpRequest, claim_id: UUID) -> HttpResponse:
    """Confirm on GET, accept the new object on POST: platform admins only; 409 if there is none to accept."""
    facts = claim_facts(visible_claim(request, claim_id), user_of(request))
    claim = facts.claim
    if not user_of(request).is_platform_admin:
        raise PermissionDenied("Only a platform admin may accept a new object.")
    form = EndForm(posted(request))
    page = {"claim": claim, "form": form, "written": facts.seen.written}
    if request.method != "POST":
        actions = drift_actions(facts, user_of(request))
        if actions is None or not actions.may_accept:
            page["refusal"] = Conflict(f"{claim} has no new object with the approved spec.")

    def act() -> None:
        services.accept_object(claim=claim, by=user_of(request), reason=form.cleaned_data["reason"])
        messages.success(request, f"{claim} now uses the new object.")

    return ask_or_act(request, "accept", page, form, act)


@require_POST
def label(request: HttpRequest, claim_id: UUID) -> HttpResponse:
    claim = visible_claim(request, claim_id)
    services.label_again(claim=claim, by=user_of(request))
    messages.success(request, f"The portal's label is being restored on {claim}.")
    return redirect("claims:detail", claim.pk)


@require_POST
def start_pod(request: HttpRequest, claim_id: UUID) -> HttpResponse:
    """
    Start the pod of the snippet as its reader would with kubectl; 404 where no cluster is simulated.

    This view calls the cluster, which others never do: it is a process of the demo, on this machine.
    """
    claim, user = visible_claim(request, claim_id), user_of(request)
    require_role(user, claim.team, at_least=Role.MEMBER)
    if not claim.cluster.simulated or people_kubeconfig(claim) is None:
        raise Http404
    if not may_start(user, claim):
        raise Conflict(f"{claim} is “{claim.get_state_display()}”: a pod cannot use it.")
    placement = placement_for(claim)
    form = SnippetForm(request.GET, use=claim_use(claim, placement), placement=placement)
    if form.is_bound and not form.is_valid():
        raise Http404
    pod, *_policy = workloads.pod(claim_use(claim, placement), form.options())
    name = pod["metadata"]["name"]
    try:
        import_string(settings.START_POD)(claim.cluster.name, pod)
    except ClusterConflict as conflict:
        raise Conflict(f"Pod {name} exists already in namespace {claim.namespace}.") from conflict
    messages.success(request, f"Pod {name} was created in the simulated cluster {claim.cluster.name}.")
    return redirect("claims:detail", claim.pk)


@require_safe
def snippet(request: HttpRequest, claim_id: UUID, key: str) -> HttpResponse:
    """Render one snippet as part of the page; the browser's address follows, so that it can be shared."""
    return snippet_response(request, visible_claim(request, claim_id), key)


@require_safe
def options(request: HttpRequest, claim_id: UUID) -> HttpResponse:
    """Render the shown snippet after an option has changed; the form names the snippet."""
    return snippet_response(request, visible_claim(request, claim_id), request.GET.get("snippet", ""))


@require_safe
def snippet_file(request: HttpRequest, claim_id: UUID, key: str) -> HttpResponse:
    """Download the snippet as a file; 404 for invalid options, which only the page explains."""
    page = snippets_context(request, visible_claim(request, claim_id), key)
    if page["snippet"].key != key or page["snippet_form"].errors:
        raise Http404
    shown: Snippet = page["snippet"]
    response = HttpResponse(shown.text, content_type="text/plain; charset=utf-8")
    response["Content-Disposition"] = f'attachment; filename="{shown.filename}"'
    return response


def snippet_response(request: HttpRequest, claim: Claim, key: str) -> HttpResponse:
    page = snippets_context(request, claim, key)
    if page["snippet"].key != key:
        raise Http404
    response = render(request, "claims/claim_page/detail.html#snippets", page | {"claim": claim})
    response["HX-Replace-Url"] = f"{reverse('claims:detail', args=[claim.pk])}?{page['snippet_query']}"
    return response
