"""Hatch build hook: what leaves here has a complete and current shader library, and its sources.

Installing a wheel must need no shader compiler, so the compiled SPIR-V travels inside it. The library is a build
product that git does not keep; a wheel built from a fresh checkout would silently lack it, or carry an old one.
The GLSL sources travel too: kernels of graphs are put together from them. A source distribution carries the library as
well, with a digest of what it was made from: whoever changes something there compiles anew.

Where pip builds a wheel to install it at once, Kompute is built, too (``build_kompute.py``), and the wheel asks for
that very file: PyPI has Kompute as source only, whose own build clones from GitHub and fails on most machines.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import os
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

LIBRARY = Path("dmlvk", "kernels", "spirv")

DIGEST = LIBRARY / "sources.sha256"


def digest_of_sources(root: Path) -> str:
    """Of all files from which the shader library is made, and their names."""
    digest = hashlib.sha256()
    for folder in ("dmlvk", "shaders"):
        for path in sorted(Path(root, folder).rglob("*")):
            name = path.relative_to(root)
            if path.is_file() and LIBRARY not in name.parents and "__pycache__" not in name.parts:
                digest.update(f"{name.as_posix()}\0{path.stat().st_size}\0".encode() + path.read_bytes())
    return digest.hexdigest()


class ShaderLibraryHook(BuildHookInterface[Any]):
    """Runs ``scripts/compile_shaders.py --pack`` before a wheel or a source distribution is put together."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Bring the packed shader library up to date.

        Args:
            version: Hatch's name for the kind of wheel: ``"standard"`` or ``"editable"``. An editable one contains
                no files of the package, and a checkout compiles by itself what it runs.
            build_data: Hatch's build data; left as it is, the wheel stays ``py3-none-any``.

        Raises:
            SystemExit: the library is not current and cannot be compiled, for example without a shader compiler; or
                pip installs, and Kompute cannot be built. It ends pip's output with one line, where another error
                would end it with forty of a traceback.
        """
        if version == "editable":
            return
        self._make_stubs()
        self._make_library()
        if self.target_name == "wheel":
            build_data["force_include"]["shaders"] = "dmlvk/shaders"
            kompute = self._kompute()
            if kompute is not None:
                build_data["dependencies"].append(f"kp @ {kompute.as_uri()}")

    def _make_stubs(self) -> None:
        """What type checkers see of ``dmlvk.functions``; git does not keep it."""
        command = [sys.executable, "-m", "scripts.docs_tools.function_stubs"]
        subprocess.run(command, cwd=self.root, stdout=sys.stderr, check=True)

    def _make_library(self) -> None:
        root = Path(self.root)
        digest = root / DIGEST
        is_packed = digest.is_file() and bool(list((root / LIBRARY).glob("*.pack")))
        is_distribution = (root / "PKG-INFO").is_file()
        if is_packed and is_distribution and digest.read_text(encoding="ascii").strip() == digest_of_sources(root):
            return
        script = root / "scripts" / "compile_shaders.py"
        # stdout belongs to the build front end, so the script's words go to the error stream.
        result = subprocess.run([sys.executable, str(script), "--pack"], cwd=root, stdout=sys.stderr, check=False)
        if result.returncode != 0:
            sys.exit(
                "dmlvk cannot be built from its source: its shaders must be compiled, and the line above says what is "
                "missing (Debian, Ubuntu: apt install glslang-tools spirv-tools); or install the wheel instead"
            )
        if not list((root / LIBRARY).glob("*.pack")):
            sys.exit(f"{script.name} succeeded but left no {LIBRARY.as_posix()}/*.pack")
        digest.write_text(f"{digest_of_sources(root)}\n", encoding="ascii")

    def _kompute(self) -> Path | None:
        """A wheel of Kompute for the environment into which pip installs; ``None`` where it has one or asks PyPI.

        Raises:
            SystemExit: it cannot be built.
        """
        if "PIP_BUILD_TRACKER" not in os.environ or sys.platform != "linux":
            return None
        # Of the environment itself, not of the one in which pip builds: both run the same Python.
        folders = [sysconfig.get_path(name) for name in ("purelib", "platlib")]
        if any(importlib.metadata.distributions(name="kp", path=folders)):
            return None
        script = Path(self.root, "scripts", "build_kompute.py")
        environment = {name: value for name, value in os.environ.items() if not name.startswith(("PIP_", "PYTHON"))}
        # -I: pip's build environment must not be seen in the one that the script makes
        built = subprocess.run(
            [sys.executable, "-I", str(script)], capture_output=True, text=True, env=environment, check=False
        )
        if built.returncode != 0:
            reason = (built.stderr.strip().splitlines() or ["it says nothing"])[-1]
            sys.exit(
                "dmlvk needs Kompute, which PyPI has as source only: install the folder of wheels that "
                f"scripts/build_wheels.py makes, or what is missing to build it here. {reason}"
            )
        return Path(built.stdout.strip().splitlines()[-1])
