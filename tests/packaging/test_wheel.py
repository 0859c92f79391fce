"""The wheel: complete, pure Python by its tag, and usable on a machine without any shader compiler."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import onnx
import pytest

from dmlvk.bench.onnx_models import chain
from dmlvk.kernels import library as library_of_the_checkout
from dmlvk.kernels.catalog import all_variants
from dmlvk.kernels.library.facts import read_facts
from dmlvk.kernels.library.pack import PackedLibrary
from scripts.build_wheels import with_compiler
from scripts.docs_tools.function_stubs import function_stubs

pytestmark = pytest.mark.sweep  # who builds no wheel need not wait for one

ROOT = Path(__file__).resolve().parents[2]
NAME = "dmlvk-0.1.0"

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
    return subprocess.run(
        [sys.executable, "-m", "build", f"--{kind}", "--no-isolation", "--outdir", str(output), str(source)],
        env={**os.environ, "PATH": os.environ["PATH"] if path is None else path, **more},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
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
    """The unpacked source distribution."""
    folder = tmp_path_factory.mktemp("sdist")
    result = build("sdist", ROOT, folder)
    assert result.returncode == 0, result.stdout + result.stderr
    # Not tarfile: Python 3.12 and 3.13 warn without its filter argument, and early 3.10 and 3.11 do not know it.
    subprocess.run(["tar", "-xzf", f"{NAME}.tar.gz"], cwd=folder, check=True)
    return folder / NAME


def test_wheel_serves_every_python_and_platform(wheel: Path) -> None:
    assert wheel.name == f"{NAME}-py3-none-any.whl"


def test_wheel_of_a_platform_is_the_same_with_a_compiler_and_its_licenses(wheel: Path, tmp_path: Path) -> None:
    """What ``scripts/build_wheels.py`` makes of it; any program does for the compiler here."""
    program, license_file = tmp_path / "dmlvk-glslang.exe", tmp_path / "glslang-dev" / "copyright"
    shutil.copy(sys.executable, program)
    license_file.parent.mkdir()
    license_file.write_text("as is")
    path = with_compiler(wheel, tmp_path / "made", "py3-none-win_amd64", program, [license_file])
    assert path.name == f"{NAME}-py3-none-win_amd64.whl"
    with zipfile.ZipFile(path) as archive, zipfile.ZipFile(wheel) as pure:
        member = archive.getinfo(f"{NAME}.data/scripts/dmlvk-glslang.exe")
        assert archive.read(member) == program.read_bytes()
        assert member.external_attr >> 16 & 0o111
        licenses = f"{NAME}.dist-info/extra_metadata/compiler-licenses/glslang-dev-copyright"
        assert archive.read(licenses) == license_file.read_bytes()
        same = set(pure.namelist()) - {f"{NAME}.dist-info/RECORD", f"{NAME}.dist-info/WHEEL"}
        assert {archive.getinfo(name).CRC for name in same} == {pure.getinfo(name).CRC for name in same}
        assert b"Tag: py3-none-win_amd64\n" in archive.read(f"{NAME}.dist-info/WHEEL")
        listed = {line.split(",")[0] for line in archive.read(f"{NAME}.dist-info/RECORD").decode().splitlines()}
        assert listed == set(archive.namelist())


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
    assert len(known) > 700 and all(key == library.key(name) for name, (key, _) in known.items())
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
        done = subprocess.run(
            [sys.executable, *arguments],
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": str(installed), "DMLVK_ONNXRUNTIME": value},
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        assert done.stdout == "DmlVkExecutionProvider\n", done.stderr


def test_installed_wheel_runs_an_operator_without_a_shader_compiler(installed: Path, tmp_path: Path) -> None:
    nothing = tmp_path / "no-programs"
    nothing.mkdir()
    result = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        cwd=tmp_path,
        env={**os.environ, "PATH": str(nothing), "PYTHONPATH": str(installed)},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
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
    """Of the source distribution, in an environment that has no Kompute but what the build itself needs."""
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
    script = [sys.executable, str(ROOT / "scripts" / "build_kompute.py"), "--cached-only"]
    cached = subprocess.run(script, capture_output=True, text=True, check=False)
    if cached.returncode != 0:
        pytest.skip("Kompute was not built by this recipe yet, which takes minutes")
    result = pip_makes_a_wheel(source_tree, tmp_path)
    assert result.returncode == 0, result.stdout + result.stderr
    (made,) = (tmp_path / "out").iterdir()
    with zipfile.ZipFile(made) as archive:
        metadata = archive.read(f"{NAME}.dist-info/METADATA").decode()
    wanted = [line for line in metadata.splitlines() if line.startswith("Requires-Dist: kp")]
    assert wanted == ["Requires-Dist: kp>=0.9", f"Requires-Dist: kp @ {Path(cached.stdout.strip()).as_uri()}"]


def test_pip_ends_in_one_line_where_kompute_cannot_be_built(source_tree: Path, tmp_path: Path) -> None:
    nothing = tmp_path / "no-programs"
    nothing.mkdir()
    result = pip_makes_a_wheel(source_tree, tmp_path, PATH=str(nothing), XDG_CACHE_HOME=str(tmp_path / "cache"))
    assert result.returncode != 0
    assert "[1 lines of output]" in result.stdout + result.stderr
    assert "install the folder of wheels that scripts/build_wheels.py makes" in result.stdout + result.stderr
    assert "apt install" in result.stdout + result.stderr and "libvulkan-dev" in result.stdout + result.stderr
