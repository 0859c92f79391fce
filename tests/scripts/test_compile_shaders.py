"""The compile script: determinism, incrementality, interruption, errors, --check."""

from __future__ import annotations

import json
import os
import subprocess
import threading
from pathlib import Path
from typing import Any

import pytest

from scripts.shader_tools import library as library_module
from scripts.shader_tools.compiler import Compiler
from scripts.shader_tools.project import checked_variants, project_variants
from scripts.shader_tools.spirv import Module

from .conftest import Project, Sample, fill, shader

Output = pytest.CaptureFixture[str]


def summary(output: Output) -> str:
    """The line that counts what was done."""
    return next(line for line in output.readouterr().out.splitlines() if " compiled, " in line)


def files(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in directory.iterdir()}


def test_library_is_complete_and_valid(project: Project, capsys: Output) -> None:
    assert project.compile() == 0
    assert summary(capsys) == "3 compiled, 0 unchanged, 0 removed, 0 failed"
    manifest = json.loads(project.library.manifest_path.read_text())
    assert manifest["complete"] is True
    assert manifest["format"] == 1
    assert manifest["compiler"].startswith("glslang ")
    assert sorted(manifest["variants"]) == ["first.one", "first.two", "second.plain"]
    for name, entry in manifest["variants"].items():
        data = project.library.read(name)
        assert data is not None
        assert library_module.sha256(data) == entry["sha256"]
        assert list(Module(data).named("OpName")) == []
        validator = ["spirv-val", "--target-env", "vulkan1.1", str(project.library.path(name))]
        assert subprocess.run(validator, check=False).returncode == 0
    assert set(files(project.library.directory)) == {f"{name}.spv" for name in manifest["variants"]} | {"manifest.json"}


def test_equal_bytes_wherever_the_checkout_lies(tmp_path: Path) -> None:
    one = fill(Project(tmp_path / "one"))
    other = fill(Project(tmp_path / "a much longer path" / "with" / "other folders"))
    assert one.compile() == other.compile("--jobs", "1") == 0
    assert files(one.library.directory) == files(other.library.directory)


def test_second_run_does_nothing(project: Project, capsys: Output, monkeypatch: pytest.MonkeyPatch) -> None:
    project.compile()
    before = files(project.library.directory)
    times = {path: path.stat().st_mtime_ns for path in project.library.directory.iterdir()}
    os.utime(project.shaders / "include/numbers.glsl")
    capsys.readouterr()
    monkeypatch.setattr(Compiler, "compile", lambda *_: pytest.fail("compiled although nothing changed"))
    assert project.compile() == 0
    assert summary(capsys) == "0 compiled, 3 unchanged, 0 removed, 0 failed"
    assert files(project.library.directory) == before
    assert {path: path.stat().st_mtime_ns for path in project.library.directory.iterdir()} == times


def test_changed_include_recompiles_only_what_includes_it(project: Project, capsys: Output) -> None:
    project.compile()
    before = files(project.library.directory)
    capsys.readouterr()
    project.write("include/only_first.glsl", "#define STEP 5u\n")
    assert project.compile() == 0
    assert summary(capsys) == "2 compiled, 1 unchanged, 0 removed, 0 failed"
    after = files(project.library.directory)
    changed = {name for name in after if after[name] != before[name]}
    assert changed == {"first.one.spv", "first.two.spv", "manifest.json"}


def test_include_of_an_include_counts(project: Project, capsys: Output) -> None:
    project.write("include/deep.glsl", "#define DEPTH 1u\n")
    project.write("include/only_first.glsl", '#include "deep.glsl"\n#define STEP DEPTH\n')
    project.compile()
    capsys.readouterr()
    project.write("include/deep.glsl", "#define DEPTH 2u\n")
    project.compile()
    assert summary(capsys) == "2 compiled, 1 unchanged, 0 removed, 0 failed"


@pytest.mark.parametrize(
    ("attribute", "value"), [("version", "12:99.0.0"), ("flags", ["-V", "--target-env", "vulkan1.1", "-Od"])]
)
def test_key_covers_compiler_and_flags(project: Project, attribute: str, value: Any) -> None:
    compiler, other = Compiler.find(project.tree), Compiler.find(project.tree)
    other.__dict__[attribute] = value
    assert compiler.key(project.variants[0]) != other.key(project.variants[0])


