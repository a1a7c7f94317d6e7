"""Reading manifests and drafts, and sending the form: places, limits, order, and what the reader is told."""

from datetime import timedelta

import pytest
import yaml
from django.contrib.messages import get_messages
from django.core.files.uploadedfile import SimpleUploadedFile
from django.http import QueryDict
from django.urls import reverse
from django.utils import timezone

from claims.models import Approval, Claim, Draft, Profile
from claims.requests.draft_views import draft_profiles, draft_query, typed_fields
from claims.requests.forms import RequestForm
from claims.requests.manifest_import import import_claims
from claims.requests.manifest_specs import ImportedSpec, read_documents, requested_specs
from claims.requests.services import save_draft
from claims.requests.suggestions import suggestions_for
from claims.requests.views import editor_fields, form_as_query, form_url, preview_query, without_removed_row
from claims.states import ClaimState
from core.errors import Invalid
from dra.manifests import resource_claim, resource_claim_template, to_yaml
from inventory.cluster_snapshot import current_snapshot
from inventory.models import Device, DeviceClass, ResourceSlice
from tests.claims.requests.test_match_pages import mirrored
from tests.dra.clusters import ask, device_class, exactly, gpu, resource_slice, spec
from tests.factories import GPU_CLASS, make_claim, make_profile, make_quota, make_spec, make_team

pytestmark = pytest.mark.django_db
PART = "mig.nvidia.com"
FORM = reverse("claims:request")


def refusal_of(act, *args):
    with pytest.raises(Invalid) as refusal:
        act(*args)
    return refusal.value.message


# Documents.


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("kind: A", [1]),
        ("---\nkind: A\n---\n---\nkind: B\n", [2, 5]),
        ("kind: List\nitems:\n- kind: A\n- kind: B\n", [1, 1]),
        ('{"kind": "A"}', [1]),
    ],
)
def test_documents_come_with_the_line_where_they_begin(text, lines):
    assert [one.line for one in read_documents(text, "f.yaml")] == lines


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "f.yaml is empty."),
        ("---\n---\n", "f.yaml is empty."),
        ("kind: A\n---\n- 1\n", "f.yaml, line 3: this is not a Kubernetes object."),
        ("a: 1\nb: [", "f.yaml, line 2: this is not YAML: "),
    ],
)
def test_a_file_that_holds_no_objects_is_refused(text, said):
    assert refusal_of(read_documents, text, "f.yaml").startswith(said)


def claim_yaml(name="mine", namespace=None, spec=None, template=False):
    make = resource_claim_template if template else resource_claim
    made = make(name, namespace or "default", spec or make_spec())
    if namespace is None:
        del made["metadata"]["namespace"]
    return to_yaml(made)


def pod_yaml(kind="Pod", namespace="", **names):
    key, name = next(iter(names.items()))
    spec = f"{{resourceClaims: [{{name: gpu, {key}: {name}}}]}}"
    where = f"metadata: {{name: p{', namespace: ' + namespace if namespace else ''}}}\n"
    body = f"spec: {spec}" if kind == "Pod" else f"spec: {{template: {{spec: {spec}}}}}"
    return f"kind: {kind}\n{where}{body}\n"


def wanted(text, elsewhere=lambda *_key: None):
    return [
        (one.title, one.line)
        for one in requested_specs(read_documents(text, "f.yaml"), "f.yaml", elsewhere).specs
    ]


def joined(*texts):
    return "---\n".join(texts)


@pytest.mark.parametrize("kind", ["Pod", "Deployment", "StatefulSet", "Job"])
def test_what_runs_pods_names_its_claims(kind):
    pod = pod_yaml(kind, resourceClaimName="mine")
    assert wanted(joined(pod, claim_yaml()))[0][0] == "ResourceClaim mine"
    pod = pod_yaml(kind, resourceClaimTemplateName="mine")
    assert wanted(joined(pod, claim_yaml(template=True)))[0][0] == "ResourceClaimTemplate mine"


def test_a_claim_that_several_name_is_wanted_once_and_two_of_two_namespaces_twice():
    pod = pod_yaml(resourceClaimName="mine")
    assert [title for title, _line in wanted(joined(pod, claim_yaml(), pod))] == ["ResourceClaim mine"]
    two = joined(claim_yaml(namespace="a"), claim_yaml(namespace="b"))
    assert [title for title, _line in wanted(two)] == ["ResourceClaim mine"] * 2
    assert [title for title, _line in wanted(joined(claim_yaml("x"), claim_yaml("y")))] == [
        "ResourceClaim x",
        "ResourceClaim y",
    ]


