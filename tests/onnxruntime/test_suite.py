"""The ONNX project's cases through ONNX Runtime, and the table of what all of them give."""

from __future__ import annotations

from pathlib import Path

from dmlvk.onnx.backend.suite import KINDS, table_in
from dmlvk.onnxruntime.suite import run_suite

ROOT = Path(__file__).parent.parent.parent


def test_cases_whose_contents_decide_pass_on_the_device() -> None:
    results = run_suite(
        ["node"], "^test_(reshape_z|resize_upsample_sizes_nearest|slice_n|top_k|simple_rnn|gelu|if|loop11)"
    )
    assert len(results) > 20
    assert [result for result in results if result.outcome in ("wrong", "refused")] == []
    hosted = {result.name for result in results if result.outcome in ("host", "shared")}
    assert all(name.startswith(("test_if", "test_loop")) for name in hosted), hosted


def test_all_cases_of_the_page_are_right_or_excluded() -> None:
    lines = table_in((ROOT / "docs/notes/onnxruntime.md").read_text()).splitlines()
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[4:]]
    assert [row[0] for row in rows] == list(KINDS)
    for kind, cases, *outcomes, nodes in rows:
        assert sum(map(int, outcomes)) == int(cases), kind
        there, every = map(int, nodes.split(" of "))
        assert 0 < there <= every
