"""What is found out for systems that are not here: modules as Metal has them, launches as AMD's driver compiles."""

from __future__ import annotations

import argparse
import dataclasses
import hashlib
import io
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from dmlvk.conformance.samples import SampleCase
from dmlvk.kernels import library
from dmlvk.operators import OPERATORS
from scripts import compile_for_gpus, translate_to_metal
from scripts.cross import both, families, foreign_drivers, platform_table, tools
from scripts.cross.both import Command
from scripts.cross.platform_table import Found
from scripts.cross.targets import CrossBuildError
from scripts.cross.wheel import write_wheel
from scripts.shader_tools.changes import ROOT, UnknownCommitError, changes_since
from scripts.shader_tools.launches import TARGETS, real_launches
from scripts.shader_tools.metal import with_products_as_fma
from scripts.shader_tools.pipelines import Compiled

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


def test_families_with_other_matrices_get_their_launches_and_only_the_modules_asked_for() -> None:
    options = argparse.Namespace(operators="MULTIHEAD_ATTENTION1", modules="*.of64*", changed_since=None, every=None)
    target = foreign_drivers.FAMILIES["navi31"].target
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


def test_the_table_says_what_differs_and_what_is_broken() -> None:
    here = Found({"abs": "1", "add": "2", "if": "3"}, {"gemm": kept("4"), "cast": kept("5")})

    def row_of(there: Found) -> dict[str, str]:
        result = platform_table.compared(here, there)
        assert platform_table.is_well(result) == (there == here or there.is_cut)
        for name in (*there.operators_ended, *there.cases_ended):
            assert f"{name} ends the process: LLVM ERROR" in result["told"]
        return platform_table.table_row(result)

    assert row_of(here) == {"operators": "3", "conformance": "2 of 2", "bits": "all"}
    cases = {**here.cases, "gemm": {"sha256": "6", "fault": "3 of 8 results"}}
    other = row_of(Found({"abs": "1", "add": "4"}, cases))
    assert other == {"operators": "2", "conformance": "1 of 2", "bits": "not add, gemm, if"}
    assert row_of(Found({}, {}, {"": "LLVM ERROR"}))["bits"] == "not abs, add, cast, gemm, if"
    cut = row_of(Found({"abs": "1"}, {"cast": kept("5")}, is_cut=True))
    assert cut.pop("more") == "not run in the time given: 2 operators, 1 cases"
    assert cut == {"operators": "1 of 3", "conformance": "1 of 1, 1 not run", "bits": "all"}
    ended = row_of(Found({"abs": "1", "add": "2"}, {"cast": kept("5")}, {"if": "LLVM ERROR"}, {"gemm": "LLVM ERROR"}))
    assert ended.pop("more").endswith("ends the process: if; gemm")
    assert ended == {"operators": "2 of 3", "conformance": "1 of 2", "bits": "all"}


def kept(digest: str) -> dict[str, str]:
    return {"sha256": digest, "fault": ""}


ELSEWHERE = """
import json, os, sys, time
for number, (kind, name) in enumerate([("operators", "abs"), ("operators", "if"), ("cases", "abs"), ("cases", "gemm")]):
    if str(number) in sys.argv[-1].split(","):
        continue
    told = {"number": number, "kind": kind, "name": name}
    print(json.dumps({**told, "begun": True}), flush=True)
    if name == "if":
        print("words\\nLLVM ERROR: no\\ncore dumped", file=sys.stderr, flush=True)
        os.abort()
    if name == "gemm":
        time.sleep(60)
    found = {"operators": "1", "cases": {"sha256": "2", "fault": ""}}[kind]
    print(json.dumps({**told, "found": found}), flush=True)
"""


def test_what_comes_after_something_that_ends_the_process_is_run_by_another_and_kept(tmp_path: Path) -> None:
    kept_lines = tmp_path / "results.jsonl"
    found = both.results_of(
        lambda *words: Command([sys.executable, "-c", ELSEWHERE, *words]), 2, silent_seconds=1.0, kept=kept_lines
    )
    assert found.operators == {"abs": "1"}
    assert found.cases == {"abs": kept("2")}
    assert found.operators_ended == {"if": "LLVM ERROR: no"}
    assert found.cases_ended == {"gemm": "it says nothing (ended after 1 s without a result)"}
    nothing_left = "import sys; assert set(sys.argv[-1].split(',')) == set('0123')"
    again = both.results_of(lambda *words: Command([sys.executable, "-c", nothing_left, *words]), 2, kept=kept_lines)
    assert again == found


def test_what_does_not_fit_into_the_time_is_left() -> None:
    found = both.results_of(lambda *words: Command([sys.executable, "-c", ELSEWHERE, *words]), 1, seconds=1.0)
    assert found.is_cut
    assert found.operators in ({"abs": "1"}, {})  # as far as a busy machine has come
    assert not found.cases_ended


def test_a_platform_without_a_device_is_not_asked_again() -> None:
    program = "raise SystemExit('dmlvk.errors.DeviceNotFoundError: none')"
    found = both.results_of(lambda *words: Command([sys.executable, "-c", program, *words]), 1)
    assert found == Found({}, {}, {"": "dmlvk.errors.DeviceNotFoundError: none"})


def test_every_family_has_a_conformance_case() -> None:
    modules = {each.__module__.rpartition(".")[2] for each in OPERATORS.values()}
    assert modules == set(families.one_case_each())


def test_small_cases_are_of_every_family_and_have_one_sample_each() -> None:
    whole, small = families.one_case_each().values(), families.chosen(10, is_small=True)
    assert [case.name for case in small] == [case.name for case in whole]
    samples = {case.name: len(list(case.samples())) for case in small if isinstance(case, SampleCase)}
    assert samples and set(samples.values()) == {1}, samples


def test_the_table_keeps_what_is_known(tmp_path: Path) -> None:
    page = tmp_path / "install.md"
    page.write_text("# Install\n\n| platform | |\n|---|---|\n\nMore.\n")
    platform_table.add_row(page, "Elsewhere", {"built": "CPython 3.12", "bits": "all", "more": ""})
    platform_table.add_row(page, "Anywhere", {"more": "nothing"})
    platform_table.add_row(page, "Elsewhere", {"bits": "not if"})
    rows = "| Anywhere | – | – | – | – | – | nothing |\n| Elsewhere | CPython 3.12 | – | – | – | not if | – |\n\n"
    text = page.read_text()
    assert f"{rows}More.\n" in text
    assert platform_table.read(text)["Elsewhere"] == {"built": "CPython 3.12", "bits": "not if"}
    page.write_text("# Install\n")
    with pytest.raises(ValueError, match="must have one table of platforms; has 0"):
        platform_table.add_row(page, "Elsewhere", {"bits": "all"})


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
