"""Compilers of fused kernels, and files that keep what they made: whatever is wrong with these changes no result."""

from __future__ import annotations

import dataclasses
import hashlib
import hmac
import os
import re
import shutil
import stat
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from random import Random

import numpy as np
import pytest

import dmlvk as dml
from dmlvk.graphs.fusion import functions
from dmlvk.graphs.fusion.functions import operator_source
from dmlvk.kernels.library import glsl, glslang
from tests.graphs.support import X
from tests.graphs.test_fusion import compiled

SHADERS = Path(__file__).parents[2] / "shaders"


@pytest.fixture
def empty_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A cache directory of its own, and nothing in memory."""
    monkeypatch.setenv("DMLVK_CACHE_DIR", str(tmp_path / "kernels"))
    for kept in (glsl._in_memory, glsl._refused):
        monkeypatch.setattr(glsl, "_in_memory" if kept is glsl._in_memory else "_refused", type(kept)(64))
    yield tmp_path / "kernels"


ARRAYS = {"a": X, "b": X[::-1].copy()}


def build_chain(device: dml.Device) -> dml.CompiledGraph:
    graph = compiled(device, (4, 6), lambda a, b: -abs(a + b))
    assert (device.run(graph, ARRAYS)["output"] == -np.abs(X + X[::-1])).all()
    return graph


def test_without_a_compiler_operators_run_one_by_one(
    any_device: dml.Device, empty_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DMLVK_GLSLANG", "/nowhere/glslangValidator")
    graph = build_chain(any_device)
    assert graph.fusion_remark == "there is no GLSL compiler (glslangValidator) on this machine"
    assert len(graph.stages) == 3


def test_a_missing_compiler_is_told_once_in_a_process(device: dml.Device, tmp_path: Path) -> None:
    program = f"""
import numpy as np
import dmlvk as dml
with dml.Device({device.info.index}) as device:
    for size in (3, 4):
        graph = dml.Graph(device)
        x = graph.input("x", dml.FLOAT32, (size,))
        assert (device.run(graph.compile(y=abs(-x) + 1), {{"x": np.ones(size, np.float32)}})["y"] == 2).all()
