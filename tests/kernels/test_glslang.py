"""The compiler of many shaders: the bytes and words of glslangValidator, and what happens when it ends or hangs."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from dmlvk.kernels.catalog import all_variants
from dmlvk.kernels.library import glsl, glslang
from dmlvk.kernels.library.compiler import Compiler
from dmlvk.kernels.library.glslang import CompilerProcessError, CompilerTimeoutError, compile_many, validate_many
from dmlvk.kernels.library.sources import SourceTree
from dmlvk.kernels.variants import ShaderVariant
from dmlvk.spirv import cooperative_types
from scripts.shader_tools.project import SHADERS
from tests.processes import in_threads

from .conftest import SHADER

FOLDERS = ("other", "include")


either_way = pytest.mark.usefixtures("pipes")


@pytest.fixture(params=["pipes are awaited", "as on Windows"])
def pipes(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """How the program is talked with; no program outlives a change of it."""
    glslang.close()
    monkeypatch.setattr(glslang, "_PIPES_CAN_BE_AWAITED", request.param == "pipes are awaited")
    yield
    glslang.close()


def some_variants() -> list[ShaderVariant]:
    """Variants of many operators, data types and access orders."""
    cooperative = next(variant for variant in all_variants() if variant.source == cooperative_types.SOURCE)
    return [cooperative, *Random(1).sample(all_variants(), 12)]


def one(shaders: Path, name: str, *options: str) -> tuple[int, str, bytes]:
    """glslangValidator's exit status, what it says of the shader, and its module."""
    output = shaders.parent / "one.spv"
    output.unlink(missing_ok=True)
    folders = [f"-I{folder}" for folder in FOLDERS]
    command = [glslang.ONE, *glsl.FLAGS, *glsl.RELEASE_FLAGS, *folders, *options, "-o", str(output), name]
    result = subprocess.run(command, cwd=shaders, capture_output=True, text=True, check=False)
    said = [line for line in result.stdout.splitlines() if line.strip() not in ("", name)]
    return result.returncode, "\n".join(said), output.read_bytes() if output.exists() else b""


@pytest.mark.sweep
def test_the_projects_shaders_have_the_same_bytes_from_either_compiler(many: str) -> None:
    tree = SourceTree(SHADERS)
    found = Compiler.find(tree)
    fast = Compiler(tree, many, "", found.version)
    slow = Compiler(tree, glslang.ONE, "spirv-val", found.version)
    for variant in some_variants():
        assert fast.compile(variant) == slow.compile(variant), variant.name


def test_either_compiler_has_one_version(many: str) -> None:
    said = [
        subprocess.run([path, "--version"], capture_output=True, text=True, check=True).stdout.splitlines()[0]
        for path in (many, glslang.ONE)
    ]
    assert said[0] == said[1], "set-up builds the one from the libraries of the other"


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(SHADER, id="good"),
        pytest.param(SHADER.replace("ONE *", "THREE *"), id="error"),
        pytest.param(SHADER.replace("one.glsl", "none.glsl"), id="missing include"),
        pytest.param(SHADER + "#extension GL_no_such_extension : enable\n", id="warning"),
        pytest.param(SHADER.replace("void main", "void mine"), id="no entry point"),
        pytest.param(SHADER.replace("450", "999"), id="unknown version"),
    ],
)
def test_bytes_and_words_are_glslangs_own(many: str, shaders: Path, text: str) -> None:
    (shaders / "family/first.comp").write_text(text)
    status, said, module = one(shaders, "family/first.comp", "-DCHOICE=3", "-DPLAIN")
    answer = compile_many(many, shaders, "family/first.comp", FOLDERS, {"CHOICE": "3", "PLAIN": ""}, text)
    assert answer.is_done == (status == 0)
    words = "\n".join(line for line in answer.message.splitlines() if line.strip())
    # glslangValidator goes on after an error, and says what cannot be done for that reason.
    assert said == words if answer.is_done else said.startswith(words) and "ERROR" in words
    assert answer.module == module


def test_modules_are_validated_as_spirv_val_does(many: str, shaders: Path, tmp_path: Path) -> None:
    good = compile_many(many, shaders, "family/first.comp", FOLDERS, {"CHOICE": "3"}, SHADER).module
    broken = good.replace(b"\x13\x00\x02\x00", b"\x13\x00\x03\x00")  # a void type with an operand
    for module in (good, broken, good[:40], b""):
        result = subprocess.run(
            ["spirv-val", "--target-env", "vulkan1.1", "-"], input=module, capture_output=True, check=False
        )
        answer = validate_many(many, module)
        assert answer.is_done == (result.returncode == 0)
        # Where nothing can be read, the program has words of its own.
        assert answer.message == result.stderr.decode().strip() or len(module) < 20


def compile_sample(many: str, shaders: Path, choice: int = 3) -> bytes:
    return compile_many(many, shaders, "family/first.comp", FOLDERS, {"CHOICE": str(choice)}, SHADER).module


def running(many: str) -> list[int]:
    return [process._process.pid for process in glslang._pool(many)._idle]


@either_way
def test_one_process_compiles_many(many: str, shaders: Path) -> None:
    glslang.close()
    modules = [compile_sample(many, shaders, choice) for choice in range(5)]
    assert len(set(modules)) == 5
    assert len(running(many)) == 1


