"""A sample of the ONNX project's test suite; ``python -m dmlvk.onnx.backend.suite`` runs all of it."""

from __future__ import annotations

import re
import warnings
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper
from onnx.backend.test.runner import Runner

import dmlvk as dml
import dmlvk.onnx.backend
from dmlvk.onnx.backend.exclusions import EXCLUSIONS, reason_for
from dmlvk.onnx.backend.suite import cases, put_table, run_case, run_suite, table_in

SAMPLE = (
    "test_(add_bcast|and3d|cast_FLOAT_to_FLOAT16|clip_example|concat_2d_axis_0|div_uint8|expand_dim_changed|"
    "gather_negative_indices|if|isinf_negative|logsoftmax_axis_0|loop11|matmul_3d|mod_mixed_sign_int32|"
    "quantizelinear_axis|reduce_sum_keepdims_example|reshape_negative_dim|scan9_sum|shape_start_1|slice_neg_steps|"
    "transpose_all_permutations_3|where_long_example)"
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