def test_key_covers_definitions_but_not_their_order(project: Project) -> None:
    compiler = Compiler.find(project.tree)

    def key(*defines: tuple[str, str]) -> str:
        return compiler.key(Sample("first.one", "family/first.comp", defines))

    assert key(("CHOICE", "ONE"), ("MORE", "1")) == key(("MORE", "1"), ("CHOICE", "ONE"))
    assert key(("CHOICE", "ONE")) != key(("CHOICE", "TWO"))


def test_stale_files_are_deleted(project: Project, capsys: Output) -> None:
    project.compile()
    capsys.readouterr()
    project.variants.pop()
    (project.library.directory / ".first.one.spv.123.tmp").write_bytes(b"left by a run that was killed")
    (project.library.directory / "notes.txt").write_text("not the script's")
    assert project.compile() == 0
    assert summary(capsys) == "0 compiled, 2 unchanged, 1 removed, 0 failed"
    assert set(files(project.library.directory)) == {
        "first.one.spv", "second.plain.spv", "manifest.json", "notes.txt",
    }  # fmt: skip
    assert set(project.library.read_manifest().entries) == {"first.one", "second.plain"}


@pytest.mark.parametrize("damage", ["flip", "delete", "truncate"])
def test_damaged_file_is_made_again(project: Project, capsys: Output, damage: str) -> None:
    project.compile()
    before = files(project.library.directory)
    path = project.library.path("first.one")
    if damage == "delete":
        path.unlink()
    else:
        data = bytearray(path.read_bytes())
        data[100] ^= 1
        path.write_bytes(data if damage == "flip" else data[:100])
    capsys.readouterr()
    assert project.compile() == 0
    assert summary(capsys) == "1 compiled, 2 unchanged, 0 removed, 0 failed"
    assert files(project.library.directory) == before


def test_damaged_manifest_makes_everything_again(project: Project, capsys: Output) -> None:
    project.compile()
    project.library.manifest_path.write_text('{"format": 1')
    capsys.readouterr()
    assert project.compile() == 0
    assert summary(capsys) == "3 compiled, 0 unchanged, 0 removed, 0 failed"


