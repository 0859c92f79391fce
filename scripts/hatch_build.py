"""Hatch build hook: a wheel never leaves without a complete and current shader library, and its sources.

Installing a wheel must need no shader compiler, so the compiled SPIR-V travels inside it. The library is a build
product that git does not keep; a wheel built from a fresh checkout would silently lack it, or carry an old one.
The GLSL sources travel too: kernels of graphs are put together from them.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class ShaderLibraryHook(BuildHookInterface[Any]):
    """Runs ``scripts/compile_shaders.py --pack`` before a standard wheel is put together."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Bring the packed shader library up to date.

        Args:
            version: Hatch's name for the kind of wheel: ``"standard"`` or ``"editable"``. An editable one contains
                no files of the package, and a checkout compiles by itself what it runs.
            build_data: Hatch's build data; left as it is, the wheel stays ``py3-none-any``.

        Raises:
            SystemExit: the library is not current and cannot be compiled, for example without a shader compiler. It
                ends pip's output with one line, where another error would end it with forty of a traceback.
        """
        if version == "editable":
            return
        script = Path(self.root, "scripts", "compile_shaders.py")
        build_data["force_include"]["shaders"] = "dmlvk/shaders"
        # stdout belongs to the build front end, so the script's words go to the error stream.
        result = subprocess.run([sys.executable, str(script), "--pack"], cwd=self.root, stdout=sys.stderr, check=False)
        if result.returncode != 0:
            sys.exit(
                "dmlvk cannot be built from its source: its shaders must be compiled, and the line above says what is "
                "missing (Debian, Ubuntu: apt install glslang-tools spirv-tools); or install the wheel instead"
            )
        if not list(Path(self.root, "dmlvk", "kernels", "spirv").glob("*.pack")):
            sys.exit(f"{script.name} succeeded but left no dmlvk/kernels/spirv/*.pack")
