"""The compiler of many shaders, built where set-up has not built it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from dmlvk.kernels.library import glslang
from scripts.build_compiler import BuildError, build


@pytest.fixture(scope="session")
def many(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    program = glslang.own_program()
    if not program.is_file():
        program = tmp_path_factory.mktemp("compiler") / glslang.MANY
        try:
            build(program)
        except BuildError as error:
            if os.environ.get("CI") == "true":
                raise
            pytest.skip(f"dmlvk-glslang cannot be built here: {error}")
    yield str(program)
    glslang.close()


@pytest.fixture
def shaders(tmp_path: Path) -> Path:
    """A directory of GLSL: ``family/first.comp`` includes a file, which includes another of its own directory."""
    files = {
        "family/first.comp": SHADER,
        "include/one.glsl": '#include "two.glsl"\n#define ONE TWO\n',
        "include/two.glsl": "#define TWO 2u\n",
        "other/two.glsl": "#error the including file's own directory comes first\n",
    }
    for name, text in files.items():
        file = tmp_path / "shaders" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    return tmp_path / "shaders"


SHADER = """#version 450
#extension GL_GOOGLE_include_directive : require
#include "one.glsl"
layout(local_size_x = 64) in;
layout(std430, set = 0, binding = 0) buffer A { uint a[]; };
void main() { a[gl_GlobalInvocationID.x] += ONE * uint(CHOICE); }
"""
