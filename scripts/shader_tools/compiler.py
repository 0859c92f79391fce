"""The compiler of the package, held to one more rule: no condition may ask for a macro that is not defined."""

from __future__ import annotations

from dmlvk.kernels.library import compiler
from dmlvk.kernels.library.compiler import CompileError, MissingToolError, Variant
from dmlvk.kernels.library.sources import SourceError
from scripts.shader_tools.preprocessor import undefined_macros

__all__ = ["CheckingCompiler", "CompileError", "MissingToolError"]


class CheckingCompiler(compiler.Compiler):
    """Compiles the shaders of one directory, and finds mistyped macros."""

    def compile(self, variant: Variant, *, debug: bool = False) -> bytes:
        """Compile and validate one variant.

        Args:
            variant: what to compile.
            debug: keep names, source text and line numbers.

        Returns:
            The module's bytes: equal for equal sources, wherever they lie.

        Raises:
            CompileError: undefined macros in conditions, an error or a warning of the compiler, or invalid SPIR-V.
        """
        self.check(variant)
        return super().compile(variant, debug=debug)

    def check(self, variant: Variant) -> None:
        """Look for conditions that ask for macros which are not defined: glslang takes them for 0.

        Raises:
            CompileError: there is one, or a source cannot be read.
        """
        try:
            problems = undefined_macros(self.tree, variant.source, variant.defines)
        except SourceError as error:
            raise CompileError(str(error)) from error
        if problems:
            root = self.tree.root.name
            raise CompileError("\n".join(f"{root}/{p.file}:{p.line}: {p.message}" for p in problems))
