"""Products of few rows of FLOAT16 with packed weights have the bits of their definition, among any number of rows."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

import dmlvk as dml
from dmlvk.kernels.products import packed_integers
from dmlvk.kernels.target import CPU, Target
from tests.operators.test_packed_matrices import Case, check

_CPU = property(lambda _: dataclasses.replace(CPU, buffers=16))
_CASES = [Case(4, 2080, 37), Case(4, 1040, 20, block=16), Case(4, 3136, 66, dml.UINT8, 64)]


@pytest.mark.parametrize("case", _CASES, ids=str)
@pytest.mark.parametrize("has_dot_product", [None, False, True], ids=["processors", "plain", "dot products"])
def test_few_rows_have_the_bits_of_the_definition(
    device: dml.Device, monkeypatch: pytest.MonkeyPatch, case: Case, has_dot_product: bool | None
) -> None:
    """By the kernels of processors, and by those of GPUs with and without integer dot products."""
    monkeypatch.setattr(dml.Device, "target", _CPU)
    if has_dot_product is not None:
        own = Target.of(device.info, device.engine.enabled_features)
        if own.is_naive:
            pytest.skip("SwiftShader compiles a GPU's products for ten seconds")
        if has_dot_product > own.has_integer_dot_product:
            pytest.skip("there are no integer dot products")
        as_gpu = dataclasses.replace(own, is_cpu=False, has_integer_dot_product=has_dot_product)
        monkeypatch.setattr(dml.Device, "target", property(lambda _: as_gpu))
    (name,) = check(case, device)
    assert (".integer_processors." if has_dot_product is None else ".integer_rows.") in name


@pytest.mark.parametrize("rows", [1, 2, 3, 5])
def test_a_row_has_the_same_bits_among_any_number(
    device: dml.Device, monkeypatch: pytest.MonkeyPatch, rows: int
) -> None:
    case = Case(6, 1056, 20)
    inputs = case.inputs()
    all_rows, _ = case.run(device, inputs)
    some = dict(inputs, x=inputs["x"][:rows])
    found, _ = dataclasses.replace(case, rows=rows).run(device, some)
    assert found.tobytes() == all_rows[:rows].tobytes()


@pytest.mark.parametrize("rows", [4, 10])
def test_long_rows_are_computed_to_their_end(device: dml.Device, monkeypatch: pytest.MonkeyPatch, rows: int) -> None:
    """Terms have bits below those of their chunk, and one row ends with NaN: loops have their most turns."""
    monkeypatch.setattr(packed_integers, "_PROCESSOR_GROUPS", 1)
    monkeypatch.setattr(dml.Device, "target", _CPU)
    case = Case(rows, 16384, 64)
    inputs = case.inputs()
    inputs["x"][:] = np.random.default_rng(4).standard_normal((rows, 16384)) * 0.05
    inputs["x"][:, ::16] = 3000
    inputs["x"][1, -1] = np.nan
    check(case, device, inputs)


def test_processors_refuse_rows_whose_loops_would_end_early(
    device: dml.Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dml.Device, "target", _CPU)
    case = Case(4, 65536, 2)
    with pytest.raises(dml.DeviceLimitError, match=r"65536 terms in blocks of 32 .* turns of loops"):
        case.run(device, case.inputs())
