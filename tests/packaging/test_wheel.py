"""The wheel: complete, for every Python of its system, and usable on a machine without any compiler."""

from __future__ import annotations

import dataclasses
import fcntl
import json
import os
import platform
import re
import shutil
import stat
import subprocess
import sys
import sysconfig
import zipfile
from collections.abc import Callable
from pathlib import Path

import onnx
import pytest

from dmlvk import __version__
from dmlvk.kernels import library as library_of_the_checkout
from dmlvk.kernels.catalog import all_variants
from dmlvk.kernels.library.facts import read_facts
from dmlvk.kernels.library.pack import PackedLibrary
from scripts import build_kompute, build_wheels, check_wheels
from scripts.cross import parts, provider
from scripts.cross.targets import HERE
from scripts.cross.wheel import write_wheel
from scripts.docs_tools.function_stubs import function_stubs
from tests.processes import python

pytestmark = pytest.mark.sweep  # who builds no wheel need not wait for one

ROOT = Path(__file__).resolve().parents[2]
NAME = f"dmlvk-{__version__}"
META = f"{NAME}.dist-info/METADATA"
LIBRARY = "dmlvk/runtime/native/libdmlvk_kompute.so"

#: Runs in an interpreter that sees only the installed wheel and, beside it, its dependencies.
PROGRAM = """
import json, shutil, sys
import numpy as np
import dmlvk as dml

tensor = dml.TensorDesc(dml.FLOAT32, (2, 3))
x = np.array([[-2.5, -0.0, 0.0], [np.nan, 1e-42, np.inf]], dtype=np.float32)
with dml.Device() as device:
    desc = dml.operator_desc("ELEMENT_WISE_SIGN", InputTensor=tensor, OutputTensor=tensor)
    y = device.run(desc, {"InputTensor": x})["OutputTensor"]
json.dump(
    {
        "file": dml.__file__,
        "compilers": [name for name in ("glslangValidator", "glslang", "glslc") if shutil.which(name)],
        "output": y.tolist(),
    },
    sys.stdout,
)
"""


def build(
    kind: str, source: Path, output: Path, path: str | None = None, **more: str
) -> subprocess.CompletedProcess[str]:
    """Run ``python -m build`` on a source tree, with another PATH if one is given, and more environment variables."""
    return python(
        "-m",
        "build",
        f"--{kind}",
        "--no-isolation",
        "--outdir",
        str(output),
        str(source),
        env={"PATH": os.environ["PATH"] if path is None else path, **more},
        timeout=600,
    )


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel of this source tree, freshly built by the first process of the run that needs it.

    Two builds at once would compile what is not current of the shader library into the same files.
    """
    shared = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        shared = shared.parent  # the run's, in which every worker has a directory
    folder = shared / "wheel"
    with open(shared / "wheel.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.exists() or not list(folder.iterdir()):
            result = build("wheel", ROOT, folder)
            assert result.returncode == 0, result.stdout + result.stderr
    (path,) = folder.iterdir()
    return path


@pytest.fixture(scope="module")
def source_tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("sdist")
    result = build("sdist", ROOT, folder)
    assert result.returncode == 0, result.stdout + result.stderr
    # Not tarfile: Python 3.12 and 3.13 warn without its filter argument, and early 3.10 and 3.11 do not know it.
    subprocess.run(["tar", "-xzf", f"{NAME}.tar.gz"], cwd=folder, check=True)
    return folder / NAME


def test_wheel_serves_every_python_of_this_system(wheel: Path) -> None:
    system = re.sub(r"[-.]", "_", sysconfig.get_platform())
    assert wheel.name == f"{NAME}-py3-none-{system}.whl"
    with zipfile.ZipFile(wheel) as archive:
        (library,) = (name for name in archive.namelist() if name.startswith("dmlvk/runtime/native/"))
        metadata = archive.read(f"{NAME}.dist-info/METADATA").decode()
    assert library == "dmlvk/runtime/native/libdmlvk_kompute.so"
    assert "Requires-Dist: numpy" in metadata and "Requires-Dist: kp" not in metadata


@pytest.fixture(scope="module")
def platform_wheel(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What ``scripts/build_wheels.py`` makes, with a library that this machine's compiler builds."""
    folder = tmp_path_factory.mktemp("platform")
    target = dataclasses.replace(HERE, tag="manylinux_2_99_x86_64")
    kompute = build_kompute.build(target)
    assert kompute is not None
    library = provider.build(target, folder)
    compiler = folder / target.program("dmlvk-glslang")
    shutil.copy(library, compiler)  # any program does for it here
    (folder / "LICENSE.txt").write_text("as is")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(parts, "zig_folder", lambda: folder)
        patch.setattr(parts, "zig_version", lambda: "1.0")
        for name in ("LICENSE", *(f"lib/{each}/LICENSE.TXT" for each in ("libcxx", "libcxxabi", "libunwind"))):
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text("as is")
        return build_wheels.assembled(wheel, target, (kompute, compiler, library), folder)


