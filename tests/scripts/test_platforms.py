"""What is found out for systems that are not here: modules as Metal has them, launches as AMD's driver compiles."""

from __future__ import annotations

import argparse
import dataclasses
import functools
import hashlib
import io
import math
import re
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Sequence
from pathlib import Path

import pytest

from dmlvk.kernels import library
from scripts import compile_for_gpus, translate_to_metal
from scripts.cross import tools
from scripts.cross.gpu_drivers import Compiled, Family, PipelineCompiler
from scripts.cross.targets import CrossBuildError
from scripts.cross.wheel import write_wheel
from scripts.shader_tools.changes import ROOT, UnknownCommitError, changes_since
from scripts.shader_tools.launches import TARGETS, real_launches
from scripts.shader_tools.metal import with_products_as_fma

SHADER = """#version 450
layout(local_size_x = 64) in;
layout(std430, binding = 0) buffer Words { float words[]; };
shared uint kept[%d];
void main()
{
    kept[gl_LocalInvocationIndex] = gl_LocalInvocationIndex;
    barrier();
    words[gl_GlobalInvocationID.x] = %s;
}
"""


def compiled(folder: Path, words: int, value: str) -> bytes:
    (folder / "a.comp").write_text(SHADER % (words, value))
    command = [
        "glslangValidator",
        "-V",
        "--target-env",
        "vulkan1.1",
        "-o",
        str(folder / "a.spv"),
        str(folder / "a.comp"),
    ]
    subprocess.run(command, check=True, capture_output=True)
    return (folder / "a.spv").read_bytes()


needs_spirv_cross = pytest.mark.skipif(shutil.which("spirv-cross") is None, reason="spirv-cross is not installed")


@needs_spirv_cross
@pytest.mark.parametrize(
    ("words", "value", "fault"),
    [
        (64, "float(kept[3])", None),
        (8193, "float(kept[3])", "has 32772 bytes of shared memory; Metal has 32768"),
        (64, "sqrt(float(kept[3]))", "has sqrt in its text"),
        (64, "isnan(float(kept[3])) ? 1.0 : 2.0", "has isnan in its text"),
        (64, "float(double(kept[3]) * 3.0lf)", "double"),
    ],
)
def test_what_metal_would_not_take_is_named(tmp_path: Path, words: int, value: str, fault: str | None) -> None:
    found = translate_to_metal.fault_of(compiled(tmp_path, words, value), tmp_path)
    assert (found is None) if fault is None else (found is not None and fault in found)


@needs_spirv_cross
def test_modules_translate(capsys: pytest.CaptureFixture[str]) -> None:
    assert translate_to_metal.main(["--every", "400"]) == 0
    assert ", 0 are bad\n" in capsys.readouterr().out


def test_products_become_what_spirv_cross_writes(tmp_path: Path) -> None:
    module = with_products_as_fma(library.load("element_wise_multiply.float32.contiguous"))
    subprocess.run(["spirv-val", "--target-env", "vulkan1.1", "-"], input=module, check=True)
    text = subprocess.run(["spirv-dis", "-"], input=module, capture_output=True, check=True).stdout.decode()
    products = re.findall(r"(%\w+) = OpFMul ", text)
    assert products
    for product in products:  # is looked at, and taken where it is no -0
        assert re.search(rf"= OpBitcast %\w+ {product}\n", text)
        assert re.search(rf"= OpSelect %\w+ %\w+ %\w+ {product}\n", text)
        assert f"OpDecorate {product} NoContraction" in text


@pytest.mark.parametrize(
    ("seconds", "statistics", "fault"),
    [
        (0.1, {"Spilled VGPRs": 0, "Scratch size": 0, "Spilled SGPRs": 3}, None),
        (0.1, {"Spilled VGPRs": 7, "Scratch size": 1024}, "spills 7 vector registers, 1024 bytes of scratch memory"),
        (0.1, {"Spill Count": 0, "Fill Count": 0, "Scratch Memory Size": 0}, None),
        (
            0.1,
            {"Spill Count": 9, "Scratch Memory Size": 2048},
            "spills 9 vector registers, 2048 bytes of scratch memory",
        ),
        (2.5, {}, "takes 2.5 s to compile"),
    ],
)
def test_a_bad_launch_is_named(seconds: float, statistics: dict[str, int], fault: str | None) -> None:
    found = compile_for_gpus.fault_of(Compiled(seconds, statistics))
    assert found == fault if fault is None else (found or "").startswith(fault)


LAUNCHES = list(real_launches(TARGETS["any"], "DEPTH_TO_SPACE*"))[:4]


class Driver:
    """Takes 3 s for a launch at its first time, 1 s then, and 4 s for the last launch."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __enter__(self) -> Driver:
        return self

    def __exit__(self, *_: object) -> None: ...

    def compile(self, spirv: bytes, constants: Sequence[int], bindings: int, push_words: int) -> Compiled:
        place = next(
            place for place, each in enumerate(LAUNCHES) if spirv in each.forms and each.constants == constants
        )
        known = self.folder / hashlib.sha256(spirv + repr(constants).encode()).hexdigest()
        is_new = not known.exists()
        known.touch()
        return Compiled(4.0 if place == len(LAUNCHES) - 1 else 3.0 if is_new else 1.0, {"SGPRs": place})


FATAL = """
import os, signal, struct, sys
print("a GPU", flush=True)
while head := sys.stdin.buffer.read(16):
    size, constants, _, _ = struct.unpack("<4I", head)
    sys.stdin.buffer.read(4 * constants + size)
    if size in %s:
        os.kill(os.getpid(), signal.SIGKILL)
    print('{"result": 0, "seconds": 0.5, "SGPRs": 7}', flush=True)
