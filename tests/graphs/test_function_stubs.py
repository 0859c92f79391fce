"""What a type checker sees of ``dmlvk.functions``."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

import dmlvk as dml
from dmlvk import functions as F

ROOT = Path(__file__).resolve().parent.parent.parent

GOOD = """
import numpy as np
import dmlvk as dml
from dmlvk import functions as F

def build(x: dml.Expression) -> dml.Expression:
    y: dml.Expression = F.clip(x, min=0, max=1)
    values, indices = F.top_k(F.sigmoid(x), axis=1, k=2)
    y = F.where(F.isnan(y), 0.0, F.matmul(y, np.ones((2, 2), np.float32)))
    y = F.max(F.max(y, 1.0), axis=0, keepdims=True) + F.reduce(y, dml.ReduceFunction.SUM, axes=[0])
    return F.concatenate([y, values[:, ::-1]], axis=0) @ F.gemm(y, y.T).reshape((2, -1))
"""

BAD = [
    ("F.tanhh(x)", "attr-defined"),
    ("F.clip(x, mim=0, max=1)", "call-arg"),
    ("F.clip(x, min='0', max=1)", "arg-type"),
    ("F.max(x, axs=0)", "call-overload"),
    ("F.convolution(x)", "call-arg"),
    ("F.round(x, rounding_mode=dml.ReduceFunction.SUM)", "arg-type"),
    ("F.sum(x, axis='first')", "arg-type"),
    ("F.join(x, axis=0).nothing", "attr-defined"),
]


@pytest.mark.slow
@pytest.mark.skipif(importlib.util.find_spec("mypy") is None, reason="needs mypy")
def test_a_type_checker_finds_what_is_wrong(tmp_path: Path) -> None:
    head = "import dmlvk as dml\nfrom dmlvk import functions as F\ndef build(x: dml.Expression) -> object:\n"
    program = head + "".join(f"    {line}\n" for line, _ in BAD) + "    return x\n"
    (tmp_path / "good.py").write_text(GOOD)
    (tmp_path / "bad.py").write_text(program)
    command = [sys.executable, "-m", "mypy", "--strict", "--cache-dir", str(ROOT / ".mypy_cache"), "--show-error-codes"]
    printed = subprocess.run([*command, str(tmp_path)], cwd=ROOT, capture_output=True, text=True).stdout
    assert "good.py" not in printed, printed
    for number, (line, code) in enumerate(BAD, 4):
        assert any(f"bad.py:{number}: " in text and f"[{code}]" in text for text in printed.splitlines()), (
            line,
            printed,
        )


def test_every_function_is_in_the_stub() -> None:
    stub = (ROOT / "dmlvk" / "functions.pyi").read_text(encoding="utf-8")
    for name in F.__all__:
        assert f"\ndef {name}(" in stub or f"\n{name} = " in stub, name
        assert callable(getattr(F, name))
    assert F.relu is F.activation_relu and dml.ReduceFunction.SUM.name == "SUM"
