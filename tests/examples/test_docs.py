"""Every Python block of the documentation's pages runs as it stands there, a page's blocks one after the other.

The guide for those who come from Windows and the page that adds an operator have tests of their own, which say more. Of
the page of programs each section is typed as it says, and prints what it says.
"""

from __future__ import annotations

import importlib.util
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
from tests.onnxruntime import test_programs

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
PROGRAMS = "how-to/programs.md"
ELSEWHERE = {"moving-from-windows.md", "adding-an-operator.md", PROGRAMS}
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
    done = subprocess.run(
        [sys.executable, "-c", given + text],
        cwd=tmp_path,
        env=_environment(tmp_path),
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr
    if page == "tutorials/picture.md":
        assert (tmp_path / "filtered.png").stat().st_size > 10_000


def _environment(folder: Path) -> dict[str, str]:
    path = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    return {**os.environ, "PYTHONPATH": path, "DMLVK_CACHE_DIR": str(folder / "kernels")}


SECTIONS = {
    section.partition("\n")[0]: dict(re.findall(r"^```(sh|python|text)\n(.*?)^```$", section, re.MULTILINE | re.DOTALL))
    for section in re.split(r"^## ", (DOCS / PROGRAMS).read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]
}
"""Of the page of programs each section's commands, program, and what it prints."""


@pytest.mark.parametrize("title", SECTIONS)
def test_a_program_prints_what_its_page_says(title: str, tmp_path: Path) -> None:
    """Small networks stand for the models; what is not installed is skipped (CI has all)."""
    commands, program, printed = (SECTIONS[title][kind] for kind in ("sh", "python", "text"))
    for module in sorted(set(re.findall(r"^(?:import|from) (\w+)", program, re.MULTILINE))):
        if importlib.util.find_spec(module) is None:
            pytest.skip(f"{module} is not installed")
    (tmp_path / re.findall(r"^# (\S+\.py)$", program, re.MULTILINE)[0]).write_text(program, encoding="utf-8")
    _write_models(tmp_path)
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = _environment(tmp_path) | {"HOME": str(tmp_path), "PATH": path}
    environment["NUMBA_DISABLE_JIT"] = "1"  # rembg's, of which nothing is run
    (command,) = (line for line in commands.splitlines() if not line.startswith("pip install"))
    done = subprocess.run(
        command, shell=True, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=600, check=False
    )
    assert (done.stdout, done.returncode) == (printed, 0), done.stderr


def _write_models(folder: Path) -> None:
    """Small networks of the kinds that the programs have, where they look for them."""
    for make in (test_programs.segmentation, test_programs.detection):
        onnx.save(make()[0], folder / f"{make.__name__}.onnx")
    (folder / ".rembg").mkdir()
    shutil.copy(folder / "segmentation.onnx", folder / ".rembg")
    model = test_programs.embedding()[0]
    names = {"ids": "input_ids", "mask": "attention_mask", "output0": "last_hidden_state"}
    for each in (*model.graph.input, *model.graph.output):
        each.name = names[each.name]
    for node in model.graph.node:
        node.input[:] = [names.get(name, name) for name in node.input]
        node.output[:] = [names.get(name, name) for name in node.output]
    (folder / "embedding").mkdir()
    onnx.save(model, folder / "embedding" / "model.onnx")
    (folder / "embedding" / "config.json").write_text('{"model_type": "bert", "hidden_size": 32}')


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
