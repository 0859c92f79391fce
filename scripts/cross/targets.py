"""The systems for which wheels are built elsewhere, and the compilers that do it."""

from __future__ import annotations

import dataclasses
import importlib.util
import shutil
import sys
from collections.abc import Mapping
from types import MappingProxyType

CPYTHONS = (10, 11, 12, 13)
"""Minor versions of CPython 3 that wheels are made for."""


class CrossBuildError(Exception):
    """Nothing can be built for another system here; the message says what is missing, or which step failed."""


@dataclasses.dataclass(frozen=True)
class Platform:
    """A system, and what builds for it.

    Attributes:
        name: what ``build_wheels.py --platform`` is given.
        tag: the platform of a wheel's name.
        system: ``"win32"``, ``"darwin"`` or ``"linux"``, as ``sys.platform`` says it there.
        compiler: the C++ compiler's words.
        packages: Debian's packages that bring it; none where it is PyPI's ziglang.
        flags: for compiling and linking.
        link: for linking a shared library.
        program_link: for linking a program.
        suffix: of an extension module for CPython 3.N, with ``{minor}`` for N.
    """

    name: str
    tag: str
    system: str
    compiler: tuple[str, ...]
    packages: tuple[str, ...]
    flags: tuple[str, ...]
    link: tuple[str, ...]
    program_link: tuple[str, ...]
    suffix: str

    @property
    def system_name(self) -> str:
        """What the table of platforms calls it."""
        return {"win32": "Windows x86-64", "linux": "Linux on Arm (aarch64)", "darwin": "macOS"}[self.system]

    def check_compiler(self) -> None:
        """Looks for the compiler.

        Raises:
            CrossBuildError: it is not here.
        """
        if shutil.which(self.compiler[0]) is None:
            raise CrossBuildError(
                f"{self.name}: {self.compiler[0]} is not here (apt install {' '.join(self.packages)})"
            )
        if "ziglang" in self.compiler and importlib.util.find_spec("ziglang") is None:
            raise CrossBuildError(f"{self.name}: {sys.executable} has no ziglang (pip install ziglang)")


_ZIG = (sys.executable, "-m", "ziglang", "c++")

TARGETS: Mapping[str, Platform] = MappingProxyType(
    {
        target.name: target
        for target in (
            Platform(
                name="win_amd64",
                tag="win_amd64",
                system="win32",
                compiler=("x86_64-w64-mingw32-g++-posix",),  # the one with Windows' own threads lacks std::mutex
                packages=("g++-mingw-w64-x86-64", "mingw-w64-tools"),
                flags=("-D_WIN32_WINNT=0x0A00",),
                link=("-shared", "-static", "-s"),
                program_link=("-static", "-s"),
                suffix=".cp3{minor}-win_amd64.pyd",
            ),
            Platform(
                name="manylinux_aarch64",
                tag="manylinux_2_34_aarch64",
                system="linux",
                compiler=("aarch64-linux-gnu-g++",),
                packages=("g++-aarch64-linux-gnu",),
                flags=("-fPIC",),
                link=("-shared", "-static-libstdc++", "-static-libgcc", "-s"),
                program_link=("-static-libstdc++", "-static-libgcc", "-s", "-pthread"),
                suffix=".cpython-3{minor}-aarch64-linux-gnu.so",
            ),
            *(
                Platform(
                    name=f"macosx_{machine}",
                    tag=f"macosx_{version.replace('.', '_')}_{machine}",
                    system="darwin",
                    compiler=(*_ZIG, "-target", f"{zig_machine}-macos.{version}"),
                    packages=(),
                    flags=("-fPIC",),
                    # Vulkan's functions are those of the library that dmlvk has loaded before: the loader, or MoltenVK.
                    link=("-shared", "-undefined", "dynamic_lookup", "-s"),
                    program_link=("-s",),
                    suffix=".cpython-3{minor}-darwin.so",
                )
                for machine, zig_machine, version in (("arm64", "aarch64", "11.0"), ("x86_64", "x86_64", "11.0"))
            ),
        )
    }
)
"""By name."""

X86_64 = Platform(
    name="manylinux_x86_64",
    tag="manylinux_2_34_x86_64",
    system="linux",
    compiler=("g++",),
    packages=("g++",),
    flags=("-fPIC",),
    link=("-shared", "-static-libstdc++", "-static-libgcc", "-s"),
    program_link=("-static-libstdc++", "-static-libgcc", "-s", "-pthread"),
    suffix=".cpython-3{minor}-x86_64-linux-gnu.so",
)
"""Linux on the processor at hand, for versions of it that lack this one's libraries; its wheels auditwheel repairs."""
