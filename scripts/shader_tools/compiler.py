"""Run glslang and spirv-val: one variant in, the bytes of a checked SPIR-V module out."""

from __future__ import annotations

import hashlib
import json
import os
import shlex
import shutil
import subprocess
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Final

from dmlvk.kernels.decorations import PASSES, with_decorations
from dmlvk.kernels.glsl import FLAGS, INCLUDE_DIRECTORIES, RELEASE_FLAGS
from scripts.shader_tools.preprocessor import undefined_macros
from scripts.shader_tools.project import Variant
from scripts.shader_tools.sources import SourceError, SourceTree

GLSLANG: Final = "glslangValidator"
SPIRV_VAL: Final = "spirv-val"
PACKAGES: Final = "glslang-tools spirv-tools"

DEBUG_FLAGS: Final = ("-g",)


class MissingToolError(Exception):
    """glslang or spirv-val is not installed; the message is one line that names the packages."""


class CompileError(Exception):
    """A variant does not compile or is not valid; the message is the tool's, or names file and line."""


@dataclass(frozen=True)
class Compiler:
    """Compiles the shaders of one directory.

    Attributes:
        tree: the shader sources.
        glslang: path of glslangValidator.
        spirv_val: path of spirv-val.
        version: glslang's version, such as ``"11:12.0.0"``.
    """

    tree: SourceTree
    glslang: str
    spirv_val: str
    version: str

    @staticmethod
    def find(tree: SourceTree) -> Compiler:
        """Look for the tools on the PATH.

        Raises:
            MissingToolError: one is missing or does not run.
        """
        paths = {tool: shutil.which(tool) for tool in (GLSLANG, SPIRV_VAL)}
        missing = [tool for tool, path in paths.items() if path is None]
        if missing:
            raise MissingToolError(f"{' and '.join(missing)} not found on the PATH: install {PACKAGES}")
        glslang, spirv_val = str(paths[GLSLANG]), str(paths[SPIRV_VAL])
        try:
            first_line = subprocess.run([glslang, "--version"], capture_output=True, text=True, check=True).stdout
        except (OSError, subprocess.CalledProcessError) as error:
            raise MissingToolError(f"{glslang} does not run ({error}): install {PACKAGES}") from error
        return Compiler(tree, glslang, spirv_val, first_line.splitlines()[0].removeprefix("Glslang Version: "))

    @cached_property
    def flags(self) -> list[str]:
        """Everything on the command line that is the same for all variants."""
        folders = [(Path(self.tree.root.name) / folder).as_posix() for folder in INCLUDE_DIRECTORIES]
        return [*FLAGS, *RELEASE_FLAGS, *(f"-I{folder}" for folder in folders)]

    @cached_property
    def _common(self) -> str:
        return json.dumps([self.version, self.flags, PASSES])

    def key(self, variant: Variant) -> str:
        """Return a hash of all that decides a variant's bytes; equal keys need no second compilation.

        Raises:
            SourceError: a source or include is missing or ambiguous.
        """
        digest = self.tree.digest(variant.source)
        content = json.dumps([self._common, variant.source, digest, sorted(variant.defines)])
        return hashlib.sha256(content.encode()).hexdigest()

    def command(self, variant: Variant, output: str, *, debug: bool = False) -> list[str]:
        """Return the command line for a variant, to be run in the directory that holds the shader directory."""
        flags = [flag for flag in self.flags if not (debug and flag in RELEASE_FLAGS)]
        if debug:
            flags += DEBUG_FLAGS
        defines = [f"-D{name}={value}" if value else f"-D{name}" for name, value in sorted(variant.defines)]
        return [self.glslang, *flags, *defines, "-o", output, f"{self.tree.root.name}/{variant.source}"]

    def reproduction(self, variant: Variant) -> str:
        """Return a shell line that repeats a variant's compilation from anywhere."""
        command = [GLSLANG, *self.command(variant, os.devnull)[1:]]
        return f"cd {shlex.quote(str(self.tree.root.parent))} && {shlex.join(command)}"

    def compile(self, variant: Variant, scratch: Path, *, debug: bool = False) -> bytes:
        """Compile and validate one variant.

        Args:
            variant: what to compile.
            scratch: directory for the compiler's output file.
            debug: keep names, source text and line numbers.

        Returns:
            The module's bytes: equal for equal sources, wherever they lie.

        Raises:
            CompileError: undefined macros in conditions, an error or a warning of the compiler, or invalid SPIR-V.
        """
        self._check_macros(variant)
        output = scratch / f"{variant.name}.spv"
        output.unlink(missing_ok=True)
        result = subprocess.run(
            self.command(variant, str(output), debug=debug),
            cwd=self.tree.root.parent,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            check=False,
        )
        # The compiler always prints the name of the file; whatever else it says is an error or a warning.
        own_name = f"{self.tree.root.name}/{variant.source}"
        said = "\n".join(line for line in result.stdout.splitlines() if line.strip() not in ("", own_name))
        if result.returncode != 0 or said:
            raise CompileError(said or f"{GLSLANG} ended with status {result.returncode} and no message")
        try:
            data = with_decorations(output.read_bytes())
        except (OSError, ValueError) as error:
            raise CompileError(f"{GLSLANG} left no readable module: {error}") from error
        output.unlink()
        self._validate(data)
        return data

    def _check_macros(self, variant: Variant) -> None:
        try:
            problems = undefined_macros(self.tree, variant.source, variant.defines)
        except SourceError as error:
            raise CompileError(str(error)) from error
        if problems:
            root = self.tree.root.name
            raise CompileError("\n".join(f"{root}/{p.file}:{p.line}: {p.message}" for p in problems))

    def _validate(self, data: bytes) -> None:
        result = subprocess.run(
            [self.spirv_val, "--target-env", "vulkan1.1", "-"],
            input=data,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            check=False,
        )
        if result.returncode != 0 or result.stdout.strip():
            said = result.stdout.decode(errors="replace").strip()
            raise CompileError(f"{SPIRV_VAL}: {said or f'status {result.returncode}'}")