"""
    environment = {**os.environ, "DMLVK_GLSLANG": "/nowhere/glslangValidator", "XDG_CACHE_HOME": str(tmp_path)}
    result = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True, timeout=300, check=False
    )
    assert result.returncode == 0, result.stderr
    (line,) = result.stderr.splitlines()
    assert "several times slower" in line and "apt install glslang-tools" in line


def script(path: Path, text: str) -> str:
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return str(path)


@pytest.mark.parametrize(
    ("text", "remark"),
    [
        ("echo no such thing; exit 2", "refuses a fused kernel: no such thing"),
        ("exit 3", "refuses a fused kernel: exit status 3"),
        ("exit 0", "does not work"),
        ("printf 'not SPIR-V!' > kernel.spv", "does not work"),
        ("sleep 60", "did not end within 0.2 seconds"),
    ],
)
def test_a_compiler_that_does_not_work_changes_no_result(
    any_device: dml.Device, empty_cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, remark: str
) -> None:
    monkeypatch.setenv("DMLVK_GLSLANG", script(tmp_path / "compiler", text))
    if "sleep" in text:
        monkeypatch.setattr(glslang, "SECONDS", 0.2)
    graph = build_chain(any_device)
    assert remark in graph.fusion_remark
    assert len(graph.stages) == 3
    assert build_chain(any_device).fusion_remark == graph.fusion_remark


def test_what_the_compiler_says_of_a_kernel_names_the_operators_and_their_files(
    any_device: dml.Device, empty_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken = functions.operator_source

    def broken(path: str) -> functions.OperatorSource | None:
        made = taken(path)
        if made is None or path != "elementwise/exp.comp":
            return made
        return dataclasses.replace(made, code=made.code + "\nuint of_nothing(uint x) { return nothing; }")

    monkeypatch.setattr(functions, "operator_source", broken)
    monkeypatch.delenv("DMLVK_RAISE_FAULTS")
    graph = dml.Graph(any_device)
    y = dml.functions.exp(graph.input("x", dml.FLOAT32, (4,)), name="exp")
    made = graph.compile(y=dml.functions.abs(y + 1.0))
    said = r"exp \+ [\w +]+: \S+ refuses a fused kernel: .*kernel\.comp:\d+ \(of elementwise/exp\.comp\)"
    assert re.search(said, made.fusion_remark), made.fusion_remark
    result = any_device.run(made, {"x": np.zeros(4, np.float32)})["y"]
    assert (result == 2).all()
    assert not list(empty_cache.glob("*.kernel"))


def test_kernels_are_kept_on_disk(any_device: dml.Device, empty_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = build_chain(any_device)
    (file,) = empty_cache.glob("*.kernel")
    glsl._in_memory.clear()
    monkeypatch.setenv("DMLVK_GLSLANG", "/nowhere/glslangValidator")
    again = build_chain(any_device)
    assert again.fusion_remark == ""
    assert again.stages[0].program.steps[0].kernel.spirv() == first.stages[0].program.steps[0].kernel.spirv()
    for damaged in (b"", b"short", file.read_bytes()[:-4], bytes(reversed(file.read_bytes()))):
        glsl._in_memory.clear()
        file.write_bytes(damaged)
        assert build_chain(any_device).fusion_remark != ""
    monkeypatch.undo()


@pytest.mark.parametrize("signed", ["as it was", "by a checksum", "by another secret"])
def test_a_kernel_that_was_changed_is_compiled_anew(any_device: dml.Device, empty_cache: Path, signed: str) -> None:
    """A driver that is given a module with one wrong word may end the process, so that none may come to it."""
    build_chain(any_device)
    (file,) = empty_cache.glob("*.kernel")
    whole, random, key = file.read_bytes(), Random(3), file.stem
    signature, module = whole[:32], whole[32:]

    def sign(contents: bytes) -> bytes:
        if signed == "by a checksum":
            return hashlib.sha256(key.encode() + contents).digest()
        return signature if signed == "as it was" else hmac.digest(bytes(32), key.encode() + b"\0" + contents, "sha256")

    changed = [b"", module[:-4], module[: len(module) // 8 * 4], module * 2, random.randbytes(len(module))]
    for _ in range(200):
        at = 4 * random.randrange(len(module) // 4)
        word = int.from_bytes(module[at : at + 4], "little")
        new = random.choice([0, word ^ 1 << random.randrange(32), word + 1, random.getrandbits(32), 0xFFFFFFFF])
        changed.append(module[:at] + (new % 2**32).to_bytes(4, "little") + module[at + 4 :])
    for contents in changed:
        if contents != module:
            file.write_bytes(sign(contents) + contents)
            assert glsl._from_disk(key) is None
    glsl._in_memory.clear()
    build_chain(any_device)
    assert file.read_bytes() == whole


def test_a_kernel_under_another_ones_name_is_compiled_anew(any_device: dml.Device, empty_cache: Path) -> None:
    build_chain(any_device)
    (file,) = empty_cache.glob("*.kernel")
    compiled(any_device, (4, 6), lambda a, b: abs(a - b) + b)
    (other,) = set(empty_cache.glob("*.kernel")) - {file}
    other.replace(file)
    glsl._in_memory.clear()
    build_chain(any_device)


def test_sources_that_were_changed_since_the_start_make_no_kernels(
    any_device: dml.Device, empty_cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As when dmlvk is installed anew under a program that runs: the new sources may not know the old names."""
    sources = glsl.source_directory()
    assert sources is not None
    shutil.copytree(sources, tmp_path / "shaders")
    monkeypatch.setattr(glsl, "source_directory", lambda: tmp_path / "shaders")
    monkeypatch.setattr(glsl, "_SOURCES_AT_START", glsl._touched_sources())
    assert build_chain(any_device).fusion_remark == ""
    changed = tmp_path / "shaders" / "patterns" / "elementwise" / "elementwise.glsl"
    changed.write_text(changed.read_text().replace("ACCESS_ORDER", "ANOTHER_NAME"))
    other = compiled(any_device, (4, 6), lambda a, b: abs(a - b) + b)
    assert "was changed since this program was started" in other.fusion_remark
    assert (any_device.run(other, ARRAYS)["output"] == abs(ARRAYS["a"] - ARRAYS["b"]) + ARRAYS["b"]).all()


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no such pipes")
def test_a_pipe_in_the_cache_is_not_waited_for(any_device: dml.Device, empty_cache: Path) -> None:
    build_chain(any_device)
    (file,) = empty_cache.glob("*.kernel")
    file.unlink()
    os.mkfifo(file)
    glsl._in_memory.clear()
    build_chain(any_device)


