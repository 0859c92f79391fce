"""The compiler of all shaders, its preprocessor's guard, and the modules that it reads."""

from __future__ import annotations

import dataclasses
import os
import subprocess
import threading
from pathlib import Path

import pytest

from dmlvk.kernels.library import compiler as compiler_module
from dmlvk.kernels.library import glslang
from dmlvk.kernels.library.compiler import Compiler
from dmlvk.kernels.library.pack import PackedLibrary
from dmlvk.kernels.library.sources import SourceError
from scripts.shader_tools.project import checked_variants, project_variants
from scripts.shader_tools.source_rules import lint_sources
from scripts.shader_tools.spirv import Module

from .conftest import Project, Sample, fill, shader

Output = pytest.CaptureFixture[str]


def summary(output: Output) -> str:
    """The line that counts what was done."""
    return next(line for line in output.readouterr().out.splitlines() if " compiled, " in line)


def files(directory: Path) -> dict[str, bytes]:
    return {
        path.relative_to(directory).as_posix(): path.read_bytes() for path in directory.rglob("*") if path.is_file()
    }


def times(directory: Path) -> dict[Path, int]:
    return {path: path.stat().st_mtime_ns for path in directory.rglob("*.spvz")}


def test_library_is_complete_and_valid(project: Project, capsys: Output) -> None:
    assert project.compile() == 0
    assert summary(capsys) == "3 compiled, 0 unchanged, 0 removed, 0 failed"
    assert project.compiled() == {"first.one", "first.two", "second.plain"}
    for name in project.compiled():
        data = project.read(name)
        assert data is not None
        assert list(Module(data).named("OpName")) == []
        validator = ["spirv-val", "--target-env", "vulkan1.1", "-"]
        assert subprocess.run(validator, input=data, check=False).returncode == 0
    assert len(files(project.library)) == 4, "three modules, and the compiler's version"


def test_equal_bytes_wherever_the_checkout_lies(tmp_path: Path) -> None:
    one = fill(Project(tmp_path / "one"))
    other = fill(Project(tmp_path / "a much longer path" / "with" / "other folders"))
    assert one.compile("--pack") == other.compile("--pack", "--jobs", "1") == 0
    assert files(one.library) == files(other.library)


def test_second_run_does_nothing(project: Project, capsys: Output, monkeypatch: pytest.MonkeyPatch) -> None:
    project.compile()
    before, when = files(project.library), times(project.library)
    os.utime(project.shaders / "include/numbers.glsl")
    capsys.readouterr()
    monkeypatch.setattr(Compiler, "compile", lambda *_: pytest.fail("compiled although nothing changed"))
    assert project.compile() == 0
    assert summary(capsys) == "0 compiled, 3 unchanged, 0 removed, 0 failed"
    assert files(project.library) == before
    assert times(project.library) == when


def test_changed_include_recompiles_only_what_includes_it(project: Project, capsys: Output) -> None:
    project.compile()
    before = {name: project.read(name) for name in project.compiled()}
    capsys.readouterr()
    project.write("include/only_first.glsl", "#define STEP 5u\n")
    assert project.compiled() == {"second.plain"}
    assert project.compile() == 0
    assert summary(capsys) == "2 compiled, 1 unchanged, 0 removed, 0 failed"
    assert {name for name in before if project.read(name) != before[name]} == {"first.one", "first.two"}