@pytest.mark.skipif(platform.machine() != "x86_64", reason="the wheel is for another processor")
def test_wheel_of_a_platform_is_what_an_index_takes(platform_wheel: Path) -> None:
    """Complete, with licences, for what its tag says; libraries of C++, which Zig links in, are this machine's."""
    found = [fault for fault in check_wheels.faults(platform_wheel) if "which not every system has" not in fault]
    assert found == []
    with zipfile.ZipFile(platform_wheel) as archive:
        bill = json.loads(archive.read(f"{NAME}.dist-info/sboms/dmlvk.cdx.json"))
        member = archive.getinfo(f"{NAME}.data/scripts/dmlvk-glslang")
    assert stat.filemode(member.external_attr >> 16) == "-rwxr-xr-x"  # else pip does not make it executable
    assert {"Kompute", "glslang", "Vulkan-Headers"} <= {each["name"] for each in bill["components"]}


BREAKAGES: dict[str, tuple[Callable[[dict[str, bytes]], object], str]] = {
    "another project": (
        lambda files: files.update({META: files[META].replace(b"\nRequires-Dist: numpy", b"\nRequires-Dist: kp", 1)}),
        "it requires kp",
    ),
    "a licence": (lambda files: files.pop(f"{NAME}.dist-info/licenses/zig.txt"), "the licence zig.txt is not there"),
    "the list of components": (lambda files: files.pop(f"{NAME}.dist-info/sboms/dmlvk.cdx.json"), "or no sboms/"),
    "Kompute": (lambda files: files.pop(LIBRARY), "no program or library in native/"),
    "a library of others": (
        lambda files: files.update({"dmlvk/onnxruntime/other.so": Path(sys.executable).resolve().read_bytes()}),
        "needs version 2.|for linux|which not every system has",
    ),
    "another processor": (
        lambda files: files.update({LIBRARY: files[LIBRARY][:18] + b"\xb7\0" + files[LIBRARY][20:]}),
        "is for linux on aarch64, the wheel for linux on x86_64",
    ),
}  # fmt: skip


@pytest.mark.skipif(platform.machine() != "x86_64", reason="the wheel is for another processor")
@pytest.mark.parametrize("broken", BREAKAGES)
def test_what_is_wrong_with_a_wheel_is_named(platform_wheel: Path, tmp_path: Path, broken: str) -> None:
    change, said = BREAKAGES[broken]
    with zipfile.ZipFile(platform_wheel) as archive:
        files = {name: archive.read(name) for name in archive.namelist()}
    change(files)
    tag = platform_wheel.stem.split("-", 2)[2]
    made = write_wheel(
        tmp_path, "dmlvk", __version__, tag, {n: c for n, c in files.items() if not n.endswith("/RECORD")}
    )
    assert re.search(said, "\n".join(check_wheels.faults(made)))