def test_a_pod_finds_claims_of_its_own_namespace_alone():
    text = joined(pod_yaml(namespace="a", resourceClaimName="mine"), claim_yaml(namespace="b"))
    assert wanted(text) == [("ResourceClaim mine", 5)]
    pod = pod_yaml(namespace="a", resourceClaimName="mine")
    assert refusal_of(wanted, pod) == (
        "f.yaml has no pod or claim that names devices. "
        "Pod p: ResourceClaim mine is neither in this file nor in the cluster."
    )
    asked = []

    def elsewhere(*key):
        asked.append(key)
        return {"metadata": {"name": "mine"}, "spec": make_spec()}

    assert wanted(text, elsewhere)[0] == ("ResourceClaim mine", 1)
    assert asked == [("ResourceClaim", "a", "mine")]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "kind: Pod\nmetadata: {name: p}\nspec: {}",
            "f.yaml has no pod or claim that names devices. Skipped: Pod p.",
        ),
        (
            "kind: SparkApplication\nspec: {executor: {cores: 1, memory: 2g}}",
            "f.yaml has no pod or claim that names devices. Skipped: SparkApplication.",
        ),
        (
            "kind: VirtualMachine\nspec: {template: {spec: {domain: {devices: {gpus: ["
            "{name: a, deviceName: nvidia.com/A10}, {name: b, deviceName: nvidia.com/A10}]}}}}}",
            "f.yaml has no pod or claim that names devices. Skipped: VirtualMachine (takes "
            "nvidia.com/A10, nvidia.com/A10).",
        ),
        ("kind: Service", "f.yaml has no pod or claim that names devices. Skipped: Service."),
        ("a: 1", "f.yaml has no pod or claim that names devices. Skipped: object without a kind."),
    ],
)
def test_a_file_that_asks_for_nothing_is_refused(text, said):
    assert refusal_of(wanted, text) == said


@pytest.mark.parametrize("wrong", [3, "x", True, [3], [[]], [None], {"a": 1}], ids=repr)
@pytest.mark.parametrize("at", ["selectors", "selector", "cel"])
def test_a_malformed_class_is_refused_as_a_malformed_claim_is(vision, fra, at, wrong):
    selectors = {"selectors": wrong, "selector": [wrong], "cel": [{"cel": wrong}]}[at]
    text = to_yaml({"kind": "DeviceClass", "metadata": {"name": GPU_CLASS}, "spec": {"selectors": selectors}})
    said = refusal_of(import_claims, text, "f.yaml", (), {}, {"fra-1": current_snapshot(fra)})
    assert said.startswith(f"f.yaml, line 1: DeviceClass {GPU_CLASS} is invalid.")


def test_a_template_is_read_for_the_spec_in_it():
    (found,) = requested_specs(read_documents(claim_yaml(template=True), "f"), "f").specs
    assert found == ImportedSpec("ResourceClaimTemplate mine", make_spec(), 1)


# What is found for it.


def found_for(text):
    return import_claims(text, "f.yaml", Profile.objects.select_related("current")).claims


def test_all_profiles_that_ask_for_the_same_are_named_by_title_and_no_others(db):
    for slug in ("b", "a"):
        make_profile(slug)
    make_profile("other", spec=make_spec(device_class=PART))
    (found,) = found_for(claim_yaml(spec=make_spec(3)))
    assert [(near.profile.slug, near.similarity.count) for near in found.exact] == [("a", 3), ("b", 3)]
    assert (found.nearest, found.combination, found.name, found.delivery) == ((), None, "mine", "claim")
    (found,) = found_for(claim_yaml(template=True))
    assert (found.title, found.delivery) == ("ResourceClaimTemplate mine", "template")


def test_of_others_the_three_nearest_are_named_those_of_its_class_first(db):
    make_profile("a", spec=make_spec(device_class="a.x"))
    make_profile("b", spec=make_spec(device_class="b.x"))
    make_profile("c", spec=make_spec(device_class="c.x"))
    make_profile("z", spec=make_spec(selectors=[{"cel": {"expression": "true"}}]))
    (found,) = found_for(claim_yaml())
    assert [near.profile.slug for near in found.nearest] == ["z", "a", "b"]
    assert found.exact == ()


