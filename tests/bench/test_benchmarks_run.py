"""The benchmarks run and write what they measured. What they measure is not judged here."""

import json

from bench.__main__ import main
from bench.specs import FITS


def test_every_path_is_measured_in_every_state(tmp_path, capsys):
    out = tmp_path / "results.json"
    assert main(["--devices", "16", "--repeat", "2", "--no-upstream", "--out", str(out)]) == 0
    told = json.loads(out.read_text())
    assert told["machine"]["cores"] >= 1
    assert told["skipped"] == ["Kubernetes' allocator was not asked: asked not to"]
    states: dict[str, list[str]] = {}
    for one in told["results"]:
        assert one["p95"] >= one["median"] > 0 or one["unit"] == "MiB"
        assert len(one["samples"]) >= 1
        assert (one["of_budget"] is None) == (one["budget"] is None)
        states.setdefault(one["path"], []).append(one["state"])
    timed = {path: found for path, found in states.items() if not path.startswith("memory")}
    assert set(timed) == {"match", "funnel", *(question.name for question in FITS)}
    assert all(found == ["cold", "warm", "new selector", "claim moved"] for found in timed.values())
    assert len(states) - len(timed) == 3, "memory of each kind of cluster"
    assert "fits: two on one PCIe root" in capsys.readouterr().out


def test_one_path_can_be_asked_for(tmp_path):
    out = tmp_path / "results.json"
    main(["--devices", "16", "--repeat", "1", "--only", "PCIe", "--no-upstream", "--out", str(out)])
    assert {one["path"] for one in json.loads(out.read_text())["results"]} == {"fits: two on one PCIe root"}
