"""A sample of the ONNX project's cases, damaged models, and ``dmlvk run model.onnx``."""

from __future__ import annotations

import logging
import re
import sys
import warnings
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper
from onnx.backend.test.runner import Runner

import dmlvk as dml
import dmlvk.onnx as ort
import dmlvk.onnx.backend
from dmlvk.cli import main
from dmlvk.onnx.backend.exclusions import EXCLUSIONS, reason_for
from dmlvk.onnx.backend.suite import cases, misstatements, put_table, run_case, run_suite, table_in
from tests.onnx.models import two_branches
from tests.onnx.mutations import sound_models, try_damaged

SAMPLE = (
    "test_(add_bcast|and3d|cast_FLOAT_to_FLOAT16|clip_example|concat_2d_axis_0|div_uint8|expand_dim_changed|"
    "gather_negative_indices|if|isinf_negative|logsoftmax_axis_0|loop11|matmul_3d|mod_mixed_sign_int32|"
    "quantizelinear_axis|reduce_sum_keepdims_example|reshape_negative_dim|scan9_sum|shape_start_1|slice_neg_steps|"
    "transpose_all_permutations_3|where_long_example|identity_opt|identity_sequence|sequence_map_add_2_sequences|"
    "optional_has_element_empty_optional_input)"
)


def test_a_sample_of_node_cases_holds(device: dml.Device) -> None:
    results = run_suite(device, ["node"], f"^{SAMPLE}$")
    assert len(results) > 20
    assert [result for result in results if result.outcome not in ("device", "host")] == []


def test_small_whole_models_hold(any_device: dml.Device) -> None:
    results = run_suite(any_device, ["simple"])
    assert [result for result in results if result.outcome not in ("device", "host", "excluded")] == []


def test_every_exclusion_is_needed_and_names_a_case(any_device: dml.Device) -> None:
    excluded = {case.name: (kind, case) for kind, case in cases() if reason_for(case.name)}
    for exclusion in EXCLUSIONS:
        assert exclusion.reason
        assert any(reason_for(name) == exclusion.reason for name in excluded), exclusion
    results = [
        run_case(any_device, kind, case)
        for kind, case in excluded.values()
        if not re.search("bernoulli|attention|dynamicquantize", case.name)
    ]
    assert {result.outcome for result in results} == {"excluded"}


def test_a_page_s_table_of_cases_is_made_anew(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("# Page\n\nonnx 1 on a device:\n\n| Cases | All |\n|---|---|\n| node | 1 |\n\nMore.\n")
    put_table(page, "onnx 2 on another:", ("Cases", "All"), [("node", 3), ("simple", 4)])
    made = "onnx 2 on another:\n\n| Cases | All |\n|---|---|\n| node | 3 |\n| simple | 4 |\n"
    assert page.read_text() == f"# Page\n\n{made}\nMore.\n"
    assert table_in(page.read_text()) == made
    page.write_text("# Page\n")
    with pytest.raises(ValueError, match="must have one table of the ONNX project's cases; has 0"):
        put_table(page, "onnx 2 on another:", ("Cases", "All"), [])


_ROOT = Path(__file__).parents[2]


def test_the_readme_and_the_page_of_onnx_state_the_same_cases() -> None:
    """``.ci/run`` compares both with a run: ``dmlvk.onnx.backend.suite --stated docs/onnx.md --stated README.md``."""
    table = table_in((_ROOT / "docs" / "onnx.md").read_text(encoding="utf-8"))
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines()[4:] if line]
    numbers = [[int(cell) for cell in row[1:]] for row in rows]
    stated = [[row[0], *of] for row, of in zip(rows, numbers, strict=True)]
    assert misstatements({"README.md": (_ROOT / "README.md").read_text(encoding="utf-8")}, stated) == []
    assert all(device + host + excluded == whole for whole, device, host, _, excluded in numbers)


def test_a_page_that_states_other_cases_than_a_run_is_named() -> None:
    rows = [["node", 1000, 900, 99, 5, 1], ["simple", 3, 2, 1, 0, 0]]
    right = "999 of the 1,000 node tests, 900 by the device alone"
    lines = ("| Cases | All |", "|---|---|", "| node | 1000 | 900 | 98 | 5 | 1 |", "| simple | 3 | 2 | 1 | 0 | 0 |")
    table = "\n".join(("onnx {} on a device:", "", *lines, "", ""))
    assert misstatements({"a.md": f"ONNX: {right}."}, rows) == []
    assert misstatements({"a.md": right.replace("999", "998")}, rows) == [
        f"a.md: says {right.replace('999', '998')!r}; it is {right!r}"
    ]
    assert misstatements({"b.md": table.format(onnx.__version__)}, rows) == [
        "b.md: its table lacks '| node | 1000 | 900 | 99 | 5 | 1 |'"
    ]
    assert misstatements({"b.md": table.format("0.1")}, rows) == []