def test_a_file_has_up_to_64000_characters_and_40_levels(db):
    make_profile("one")
    text = claim_yaml()
    assert found_for(text + "#" * (64_000 - len(text)))[0].exact
    assert refusal_of(found_for, text + "#" * (64_001 - len(text))) == (
        "f.yaml has 64,001 characters; the limit is 64,000."
    )
    deep = refusal_of(found_for, "[" * 41 + "]" * 41)
    assert deep == "f.yaml, line 1: the limit is 40 levels."
    assert "levels" not in refusal_of(found_for, "[" * 40 + "]" * 40)


def test_the_ways_to_ask_for_a_file_are_addresses_of_the_form(db):
    make_profile("gpu")
    (found,) = found_for(claim_yaml("mine", spec=make_spec(3)))
    assert form_url(found, found.exact) == f"{FORM}?profile=gpu&devices=3&delivery=claim&name=mine"
    (first,) = found.exact
    (other,) = found_for(claim_yaml("", template=True))
    assert form_url(other, [first, first]) == (
        f"{FORM}?profile=gpu&devices=3&delivery=template&together=gpu&together_devices=3"
    )
    assert dict(editor_fields(found)) | {"spec_yaml": ""} == {
        "edit": "1", "source": "yaml", "spec_yaml": "", "slug": "mine", "title": "mine", "max_devices": 3,
        "approval": "lead", "default_duration": "24h", "max_duration": "14d", "grace": "0h",
        "extension": "0h", "automatic_devices": 0, "deliveries": "template",
    }  # fmt: skip


def test_a_file_is_read_up_to_its_size_and_goes_before_what_was_pasted(client, alice, vision, train):
    client.force_login(alice)
    page, text = reverse("claims:request_import"), claim_yaml("of-file").encode()
    for more, said in ((0, False), (1, True)):
        upload = SimpleUploadedFile("f.yaml", text + b"#" * (256_000 + more - len(text)))
        answer = client.post(page, {"file": upload, "text": claim_yaml("pasted")})
        assert ("f.yaml has 256001 bytes; the limit is 256000." in answer.text) is said
    answer = client.post(page, {"file": SimpleUploadedFile("f.yaml", text), "text": claim_yaml("pasted")})
    assert [one.claim.name for one in answer.context["claims"]] == ["of-file"]


# What else would fit.


def offers(team, cluster, chosen, **more):
    fields = {"devices": 1, "parallel": 1, "delivery": "claim", **more}
    found = suggestions_for(
        team=team, cluster=cluster, snapshot=current_snapshot(cluster), chosen=chosen, **fields
    )
    return [(offer.profile.slug, offer.devices, offer.free) for offer in found]


def test_offers_are_other_profiles_that_are_open_offered_so_and_within_all_limits(
    vision, fra, train, quota, alice
):
    mirrored(fra, [gpu(number) for number in range(4)])
    make_profile("twin")
    make_profile("template-only", deliveries=["template"])
    make_profile("small", max_devices=1)
    make_profile("closed", teams=(make_team("nlp"),))
    make_profile("old")
    Profile.objects.filter(slug="old").update(retired_at=timezone.now())
    make_profile("no-quota", spec=make_spec(device_class="gpu.amd.com"))
    assert offers(vision, fra, [train]) == [("small", 1, 4), ("twin", 1, 4)]
    assert offers(vision, fra, [train], devices=2) == [("twin", 2, 4)]
    assert offers(vision, fra, [train], devices=5) == []
    assert offers(vision, fra, [train], parallel=4, delivery="template") == [
        ("small", 1, 4),
        ("template-only", 1, 4),
        ("twin", 1, 4),
    ]
    assert offers(vision, fra, [train], parallel=5, delivery="template") == []


