"""The guard against conditions over undefined macros, and the reading of sources."""

from __future__ import annotations

import subprocess

import pytest

from dmlvk.kernels.library.sources import SourceError
from scripts.shader_tools.preprocessor import undefined_macros

from .conftest import Project


def problems(project: Project, text: str, *defines: tuple[str, str]) -> list[tuple[str, int, str]]:
    """Return (file, line, message) of each problem in a source."""
    project.write("family/probe.comp", text)
    return [(p.file, p.line, p.message) for p in undefined_macros(project.tree, "family/probe.comp", defines)]


@pytest.mark.parametrize(
    ("text", "defines", "line", "name"),
    [
        # Both names unknown: 0 == 0, so always true.
        ("#if DTYPE == FLOAT16\n#endif", (), 1, "DTYPE"),
        ("\n\n#if DTYPE == FLOAT16\n#endif", (("DTYPE", "3"),), 3, "FLOAT16"),
        # A macro whose value is a type name is as bad as no macro.
        ("#if T == half\n#endif", (("T", "float"), ("half", "1")), 1, "float"),
        ("#define A B\n#if A\n#endif", (), 2, "B"),
        ("#if 0\n#elif X\n#endif", (), 2, "X"),
        ("#define F(x) (x + OTHER)\n#if F(1)\n#endif", (), 2, "OTHER"),
        ("#if 1 || 0\n#if LATE\n#endif\n#endif\n#define LATE 1", (), 2, "LATE"),
        ("#define GONE 1\n#undef GONE\n#if GONE\n#endif", (), 3, "GONE"),
        ("#if 1 + \\\n  2 == UNKNOWN\n#endif", (), 1, "UNKNOWN"),
        ("/* two\nlines */ #if UNKNOWN\n#endif", (), 2, "UNKNOWN"),
        ("#define CAT(a, b) a##b\n#if CAT(BIT, S) == 8\n#endif", (), 2, "BITS"),
        ("#if defined(A) || B == 1\n#endif", (), 1, "B"),
    ],
)
def test_undefined_names_are_found(
    empty_project: Project, text: str, defines: tuple[tuple[str, str], ...], line: int, name: str
) -> None:
    found = problems(empty_project, text, *defines)
    assert [(p[0], p[1]) for p in found if f": {name} is not defined" in p[2]] == [("family/probe.comp", line)]


@pytest.mark.parametrize(
    ("text", "defines"),
    [
        ("#if DTYPE == FLOAT16\n#endif", (("DTYPE", "1"), ("FLOAT16", "2"))),
        ("#define A B\n#define B 1\n#if A\n#endif", ()),
        ("#ifdef A\n#if A == 1\n#endif\n#endif\n#ifndef A\n#endif", ()),
        ("#if defined(A) && A == 1\n#endif\n#if !defined A || A\n#endif", ()),
        ("#if 0\n#if UNKNOWN\n#endif\n#elif 1\n#elif UNKNOWN\n#else\n#endif", ()),
        ("// #if UNKNOWN\n/*\n#if UNKNOWN\n*/\n#define EMPTY\n#ifdef EMPTY\n#endif", ()),
        ("#define CAT(a, b) a##b\n#define TWICE(x) (2 * (x))\n#if TWICE(CAT(BI, TS)) == 16\n#endif", (("BITS", "8"),)),
        ("#define F(x) x\n#define G F\n#define F_ (F(1))\n#if F_ == F(F(1))\n#endif", ()),
        ("#define LOOP LOOP_\n#define LOOP_ 1\n#if LOOP\n#endif", ()),
        ("#define NONE() 3\n#if NONE() == 3\n#else\n#if UNKNOWN\n#endif\n#endif", ()),
        ("#version 460\n#if __VERSION__ >= 460 && VULKAN >= 100\n#endif", ()),
        ("#if -1 < 0 && ~0 == -1 && !0 == 1 && +1 == 1\n#else\n#if UNKNOWN\n#endif\n#endif", ()),
    ],
)
def test_defined_names_pass(empty_project: Project, text: str, defines: tuple[tuple[str, str], ...]) -> None:
    assert problems(empty_project, text, *defines) == []


