"""`manage.py catalogue`: export, import and presets, for a terminal and for a pipeline."""

import io

import pytest
from django.core.management import CommandError, call_command
from django.utils import timezone

from claims.catalogue.presets import presets
from claims.models import Profile
from tests.factories import make_profile, make_user

pytestmark = pytest.mark.django_db


@pytest.fixture
def run(root):
    """Run the command as the only platform admin; return what it writes."""

    def run_command(*arguments):
        out, err = io.StringIO(), io.StringIO()
        call_command("catalogue", *arguments, stdout=out, stderr=err)
        return out.getvalue()

    return run_command


@pytest.fixture
def file(tmp_path, run, train):
    path = tmp_path / "catalogue.yaml"
    run("export", "--out", str(path))
    return path


def refusal(*arguments):
    with pytest.raises(CommandError) as refused:
        call_command("catalogue", *arguments, stdout=io.StringIO(), stderr=io.StringIO())
    assert refused.value.returncode == 2
    return str(refused.value)


def test_import_of_an_export_has_nothing_to_do(run, file):
    assert file.read_text() == run("export")
    assert run("import", str(file)) == "Nothing to do.\n"
    assert run("import", str(file), "--check") == "Nothing to do.\n"


def test_dry_run_shows_each_difference_and_writes_nothing(run, file):
    file.write_text(
        file.read_text().replace("maxDevices: 8", "maxDevices: 4").replace("count: 1", "count: 2")
    )
    printed = run("import", str(file), "--dry-run")
    assert "~ train-80: changed" in printed
    assert "limits.maxDevices: 8 → 4" in printed
    assert "count: 2" in printed
    assert printed.endswith("1 profile would change, 0 unchanged.\n")
    assert Profile.objects.get().current.number == 1


def test_import_prints_its_changes(run, file, root):
    file.write_text(file.read_text().replace("maxDevices: 8", "maxDevices: 4"))
    assert run("import", str(file)).endswith("1 profile changed, 0 unchanged.\n")
    version = Profile.objects.get().current
    assert (version.number, version.max_devices, version.created_by) == (2, 4, root)


def test_check_exits_with_1_if_something_would_change(run, file):
    make_profile("other")
    assert run("import", str(file), "--check") == "Nothing to do.\n"
    with pytest.raises(SystemExit) as ended:
        run("import", str(file), "--check", "--prune")
    assert ended.value.code == 1
    assert Profile.objects.get(slug="other").retired_at is None


def test_import_names_profiles_that_stay_retired_or_are_restored(run, file):
    Profile.objects.update(retired_at=timezone.now())
    printed = run("import", str(file), "--check")  # exit code 0
    assert "· train-80: stays retired, the file repeats its last version" in printed
    assert "Nothing to do." in printed
    file.write_text(file.read_text().replace("maxDevices: 8", "maxDevices: 4"))
    assert "↑ train-80: changed and restored; it was retired" in run("import", str(file))
    assert Profile.objects.get().retired_at is None


def test_dry_run_with_prune_names_profiles_to_retire(run, file):
    make_profile("other")
    assert "- other: retired" in run("import", str(file), "--prune", "--dry-run")
    run("import", str(file), "--prune")
    assert Profile.objects.get(slug="other").retired_at


def test_invalid_file_exits_with_2_and_names_its_lines(run, file):
    file.write_text(file.read_text().replace("maxDevices: 8", "maxDevices: 0"))
    assert f"{file}, line " in refusal("import", str(file))
    assert "No such file" in refusal("import", str(file.with_name("missing.yaml")))


def test_author_is_the_first_platform_admin_or_the_named_one(file, run, root):
    err = io.StringIO()
    call_command("catalogue", "import", str(file), stdout=io.StringIO(), stderr=err)
    assert err.getvalue() == "Author: root, the first platform admin.\n"
    other = make_user("ada", admin=True)
    file.write_text(file.read_text().replace("maxDevices: 8", "maxDevices: 4"))
    run("import", str(file), "--by", "ada")
    assert Profile.objects.get().current.created_by == other


def test_author_who_is_no_platform_admin_is_refused(file, alice):
    assert refusal("import", str(file), "--by", "alice") == "alice is not a platform admin."
    assert refusal("import", str(file), "--by", "nobody") == "nobody is not a platform admin."


def test_command_without_a_platform_admin_writes_nothing(db):
    assert refusal("presets") == "There is no platform admin. Create one first."


def test_presets_are_listed_with_their_matching_devices(run, fra):
    printed = run("presets", "--list", "--only", "mps", "tpu-host")
    assert "GPU shared through MPS" in printed
    assert "TPU host" in printed
    assert "fra-1: 0" in printed
    assert "any-large" not in printed
    assert not Profile.objects.exists()


def test_presets_are_added_once(run):
    assert run("presets", "--only", "mps", "--dry-run").endswith("1 profile would change, 0 unchanged.\n")
    assert not Profile.objects.exists()
    run("presets", "--only", "mps")
    assert [profile.slug for profile in Profile.objects.all()] == ["mps"]
    assert run("presets", "--only", "mps", "--dry-run") == "Nothing to do.\n"
    run("presets")
    assert Profile.objects.count() == len(presets())
    assert run("presets") == "Nothing to do.\n"


def test_unknown_preset_is_refused():
    assert refusal("presets", "--only", "mbs").startswith(
        "There is no preset mbs. The presets are amd-instinct, "
    )