def test_offers_in_place_of_a_spec_give_all_that_it_asks_for(vision, fra, train, quota):
    nic = {"name": "nic-0", "attributes": {"type": {"string": "nic"}}}
    place = {"driver": "dra.net", "pool": "nics", "generation": 1, "pool_slices": 1, "node_name": "node-a"}
    raw = resource_slice("node-a", [nic], driver="dra.net", pool="nics")
    part = ResourceSlice.objects.create(cluster=fra, uid="n", name="nics-1", raw=raw, **place)
    net = device_class("dra.net", "device.driver == 'dra.net'")
    DeviceClass.objects.create(cluster=fra, uid="n", name="dra.net", raw=net)
    Device.objects.create(
        cluster=fra, slice=part, driver="dra.net", pool="nics", name="nic-0", node_name="node-a"
    )
    mirrored(fra, [gpu(number) for number in range(4)])
    make_quota(vision, 4, device_class="dra.net")

    def both(*requests):
        return spec(*requests, {"name": "net", "exactly": ask(class_name="dra.net")})

    gpu_with_nic = both(exactly())
    chosen = make_profile("gpu-with-nic", spec=gpu_with_nic, scalable="")
    make_profile("twin", spec=gpu_with_nic, scalable="")
    make_profile("nic", spec=both(), scalable="")
    make_profile("two-gpus", spec=spec(exactly(name="a"), exactly(name="b")), scalable="")
    make_profile("whole-node", spec=make_spec(4), scalable="")
    make_profile("monitoring", spec=both(exactly(adminAccess=True)), scalable="")
    every = {slug for slug, _devices, _free in offers(vision, fra, [chosen])}
    assert every >= {"twin", "nic", "two-gpus"}  # the five smallest
    assert [slug for slug, *_rest in offers(vision, fra, [chosen], satisfying=gpu_with_nic)] == ["twin"]


def test_offers_keep_within_the_quotas_of_class_and_profile(vision, fra, train, quota, alice):
    mirrored(fra, [gpu(number) for number in range(8)])
    twin = make_profile("twin")
    make_claim(vision, by=alice, cluster=fra, profile=train, devices=4)
    assert offers(vision, fra, [train], devices=4) == [("twin", 4, 8)]
    assert offers(vision, fra, [train], devices=5) == []
    make_quota(vision, 2, profile=twin)
    assert offers(vision, fra, [train], devices=2) == [("twin", 2, 8)]
    assert offers(vision, fra, [train], devices=3) == []
    assert offers(vision, fra, [train], devices=1, parallel=3, delivery="template") == []


def test_five_offers_are_shown(vision, fra, train, quota):
    mirrored(fra, [gpu(0)])
    for number in range(7):
        make_profile(f"p-{number}")
    assert [slug for slug, *_rest in offers(vision, fra, [train])] == [f"p-{number}" for number in range(5)]


# The form.


def data_of(query):
    return QueryDict(query)


@pytest.mark.parametrize(
    ("drop", "left"),
    [
        ("0", [("b", "2"), ("c", "")]),
        ("1", [("a", "1"), ("c", "")]),
        ("2", [("a", "1"), ("b", "2")]),
        ("3", [("a", "1"), ("b", "2"), None]),
        ("", [("a", "1"), ("b", "2"), None]),
        ("x", [("a", "1"), ("b", "2"), None]),
        ("-1", [("a", "1"), ("b", "2"), None]),
    ],
)
def test_the_row_whose_button_was_pressed_is_left_out(drop, left):
    query = "together=a&together=b&together=c&together_devices=1&together_devices=2&devices=4"
    kept = without_removed_row(data_of(f"{query}&drop={drop}"))
    if None in left:
        assert (kept.getlist("together"), kept.getlist("together_devices")) == (["a", "b", "c"], ["1", "2"])
    else:
        assert list(zip(kept.getlist("together"), kept.getlist("together_devices"), strict=True)) == left
    assert kept["devices"] == "4"


def test_the_link_to_a_request_names_what_it_depends_on_alone():
    data = data_of("profile=a&devices=2&reason=x&key=k&help=1&together=b&together_devices=3&name=")
    assert preview_query(data) == "profile=a&together=b&devices=2&together_devices=3"
    assert preview_query(data, "reason") == "profile=a&together=b&devices=2&together_devices=3&reason=x"


