"""The guard against conditions over undefined macros, and the reading of sources."""

from __future__ import annotations

import pytest

from dmlvk.kernels.library.sources import SourceError
from scripts.shader_tools.source_rules import lint_sources

from .conftest import Project, Sample


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
