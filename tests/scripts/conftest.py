"""A small project of its own for each test: shaders in a temporary directory, and a list of variants."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from dmlvk.kernels.library.compiler import Compiler
from dmlvk.kernels.library.sources import SourceTree
from dmlvk.kernels.library.store import Store
from scripts import check_shaders, compile_shaders
from scripts.shader_tools.project import compiled_store
from scripts.shader_tools.rules import Exemption


@dataclass(frozen=True)
class Sample:
    name: str
    source: str
    defines: tuple[tuple[str, str], ...] = ()


@dataclass
class Project:
    """A shader directory, its variants and the library made from them."""

    root: Path
    variants: list[Sample] = field(default_factory=list)

    @property
    def shaders(self) -> Path:
        return self.root / "shaders"

    @property
    def library(self) -> Path:
        return self.root / "spirv"

    @property
    def store(self) -> Store:
        return compiled_store(self.library)

    def key(self, name: str) -> str:
        (variant,) = (variant for variant in self.variants if variant.name == name)
        return Compiler.find(self.tree).key(variant)

    def path(self, name: str) -> Path:
        return self.store.path(self.key(name))

    def read(self, name: str) -> bytes | None:
        return self.store.get(self.key(name))

    def compiled(self) -> set[str]:
        """The variants that are compiled from the sources as they are."""
        return {variant.name for variant in self.variants if self.read(variant.name) is not None}

    @property
    def tree(self) -> SourceTree:
        return SourceTree(self.shaders)

    def write(self, path: str, text: str) -> None:
        file = self.shaders / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")

    def compile(self, *arguments: str) -> int:
        return compile_shaders.main(
            ["--output", str(self.library), *arguments], variants=self.variants, shaders=self.shaders
        )

    def check(self, *arguments: str, exemptions: Sequence[Exemption] = ()) -> int:
        return check_shaders.main(
            ["--library", str(self.library), *arguments],
            variants=self.variants,
            shaders=self.shaders,
            exemptions=exemptions,
        )

    def spirv(self, text: str) -> bytes:
        """Compile one source text by itself."""
        self.write("family/single.comp", text)
        return Compiler.find(self.tree).compile(Sample("single", "family/single.comp"))


def shader(body: str = "", declarations: str = "") -> str:
    """Return a compute shader with two buffers around some statements."""
    return f"""#version 450
#extension GL_GOOGLE_include_directive : require
{declarations}
layout(local_size_x = 64) in;
layout(std430, set = 0, binding = 0) buffer A {{ uint a[]; }};
layout(std430, set = 0, binding = 1) buffer B {{ uint b[]; }};
void main()
{{
    uint i = gl_GlobalInvocationID.x;
    float x = uintBitsToFloat(a[i]);
    int n = int(a[i]);
    b[i] = a[i];
    {body}
}}
"""


@pytest.fixture
def empty_project(tmp_path: Path) -> Project:
    return Project(tmp_path)


@pytest.fixture
def project(tmp_path: Path) -> Project:
    """Three variants of two sources; ``first`` includes one file, both include another."""
    return fill(Project(tmp_path))


def fill(project: Project) -> Project:
    """Write the sources of the sample project."""
    project.write("include/numbers.glsl", "#define ONE 1\n#define TWO 2\n")
    project.write("include/only_first.glsl", "#define STEP 3u\n")
    project.write(
        "family/first.comp",
        shader("b[i] += STEP * uint(CHOICE);", '#include "numbers.glsl"\n#include "only_first.glsl"'),
    )
    project.write("family/second.comp", shader("b[i] += uint(TWO);", '#include "numbers.glsl"'))
    project.variants = [
        Sample("second.plain", "family/second.comp"),
        Sample("first.one", "family/first.comp", (("CHOICE", "ONE"),)),
        Sample("first.two", "family/first.comp", (("CHOICE", "TWO"),)),
    ]
    return project