def test_a_form_that_is_shown_would_send_what_it_shows(alice, train, fra, quota):
    query = "profile=train-80&alternatives=b&alternatives=a&together=c&together_devices=3&name=sam&key=k"
    data = form_as_query(RequestForm(user=alice, prefill=data_of(query)))
    assert {name: data.getlist(name) for name in data} == {
        "profile": ["train-80"], "alternatives": ["b", "a"], "together": ["c"], "together_devices": ["3"],
        "devices": ["1"], "delivery": ["claim"], "parallel": ["1"], "team": ["vision"],
        "cluster": ["fra-1"], "name": ["sam"], "key": ["k"],
    }  # fmt: skip


def said_by(answer):
    return [str(message) for message in get_messages(answer.wsgi_request)]


def test_the_sender_is_told_whether_it_waits_was_approved_or_was_sent_before(client, alice, request_fields):
    client.force_login(alice)
    assert said_by(client.post(FORM, request_fields)) == ["sam2 requested."]
    assert said_by(client.post(FORM, request_fields))[-1] == (
        "This request was already sent; no second claim was created."
    )
    make_profile("quick", approval=Approval.AUTOMATIC)
    quick = request_fields | {"profile": "quick", "key": "k-2", "name": "q"}
    assert said_by(client.post(FORM, quick))[-1] == "q approved automatically."
    assert Claim.objects.count() == 2


def test_the_page_sends_all_that_was_typed(client, alice, request_fields, vision, fra):
    other, third = make_profile("other"), make_profile("third")
    client.force_login(alice)
    typed = {
        "delivery": "template", "parallel": "2", "duration": "other", "duration_other": "5h",
        "alternatives": ["third", "other"],
    }  # fmt: skip
    assert client.post(FORM, request_fields | typed).status_code == 302
    claim = Claim.objects.get()
    assert (claim.delivery, claim.parallel, claim.devices, claim.duration) == (
        "template", 2, 2, timedelta(hours=5),
    )  # fmt: skip
    assert (claim.name, claim.reason, claim.key, claim.requested_by) == ("sam2", "Fine-tuning.", "k-1", alice)
    named = [one.profile_version.profile for one in claim.alternatives.all()]
    assert named[1:] == [third, other]


def test_the_form_offers_no_retired_profile_even_to_admins(client, root, train):
    make_profile("old")
    Profile.objects.filter(slug="old").update(retired_at=timezone.now())
    make_team("ops", members=(root,))
    client.force_login(root)
    page = client.get(FORM).context
    cards = [entry for group in (*page["open_groups"], *page["more_groups"]) for entry in group.cards]
    shown = [*cards, *page["locked_entries"]]
    assert [entry.profile.slug for entry in shown] == ["train-80"]


def test_the_other_drafts_are_counted_without_the_one_that_is_open(client, alice, train, fra, quota):
    client.force_login(alice)
    for key in ("a", "b", "c"):
        save_draft(by=alice, key=key, fields={"name": [key]})
    draft = Draft.objects.get(key="b")
    assert client.get(FORM).context["other_drafts"] == 3
    page = client.get(f"{FORM}?draft={draft.pk}").context
    assert (page["other_drafts"], page["draft"]) == (2, draft)


# Drafts.


def test_a_draft_keeps_what_was_typed_without_what_is_empty_and_the_key():
    data = data_of("profile=a&name=&key=k&together=b&together=&together_devices=3&csrfmiddlewaretoken=t&x=1")
    assert typed_fields(data) == {"profile": ["a"], "together": ["b", ""], "together_devices": ["3"]}


def test_a_draft_fills_the_form_with_the_fields_that_there_are():
    draft = Draft(key="k", fields={"profile": ["a"], "alternatives": ["b", "c"], "gone": ["x"]})
    data = draft_query(draft)
    assert {name: data.getlist(name) for name in data} == {
        "profile": ["a"],
        "alternatives": ["b", "c"],
        "key": ["k"],
    }


@pytest.mark.parametrize(
    ("title", "slug", "fields", "said"),
    [
        ("Train", "train", {}, "Train"),
        (None, "train", {}, "train"),
        (None, None, {}, ""),
        ("Train", "train", {"together": ["nic", ""]}, "Train + nic"),
        ("Train", "train", {"alternatives": ["a", "b"]}, "Train or else a or else b"),
    ],
)
def test_a_draft_is_named_by_its_profiles(title, slug, fields, said):
    draft = Draft(key="k", fields=fields)
    draft.title, draft.slug = title, slug
    assert draft_profiles(draft) == said


