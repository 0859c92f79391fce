"""Shaders of a checkout are compiled when they are first needed, found the next time, and never stale."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import tempfile
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest

from dmlvk.errors import ShaderLibraryError
from dmlvk.kernels.library import checkout as checkout_module
from dmlvk.kernels.library import glslang
from dmlvk.kernels.library import store as store_module
from dmlvk.kernels.library.checkout import Checkout
from dmlvk.kernels.library.compiler import Compiler
from dmlvk.kernels.library.pack import write_pack
from dmlvk.kernels.library.store import Store
from dmlvk.kernels.variants import ShaderVariant

VARIANTS = {
    f"first.{choice}": ShaderVariant(f"first.{choice}", "family/first.comp", (("CHOICE", str(choice)),))
    for choice in range(8)
}


@pytest.fixture(autouse=True)
def own_variants(many: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Eight variants of one shader, and a cache directory that nobody else has."""
    monkeypatch.setattr(checkout_module, "_variants", lambda: VARIANTS)
    monkeypatch.setattr(glslang, "own_program", lambda: Path(many))
    monkeypatch.delenv("DMLVK_GLSLANG", raising=False)
    monkeypatch.setenv("DMLVK_CACHE_DIR", str(tmp_path / "cache" / "kernels"))


@pytest.fixture
def fresh(shaders: Path, tmp_path: Path) -> Callable[[], Checkout]:
    """The library of a checkout as a new process has it."""
    return lambda: Checkout(shaders, tmp_path / "spirv")


