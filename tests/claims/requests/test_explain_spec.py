"""`explain_spec` and `lint_catalogue`: from a file or the mirror to a terminal."""

import json
from io import StringIO

import pytest
import yaml
from django.core.management import CommandError, call_command

from claims.requests.manifest_specs import read_documents, requested_specs
from core.errors import Invalid
from inventory.models import ResourceClaimTemplate
from tests.claims.catalogue.test_lint import asking, publish
from tests.dra.clusters import device_class, exactly, gpu, holds, resource_slice, spec
from tests.factories import make_cluster, make_profile

BIG = asking("80Gi")
FITS = asking("79Gi")


def claim(claim_spec, name="mine", kind="ResourceClaim"):
    body = {"spec": claim_spec} if kind == "ResourceClaimTemplate" else claim_spec
    return {"kind": kind, "metadata": {"name": name, "namespace": "vision"}, "spec": body}


def pod(**named):
    wanted = [{"name": "gpu", **named}]
    return {
        "kind": "Pod",
        "metadata": {"name": "p", "namespace": "vision"},
        "spec": {"resourceClaims": wanted},
    }


@pytest.fixture
def write(tmp_path):
    def written(*documents, name="claim.yaml"):
        path = tmp_path / name
        path.write_text(yaml.safe_dump_all(documents))
        return str(path)

    return written


@pytest.fixture
def snapshot(tmp_path):
    """Two H100, one of them held, as kubectl dumps them: one list of lists."""
    objects = [
        {"kind": "DeviceClass", **device_class()},
        {"kind": "ResourceSlice", **resource_slice(devices=[gpu(0), gpu(1)])},
        {"kind": "ResourceClaim", **holds("gpu-0")},
    ]
    path = tmp_path / "dump.json"
    path.write_text(json.dumps({"kind": "List", "items": objects}))
    return str(path)


def explained(*arguments, **options):
    out = StringIO()
    call_command("explain_spec", *arguments, stdout=out, **options)
    return out.getvalue()


def refused(*arguments, **options):
    with pytest.raises(CommandError) as refusal:
        explained(*arguments, **options)
    assert refusal.value.returncode == 2
    return str(refusal.value)


def test_a_snapshot_needs_no_database(write, snapshot):
    said = explained(write(claim(FITS)), snapshot=[snapshot])
    assert "ResourceClaim mine" in said
    assert "✓ fits now" in said
    assert "held by vision/theirs" in said


def test_a_dump_may_be_in_several_files(write, tmp_path):
    devices = {"kind": "ResourceSlice", **resource_slice(devices=[gpu(0)])}
    files = [write({"kind": "DeviceClass", **device_class()}, name="a"), write(devices, name="b")]
    both = [part for file in files for part in ("--snapshot", file)]
    assert "fits now" in explained(write(claim(FITS)), *both)


def test_what_does_not_fit_is_said_with_the_fix_and_is_no_error(write, snapshot):
    said = explained(write(claim(BIG)), snapshot=[snapshot])
    assert "! Never fits in snapshot" in said
    assert "threshold-just-above" in said
    assert 'quantity("79Gi")' in said.replace("\n", "")


def test_whose_end_would_help_is_said(write, snapshot):
    said = explained(write(claim(spec(exactly(2)))), snapshot=[snapshot])
    assert "It would fit on node-a if vision/theirs ended." in said


def test_check_is_an_exit_code(write, snapshot):
    assert "fits now" in explained(write(claim(FITS)), snapshot=[snapshot], check=True)
    with pytest.raises(SystemExit) as ended:
        explained(write(claim(FITS), claim(BIG, "other")), snapshot=[snapshot], check=True)
    assert ended.value.code == 1


def test_programs_read_json(write, snapshot):
    (said,) = json.loads(explained(write(claim(FITS)), snapshot=[snapshot], json=True))
    (cluster,) = said["clusters"]
    assert (said["title"], said["line"]) == ("ResourceClaim mine", 1)
    assert (cluster["fits"], cluster["matching"], cluster["free"]) == (True, 2, 1)
    free = next(step for step in cluster["steps"] if step["kind"] == "free")
    assert free["such_as"] == [{"device": "gpu.nvidia.com/node-a/gpu-0", "why": "held by vision/theirs"}]
    assert cluster["would_fit_without"] == []


@pytest.mark.parametrize(
    ("count", "label"), [(1, "Fits now"), (2, "Does not fit now"), (3, "Never fits in snapshot")]
)
def test_verdict_is_that_of_the_request_page(write, snapshot, count, label):
    file = write(claim(spec(exactly(count))))
    (said,) = json.loads(explained(file, snapshot=[snapshot], json=True))
    assert said["clusters"][0]["verdict"].startswith(label)
    assert ("✓ fits now" if count == 1 else f"! {label}") in explained(file, snapshot=[snapshot])