"""


@pytest.mark.parametrize("jobs", [1, 3])
def test_a_launch_that_ends_its_process_is_named_and_the_others_are_compiled(jobs: int) -> None:
    fatal, *others = ({len(form) for form in launch.forms} for launch in LAUNCHES[::-1])
    assert all(own.isdisjoint(fatal) for own in others)
    options = argparse.Namespace(family="GFX1100", jobs=jobs, most_seconds=5.0)
    driver = functools.partial(PipelineCompiler, [sys.executable, "-c", FATAL % fatal])
    found = compile_for_gpus.compiled_launches(driver, LAUNCHES[::-1], options, math.inf)
    assert sorted(found) == [0, 1, 2, 3]
    assert {row.get("SGPRs") for place in (1, 2, 3) for row in found[place]} == {7}
    assert {row["fault"] for row in found[0]} == {"the driver's compiler ends the process (-9)"}


@pytest.mark.parametrize("jobs", [1, 3])
def test_what_took_too_long_beside_others_is_compiled_again(
    tmp_path: Path, jobs: int, capsys: pytest.CaptureFixture[str]
) -> None:
    options = argparse.Namespace(family="GFX1100", jobs=jobs, most_seconds=2.0)
    driver = functools.partial(Driver, tmp_path)
    found = compile_for_gpus.compiled_launches(driver, LAUNCHES, options, math.inf)
    told = capsys.readouterr().out
    assert {place for place, rows in found.items() if any("fault" in row for row in rows)} == {3}, told
    assert f"{LAUNCHES[3].operator}): takes 4.0 s to compile" in told
    assert ("4 launches took more than 2.0 s beside others: again, alone" in told) == (jobs > 1)
    left = compile_for_gpus.compiled_launches(driver, LAUNCHES, options, -math.inf)
    assert left == {}


def test_families_with_other_matrices_get_their_launches_and_only_the_modules_asked_for() -> None:
    options = argparse.Namespace(operators="MULTIHEAD_ATTENTION1", modules="*.of64*", changed_since=None, every=None)
    target = Family("navi31").target
    variants = {launch.variant for launch in compile_for_gpus.chosen_launches(options, target)}
    assert variants and all(".cooperative." in variant and ".of64" in variant for variant in variants)
    assert not compile_for_gpus.chosen_launches(options, "256 registers")


def test_a_change_touches_launches_that_were_not_made_before() -> None:
    if subprocess.run(["git", "archive", "HEAD", "pyproject.toml"], cwd=ROOT, capture_output=True).returncode != 0:
        pytest.skip("this is no checkout")
    changes = changes_since("HEAD", "any", "DEPTH_TO_SPACE*")
    launches = list(real_launches(TARGETS["any"], "DEPTH_TO_SPACE*"))
    assert launches and changes.known is not None and not changes.remark
    untouched = dataclasses.replace(changes, variants=())
    assert not all(map(untouched.touch, launches))
    for launch in launches:
        assert untouched.touch(dataclasses.replace(launch, constants=(*launch.constants, 7)))
        assert dataclasses.replace(changes, variants=(launch.variant,)).touch(launch)
    with pytest.raises(UnknownCommitError, match="nothing: fatal"):
        changes_since("nothing", "any")


def test_a_wheel_is_what_pip_reads(tmp_path: Path) -> None:
    files = {"kp.so": b"binary", "kp-1.0.dist-info/METADATA": b"Metadata-Version: 2.1\nName: kp\nVersion: 1.0\n"}
    made = write_wheel(tmp_path, "kp", "1.0", "cp312-cp312-win_amd64", files)
    assert made.name == "kp-1.0-cp312-cp312-win_amd64.whl"
    with zipfile.ZipFile(made) as archive:
        rows = dict(line.split(",", 1) for line in archive.read("kp-1.0.dist-info/RECORD").decode().splitlines())
        assert set(rows) == set(archive.namelist())
        assert rows["kp.so"] == "sha256=mjpF0BUxog6JrGrhCwsL6wSSrNchajaKoGLRpf7K-c0,6"
    before = made.read_bytes()
    assert write_wheel(tmp_path, "kp", "1.0", "cp312-cp312-win_amd64", files).read_bytes() == before


def test_a_file_is_asked_for_again_where_a_server_cannot_give_it_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    answers: list[bytes | OSError] = [OSError("503"), b"content", OSError("1"), OSError("2"), OSError("3"), b"another"]

    def answer(url: str, timeout: float) -> io.BytesIO:
        given = answers.pop(0)
        if isinstance(given, OSError):
            raise given
        return io.BytesIO(given)

    monkeypatch.setattr("urllib.request.urlopen", answer)
    monkeypatch.setattr(tools, "_WAITS", (0.0, 0.0))
    digest = hashlib.sha256(b"content").hexdigest()
    assert tools.fetched("https://example.org/file", digest) == b"content"
    for reason in ("is not to be had: 3", "is not what it was"):
        with pytest.raises(CrossBuildError, match=reason):
            tools.fetched("https://example.org/file", digest)