def test_a_viewer_keeps_no_draft(client, bob, vision):
    client.force_login(bob)
    assert client.post(reverse("claims:draft_save"), {"key": "k"}).status_code == 403
    assert not Draft.objects.exists()


@pytest.mark.parametrize(("length", "kept"), [(4000, True), (4001, False)])
def test_what_is_sent_without_a_session_is_kept_up_to_what_the_form_takes(client, alice, train, length, kept):
    client.post(FORM, {"whose": str(alice.pk), "key": "k" * 90, "reason": "x" * length})
    session = client.session.get("unsent_request")
    assert (session is not None) is kept
    if session:
        assert session == {"whose": str(alice.pk), "key": "k" * 80, "fields": {"reason": ["x" * length]}}


def test_what_was_kept_without_a_key_is_no_draft(client, alice, train, fra, quota):
    client.post(FORM, {"whose": str(alice.pk), "key": "", "reason": "x"})
    client.force_login(alice)
    assert client.get(FORM).status_code == 200
    assert not Draft.objects.exists()


def test_the_list_of_drafts_is_ones_own_newest_first(client, alice, lena, train):
    now = timezone.now()
    for minutes, by, key in ((3, alice, "a"), (1, alice, "b"), (2, alice, "c"), (0, lena, "d")):
        save_draft(by=by, key=key, fields={"profile": ["train-80"], "name": [key]},
                   now=now - timedelta(minutes=minutes))  # fmt: skip
    client.force_login(alice)
    rows = client.get(reverse("claims:drafts")).context["drafts"]
    assert [(draft.claim_name, said) for draft, said in rows] == [
        ("b", "Train 80"),
        ("c", "Train 80"),
        ("a", "Train 80"),
    ]


def test_a_request_that_replaces_a_claim_is_sent_by_the_form(
    client, alice, request_fields, vision, fra, train
):
    old = make_claim(vision, by=alice, cluster=fra, profile=train, state=ClaimState.PROVISIONED)
    client.force_login(alice)
    assert client.post(FORM, request_fields | {"replaces": str(old.pk)}).status_code == 302
    assert Claim.objects.get(key="k-1").replaces == old


def test_a_selector_that_does_not_compile_is_compared_and_not_refused(db):
    make_profile("gpu")
    (found,) = found_for(claim_yaml(spec=make_spec(selectors=[{"cel": {"expression": "device."}}])))
    assert [near.profile.slug for near in found.nearest] == ["gpu"]
    assert "is invalid" in refusal_of(found_for, claim_yaml(spec=make_spec(-1)))


# Older versions, and pods that request GPUs by number.

FLAT = """apiVersion: resource.k8s.io/{version}
kind: {kind}
metadata: {{name: mine}}
spec: {spec}
"""
FLAT_REQUEST = "{devices: {requests: [{name: gpu, deviceClassName: gpu.nvidia.com, count: 2}]}}"
V1_SPEC = {
    "devices": {
        "requests": [
            {
                "name": "gpu",
                "exactly": {"deviceClassName": "gpu.nvidia.com", "count": 2},
            }
        ]
    }
}


def specs_in(text):
    return requested_specs(read_documents(text, "f"), "f").specs


@pytest.mark.parametrize("version", ["v1alpha3", "v1beta1"])
@pytest.mark.parametrize("kind", ["ResourceClaim", "ResourceClaimTemplate"])
def test_flat_requests_of_older_versions_are_converted(version, kind):
    spec = FLAT_REQUEST if kind == "ResourceClaim" else "{spec: " + FLAT_REQUEST + "}"
    (imported,) = specs_in(FLAT.format(version=version, kind=kind, spec=spec))
    assert imported.spec == V1_SPEC
    assert f"Converted from resource.k8s.io/{version}" in imported.note
    signs = {(line.sign, line.text.strip()) for line in imported.changes}
    assert ("-", f"apiVersion: resource.k8s.io/{version}") in signs
    assert ("+", "apiVersion: resource.k8s.io/v1") in signs
    assert ("+", "exactly:") in signs


def test_v1beta2_differs_from_v1_in_its_name_only():
    text = to_yaml(resource_claim("mine", "default", V1_SPEC)).replace("k8s.io/v1", "k8s.io/v1beta2")
    (imported,) = specs_in(text)
    assert imported.spec == V1_SPEC
    assert [line.sign for line in imported.changes if line.sign in "+-"] == ["-", "+"]


