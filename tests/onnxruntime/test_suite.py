"""The ONNX project's cases through ONNX Runtime, and the table of what all of them give."""

from __future__ import annotations

import json
from pathlib import Path

from dmlvk.onnxruntime.suite import OUTCOMES, run_suite

ROOT = Path(__file__).parent.parent.parent


def test_cases_whose_contents_decide_pass_on_the_device() -> None:
    results = run_suite(
        ["node"], "^test_(reshape_z|resize_upsample_sizes_nearest|slice_n|top_k|simple_rnn|gelu|if|loop11)"
    )
    assert len(results) > 20
    assert [result for result in results if result.outcome in ("wrong", "refused")] == []
    hosted = {result.name for result in results if result.outcome in ("host", "shared")}
    assert all(name.startswith(("test_if", "test_loop")) for name in hosted), hosted


def test_the_page_says_what_was_found() -> None:
    found = json.loads((ROOT / "docs/measurements/onnxruntime-suite.json").read_text())
    page = (ROOT / "docs/how-to/onnxruntime.md").read_text()
    for kind, cases, outcomes, there, nodes in found["counts"]:
        assert outcomes["wrong"] == outcomes["refused"] == 0
        assert sum(outcomes[name] for name in OUTCOMES) == cases
        cells = (
            kind,
            cases,
            *(outcomes[name] for name in ("device", "shared", "host", "folded", "excluded")),
            f"{there} of {nodes}",
        )
        assert f"| {' | '.join(map(str, cells))} |" in page, kind