@either_way
def test_threads_have_a_process_each_and_do_not_mix_their_answers(many: str, shaders: Path) -> None:
    expected = [compile_sample(many, shaders, choice) for choice in range(8)]
    found: list[bool] = []

    def work(choice: int) -> None:
        found.extend(compile_sample(many, shaders, choice) == expected[choice] for _ in range(5))

    in_threads(work, range(8))
    assert found == [True] * 40


@either_way
def test_a_process_that_ended_meanwhile_is_started_again(many: str, shaders: Path) -> None:
    expected = compile_sample(many, shaders)
    (process,) = {running(many)[-1]}
    os.kill(process, signal.SIGKILL)
    assert compile_sample(many, shaders) == expected
    assert process not in running(many)


def test_closing_ends_the_processes(many: str, shaders: Path) -> None:
    compile_sample(many, shaders)
    processes = running(many)
    glslang.close()
    for process in processes:
        with pytest.raises(ProcessLookupError):
            os.kill(process, 0)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes are not forked here")
def test_a_forked_process_has_a_compiler_of_its_own(many: str, shaders: Path) -> None:
    expected = compile_sample(many, shaders)
    before = running(many)
    child = os.fork()
    if child == 0:  # nothing may be raised here
        status = 1
        try:
            status = 0 if compile_sample(many, shaders) == expected and not set(running(many)) & set(before) else 2
            glslang.close()
        finally:
            os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert compile_sample(many, shaders) == expected
    assert set(running(many)) >= set(before)


def test_nothing_is_left_running_when_python_ends(many: str, shaders: Path) -> None:
    program = (
        "import sys; from pathlib import Path; from dmlvk.kernels.library import glslang as g\n"
        f"g.compile_many({many!r}, Path({str(shaders)!r}), 'family/first.comp', {FOLDERS!r}, {{'CHOICE': '1'}}, "
        "sys.stdin.read())\n"
        f"print(g._pool({many!r})._idle[0]._process.pid)"
    )
    result = subprocess.run(
        [sys.executable, "-W", "error", "-c", program], input=SHADER, capture_output=True, text=True, check=True
    )
    assert result.stderr == ""
    with pytest.raises(ProcessLookupError):
        os.kill(int(result.stdout), 0)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("exit 3", "ended with status 3 instead of an answer"),
        ("read line; kill -9 $$", "ended with status -9 instead of an answer"),
        ("echo hello; exec sleep 9", "does not answer as dmlvk-glslang does"),
    ],
)
@either_way
def test_a_program_that_does_not_answer_is_an_error(shaders: Path, tmp_path: Path, text: str, message: str) -> None:
    program = tmp_path / glslang.MANY
    program.write_text(f"#!/bin/sh\n{text}\n")
    program.chmod(0o755)
    with pytest.raises(CompilerProcessError, match=message):
        compile_sample(str(program), shaders)


def test_a_program_that_is_not_there_is_an_error(shaders: Path) -> None:
    with pytest.raises(CompilerProcessError, match="does not run"):
        compile_sample("/nowhere/dmlvk-glslang", shaders)


@either_way
def test_a_program_that_hangs_is_ended_and_not_asked_twice(
    shaders: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / glslang.MANY
    program.write_text("#!/bin/sh\nread line\nexec sleep 60\n")
    program.chmod(0o755)
    monkeypatch.setattr(glslang, "SECONDS", 0.2)
    begin = time.monotonic()
    with pytest.raises(CompilerTimeoutError, match=r"did not end within 0\.2 seconds"):
        compile_sample(str(program), shaders)
    assert time.monotonic() - begin < 30
    assert not running(str(program))


def test_kernels_of_graphs_have_the_same_bytes_from_either_compiler(
    many: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = SHADER.replace('#include "one.glsl"', '#include "datatypes.glsl"').replace("ONE * uint(CHOICE)", "1u")
    source = source.replace("#include", "#define DATA_TYPE FLOAT32\n#include")
    modules = []
    for path in (many, glslang.ONE):
        monkeypatch.setenv("DMLVK_CACHE_DIR", str(tmp_path / Path(path).name))
        monkeypatch.setenv("DMLVK_GLSLANG", path)
        glsl._in_memory.clear()
        modules.append(glsl.compiled(source))
    assert modules[0] is not None
    assert modules[0] == modules[1]


def test_where_it_does_not_run_kernels_of_graphs_come_from_glslangs_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / glslang.MANY
    program.write_text("#!/bin/sh\nexit 3\n")
    program.chmod(0o755)
    monkeypatch.setattr(glslang, "own_program", lambda: program)
    monkeypatch.delenv("DMLVK_GLSLANG", raising=False)
    monkeypatch.setenv("DMLVK_CACHE_DIR", str(tmp_path / "cache"))
    glsl._in_memory.clear()
    assert glsl.compiled(SHADER.replace('#include "one.glsl"', "").replace("ONE * uint(CHOICE)", "1u")) is not None


@either_way
def test_what_glslang_prints_by_itself_does_not_disturb_the_answers(many: str, shaders: Path) -> None:
    """It prints pages where a shader does not name its version."""
    expected = compile_sample(many, shaders)
    refused = compile_many(many, shaders, "family/first.comp", FOLDERS, {}, "")
    assert not refused.is_done
    assert "#version" in refused.message
    assert compile_sample(many, shaders) == expected
