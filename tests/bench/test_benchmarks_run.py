"""The benchmarks run and write what they measured. How fast it is, is not judged here."""

import json

from bench.__main__ import main
from bench.specs import FITS


def test_every_path_is_measured_in_every_state(tmp_path, capsys):
    out = tmp_path / "results.json"
    options = ["--only", "allocator", "--devices", "16", "--repeat", "2", "--no-upstream"]
    assert main([*options, "--out", str(out)]) == 0
    written = json.loads(out.read_text())
    assert written["machine"]["cores"] >= 1
    assert written["date"].startswith("20")
    assert written["skipped"] == ["No comparison with Kubernetes' allocator: left out by an option"]
    states: dict[str, list[str]] = {}
    for row in written["results"]:
        assert row["p95"] >= row["median"] > 0 or row["unit"] == "MiB"
        assert len(row["samples"]) >= 1
        assert (row["of_budget"] is None) == (row["budget"] is None)
        states.setdefault(row["path"], []).append(row["state"])
    timed = {path: names for path, names in states.items() if not path.startswith("memory")}
    assert set(timed) == {"match", "funnel", *(question.name for question in FITS)}
    assert all(names == ["cold", "warm", "new selector", "claim moved"] for names in timed.values())
    assert len(states) - len(timed) == 3, "memory of each kind of cluster"
    assert "fits: two on one PCIe root" in capsys.readouterr().out


def test_only_measures_the_paths_it_names(tmp_path):
    out = tmp_path / "results.json"
    main(["--devices", "16", "--repeat", "1", "--only", "PCIe", "--no-upstream", "--out", str(out)])
    assert {row["path"] for row in json.loads(out.read_text())["results"]} == {"fits: two on one PCIe root"}