def test_a_newer_system_than_the_tag_promises_is_named(platform_wheel: Path, tmp_path: Path) -> None:
    older = tmp_path / platform_wheel.name.replace("2_99", "2_1")
    shutil.copy(platform_wheel, older)
    assert any("of the system, the tag promises manylinux_2_1_x86_64" in fault for fault in check_wheels.faults(older))


def test_wheel_contains_the_whole_shader_library(wheel: Path, tmp_path: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
        packed = [name for name in names if name.startswith("dmlvk/kernels/spirv/")]
        archive.extractall(tmp_path, packed)
    wanted = {variant.name for variant in all_variants()}
    assert wanted, "there is no shader variant at all"
    assert {Path(name).suffix for name in packed} == {".pack", ".json"}
    library = PackedLibrary(tmp_path / "dmlvk/kernels/spirv")
    known = read_facts(tmp_path / "dmlvk/kernels/spirv")
    assert len(known) > 500 and all(key == library.key(name) for name, (key, _) in known.items())
    assert set(library.names()) == wanted
    for name in sorted(wanted)[::50]:
        assert library.read(name) == library_of_the_checkout.load(name)


def test_wheel_is_small(wheel: Path) -> None:
    assert wheel.stat().st_size <= 30e6


def test_wheel_contains_the_sources_that_kernels_of_graphs_are_put_together_from(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
    sources = {str(path.relative_to(ROOT)) for path in (ROOT / "shaders").rglob("*") if path.is_file()}
    assert sources
    assert {f"dmlvk/{source}" for source in sources} <= names


def test_wheel_contains_the_package_with_type_hints_and_license_and_nothing_else(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
        stubs = archive.read("dmlvk/functions.pyi").decode()
    assert stubs == function_stubs()
    assert "dmlvk/py.typed" in names
    assert "dmlvk/conformance/reference_hashes.json" in names
    assert f"{NAME}.dist-info/licenses/LICENSE" in names
    startup = {"_dmlvk_startup.py", "dmlvk_startup.pth"}  # looks at environment variables when Python starts
    assert {name.split("/")[0] for name in names} == {"dmlvk", f"{NAME}.dist-info", *startup}
    assert not [name for name in names if "__pycache__" in name]


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with the wheel's packages."""
    target = tmp_path_factory.mktemp("installed") / "site"
    install = ["-m", "pip", "install", "--quiet", "--no-index", "--no-deps", "--target", str(target), str(wheel)]
    subprocess.run([sys.executable, *install], check=True, timeout=300)
    return target


def test_programs_of_onnxruntime_use_an_installed_wheel_unchanged(installed: Path, tmp_path: Path) -> None:
    from tests.onnxruntime.models import chain

    onnx.save(chain(3), tmp_path / "model.onnx")
    program = tmp_path / "program.py"
    program.write_text(
        "import onnxruntime\n"
        "session = onnxruntime.InferenceSession('model.onnx', providers=['CPUExecutionProvider'])\n"
        "print(session.get_providers()[0])\n"
    )
    # As Python's start has it where the folder is one of site-packages: the wheel's .pth file is run.
    start = f"import site; site.addsitedir({str(installed)!r}); import runpy; runpy.run_path('program.py')"
    for arguments, value in ((["-c", start], "1"), (["-m", "dmlvk.onnxruntime", "program.py"], "0")):
        done = python(*arguments, env={"PYTHONPATH": str(installed), "DMLVK_ONNXRUNTIME": value}, cwd=tmp_path)
        assert done.stdout == "DmlVkExecutionProvider\n", done.stderr


def test_installed_wheel_runs_an_operator_without_a_shader_compiler(installed: Path, tmp_path: Path) -> None:
    nothing = tmp_path / "no-programs"
    nothing.mkdir()
    result = python("-c", PROGRAM, env={"PATH": str(nothing), "PYTHONPATH": str(installed)}, cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    answer = json.loads(result.stdout)
    assert Path(answer["file"]).is_relative_to(installed), "the checkout was imported, not the installed wheel"
    assert answer["compilers"] == []
    assert answer["output"] == [[-1.0, 0.0, 0.0], [0.0, 1.0, 1.0]]


def test_source_distribution_contains_what_the_wheel_is_built_from(source_tree: Path) -> None:
    for path in ("pyproject.toml", "README.md", "LICENSE", "scripts/compile_shaders.py", "dmlvk/py.typed"):
        assert (source_tree / path).is_file(), path
    sources = {variant.source for variant in all_variants()}
    assert [source for source in sources if not (source_tree / "shaders" / source).is_file()] == []


@pytest.fixture
def changed_source_tree(source_tree: Path, tmp_path: Path) -> Path:
    """The source distribution after somebody has changed a shader, so that it must be compiled anew."""
    tree = tmp_path / "changed"
    shutil.copytree(source_tree, tree)
    shader = next((tree / "shaders").rglob("*.comp"))
    shader.write_text(shader.read_text(encoding="utf-8") + "// changed\n", encoding="utf-8")
    return tree


def test_wheel_is_refused_where_shaders_cannot_be_compiled(
    changed_source_tree: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A wheel without its shaders must not come into being; the message says what is missing."""
    monkeypatch.setenv("DMLVK_GLSLANG", "/nowhere/glslangValidator")
    output = tmp_path / "out"
    result = build("wheel", changed_source_tree, output, path=str(tmp_path))
    assert result.returncode != 0
    assert "its shaders must be compiled" in result.stdout + result.stderr
    assert "glslang" in result.stdout + result.stderr
    assert not list(output.glob("*.whl"))


def test_source_distribution_becomes_a_wheel_without_a_shader_compiler(
    source_tree: Path, wheel: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DMLVK_GLSLANG", "/nowhere/glslangValidator")
    result = build("wheel", source_tree, tmp_path / "out", path=str(tmp_path))
    assert result.returncode == 0, result.stdout + result.stderr
    (made,) = (tmp_path / "out").iterdir()
    with zipfile.ZipFile(made) as archive, zipfile.ZipFile(wheel) as expected:
        packs = {info.filename: info.CRC for info in expected.infolist() if info.filename.endswith(".pack")}
        assert packs
        assert {info.filename: info.CRC for info in archive.infolist() if info.filename.endswith(".pack")} == packs


def pip_makes_a_wheel(source: Path, folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Of the source distribution, in an environment that has nothing but what the build itself needs."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder / "env"], check=True, timeout=300)
    here = os.pathsep.join(path for path in sys.path if path.endswith("site-packages"))
    return subprocess.run(
        [
            *(folder / "env" / "bin" / "python", "-m", "pip", "wheel", "--no-deps", "--no-index"),
            *("--no-build-isolation", "--wheel-dir", folder / "out", source),
        ],
        env={**os.environ, "PYTHONPATH": here, **environment},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def test_pip_installs_the_source_distribution_with_a_kompute_that_was_built_here(
    source_tree: Path, tmp_path: Path
) -> None:
    if build_kompute.build(is_cached_only=True) is None:
        pytest.skip("Kompute was not built by this recipe yet")
    result = pip_makes_a_wheel(source_tree, tmp_path)
    assert result.returncode == 0, result.stdout + result.stderr
    (made,) = (tmp_path / "out").iterdir()
    with zipfile.ZipFile(made) as archive:
        assert "dmlvk/runtime/native/libdmlvk_kompute.so" in archive.namelist()


def test_pip_ends_in_one_line_where_kompute_cannot_be_built(source_tree: Path, tmp_path: Path) -> None:
    nothing = tmp_path / "no-programs"
    nothing.mkdir()
    result = pip_makes_a_wheel(source_tree, tmp_path, PATH=str(nothing), XDG_CACHE_HOME=str(tmp_path / "cache"))
    assert result.returncode != 0
    assert "[1 lines of output]" in result.stdout + result.stderr
    said = result.stdout + result.stderr
    assert "dmlvk has no wheel for this system (linux-" in said and "glibc 2.28 or newer" in said