@pytest.mark.parametrize("version", ["v1", "v1beta2"])
def test_flat_request_of_a_newer_version_is_converted_and_said(version):
    text = FLAT.format(version=version, kind="ResourceClaim", spec=FLAT_REQUEST)
    (imported,) = specs_in(text)
    assert imported.spec == V1_SPEC
    assert imported.note.endswith(
        "The fields of each request stand under “exactly” now, as version v1 has them."
    )
    assert ("Kubernetes 1.39 and newer do not serve it" in imported.note) is (version == "v1beta2")


@pytest.mark.parametrize(
    "spec", ["[]", "{devices: []}", "{devices: {requests: {}}}", "{devices: {requests: [1]}}"]
)
def test_malformed_claim_of_an_older_version_is_refused(spec):
    text = FLAT.format(version="v1beta1", kind="ResourceClaim", spec=spec)
    assert "ResourceClaim mine is invalid." in refusal_of(specs_in, text)


def test_alternatives_of_v1beta1_are_converted():
    spec = (
        "{devices: {requests: [{name: gpu, firstAvailable: [{name: a, deviceClassName: gpu.nvidia.com}]}]}}"
    )
    (imported,) = specs_in(FLAT.format(version="v1beta1", kind="ResourceClaim", spec=spec))
    (request,) = imported.spec["devices"]["requests"]
    assert request == {"name": "gpu", "firstAvailable": [{"name": "a", "deviceClassName": "gpu.nvidia.com"}]}


def test_reference_to_a_claim_in_the_old_form_is_read():
    source = "{name: gpu, source: {resourceClaimName: mine}}"
    pod = f"kind: Pod\nmetadata: {{name: p}}\nspec: {{resourceClaims: [{source}]}}\n"
    assert wanted(joined(pod, claim_yaml()))[0][0] == "ResourceClaim mine"


def by_number(kind="Pod", **resources):
    container = {"name": "main", "resources": {"limits": {"cpu": "4", **resources}}}
    spec = {"containers": [container]}
    body = spec if kind == "Pod" else {"template": {"spec": spec}}
    return yaml.safe_dump({"kind": kind, "metadata": {"name": "train"}, "spec": body})


@pytest.mark.parametrize(
    ("resource", "device_class", "expression"),
    [
        ("nvidia.com/gpu", "gpu.nvidia.com", None),
        ("amd.com/gpu", "gpu.amd.com", None),
        ("gpu.intel.com/i915", "gpu.intel.com", None),
        (
            "nvidia.com/mig-3g.40gb",
            "mig.nvidia.com",
            'device.attributes["gpu.nvidia.com"].?profile.orValue("") == "3g.40gb"',
        ),
    ],
)
def test_pod_with_gpus_by_number_gets_a_claim_proposed(resource, device_class, expression):
    (proposal,) = specs_in(by_number(**{resource: 2}))
    (request,) = proposal.spec["devices"]["requests"]
    assert (request["exactly"]["deviceClassName"], request["exactly"]["count"]) == (device_class, 2)
    assert [row["cel"]["expression"] for row in request["exactly"].get("selectors", ())] == (
        [expression] if expression else []
    )
    assert proposal.title == "ResourceClaim train"
    assert f"Pod train requests {resource}: 2 from a device plugin." in proposal.note
    signs = {(line.sign, line.text.strip()) for line in proposal.changes}
    assert {("-", f"{resource}: 2"), ("+", "resourceClaimName: train"), ("+", "claims:")} <= signs


def test_workload_with_gpus_by_number_gets_a_template_proposed():
    (proposal,) = specs_in(by_number("Deployment", **{"nvidia.com/gpu": 1, "amd.com/gpu": 1}))
    assert proposal.title == "ResourceClaimTemplate train"
    assert [row["name"] for row in proposal.spec["devices"]["requests"]] == ["main", "main-2"]


def test_pod_without_gpus_still_requests_no_devices():
    assert refusal_of(specs_in, by_number(**{"example.com/foo": 1})) == (
        "f has no pod or claim that names devices. Skipped: Pod train."
    )
    malformed = "kind: Pod\nmetadata: {name: p}\nspec: {containers: [1]}\n"
    assert refusal_of(specs_in, malformed) == "f, line 1: an entry of containers must be an object."