@pytest.mark.parametrize("name", ["FLAGS", "PASSES", "NAMES_KEPT", "INCLUDE_DIRECTORIES"])
def test_key_covers_flags(project: Project, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    compiler = Compiler.find(project.tree)
    before = compiler.key(project.variants[0])
    changed: object = "other" if name in ("PASSES", "NAMES_KEPT") else ("-Od",)
    monkeypatch.setattr(compiler_module, name, changed)
    assert compiler.key(project.variants[0]) != before


def test_key_covers_the_compiler(project: Project) -> None:
    compiler = Compiler.find(project.tree)
    other = dataclasses.replace(compiler, version="12:99.0.0")
    assert compiler.key(project.variants[0]) != other.key(project.variants[0])


def test_key_covers_definitions_but_not_their_order(project: Project) -> None:
    compiler = Compiler.find(project.tree)

    def key(*defines: tuple[str, str]) -> str:
        return compiler.key(Sample("first.one", "family/first.comp", defines))

    assert key(("CHOICE", "ONE"), ("MORE", "1")) == key(("MORE", "1"), ("CHOICE", "ONE"))
    assert key(("CHOICE", "ONE")) != key(("CHOICE", "TWO"))


def test_interrupted_run_goes_on(project: Project, capsys: Output, monkeypatch: pytest.MonkeyPatch) -> None:
    real = Compiler.compile
    lock = threading.Lock()
    runs = 0

    def interrupted(self: Compiler, variant: Sample) -> bytes:
        nonlocal runs
        with lock:
            runs += 1
            if runs == 2:
                raise KeyboardInterrupt
            return real(self, variant)

    with monkeypatch.context() as patch:
        patch.setattr(Compiler, "compile", interrupted)
        assert project.compile("--jobs", "1", "--pack") == 130
    assert "interrupted" in capsys.readouterr().err
    assert project.compiled() == {"first.one"}
    assert not list(project.library.glob("*.pack"))
    assert project.check() == 1
    assert "first.two: library: not compiled" in capsys.readouterr().out
    assert project.compile() == 0
    assert summary(capsys) == "2 compiled, 1 unchanged, 0 removed, 0 failed"
    assert project.check() == 0


def test_packs_hold_what_is_compiled(project: Project, capsys: Output) -> None:
    assert project.compile("--pack") == 0
    assert "3 variants are packed in 2 files" in capsys.readouterr().out
    packed = PackedLibrary(project.library)
    assert set(packed.names()) == project.compiled()
    for name in project.compiled():
        assert packed.read(name, project.key(name)) == project.read(name)
    assert project.compile("--check", "--pack") == 0


def test_only_what_changed_is_packed_anew(project: Project, capsys: Output) -> None:
    project.compile("--pack")
    before = {path: path.stat().st_mtime_ns for path in project.library.glob("*.pack")}
    project.write("include/only_first.glsl", "#define STEP 5u\n")
    assert project.compile("--check", "--pack") == 1
    project.compile()
    assert project.compile("--check", "--pack") == 1
    assert "first.one: packed from other sources" in capsys.readouterr().err
    assert project.compile("--pack") == 0
    changed = {path.name for path in before if path.stat().st_mtime_ns != before[path]}
    assert changed == {"first.pack"}
    project.variants.pop()
    project.variants.pop()
    assert project.compile("--check", "--pack") == 1
    assert "first.pack: no variant belongs there" in capsys.readouterr().err
    assert project.compile("--pack") == 0
    assert [path.name for path in project.library.glob("*.pack")] == ["second.pack"]


@pytest.mark.parametrize("size", [0, 40, 300])
def test_damaged_pack_is_made_again(project: Project, capsys: Output, size: int) -> None:
    project.compile("--pack")
    file = project.library / "first.pack"
    contents = file.read_bytes()
    file.write_bytes(contents[:size])
    assert project.compile("--check", "--pack") == 1
    assert "first.pack" in capsys.readouterr().err
    assert project.compile("--pack") == 0
    assert file.read_bytes() == contents


def test_failures_name_variants_message_and_command(project: Project, capsys: Output) -> None:
    project.write("family/second.comp", shader("b[i] = no_such_name;", '#include "numbers.glsl"'))
    project.write("family/first.comp", shader("b[i] = also_missing;", '#include "numbers.glsl"'))
    assert project.compile() == 1
    captured = capsys.readouterr()
    assert "0 compiled, 0 unchanged, 0 removed, 3 failed" in captured.out
    assert "first.one, first.two:\nERROR: shaders/family/first.comp:13: 'also_missing'" in captured.err
    assert "second.plain:\nERROR: shaders/family/second.comp:13: 'no_such_name'" in captured.err
    assert not project.compiled()
    repeat = next(line for line in captured.err.splitlines() if "-DCHOICE=ONE" in line).removeprefix("to repeat: ")
    again = subprocess.run(repeat, shell=True, capture_output=True, text=True, check=False)
    assert again.returncode != 0
    assert "also_missing" in again.stdout


def test_one_failure_does_not_stop_the_others(project: Project, capsys: Output) -> None:
    project.variants.append(Sample("broken", "family/second.comp", (("TWO", "1 +"),)))
    assert project.compile() == 1
    assert "3 compiled, 0 unchanged, 0 removed, 1 failed" in capsys.readouterr().out
    assert project.compiled() == {"first.one", "first.two", "second.plain"}


def test_warnings_are_errors(project: Project, capsys: Output) -> None:
    project.write("family/second.comp", shader(declarations="#extension GL_no_such_extension : enable"))
    assert project.compile() == 1
    assert "WARNING" in capsys.readouterr().err


def test_invalid_spirv_is_refused(project: Project, capsys: Output, monkeypatch: pytest.MonkeyPatch) -> None:
    # A result type where there is none: what a miscompiling front end would leave.
    monkeypatch.setattr(
        "dmlvk.kernels.library.compiler.with_decorations",
        lambda data, **_: data.replace(b"\x13\x00\x02\x00", b"\x13\x00\x03\x00"),
    )
    assert project.compile() == 1
    assert "spirv-val: " in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('#include "nowhere.glsl"', 'shaders/family/second.comp:3: #include "nowhere.glsl": found nowhere'),
        ('#include "twice.glsl"', 'shaders/family/second.comp:3: #include "twice.glsl": ambiguous'),
        ('#include "../../outside.glsl"', "leads out of"),
    ],
)
def test_includes_that_do_not_resolve(project: Project, capsys: Output, text: str, message: str) -> None:
    project.write("include/twice.glsl", "")
    project.write("patterns/twice.glsl", "")
    (project.root / "outside.glsl").write_text("")
    project.write("family/second.comp", shader(declarations=text))
    assert project.compile() == 1
    assert message in capsys.readouterr().err


