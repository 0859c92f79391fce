"""Every Python block of the documentation's pages runs as it stands there, a page's blocks one after the other.

The guide for those who come from Windows and the page that adds an operator have tests of their own, which say more.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import onnx
import pytest

import dmlvk as dml
from dmlvk.operators import OperatorDesc
from scripts import build_docs

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
ELSEWHERE = {"moving-from-windows.md", "adding-an-operator.md"}
PAGES = sorted(
    page.relative_to(DOCS).as_posix() for page in DOCS.rglob("*.md") if BLOCK.search(page.read_text(encoding="utf-8"))
)


@pytest.mark.parametrize("page", [page for page in PAGES if page not in ELSEWHERE])
def test_the_blocks_of_a_page_run(page: str, tmp_path: Path) -> None:
    text = "\n".join(BLOCK.findall((DOCS / page).read_text(encoding="utf-8")))
    if "import torch" in text:
        pytest.importorskip("torch")  # CI has it in a check of its own
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    value = onnx.helper.make_tensor_value_info("input", onnx.TensorProto.FLOAT, [2, 3])
    result = onnx.helper.make_tensor_value_info("output", onnx.TensorProto.FLOAT, [2, 3])
    graph = onnx.helper.make_graph([onnx.helper.make_node("Relu", ["input"], ["output"])], "one", [value], [result])
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(model, str(tmp_path / "model.onnx"))
    given = "import numpy as np\narray = np.ones((2, 3), np.float32)\n" if page == "onnx.md" else ""
    path = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    environment = {**os.environ, "PYTHONPATH": path, "DMLVK_CACHE_DIR": str(tmp_path / "kernels")}
    done = subprocess.run(
        [sys.executable, "-c", given + text], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=600
    )
    assert done.returncode == 0, done.stderr
    if page == "tutorials/picture.md":
        assert (tmp_path / "filtered.png").stat().st_size > 10_000


def test_pages_are_found() -> None:
    assert {"tutorials/start.md", "how-to/numpy.md", "onnx.md", *ELSEWHERE} <= set(PAGES)


def test_every_public_name_has_its_place() -> None:
    """The page of classes has what is no operator; the site lists all others."""
    page = (DOCS / "reference" / "dmlvk.md").read_text(encoding="utf-8")
    there = set(re.findall(r"^::: dmlvk\.(\w+)$", page, re.MULTILINE))
    assert there <= set(dml.__all__)
    for name in set(dml.__all__) - there:
        thing = getattr(dml, name)
        is_description = isinstance(thing, type) and issubclass(thing, OperatorDesc)
        of_descriptions = getattr(thing, "__module__", "").startswith("dmlvk.operators")
        assert is_description or of_descriptions or isinstance(thing, dml.DataType), name


def test_what_the_site_needs_is_known() -> None:
    assert any(requirement.startswith("mkdocs-material") for requirement in build_docs.requirements())
