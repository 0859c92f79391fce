"""Runs glslang and SPIRV-Tools' validator: one variant in, the bytes of a checked SPIR-V module out."""

from __future__ import annotations

import hashlib
import json
import os
import shlex
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Final, Protocol, TypeVar

from dmlvk.kernels.library import glslang
from dmlvk.kernels.library.glsl import FLAGS, INCLUDE_DIRECTORIES
from dmlvk.kernels.library.sources import SourceError, SourceTree
from dmlvk.spirv.constant_names import NAMES_KEPT, with_constant_names_only
from dmlvk.spirv.cooperative_types import PACKED_SOURCE, has_cooperative_matrices, with_component_types
from dmlvk.spirv.decorations import PASSES, with_decorations

GLSLANG: Final = glslang.ONE
SPIRV_VAL: Final = "spirv-val"
PACKAGES: Final = "glslang-tools spirv-tools"

DEVICE_ARITHMETIC: Final = "DEVICE_ARITHMETIC"
"""The definition of variants that may round sums of products as a device likes."""

DEBUG_FLAGS: Final = ("-g",)

_KEY_DIGITS = 40

CompilerT = TypeVar("CompilerT", bound="Compiler")


class MissingToolError(Exception):
    """glslang or spirv-val is not installed; the message is one line that names the packages."""


class CompileError(Exception):
    """A variant does not compile or is not valid; the message is the tool's, or names file and line."""


class Variant(Protocol):
    """One shader to compile, as ``dmlvk.kernels.variants.ShaderVariant`` describes it."""

    @property
    def name(self) -> str:
        """Such as ``"element_wise_sign.float32.contiguous"``."""

    @property
    def source(self) -> str:
        """Path of the GLSL file below the shader directory."""

    @property
    def defines(self) -> tuple[tuple[str, str], ...]:
        """Preprocessor definitions as (name, value) pairs."""


def key_of(tree: SourceTree, version: str, variant: Variant) -> str:
    """A hash of all that decides a variant's bytes; equal keys need no second compilation.

    Args:
        version: of glslang, such as ``"11:12.0.0"``.

    Raises:
        SourceError: a source or include is missing or ambiguous.
    """
    common = [version, *FLAGS, *INCLUDE_DIRECTORIES, PASSES, NAMES_KEPT]
    content = json.dumps([common, variant.source, tree.digest(variant.source), sorted(variant.defines)])
    return hashlib.sha256(content.encode()).hexdigest()[:_KEY_DIGITS]