def test_missing_source(project: Project, capsys: Output) -> None:
    project.variants.append(Sample("lost", "family/lost.comp"))
    assert project.compile() == 1
    assert "shaders/family/lost.comp: cannot be read" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("variant", "message"),
    [
        (Sample("first.one", "family/first.comp"), "first.one: two variants have this name"),
        (Sample("../first", "family/first.comp"), "'../first': a variant's name is made of"),
        (Sample("x", "family/first.comp", (("A", "1"), ("A", "2"))), "x: A is defined twice"),
        (Sample("x", "family/first.comp", (("A B", "1"),)), "x: 'A B' cannot be defined"),
    ],
)
def test_contradictory_variants(project: Project, capsys: Output, variant: Sample, message: str) -> None:
    project.variants.append(variant)
    assert project.compile() == 1
    assert message in capsys.readouterr().err
    assert not project.library.exists()


def test_missing_compiler_is_one_line(project: Project, capsys: Output, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(glslang, "own_program", lambda: project.root / "nowhere")
    monkeypatch.setenv("PATH", str(project.root))
    assert project.compile() == 2
    message = capsys.readouterr().err
    assert message == (
        "glslangValidator and spirv-val not found on the PATH: install glslang-tools spirv-tools\n"
    )  # fmt: skip
    assert not project.library.exists()


def test_compiler_that_does_not_run(project: Project, capsys: Output, monkeypatch: pytest.MonkeyPatch) -> None:
    for tool in ("glslangValidator", "spirv-val"):
        fake = project.root / tool
        fake.write_text("#!/bin/sh\nexit 3\n")
        fake.chmod(0o755)
    monkeypatch.setattr(glslang, "own_program", lambda: project.root / "nowhere")
    monkeypatch.setenv("PATH", str(project.root))
    assert project.compile() == 2
    assert "does not run" in capsys.readouterr().err


def test_no_variants_is_a_failure(empty_project: Project, capsys: Output) -> None:
    assert empty_project.compile() == 2
    assert "there are no variants" in capsys.readouterr().err


@pytest.mark.parametrize("number", ["0", "-1", "many"])
@pytest.mark.parametrize("option", ["--jobs", "--every"])
def test_jobs_and_parts_must_be_positive_numbers(project: Project, option: str, number: str) -> None:
    with pytest.raises(SystemExit) as error:
        project.compile(option, number)
    assert error.value.code == 2


def test_check_accepts_what_was_just_made_and_writes_nothing(project: Project, capsys: Output) -> None:
    project.compile()
    before = files(project.library), times(project.library)
    assert project.compile("--check") == 0
    assert "3 variants are as the sources make them" in capsys.readouterr().out
    assert (files(project.library), times(project.library)) == before


def test_check_without_a_library(project: Project, capsys: Output) -> None:
    assert project.compile("--check") == 1
    assert "first.one: missing" in capsys.readouterr().err
    assert not project.library.exists()


def test_check_finds_what_the_sources_do_not_make(project: Project, capsys: Output) -> None:
    project.compile()
    data = project.read("first.one")
    assert data is not None
    project.store.put(project.key("first.one"), data[:-8] + b"12345678")
    assert project.compile() == 0, "nothing tells an ordinary run that another module has the right checksum"
    assert project.compile("--check") == 1
    captured = capsys.readouterr().err
    assert "first.one: " in captured
    assert "differs from what its source makes" in captured
    assert "first.two" not in captured


@pytest.mark.parametrize("damage", ["gone", "changed"])
def test_check_finds_missing_and_damaged_files(project: Project, capsys: Output, damage: str) -> None:
    project.compile()
    file = project.path("first.two")
    if damage == "gone":
        file.unlink()
    else:
        file.write_bytes(file.read_bytes()[:-1])
    assert project.compile("--check") == 1
    assert "first.two: missing" in capsys.readouterr().err


def test_check_finds_a_changed_source(project: Project, capsys: Output) -> None:
    project.compile()
    project.write("include/only_first.glsl", "#define STEP 4u\n")
    assert project.compile("--check") == 1
    captured = capsys.readouterr().err
    assert "first.one" in captured
    assert "second" not in captured


def test_the_projects_own_variants_are_consistent() -> None:
    variants = checked_variants(project_variants())
    assert variants
    assert len({(variant.source, variant.defines) for variant in variants}) == len(variants), "a variant is made twice"


def undefined(project: Project, text: str, *defines: tuple[str, str]) -> list[tuple[str, int, str]]:
    """File, line and name of each undefined macro that a condition asks for."""
    project.write("family/probe.comp", text)
    found = lint_sources(project.tree, [Sample("probe", "family/probe.comp", defines)])
    return [(each.file, each.line, each.instruction) for each in found if each.rule == "undefined-macro"]


@pytest.mark.parametrize(
    ("text", "defines", "line", "name"),
    [
        ("\n\n#if DTYPE == FLOAT16\n#endif", (("DTYPE", "3"),), 3, "FLOAT16"),
        # A macro whose value is a type name is as bad as no macro.
        ("#if T == half\n#endif", (("T", "float"), ("half", "1")), 0, "float"),
        ("#define A B\n#if A\n#endif", (), 1, "B"),
        ("#if 0\n#elif X\n#endif", (), 2, "X"),
        ("#define F(x) (x + OTHER)\n#if F(1)\n#endif", (), 1, "OTHER"),
        ("#if 1 || 0\n#if LATE\n#endif\n#endif\n#define LATE 1", (), 2, "LATE"),
        ("#define GONE 1\n#undef GONE\n#if GONE\n#endif", (), 3, "GONE"),
        ("/* two\nlines */ #if UNKNOWN\n#endif", (), 2, "UNKNOWN"),
        ("#define CAT(a, b) a##b\n#if CAT(BIT, S) == 8\n#endif", (), 2, "BITS"),
    ],
)
def test_undefined_names_are_found(
    empty_project: Project, text: str, defines: tuple[tuple[str, str], ...], line: int, name: str
) -> None:
    assert undefined(empty_project, text, *defines) == [("shaders/family/probe.comp", line, name)]


@pytest.mark.parametrize(
    ("text", "defines"),
    [
        ("#if DTYPE == FLOAT16\n#endif", (("DTYPE", "1"), ("FLOAT16", "2"))),
        ("#define A B\n#define B 1\n#if A\n#endif", ()),
        ("#if defined(A) && A == 1\n#endif\n#if !defined A || A\n#endif", ()),
        ("#if 0\n#if UNKNOWN\n#endif\n#elif 1\n#elif UNKNOWN\n#else\n#endif", ()),
        ("// #if UNKNOWN\n/*\n#if UNKNOWN\n*/\n#define EMPTY\n#ifdef EMPTY\n#endif", ()),
        ("#define CAT(a, b) a##b\n#define TWICE(x) (2 * (x))\n#if TWICE(CAT(BI, TS)) == 16\n#endif", (("BITS", "8"),)),
        ("#version 450\n#extension GL_X : require\n#if __VERSION__ >= 450 && VULKAN >= 100\n#endif", ()),
    ],
)
def test_defined_names_pass(empty_project: Project, text: str, defines: tuple[tuple[str, str], ...]) -> None:
    assert undefined(empty_project, text, *defines) == []


def test_definitions_come_from_includes_and_only_before_use(empty_project: Project) -> None:
    empty_project.write("include/types.glsl", "#ifndef TYPES\n#define TYPES\n#define FLOAT16 2\n#endif\n")
    include = '#include "types.glsl"\n'
    use = "#if FLOAT16 == 2\n#endif\n"
    assert undefined(empty_project, include + include + use) == []
    assert undefined(empty_project, use + include) == [("shaders/family/probe.comp", 1, "FLOAT16")]


def test_position_in_an_include(empty_project: Project) -> None:
    empty_project.write("patterns/walk.glsl", "\n#if STRIDED\n#endif\n")
    assert undefined(empty_project, '#include "walk.glsl"\n') == [("shaders/patterns/walk.glsl", 2, "STRIDED")]


def test_includes_in_a_circle_are_read_once(empty_project: Project) -> None:
    empty_project.write("include/a.glsl", '#include "b.glsl"\n')
    empty_project.write("include/b.glsl", '#include "a.glsl"\n')
    empty_project.write("family/probe.comp", '#include "a.glsl"\n')
    assert empty_project.tree.closure("family/probe.comp") == ("family/probe.comp", "include/a.glsl", "include/b.glsl")


def test_include_without_quotes(empty_project: Project) -> None:
    empty_project.write("family/probe.comp", "\n#include NAME\n")
    with pytest.raises(SourceError, match=r'family/probe\.comp:2: #include NAME: expected a "name" in quotes'):
        empty_project.tree.closure("family/probe.comp")


def test_closure_lists_each_file_once(empty_project: Project) -> None:
    empty_project.write("include/a.glsl", '#include "b.glsl"\n')
    empty_project.write("include/b.glsl", "")
    empty_project.write("family/x.comp", '#include "b.glsl"\n#if 0\n#include <a.glsl>\n#endif\n')
    assert empty_project.tree.closure("family/x.comp") == ("family/x.comp", "include/a.glsl", "include/b.glsl")
