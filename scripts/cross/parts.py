"""What wheels bring of others, with licences: a notice for people, and a list of components for programs (PEP 770)."""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from scripts.build_kompute import KOMPUTE_VERSION, LICENSE
from scripts.cross import glslang, moltenvk
from scripts.cross.targets import CrossBuildError, Platform, zig_folder

NOTICE = "THIRD-PARTY.txt"

SBOM = "dmlvk.cdx.json"

NATIVE = "dmlvk/runtime/native"  # Where a wheel has libraries that dmlvk loads


@dataclasses.dataclass(frozen=True)
class Part:
    """A work of others that is in a wheel."""

    name: str  # as its authors write it
    version: str  # of what was compiled
    purl: str  # its package's address, https://github.com/package-url/purl-spec
    license: str  # an SPDX expression
    texts: Mapping[str, bytes]  # licences, by file name in the wheel
    where: str  # which files of the wheel have it


def parts(target: Platform, kompute: Path, compiler: Path) -> list[Part]:
    """Those of a platform's wheel.

    Args:
        kompute: the library, with its licence beside it.
        compiler: the program, with its licence beside it.

    Raises:
        CrossBuildError: a licence is not here.
    """
    headers = Path("/usr/share/doc/libvulkan-dev/copyright")
    zig = zig_folder()
    llvm = {f"LLVM-{name}.txt": zig / "lib" / name / "LICENSE.TXT" for name in ("libcxx", "libcxxabi", "libunwind")}
    runtime = {"zig.txt": zig / "LICENSE"}
    if target.system == "win32":
        runtime["mingw-w64.txt"] = zig / "lib" / "libc" / "mingw" / "COPYING"
    library, program = f"{NATIVE}/{kompute.name}", compiler.name
    both = f"{library}, {program}"
    return [
        *(_moltenvk() if target.system == "darwin" else ()),
        Part(
            "Kompute", f"{KOMPUTE_VERSION} with dmlvk's changes", f"pkg:pypi/kp@{KOMPUTE_VERSION}", "Apache-2.0",
            _texts({"Kompute.txt": kompute.with_name(LICENSE)}), library,
        ),
        Part(
            "Vulkan-Headers", _header_version(), f"pkg:generic/vulkan-headers@{_header_version()}",
            "Apache-2.0 OR MIT", _texts({"Vulkan-Headers.txt": headers}), library,
        ),
        Part(
            "glslang", glslang.VERSION, f"pkg:generic/glslang@{glslang.VERSION}",
            "BSD-3-Clause AND BSD-2-Clause AND MIT AND Apache-2.0 AND GPL-3.0-or-later WITH Bison-exception-2.2",
            _texts({"glslang.txt": compiler.with_name(glslang.LICENSE)}), program,
        ),
        Part(
            "LLVM's C++ library", f"of Zig {zig_version()}", f"pkg:pypi/ziglang@{zig_version()}#lib/libcxx",
            "Apache-2.0 WITH LLVM-exception", _texts(llvm), both,
        ),
        Part(
            "Zig's run-time library", zig_version(), f"pkg:pypi/ziglang@{zig_version()}",
            "MIT AND ZPL-2.1" if target.system == "win32" else "MIT", _texts(runtime), both,
        ),
    ]  # fmt: skip


def _moltenvk() -> list[Part]:
    texts, where = moltenvk.licenses(), f"{NATIVE}/{moltenvk.LIBRARY}"
    apache = {"MoltenVK.txt": texts["MoltenVK.txt"]}
    return [
        Part("MoltenVK", moltenvk.VERSION, f"pkg:generic/moltenvk@{moltenvk.VERSION}", "Apache-2.0", apache, where),
        *(
            Part(name, f"of MoltenVK {moltenvk.VERSION}", f"pkg:generic/{name.lower()}", "Apache-2.0", apache, where)
            for name in ("SPIRV-Cross", "SPIRV-Tools")
        ),
        Part(
            "cereal", f"of MoltenVK {moltenvk.VERSION}", "pkg:generic/cereal", "BSD-3-Clause",
            {"cereal.txt": texts["cereal.txt"]}, where,
        ),
    ]  # fmt: skip


def files(found: Sequence[Part], version: str) -> dict[str, bytes]:
    """What goes into the wheel's ``.dist-info``: licences, a notice, a list of components in CycloneDX's format."""
    lines = ["This wheel of dmlvk brings works of others. Their licences lie beside this file.\n"]
    texts: dict[str, bytes] = {}
    for part in found:
        texts |= part.texts
        lines.append(
            f"{part.name} {part.version}\n    in:      {part.where}\n    license: {part.license}\n"
            f"    text:    {', '.join(part.texts)}\n"
        )
    made = {f"licenses/{name}": text for name, text in texts.items()}
    made[f"licenses/{NOTICE}"] = "\n".join(lines).encode()
    made[f"sboms/{SBOM}"] = (json.dumps(_components(found, version), indent=2, sort_keys=True) + "\n").encode()
    return made


def _components(found: Sequence[Part], version: str) -> dict[str, object]:
    """https://cyclonedx.org/docs/1.6/json/"""
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {
            "component": {
                "type": "library", "bom-ref": "dmlvk", "name": "dmlvk", "version": version,
                "purl": f"pkg:pypi/dmlvk@{version}", "licenses": [{"expression": "Apache-2.0"}],
            },
        },
        "components": [
            {
                "type": "library", "bom-ref": part.purl, "name": part.name, "version": part.version,
                "purl": part.purl, "licenses": [{"expression": part.license}],
                "properties": [{"name": "dmlvk:in", "value": part.where}],
            }
            for part in found
        ],
        "dependencies": [{"ref": "dmlvk", "dependsOn": [part.purl for part in found]}],
    }  # fmt: skip


def _texts(paths: Mapping[str, Path]) -> dict[str, bytes]:
    missing = [str(path) for path in paths.values() if not path.is_file()]
    if missing:
        raise CrossBuildError(f"licences of what goes into the wheel are not here: {', '.join(missing)}")
    return {name: path.read_bytes() for name, path in paths.items()}


def zig_version() -> str:
    (metadata,) = zig_folder().parent.glob("ziglang-*.dist-info")
    return metadata.name.removeprefix("ziglang-").removesuffix(".dist-info")


def _header_version() -> str:
    text = Path("/usr/include/vulkan/vulkan_core.h").read_text(encoding="utf-8")
    patch = re.search(r"#define VK_HEADER_VERSION (\d+)", text)
    complete = re.search(r"#define VK_HEADER_VERSION_COMPLETE VK_MAKE_API_VERSION\(0, (\d+), (\d+),", text)
    if patch is None or complete is None:
        raise CrossBuildError("Vulkan's headers have no version")
    return f"{complete[1]}.{complete[2]}.{patch[1]}"