@pytest.mark.parametrize(
    "condition",
    [
        "1 + 2 * 3 == 7", "(1 + 2) * 3 == 9", "7 - 2 - 1 == 4", "-7 / 2 == -3", "-7 % 3 == -1", "1 << 3 == 8",
        "0x10 == 16 && 010 == 8 && 0 == 0", "1 || 1 / 0", "0 && 1 / 0", "6 & 3 == 2", "(6 & 3) == 2", "6 ^ 3 | 8",
        "!1 == 0", "2 > 1 == 1", "~1 & 1", "1 == 1 != 0", "5 >> 1 == 2", "1 <= 1 && 2 >= 3",
    ],
)  # fmt: skip
def test_conditions_mean_what_the_compiler_says(empty_project: Project, condition: str) -> None:
    """Only the branch that glslang takes may be walked; the other one holds an undefined name."""
    text = f"#version 450\n#if {condition}\nint taken;\n#else\nint skipped;\n#endif\nvoid main() {{}}\n"
    empty_project.write("family/condition.comp", text)
    command = ["glslangValidator", "-E", str(empty_project.shaders / "family/condition.comp")]
    expanded = subprocess.run(command, capture_output=True, text=True, check=False).stdout
    if "int taken" not in expanded and "int skipped" not in expanded:
        # glslang refuses what it would have to skip (1 || 1 / 0); so there is no branch to agree on.
        return
    guarded = text.replace("int taken;", "#if TAKEN\n#endif").replace("int skipped;", "#if SKIPPED\n#endif")
    found = [message for _, _, message in problems(empty_project, guarded)]
    expected = "TAKEN" if "int taken" in expanded else "SKIPPED"
    assert found == [f"#if {expected}: {expected} is not defined and would count as 0"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("#if 1 +\n#endif", "the condition ends too early"),
        ("#if (1\n#endif", "a ) is missing"),
        ("#if 1 1\n#endif", "unexpected '1'"),
        ("#if 1 / 0\n#endif", "division by zero"),
        ("#if 1 << 99\n#endif", "shift by 99"),
        ("#if 08\n#endif", "08 is no number"),
        ("#if defined\n#endif", "defined needs a name"),
        ("#define F(a, b) a\n#if F(1)\n#endif", "F takes 2 arguments, got 1"),
        ("#define F(a) a\n#if F(1\n#endif", "a ) is missing"),
        ("#ifdef GL_EXT_something\n#endif", "whether the compiler defines GL_EXT_something is not known here"),
        ("#endif", "#endif without #if"),
    ],
)
def test_conditions_that_cannot_be_read(empty_project: Project, text: str, message: str) -> None:
    ((_, _, found),) = problems(empty_project, text)
    assert message in found


def test_definitions_come_from_includes_and_only_before_use(empty_project: Project) -> None:
    empty_project.write("include/types.glsl", "#ifndef TYPES\n#define TYPES\n#define FLOAT16 2\n#endif\n")
    include = '#include "types.glsl"\n'
    use = "#if FLOAT16 == 2\n#endif\n"
    assert problems(empty_project, include + include + use) == []
    assert [line for _, line, _ in problems(empty_project, use + include)] == [1]


def test_position_in_an_include(empty_project: Project) -> None:
    empty_project.write("patterns/walk.glsl", "\n#if STRIDED\n#endif\n")
    ((file, line, message),) = problems(empty_project, '#include "walk.glsl"\n')
    assert (file, line) == ("patterns/walk.glsl", 2)
    assert "STRIDED" in message


def test_includes_in_a_circle(empty_project: Project) -> None:
    empty_project.write("include/a.glsl", '#include "b.glsl"\n')
    empty_project.write("include/b.glsl", '#include "a.glsl"\n')
    with pytest.raises(SourceError, match=r"include/a\.glsl includes itself: family/probe\.comp -> include/a"):
        problems(empty_project, '#include "a.glsl"\n')


def test_include_without_quotes(empty_project: Project) -> None:
    with pytest.raises(SourceError, match=r'family/probe\.comp:2: #include NAME: expected a "name" in quotes'):
        problems(empty_project, "\n#include NAME\n")


def test_include_beside_the_file_is_found(empty_project: Project) -> None:
    empty_project.write("family/beside.glsl", "#define HERE 1\n")
    assert problems(empty_project, '#include "beside.glsl"\n#if HERE\n#endif') == []


def test_closure_lists_each_file_once(empty_project: Project) -> None:
    empty_project.write("include/a.glsl", '#include "b.glsl"\n')
    empty_project.write("include/b.glsl", "")
    empty_project.write("family/x.comp", '#include "b.glsl"\n#if 0\n#include <a.glsl>\n#endif\n')
    assert empty_project.tree.closure("family/x.comp") == ("family/x.comp", "include/a.glsl", "include/b.glsl")
