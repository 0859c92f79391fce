"""Hatch build hook: what leaves here has a complete and current shader library, and its sources.

Installing a wheel must need no shader compiler, so the compiled SPIR-V travels inside it. The library is a build
product that git does not keep; a wheel built from a fresh checkout would silently lack it, or carry an old one.
The GLSL sources travel too: kernels of graphs are put together from them. A source distribution carries the library as
well, with a digest of what it was made from: whoever changes something there compiles anew.

A wheel has Kompute as a library for the machine that builds it (``build_kompute.py``). ``build_wheels.py``, which adds
those of other systems, sets ``DMLVK_WHEEL=base`` and gets a wheel without.
"""

from __future__ import annotations

import hashlib
import os
import platform
import re
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

LIBRARY = Path("dmlvk", "kernels", "spirv")

NATIVE = Path("dmlvk", "runtime", "native")

DIGEST = LIBRARY / "sources.sha256"


def digest_of_sources(root: Path) -> str:
    """Of all files from which the shader library is made, and their names."""
    digest = hashlib.sha256()
    for folder in ("dmlvk", "shaders"):
        for path in sorted(Path(root, folder).rglob("*")):
            name = path.relative_to(root)
            if path.is_file() and not {LIBRARY, NATIVE} & {*name.parents} and "__pycache__" not in name.parts:
                digest.update(f"{name.as_posix()}\0{path.stat().st_size}\0".encode() + path.read_bytes())
    return digest.hexdigest()


class ShaderLibraryHook(BuildHookInterface[Any]):
    """Runs ``scripts/compile_shaders.py --pack`` before a wheel or a source distribution is put together."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Bring the packed shader library up to date.

        Args:
            version: Hatch's name for the kind of wheel: ``"standard"`` or ``"editable"``. An editable one contains
                no files of the package, and a checkout compiles by itself what it runs.
            build_data: Hatch's build data, which gets the wheel's files and its tag.

        Raises:
            SystemExit: the library is not current and cannot be compiled, for example without a shader compiler; or
                Kompute cannot be built. It ends pip's output with one line, where another error
                would end it with forty of a traceback.
        """
        if version == "editable":
            return
        self._make_stubs()
        self._make_library()
        if self.target_name == "wheel":
            build_data["force_include"]["shaders"] = "dmlvk/shaders"
            if os.environ.get("DMLVK_WHEEL") != "base":
                library = self._kompute()
                build_data["force_include"][str(library)] = f"dmlvk/runtime/native/{library.name}"
                build_data["pure_python"] = False
                build_data["tag"] = f"py3-none-{re.sub(r'[-.]', '_', sysconfig.get_platform())}"

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

    def _kompute(self) -> Path:
        """Kompute's library for this machine.

        Raises:
            SystemExit: it cannot be built.
        """
        script = Path(self.root, "scripts", "build_kompute.py")
        environment = {name: value for name, value in os.environ.items() if not name.startswith(("PIP_", "PYTHON"))}
        # -I: pip's build environment, which has no pip, must not be seen
        built = subprocess.run(
            [sys.executable, "-I", str(script), "--library"],
            capture_output=True,
            text=True,
            env=environment,
            check=False,
        )
        if built.returncode != 0:
            reason = (built.stderr.strip().splitlines() or ["it says nothing"])[-1]
            here = " ".join([sysconfig.get_platform(), *filter(None, platform.libc_ver())])
            sys.exit(
                f"dmlvk has no wheel for this system ({here}), and Kompute, which it stands on, cannot be built here: "
                "install what is missing, or use Linux with glibc 2.28 or newer, Windows 10 or macOS 13, which have "
                f"wheels (docs/how-to/install.md). {reason}"
            )
        return Path(built.stdout.strip().splitlines()[-1])