def test_templates_and_pods_lead_to_their_claims(write, snapshot):
    template = claim(FITS, "one-each", "ResourceClaimTemplate")
    file = write(pod(resourceClaimTemplateName="one-each"), template)
    assert explained(file, snapshot=[snapshot]).count("ResourceClaimTemplate one-each") == 1
    said = explained(write(pod(resourceClaimName="theirs")), snapshot=[snapshot])
    assert "ResourceClaim theirs" in said


def test_what_runs_pods_is_read_like_a_pod(write, snapshot):
    job = {"kind": "Job", "metadata": {"name": "j", "namespace": "vision"}}
    job["spec"] = {"template": {"spec": pod(resourceClaimName="theirs")["spec"]}}
    assert "ResourceClaim theirs" in explained(write(job), snapshot=[snapshot])


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a: 1\nb: [", "line 2: this is not YAML"),
        ("", "is empty"),
        ("- a\n- b\n", "line 1: this is not a Kubernetes object"),
        ("kind: Service\n", "has no pod or claim that names devices. Skipped: Service."),
        ("kind: Pod\nspec: {}\n", "has no pod or claim that names devices"),
        (
            "kind: Pod\nmetadata: {namespace: vision}\nspec: {resourceClaims: [{resourceClaimName: x}]}\n",
            "ResourceClaim x is neither in this file nor in the cluster",
        ),
        ("---\nkind: ResourceClaim\nspec: {}\n", "is invalid"),
        (
            "kind: ResourceClaim\nspec: {devices: {requests: [{name: gpu, exactly: {count: x}}]}}\n",
            "The count must be a whole number",
        ),
    ],
)
def test_a_file_that_makes_no_sense_is_refused_with_its_line(tmp_path, snapshot, text, said):
    path = tmp_path / "bad.yaml"
    path.write_text(text)
    assert said in refused(str(path), snapshot=[snapshot])


def test_the_line_is_that_of_the_document():
    text = "kind: Service\n---\nkind: ResourceClaim\nspec:\n  devices: {}\n"
    with pytest.raises(Invalid, match="f, line 3: ResourceClaim is invalid"):
        requested_specs(read_documents(text, "f"), "f")


def test_snapshots_that_say_nothing_are_refused(write, tmp_path):
    empty = write({"kind": "Node", "metadata": {"name": "n"}}, name="empty.yaml")
    assert "contains no ResourceSlice" in refused(write(claim(FITS)), snapshot=[empty])
    assert "cannot be read" in refused(write(claim(FITS)), snapshot=[str(tmp_path / "none")])
    broken = tmp_path / "broken.json"
    broken.write_text("{")
    assert "neither JSON nor YAML" in refused(write(claim(FITS)), snapshot=[str(broken)])


@pytest.mark.django_db
def test_the_mirror_is_read_without_a_snapshot(write, db):
    fra = make_cluster("fra-1")
    publish(fra, gpu(0))
    ResourceClaimTemplate.objects.create(
        cluster=fra,
        uid="t",
        namespace="vision",
        name="kept",
        raw=claim(FITS, "kept", "ResourceClaimTemplate"),
    )
    said = explained(write(pod(resourceClaimTemplateName="kept")))
    assert "ResourceClaimTemplate kept" in said
    assert "fra-1" in said
    assert "fits now" in said
    assert "There is no cluster “nowhere”" in refused(write(claim(FITS)), cluster="nowhere")


@pytest.mark.django_db
def test_the_check_of_the_catalogue_is_a_table_and_an_exit_code(db):
    publish(make_cluster("fra-1"), gpu(0))
    good = make_profile("good", spec=FITS, max_devices=1)
    out = StringIO()
    call_command("lint_catalogue", stdout=out)
    assert "1 profile checked on the devices of fra-1: 0 findings to fix" in out.getvalue()
    make_profile("bad", spec=BIG, max_devices=1)
    out = StringIO()
    with pytest.raises(SystemExit) as ended:
        call_command("lint_catalogue", stdout=out)
    assert ended.value.code == 1
    assert "threshold-just-above" in out.getvalue()
    assert good.slug not in out.getvalue()
    out = StringIO()
    with pytest.raises(SystemExit):
        call_command("lint_catalogue", "--json", "--cluster", "fra-1", stdout=out)
    assert {one["name"] for one in json.loads(out.getvalue())["findings"]} == {"bad"}
    with pytest.raises(CommandError) as refusal:
        call_command("lint_catalogue", "--cluster", "nowhere")
    assert refusal.value.returncode == 2