@dataclass(frozen=True)
class Compiler:
    tree: SourceTree  # the shader sources
    glslang: str  # path of dmlvk-glslang, which compiles and validates many in one process, or of glslangValidator
    spirv_val: str  # path of spirv-val; empty where dmlvk-glslang does its work
    version: str  # glslang's version, such as ``"11:12.0.0"``

    @classmethod
    def find(cls: type[CompilerT], tree: SourceTree) -> CompilerT:
        """Looks for the tools: dmlvk-glslang first, then glslangValidator and spirv-val on the PATH.

        Raises:
            MissingToolError: one is missing or does not run.
        """
        fault = MissingToolError(f"{GLSLANG} and {SPIRV_VAL} not found on the PATH: install {PACKAGES}")
        for path in glslang.candidates():
            spirv_val = "" if glslang.compiles_many(path) else shutil.which(SPIRV_VAL)
            if spirv_val is None:
                fault = MissingToolError(f"{SPIRV_VAL} not found on the PATH: install {PACKAGES}")
                continue
            try:
                said = subprocess.run([path, "--version"], capture_output=True, text=True, check=True).stdout
                return cls(tree, path, spirv_val, said.splitlines()[0].removeprefix("Glslang Version: "))
            except (OSError, subprocess.CalledProcessError, IndexError) as error:
                fault = MissingToolError(f"{path} does not run ({error}): install {PACKAGES}")
        raise fault

    @cached_property
    def _folders(self) -> list[str]:
        return [(Path(self.tree.root.name) / folder).as_posix() for folder in INCLUDE_DIRECTORIES]

    def key(self, variant: Variant) -> str:
        """A hash of all that decides a variant's bytes; see :func:`key_of`."""
        return key_of(self.tree, self.version, variant)

    def command(self, variant: Variant, output: str, *, debug: bool = False) -> list[str]:
        """GlslangValidator's command line for a variant whose file, with its head, is below the working directory."""
        beside = Path(variant.source).parent.as_posix()
        includes = [f"-I{(self.tree.root.resolve() / folder).as_posix()}" for folder in (beside, *INCLUDE_DIRECTORIES)]
        defines = [f"-D{name}={value}" if value else f"-D{name}" for name, value in sorted(variant.defines)]
        flags = [*FLAGS, *includes, *(DEBUG_FLAGS if debug else ()), *defines]
        program = GLSLANG if glslang.compiles_many(self.glslang) else self.glslang
        return [program, *flags, "-o", output, f"{self.tree.root.name}/{variant.source}"]

    def reproduction(self, variant: Variant) -> str:
        """Shell commands that repeat a variant's compilation, in a folder of their own."""
        *words, file = self.command(variant, os.devnull)
        source = self.tree.file(variant.source)
        head, _, behind = (part.replace("\n", "\\n") for part in source.shader.partition(source.text))
        path = shlex.quote(str(self.tree.root.resolve() / variant.source))
        text = f"(printf {shlex.quote(head)}; cat {path}; printf {shlex.quote(behind)})"
        made = f"cd $(mktemp -d) && mkdir -p {shlex.quote(os.path.dirname(file))} && {text} > {shlex.quote(file)}"
        return f"{made} && {shlex.join([GLSLANG, *words[1:], file])}"

    def compile(self, variant: Variant, *, debug: bool = False) -> bytes:
        """Compiles and validates one variant.

        Args:
            debug: keep names, source text and line numbers.

        Returns:
            The module's bytes: equal for equal sources, wherever they lie.

        Raises:
            CompileError: an error or a warning of the compiler, or invalid SPIR-V.
            OSError: there is no place for the file of a compiler that writes one.
        """
        if glslang.compiles_many(self.glslang) and not debug:
            data = self._compiled_by_many(variant)
        else:
            with tempfile.TemporaryDirectory(prefix="dmlvk-shaders-") as scratch:
                data = self._compiled_by_one(variant, Path(scratch), debug=debug)
        try:
            # Validators as old as the compilers that have to do do not know their instructions: tests have a newer one.
            is_validated = not has_cooperative_matrices(data)
            data = data if debug else with_constant_names_only(data)
            data = with_decorations(
                with_component_types(data),
                precise=DEVICE_ARITHMETIC not in dict(variant.defines),
                precise_matrices=variant.source == PACKED_SOURCE,
            )
        except ValueError as error:
            raise CompileError(f"{self.glslang} left no readable module: {error}") from error
        if is_validated:
            self._validate(data)
        return data

    def _compiled_by_many(self, variant: Variant) -> bytes:
        root, name = self.tree.root, f"{self.tree.root.name}/{variant.source}"
        try:
            source = self.tree.file(variant.source).shader
            answer = glslang.compile_many(
                self.glslang,
                root.resolve().parent,
                name,
                self._folders,
                dict(variant.defines),
                source,
                keeps_names=True,
            )
        except SourceError as error:
            raise CompileError(str(error)) from error
        except glslang.CompilerProcessError as error:
            raise CompileError(f"{error}; scripts/setup.sh builds it anew where it is older than these") from error
        said = _without_blank_lines(answer.message)
        if not answer.is_done or said:
            raise CompileError(said or f"{glslang.MANY} refuses it without a message")
        return answer.module

    def _compiled_by_one(self, variant: Variant, scratch: Path, *, debug: bool) -> bytes:
        # The compiler always prints the name of the file; whatever else it says is an error or a warning.
        own_name, output = f"{self.tree.root.name}/{variant.source}", scratch / "module.spv"
        try:
            (scratch / own_name).parent.mkdir(parents=True)
            (scratch / own_name).write_text(self.tree.file(variant.source).shader, encoding="utf-8")
            result = subprocess.run(
                self.command(variant, str(output), debug=debug),
                cwd=scratch,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                errors="replace",
                check=False,
            )
        except SourceError as error:
            raise CompileError(str(error)) from error
        except OSError as error:
            raise CompileError(f"{GLSLANG} does not run: {error}") from error
        said = _without_blank_lines(result.stdout, own_name)
        if result.returncode != 0 or said:
            raise CompileError(said or f"{GLSLANG} ended with status {result.returncode} and no message")
        try:
            return output.read_bytes()
        except OSError as error:
            raise CompileError(f"{GLSLANG} left no readable module: {error}") from error

    def _validate(self, data: bytes) -> None:
        if not self.spirv_val:
            try:
                answer = glslang.validate_many(self.glslang, data)
            except glslang.CompilerProcessError as error:
                raise CompileError(str(error)) from error
            if not answer.is_done or answer.message:
                raise CompileError(f"{SPIRV_VAL}: {answer.message}")
            return
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


def _without_blank_lines(said: str, own_name: str = "") -> str:
    """A tool's words without empty lines, and without the one that has its file's name only."""
    return "\n".join(line for line in said.splitlines() if line.strip() not in ("", own_name))