def test_without_a_home_kernels_are_compiled_all_the_same(
    any_device: dml.Device, empty_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(glsl, "cache_directory", lambda: None)
    graph = build_chain(any_device)
    assert len(graph.stages) == 1
    assert not empty_cache.exists()


def test_without_a_temporary_directory_operators_run_one_by_one(
    any_device: dml.Device, empty_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where glslangValidator compiles, which wants files."""

    def read_only(**_: object) -> None:
        raise FileNotFoundError("No usable temporary directory found")

    monkeypatch.setenv("DMLVK_GLSLANG", "glslangValidator")
    monkeypatch.setattr("tempfile.TemporaryDirectory", read_only)
    graph = build_chain(any_device)
    assert "has no place to compile in: No usable temporary directory" in graph.fusion_remark
    assert len(graph.stages) == 3


def test_the_cache_is_bounded(any_device: dml.Device, empty_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(glsl, "_KEPT_ON_DISK_BYTES", 30_000)
    for number in range(1, 12):
        compiled(any_device, (4, 6), lambda a, b, n=number: sum(([-abs(a + b)] * n), start=b))
    files = list(empty_cache.glob("*.kernel"))
    assert files
    assert sum(file.stat().st_size for file in files) <= 30_000


def test_a_cache_that_cannot_be_written_does_no_harm(
    any_device: dml.Device, empty_cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("DMLVK_CACHE_DIR", str(tmp_path / "file" / "kernels"))
    graph = build_chain(any_device)
    assert len(graph.stages) == 1


def test_threads_may_compile_at_the_same_time(any_device: dml.Device, empty_cache: Path) -> None:
    with ThreadPoolExecutor(4) as threads:
        made = list(threads.map(lambda _: len(build_chain(any_device).stages), range(4)))
    assert made == [1] * 4
    assert len([name for name in os.listdir(empty_cache) if name.endswith(".kernel")]) == 1


def test_files_of_functions_can_stand_in_one_kernel() -> None:
    """In any order: no macro of one is another's, no function is written twice."""
    files = [path for folder in ("activation", "elementwise") for path in sorted((SHADERS / folder).glob("*.comp"))]
    paths = [f"{path.parent.name}/{path.name}" for path in files]
    sources = [source for path in paths if (source := operator_source(path)) is not None]
    assert len(sources) > 70
    names = {name for source in sources for name in re.findall(r'#\s*include\s+"([^"]+)"', source.directives)}
    guarded = sorted(name for name in names if "#ifndef" in (SHADERS / "include" / name).read_text())
    assert {"power.glsl", "exponential.glsl", "softplus.glsl"} <= set(guarded)
    for order in (guarded, guarded[::-1]):
        lines = ["#version 450", "#extension GL_GOOGLE_include_directive : require"]
        lines += ["#define INPUT_COUNT 1", '#include "datatypes.glsl"']
        lines += [f'#include "{name}"' for name in order]
        assert glsl.compiled("\n".join([*lines, "layout(local_size_x = 1) in;", "void main() {}", ""]))