def test_interrupted_run_is_not_complete_and_goes_on(
    project: Project, capsys: Output, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = Compiler.compile
    on_the_way: list[bool] = []
    lock = threading.Lock()

    def interrupted(self: Compiler, variant: Sample, scratch: Path) -> bytes:
        with lock:
            on_the_way.append(project.library.read_manifest().complete)
            if len(on_the_way) == 2:
                raise KeyboardInterrupt
            return real(self, variant, scratch)

    with monkeypatch.context() as patch:
        patch.setattr(Compiler, "compile", interrupted)
        assert project.compile("--jobs", "1") == 130
    assert "interrupted" in capsys.readouterr().err
    assert on_the_way[:2] == [False, False], "the manifest must not say complete while a run is under way"
    manifest = project.library.read_manifest()
    assert not manifest.complete
    assert set(manifest.entries) == {"first.one"}
    assert project.check() == 1
    assert "incomplete" in capsys.readouterr().out
    assert project.compile() == 0
    assert summary(capsys) == "2 compiled, 1 unchanged, 0 removed, 0 failed"
    assert project.library.read_manifest().complete


def test_interrupted_write_leaves_no_half_file(
    project: Project, capsys: Output, monkeypatch: pytest.MonkeyPatch
) -> None:
    def killed(source: Path, target: Path) -> None:
        raise KeyboardInterrupt

    project.compile()
    before = files(project.library.directory)
    project.write("include/only_first.glsl", "#define STEP 7u\n")
    with monkeypatch.context() as patch:
        patch.setattr("scripts.shader_tools.library.os.replace", killed)
        assert project.compile() == 130
    left = files(project.library.directory)
    assert {name: data for name, data in left.items() if not name.endswith(".tmp")} == before
    assert set(left) - set(before), "the write was meant to be caught half way"
    capsys.readouterr()
    assert project.compile() == 0
    assert summary(capsys) == "2 compiled, 1 unchanged, 0 removed, 0 failed"
    assert set(files(project.library.directory)) == set(before)


def test_failures_name_variants_message_and_command(project: Project, capsys: Output) -> None:
    project.write("family/second.comp", shader("b[i] = no_such_name;", '#include "numbers.glsl"'))
    project.write("family/first.comp", shader("b[i] = also_missing;", '#include "numbers.glsl"'))
    assert project.compile() == 1
    captured = capsys.readouterr()
    assert "0 compiled, 0 unchanged, 0 removed, 3 failed" in captured.out
    assert "first.one, first.two:\nERROR: shaders/family/first.comp:13: 'also_missing'" in captured.err
    assert "second.plain:\nERROR: shaders/family/second.comp:13: 'no_such_name'" in captured.err
    manifest = project.library.read_manifest()
    assert not manifest.complete
    assert not manifest.entries
    repeat = next(line for line in captured.err.splitlines() if "-DCHOICE=ONE" in line).removeprefix("to repeat: ")
    again = subprocess.run(repeat, shell=True, capture_output=True, text=True, check=False)
    assert again.returncode != 0
    assert "also_missing" in again.stdout


def test_one_failure_does_not_stop_the_others(project: Project, capsys: Output) -> None:
    project.variants.append(Sample("broken", "family/second.comp", (("TWO", "1 +"),)))
    assert project.compile() == 1
    assert "3 compiled, 0 unchanged, 0 removed, 1 failed" in capsys.readouterr().out
    assert not project.library.read_manifest().complete
    assert set(project.library.read_manifest().entries) == {"first.one", "first.two", "second.plain"}


def test_warnings_are_errors(project: Project, capsys: Output) -> None:
    project.write("family/second.comp", shader(declarations="#extension GL_no_such_extension : enable"))
    assert project.compile() == 1
    assert "WARNING" in capsys.readouterr().err


def test_invalid_spirv_is_refused(project: Project, capsys: Output, monkeypatch: pytest.MonkeyPatch) -> None:
    # A result type where there is none: what a miscompiling front end would leave.
    monkeypatch.setattr(
        "scripts.shader_tools.compiler.with_decorations",
        lambda data: data.replace(b"\x13\x00\x02\x00", b"\x13\x00\x03\x00"),
    )
    assert project.compile() == 1
    assert "spirv-val: " in capsys.readouterr().err


def test_undefined_macro_in_a_condition_is_an_error(project: Project, capsys: Output) -> None:
    project.write("family/second.comp", shader("b[i] = uint(TWO);", '#include "numbers.glsl"\n#if ONE == UNO\n#endif'))
    assert project.compile() == 1
    assert "shaders/family/second.comp:4: #if ONE == UNO: UNO is not defined" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('#include "nowhere.glsl"', 'shaders/family/second.comp:3: #include "nowhere.glsl": found nowhere'),
        ('#include "twice.glsl"', 'shaders/family/second.comp:3: #include "twice.glsl": ambiguous'),
        ('#include "../../outside.glsl"', "leads out of"),
    ],
)
def test_includes_that_do_not_resolve(project: Project, capsys: Output, text: str, message: str) -> None:
    project.write("include/twice.glsl", "")
    project.write("patterns/twice.glsl", "")
    (project.root / "outside.glsl").write_text("")
    project.write("family/second.comp", shader(declarations=text))
    assert project.compile() == 1
    assert message in capsys.readouterr().err


def test_missing_source(project: Project, capsys: Output) -> None:
    project.variants.append(Sample("lost", "family/lost.comp"))
    assert project.compile() == 1
    assert "shaders/family/lost.comp: cannot be read" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("variant", "message"),
    [
        (Sample("first.one", "family/first.comp"), "first.one: two variants have this name"),
        (Sample("../first", "family/first.comp"), "'../first': a variant's name is made of"),
        (Sample("x", "family/first.comp", (("A", "1"), ("A", "2"))), "x: A is defined twice"),
        (Sample("x", "family/first.comp", (("A B", "1"),)), "x: 'A B' cannot be defined"),
    ],
)
def test_contradictory_variants(project: Project, capsys: Output, variant: Sample, message: str) -> None:
    project.variants.append(variant)
    assert project.compile() == 1
    assert message in capsys.readouterr().err
    assert not project.library.directory.exists()


def test_missing_compiler_is_one_line(project: Project, capsys: Output, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(project.root))
    assert project.compile() == 2
    message = capsys.readouterr().err
    assert message == (
        "glslangValidator and spirv-val not found on the PATH: install glslang-tools spirv-tools\n"
    )  # fmt: skip
    assert not project.library.directory.exists()


def test_compiler_that_does_not_run(project: Project, capsys: Output, monkeypatch: pytest.MonkeyPatch) -> None:
    for tool in ("glslangValidator", "spirv-val"):
        fake = project.root / tool
        fake.write_text("#!/bin/sh\nexit 3\n")
        fake.chmod(0o755)
    monkeypatch.setenv("PATH", str(project.root))
    assert project.compile() == 2
    assert "does not run" in capsys.readouterr().err