def test_the_suite_s_own_runner_works_with_the_backend() -> None:
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        runner = Runner(dmlvk.onnx.backend.DmlvkBackend, __name__)
    runner.include("^test_(abs|relu|transpose_default)_cpu$")
    for test_case in runner.test_cases.values():
        for name in ("test_abs_cpu", "test_relu_cpu", "test_transpose_default_cpu"):
            if hasattr(test_case, name):
                getattr(test_case(name), name)()


def test_the_backend_s_functions_take_models_and_nodes() -> None:
    node = helper.make_node("Add", ["a", "b"], ["c"])
    a = np.array([1, 2], np.float32)
    (c,) = dmlvk.onnx.backend.run_node(node, [a, a])
    np.testing.assert_array_equal(c, [2, 4])
    graph = helper.make_graph(
        [node],
        "sum",
        [helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [2]) for name in "ab"],
        [helper.make_tensor_value_info("c", onnx.TensorProto.FLOAT, [2])],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    outputs = dmlvk.onnx.backend.run_model(model, {"a": a, "b": a})
    np.testing.assert_array_equal(outputs[0], [2, 4])
    assert dmlvk.onnx.backend.supports_device("CPU") and not dmlvk.onnx.backend.supports_device("CUDA")


@pytest.mark.parametrize("name", ["test_bernoulli", "test_loop16_seq_none"])
def test_exclusions_have_reasons(name: str) -> None:
    assert reason_for(name)
    assert reason_for("test_abs") is None


@pytest.mark.parametrize("part", range(5))
def test_damaged_models_end_in_an_error_or_run(
    any_device: dml.Device, part: int, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.ERROR, "dmlvk")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for seed in range(part * 60, part * 60 + 60):
            try_damaged(seed, any_device)


def test_what_is_damaged_was_sound(any_device: dml.Device) -> None:
    for model in sound_models():
        ort.InferenceSession(model, device=any_device)


EXAMPLES = Path(__file__).resolve().parent.parent.parent / "examples"


def run(*arguments: object) -> int:
    with pytest.raises(SystemExit) as stop:
        main(["run", *map(str, arguments)])
    return int(stop.value.code or 0)


@pytest.fixture
def model_path(tmp_path: Path) -> Path:
    path = tmp_path / "model.onnx"
    path.write_bytes(two_branches().SerializeToString())
    return path


def test_outputs_are_written_and_summed_up(
    model_path: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    np.save(tmp_path / "x.npy", np.array([[1, 2, 3], [4, 5, 6]], np.float32))
    assert run(model_path, "--input", f"x={tmp_path / 'x.npy'}", "-o", tmp_path / "out") == 0
    shown = capsys.readouterr().out
    assert "input x: tensor(float) [2, 3]" in shown and "output y: float32 [3, 2], from 0 to 9, mean 4.16667" in shown
    np.testing.assert_array_equal(np.load(tmp_path / "out" / "y.npy"), [[2, 0], [6, 5], [3, 9]])


def test_a_single_input_needs_no_name_and_may_be_random(
    model_path: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    np.save(tmp_path / "x.npy", np.zeros((1, 3), np.float32))
    assert run(model_path, "--input", tmp_path / "x.npy", "-o", tmp_path) == 0
    assert run(model_path, "-o", tmp_path, "--timing", "-i", "2", "--trace", tmp_path / "trace.json") == 0
    shown = capsys.readouterr().out
    assert "random numbers" in shown and "median of 2" in shown and (tmp_path / "trace.json").exists()


def test_a_handwritten_digit_is_read_from_a_picture(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(EXAMPLES / "digits.onnx", "--input", EXAMPLES / "digit.png", "-o", tmp_path) == 0
    assert "largest: [7] 0.9" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--input", "w=x.npy"], "must name each input once"),
        (["--input", "x=nothing.npy"], "nothing.npy"),
        (["--input", "x=model.onnx"], "is no .npy file"),
        (["--warm-up", "3"], "for DxDispatch"),
    ],
)
def test_wrong_usage_is_one_line(
    model_path: Path,
    tmp_path: Path,
    arguments: list[str],
    message: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run("model.onnx", *arguments, *(["--timing"] if "--warm-up" in arguments else [])) == 2
    error = capsys.readouterr().err
    assert message in error and error.count("\n") == 1


def test_without_the_onnx_package_one_line_says_what_to_install(
    model_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in [name for name in sys.modules if name.startswith("dmlvk.onnx")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "onnx", None)
    assert run(model_path) == 2
    error = capsys.readouterr().err
    assert "pip install dmlvk[onnx]" in error and error.count("\n") == 1
