"""The operations of shaders are counted as a reader of the source would count them."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from dmlvk.operators import OPERATORS
from scripts.docs_tools.measured import Measured
from scripts.make_docs import ACCURACY, DOCS
from scripts.shader_tools.operations import operations, operations_by_operator
from scripts.shader_tools.spirv import Module

_SHADER = """#version 450
layout(std430, binding = 0) buffer B { float xs[]; };
float square(float x) { return x * x; }                                     // 1
float fourth(float x) { return square(x) * square(x); }                     // 1 + 2
void main()
{
    float x = xs[0];
    if (x > 1.0) { x = fourth(x) + 1.0; } else { x = -x; }                  // 1 + 3 + 1 + 1
    xs[0] = uintBitsToFloat(floatBitsToUint(x) ^ 1u);                       // 1
}
"""


def test_functions_count_as_often_as_they_are_called(tmp_path: Path) -> None:
    source, target = tmp_path / "a.comp", tmp_path / "a.spv"
    source.write_text(_SHADER, encoding="utf-8")
    subprocess.run(["glslangValidator", "-V", "-o", str(target), str(source)], check=True, stdout=subprocess.DEVNULL)
    assert operations(Module(target.read_bytes())) == 7


def test_the_documents_have_the_counts_of_the_shaders() -> None:
    stored = Measured.read((DOCS / ACCURACY).read_text(encoding="utf-8")).operations
    now = operations_by_operator()
    assert now.keys() <= OPERATORS.keys()
    exact = {name for name in now if OPERATORS[name].declaration.accuracy.promise == "exact"}
    assert stored.keys() == now.keys() - exact, "run scripts/make_docs.py --count"
    for name, count in stored.items():  # another glslang may write this or that differently
        assert now[name] == pytest.approx(count, rel=0.1, abs=3), f"{name}: run scripts/make_docs.py --count"


def test_counts_are_plausible() -> None:
    counts = operations_by_operator()
    assert counts["ELEMENT_WISE_ABS"] == 1  # a mask
    assert counts["ELEMENT_WISE_ADD"] < counts["ELEMENT_WISE_MULTIPLY"] < counts["ELEMENT_WISE_DIVIDE"]