def test_variant_option_compiles_some_and_says_so(project: Project, capsys: Output) -> None:
    assert project.compile("--variant", "first.*") == 0
    assert "the library holds 2 of 3 variants" in capsys.readouterr().out
    assert not project.library.read_manifest().complete
    assert project.compile("--variant", "second.*") == 0
    assert project.library.read_manifest().complete
    assert project.compile("--variant", "third.*") == 2
    assert "no variant matches 'third.*'" in capsys.readouterr().err


def test_list(project: Project, capsys: Output) -> None:
    assert project.compile("--list", "--variant", "*o*") == 0
    assert capsys.readouterr().out.splitlines() == [
        "first.one family/first.comp CHOICE=ONE",
        "first.two family/first.comp CHOICE=TWO",
        "second.plain family/second.comp",
    ]
    assert not project.library.directory.exists()


def test_no_variants_is_a_failure(empty_project: Project, capsys: Output) -> None:
    assert empty_project.compile() == 2
    assert "there are no variants" in capsys.readouterr().err


@pytest.mark.parametrize("jobs", ["0", "-1", "many"])
def test_jobs_must_be_a_positive_number(project: Project, jobs: str) -> None:
    with pytest.raises(SystemExit) as error:
        project.compile("--jobs", jobs)
    assert error.value.code == 2


def test_check_accepts_what_was_just_made_and_writes_nothing(project: Project, capsys: Output) -> None:
    project.compile()
    before = {path: path.stat().st_mtime_ns for path in project.library.directory.iterdir()}
    assert project.compile("--check") == 0
    assert "3 variants are as the sources make them" in capsys.readouterr().out
    assert {path: path.stat().st_mtime_ns for path in project.library.directory.iterdir()} == before


def test_check_without_a_library(project: Project, capsys: Output) -> None:
    assert project.compile("--check") == 1
    captured = capsys.readouterr().err
    assert "first.one: missing" in captured
    assert "manifest.json cannot be read" in captured
    assert not project.library.directory.exists()


def test_check_finds_a_flipped_byte_even_if_the_manifest_agrees(project: Project, capsys: Output) -> None:
    project.compile()
    path = project.library.path("first.one")
    data = bytearray(path.read_bytes())
    data[-8] ^= 1
    path.write_bytes(data)
    text = project.library.manifest_path.read_text()
    entry = project.library.read_manifest().entries["first.one"]
    project.library.manifest_path.write_text(text.replace(entry.sha256, library_module.sha256(bytes(data))))
    assert project.compile() == 0, "nothing tells an ordinary run that the two were changed together"
    assert project.compile("--check") == 1
    captured = capsys.readouterr().err
    assert "first.one: " in captured
    assert "differs from its source" in captured
    assert "first.two" not in captured


@pytest.mark.parametrize(
    ("path", "message"),
    [("first.two.spv", "first.two: missing"), ("manifest.json", "manifest: "), ("extra.spv", "extra: no variant has")],
)
def test_check_finds_missing_and_extra_files(project: Project, capsys: Output, path: str, message: str) -> None:
    project.compile()
    file = project.library.directory / path
    if file.exists():
        file.unlink()
    else:
        file.write_bytes(b"")
    assert project.compile("--check") == 1
    assert message in capsys.readouterr().err


def test_check_finds_a_changed_source(project: Project, capsys: Output) -> None:
    project.compile()
    project.write("include/only_first.glsl", "#define STEP 4u\n")
    assert project.compile("--check") == 1
    captured = capsys.readouterr().err
    assert "first.one" in captured
    assert "second" not in captured


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('"complete": true', '"complete": false', "marked incomplete"),
        ('"glslang ', '"glslang 1:', "manifest: made with glslang 1:"),
        ('"format": 1', '"format": 99', "format 99 instead of 1"),
    ],
)
def test_check_reads_the_manifest(project: Project, capsys: Output, old: str, new: str, message: str) -> None:
    project.compile()
    text = project.library.manifest_path.read_text()
    project.library.manifest_path.write_text(text.replace(old, new))
    assert project.compile("--check") == 1
    assert message in capsys.readouterr().err


def test_the_projects_own_variants_are_consistent() -> None:
    variants = checked_variants(project_variants())
    assert variants
    assert len({(variant.source, variant.defines) for variant in variants}) == len(variants), "a variant is made twice"