@pytest.fixture
def compilations(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    compiled: list[str] = []
    original = Compiler.compile

    def compile_and_count(self: Compiler, variant: ShaderVariant, *, debug: bool = False) -> bytes:
        compiled.append(variant.name)
        return original(self, variant, debug=debug)

    monkeypatch.setattr(Compiler, "compile", compile_and_count)
    return compiled


Fresh = Callable[[], Checkout]


def no_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DMLVK_GLSLANG", "/nowhere/glslangValidator")


def touch(file: Path, text: str) -> None:
    """Changes a file, and its time also where the clock of the file system is slow."""
    before = file.stat().st_mtime_ns
    file.write_text(text)
    if file.stat().st_mtime_ns == before:
        os.utime(file, ns=(before + 1, before + 1))


def test_a_variant_is_compiled_once(fresh: Fresh, compilations: list[str]) -> None:
    first = fresh()
    module = first.read("first.1")
    assert first.read("first.1") == module
    assert fresh().read("first.1") == module
    assert fresh().read("first.2") != module
    assert compilations == ["first.1", "first.2"]


def test_nothing_is_read_or_computed_where_nothing_changed(
    fresh: Fresh, compilations: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    module = fresh().read("first.1")
    monkeypatch.setattr(Checkout, "_new_keys", lambda *_: pytest.fail("computed anew"))
    assert fresh().read("first.1") == module
    assert len(compilations) == 1


def test_a_changed_source_is_compiled_anew_and_the_old_one_found_again(
    fresh: Fresh, shaders: Path, compilations: list[str]
) -> None:
    file = shaders / "include/two.glsl"
    text = file.read_text()
    before = fresh().read("first.1")
    touch(file, text.replace("2u", "5u"))
    after = fresh().read("first.1")
    assert after != before
    touch(file, text)
    assert fresh().read("first.1") == before
    assert compilations == ["first.1", "first.1"]


def test_a_touched_source_is_not_compiled_anew(fresh: Fresh, shaders: Path, compilations: list[str]) -> None:
    before = fresh().read("first.1")
    file = shaders / "include/two.glsl"
    touch(file, file.read_text())
    (shaders / "include/new.glsl").write_text("#define NEW\n")
    assert fresh().read("first.1") == before
    assert compilations == ["first.1"]


def test_a_source_that_changes_while_a_process_runs_is_not_for_that_process(
    fresh: Fresh, shaders: Path, compilations: list[str]
) -> None:
    """Its code would give the new source what the old one asks for."""
    running = fresh()
    running.keys()
    file = shaders / "include/two.glsl"
    text = file.read_text()
    touch(file, text.replace("2u", "5u"))
    with pytest.raises(ShaderLibraryError, match="changed since this program was started"):
        running.read("first.1")
    changed = fresh().read("first.1")
    touch(file, text)
    assert running.read("first.1") == fresh().read("first.1") != changed
    assert compilations == ["first.1", "first.1"]


def test_a_source_that_changes_while_it_is_compiled_is_not_kept(
    fresh: Fresh, shaders: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = shaders / "include/two.glsl"
    original = Compiler.compile

    def slowly(self: Compiler, variant: ShaderVariant, *, debug: bool = False) -> bytes:
        module = original(self, variant, debug=debug)
        touch(file, file.read_text().replace("2u", "5u"))
        return module

    with monkeypatch.context() as patch:
        patch.setattr(Compiler, "compile", slowly)
        library = fresh()
        old = library.read("first.1")
    assert not any(store.keys() for store in library.stores)
    assert fresh().read("first.1") != old


def test_code_that_changes_while_a_process_runs_gives_no_keys_to_later_ones(
    fresh: Fresh, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checkout_module, "_touched_package", lambda: "changed since this process began")
    fresh().read("first.1")
    assert not (tmp_path / "spirv/keys.txt").exists()


@pytest.mark.parametrize("damage", ["empty", "short", "cut", "reversed", "checksum", "renamed"])
def test_a_damaged_file_is_compiled_anew(fresh: Fresh, compilations: list[str], damage: str) -> None:
    module = fresh().read("first.1")
    (store, *_) = fresh().stores
    (file,) = store.directory.iterdir()
    contents = file.read_bytes()
    damaged = {"empty": b"", "short": b"short", "cut": contents[:-4], "reversed": contents[::-1]}
    damaged["checksum"] = hashlib.sha256(module[:-4]).digest() + zlib.compress(module[:-4])
    store.put("another", module[:-4])
    damaged["renamed"] = store.path("another").read_bytes()
    store.path("another").unlink()
    file.write_bytes(damaged[damage])
    assert fresh().read("first.1") == module
    assert file.read_bytes() == contents
    assert len(compilations) == 2


@pytest.mark.parametrize("damage", ["empty", "cut", "changed", "checksum"])
def test_damaged_keys_are_computed_anew(fresh: Fresh, tmp_path: Path, compilations: list[str], damage: str) -> None:
    module = fresh().read("first.1")
    file = tmp_path / "spirv/keys.txt"
    contents = file.read_bytes()
    changed = contents.replace(b"first.1", b"first.9")
    damaged = {"empty": b"", "cut": contents[:-30], "changed": changed}
    damaged["checksum"] = hashlib.sha256(changed[32:]).digest() + changed[32:]
    file.write_bytes(damaged[damage])
    assert fresh().read("first.1") == module
    assert file.read_bytes() == contents
    assert len(compilations) == 1


@pytest.mark.sweep
def test_several_processes_at_once_get_the_same(many: str, shaders: Path, tmp_path: Path) -> None:
    program = f"""
import hashlib, sys
from pathlib import Path
from dmlvk.kernels.library import glslang
from dmlvk.kernels.library import checkout
from dmlvk.kernels.variants import ShaderVariant
glslang.own_program = lambda: Path({many!r})
names = [f"first.{{n}}" for n in range(8)]
checkout._variants = lambda: {{n: ShaderVariant(n, "family/first.comp", (("CHOICE", n[-1]),)) for n in names}}
library = checkout.Checkout(Path({str(shaders)!r}), Path({str(tmp_path / "spirv")!r}))
sys.stdin.readline()
print(hashlib.sha256(b"".join(map(library.read, names))).hexdigest())
"""
    processes = [
        subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        for _ in range(4)
    ]
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("now\n")
        process.stdin.flush()
    answers = {process.communicate(timeout=300)[0] for process in processes}
    assert [process.returncode for process in processes] == [0] * 4
    assert len(answers) == 1
    files = {path.suffix for path in (tmp_path / "spirv").rglob("*") if path.is_file()}
    assert files == {".spvz", ".txt"}, "something unfinished was left"
    assert len(Store(tmp_path / "spirv/compiled").keys()) == 8


def test_an_unknown_variant_is_named(fresh: Fresh) -> None:
    with pytest.raises(ShaderLibraryError, match=r"^there is no shader variant first\.9$"):
        fresh().read("first.9")


def test_a_shader_that_does_not_compile_is_named_with_file_and_line(fresh: Fresh, shaders: Path) -> None:
    touch(shaders / "include/two.glsl", "#define TWO nothing\n")
    with pytest.raises(
        ShaderLibraryError,
        match=r"^first\.1, of shaders/family/first\.comp, cannot be compiled: ERROR: shaders/family/first\.comp:6: ",
    ):
        fresh().read("first.1")


def test_a_missing_include_is_named(fresh: Fresh, shaders: Path) -> None:
    (shaders / "include/two.glsl").unlink()
    (shaders / "other/two.glsl").unlink()
    with pytest.raises(ShaderLibraryError, match=r'^shaders/include/one\.glsl:1: #include "two\.glsl": found nowhere'):
        fresh().read("first.1")


def test_without_a_compiler_the_packages_are_named(fresh: Fresh, monkeypatch: pytest.MonkeyPatch) -> None:
    no_compiler(monkeypatch)
    advice = "install glslang-tools spirv-tools, or run scripts/setup.sh"
    with pytest.raises(ShaderLibraryError, match=rf"^first\.1 is not compiled yet, and .* not found.*: {advice}$"):
        fresh().read("first.1")


def test_a_file_system_that_cannot_be_written_is_told_of(fresh: Fresh, monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a container that is read-only, with shaders that were never compiled: glslangValidator writes a file."""
    monkeypatch.setattr(tempfile, "tempdir", "/nowhere")
    monkeypatch.setenv("DMLVK_GLSLANG", "glslangValidator")
    with pytest.raises(ShaderLibraryError, match=r"^first\.1 is not compiled yet, and cannot be here: .*/nowhere/"):
        fresh().read("first.1")


def test_the_compiler_of_many_shaders_writes_no_files(fresh: Fresh, monkeypatch: pytest.MonkeyPatch, many: str) -> None:
    monkeypatch.setattr(tempfile, "tempdir", "/nowhere")
    monkeypatch.setenv("DMLVK_GLSLANG", many)
    assert fresh().read("first.1")


def test_what_was_compiled_needs_no_compiler_any_more(
    fresh: Fresh, monkeypatch: pytest.MonkeyPatch, compilations: list[str]
) -> None:
    module = fresh().read("first.1")
    no_compiler(monkeypatch)
    assert fresh().read("first.1") == module
    assert len(compilations) == 1


def test_what_was_packed_needs_no_compiler(fresh: Fresh, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a machine that gets the sources and the packed library."""
    library = fresh()
    module, key = library.read("first.1"), library.keys().find("first.1")
    assert key is not None
    version = library.keys().version
    for path in [*(tmp_path / "spirv/compiled").iterdir(), tmp_path / "spirv/keys.txt"]:
        path.unlink()
    write_pack(tmp_path / "spirv/first.pack", {"first.1": (key, module)})
    (tmp_path / "spirv/compiler.txt").write_text(f"{version}\n")
    no_compiler(monkeypatch)
    assert fresh().read("first.1") == module
    with pytest.raises(ShaderLibraryError, match=r"^first\.2 is not compiled yet"):
        fresh().read("first.2")


def test_what_was_packed_from_other_sources_is_compiled(fresh: Fresh, tmp_path: Path, shaders: Path) -> None:
    library = fresh()
    module, key = library.read("first.1"), library.keys().find("first.1")
    assert key is not None
    write_pack(tmp_path / "spirv/first.pack", {"first.1": (key, module)})
    touch(shaders / "include/two.glsl", "#define TWO 7u\n")
    assert fresh().read("first.1") != module


def test_where_nothing_can_be_written_the_users_cache_serves(
    fresh: Fresh, tmp_path: Path, compilations: list[str]
) -> None:
    (tmp_path / "spirv").write_text("no directory, which root cannot write to either")
    module = fresh().read("first.1")
    assert fresh().read("first.1") == module
    assert len(compilations) == 1
    assert list((tmp_path / "cache").rglob("*.spvz"))


def test_where_nothing_can_be_kept_at_all_shaders_are_compiled_each_time(
    fresh: Fresh, tmp_path: Path, compilations: list[str]
) -> None:
    for name in ("spirv", "cache"):
        (tmp_path / name).write_text("no directory")
    assert fresh().read("first.1") == fresh().read("first.1")
    assert len(compilations) == 2


def test_a_terminal_shows_what_takes_time(
    fresh: Fresh, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    fresh().read("first.1")
    assert capsys.readouterr().err == ""
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    monkeypatch.setattr(checkout_module, "_SILENT_SECONDS", -1)
    monkeypatch.setenv("COLUMNS", "120")
    library = fresh()
    library.read("first.2")
    library.read("first.3")
    shown = capsys.readouterr().err.replace("\033[K", "").split("\r")
    text = "dmlvk: compiling shaders that are new or changed: "
    assert shown == ["", f"{text}1, first.2", "", f"{text}2, first.3", ""]


def test_a_process_that_is_killed_while_it_writes_leaves_nothing_for_long(
    fresh: Fresh, tmp_path: Path, shaders: Path
) -> None:
    library = fresh()
    library.read("first.1")
    left = tmp_path / f"spirv/compiled/.x.{2**22 + 1}.abc.part"
    other = tmp_path / f"spirv/compiled/.x.{os.getpid()}.abc.part"
    for path in (left, other):
        path.write_bytes(b"half")
    library.stores[0].prune(set())
    assert not left.exists()
    assert other.exists(), "a process that is still there is at it"


def test_old_modules_go_first_and_needed_ones_never(tmp_path: Path) -> None:
    store = Store(tmp_path / "compiled")
    for number in range(6):
        store.put(f"key{number}", bytes([number]) * 100)
        os.utime(store.path(f"key{number}"), ns=(number, number))
    size = store.path("key0").stat().st_size
    assert store.prune({"key0"}, kept_bytes=2 * size) == 3
    assert store.keys() == {"key0", "key4", "key5"}
    assert store.get("key0") == b"\0" * 100
    assert store.prune({"key0"}) == 0
    assert store_module.KEPT_BYTES > 100 * 2**20
