"""The page on which a platform admin prepares admission policies."""

import pytest
import yaml
from django.core.management import call_command
from django.urls import reverse

from inventory.models import Namespace

pytestmark = pytest.mark.django_db
PAGE = reverse("claims:policies", args=["fra-1"])


def test_an_admin_reads_what_each_refuses_and_downloads_the_file(client, root, fra):
    labels = {"gpu.dragoman.dev/gpu-mode": "dra-only"}
    Namespace.objects.create(cluster=fra, uid="n", name="closed", labels=labels)
    client.force_login(root)
    page = client.get(PAGE).text
    assert "GPUs only through claims" in page
    assert "<code>closed</code>" in page
    asked = {"policy": "gpu-portal-labels", "action": "Warn", "account": "me", "download": "1"}
    answer = client.get(PAGE, asked)
    assert "dragoman-policies-fra-1.yaml" in answer.headers["Content-Disposition"]
    policy, binding = [item for item in yaml.safe_load_all(answer.content) if item]
    assert "'me'" in policy["spec"]["matchConditions"][0]["expression"]
    assert binding["spec"]["validationActions"] == ["Warn"]


def test_an_account_that_is_none_is_told(client, root, fra):
    client.force_login(root)
    answer = client.get(PAGE, {"account": "a' || true", "download": "1"})
    assert answer.status_code == 422
    assert "is not the name of a user" in answer.text


def test_nobody_else_sees_it_and_nothing_is_sent_to_it(client, lena, root, fra):
    client.force_login(lena)
    assert client.get(PAGE).status_code == 403
    client.force_login(root)
    assert client.get(reverse("claims:policies", args=["nowhere"])).status_code == 404


def test_the_command_prints_the_same(fra, capsys):
    call_command("cluster", "policies", "--only", "gpu-claims-only", "--warn")
    policy, binding = [item for item in yaml.safe_load_all(capsys.readouterr().out) if item]
    assert policy["metadata"]["name"] == "gpu-claims-only"
    assert binding["spec"]["validationActions"] == ["Warn"]


def test_the_command_switches_the_writing_of_quotas(fra, capsys):
    call_command("cluster", "set", "fra-1", "--write-quotas")
    fra.refresh_from_db()
    assert fra.write_quotas
    assert "Quotas are written to fra-1" in capsys.readouterr().out
    call_command("cluster", "set", "fra-1", "--no-write-quotas")
    fra.refresh_from_db()
    assert not fra.write_quotas
