"""The packed library: small, quick, the same bytes again, and never a damaged module."""

from __future__ import annotations

import time
from pathlib import Path
from random import Random

import pytest

from dmlvk.errors import ShaderLibraryError
from dmlvk.kernels import library
from dmlvk.kernels.library import pack
from dmlvk.kernels.library.pack import PackedLibrary, PackError, write_pack

RANDOM = Random(1)
COMMON = RANDOM.randbytes(30000)
MODULES = {
    **{f"add.{number}": (f"key{number}", RANDOM.randbytes(100) + COMMON) for number in range(200)},
    "add.twin": ("key of the twin", RANDOM.randbytes(8)),
    "add.other_twin": ("key of the other twin", b""),
    "add.huge": ("key of what is larger than a block", RANDOM.randbytes(pack.BLOCK_BYTES + 4)),
}
MODULES["add.other_twin"] = ("key of the other twin", MODULES["add.twin"][1])


@pytest.fixture(scope="module")
def contents(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """Of a packed file, which takes a second to make."""
    path = tmp_path_factory.mktemp("library") / "add.pack"
    write_pack(path, MODULES)
    return path.read_bytes()


@pytest.fixture
def packed(tmp_path: Path, contents: bytes) -> Path:
    (tmp_path / "add.pack").write_bytes(contents)
    return tmp_path


@pytest.fixture
def installed(packed: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(library, "_library", lambda: PackedLibrary(packed))
    library.load.cache_clear()
    return packed


@pytest.fixture(autouse=True)
def forgotten() -> None:
    pack._block.cache_clear()


def test_every_module_comes_back(packed: Path) -> None:
    found = PackedLibrary(packed)
    assert set(found.names()) == set(MODULES)
    for name, (key, module) in MODULES.items():
        assert found.read(name) == found.read(name, key) == module


def test_what_modules_have_in_common_is_there_once(packed: Path) -> None:
    total = sum(len(module) for _, module in MODULES.values())
    assert total > 8 * 10**6
    assert (packed / "add.pack").stat().st_size < pack.BLOCK_BYTES + 400 * 10**3


def test_equal_modules_make_equal_files(packed: Path) -> None:
    write_pack(packed / "again.pack", dict(reversed(MODULES.items())))
    assert (packed / "again.pack").read_bytes() == (packed / "add.pack").read_bytes()
    assert {path.name for path in packed.iterdir()} == {"again.pack", "add.pack"}


def test_modules_beside_one_that_was_loaded_take_well_below_a_millisecond(packed: Path) -> None:
    found = PackedLibrary(packed)
    found.read("add.0")
    names = [
        name for name in MODULES if found._pack("add").modules[name].block == found._pack("add").modules["add.0"].block
    ]
    assert len(names) > 50
    begin = time.process_time()
    for name in names:
        found.read(name)
    assert (time.process_time() - begin) / len(names) < 1e-3


def test_a_module_from_other_sources_is_refused(packed: Path) -> None:
    with pytest.raises(PackError, match="has it from other sources"):
        PackedLibrary(packed).read("add.1", "another key")


def test_a_module_is_loaded(installed: Path) -> None:
    assert library.load("add.1") == MODULES["add.1"][1]


@pytest.mark.parametrize("name", ["add.none", "subtract.1"])
def test_a_missing_module_is_named(installed: Path, name: str) -> None:
    with pytest.raises(ShaderLibraryError, match=rf"^the shader library has no {name} \(.*\): install dmlvk again$"):
        library.load(name)


@pytest.mark.parametrize("index", [0, 20, 33, 40, 2000, -1])
def test_a_changed_byte_is_found(installed: Path, index: int) -> None:
    file = installed / "add.pack"
    contents = bytearray(file.read_bytes())
    contents[index] ^= 1
    file.write_bytes(contents)
    with pytest.raises(ShaderLibraryError, match=r"add\.pack (is damaged|cannot be read)"):
        for name in MODULES:
            library.load(name)


@pytest.mark.parametrize("size", [0, 10, 36, 1000, 100000, -1])
def test_a_cut_file_is_found(installed: Path, size: int) -> None:
    file = installed / "add.pack"
    file.write_bytes(file.read_bytes()[:size])
    with pytest.raises(ShaderLibraryError, match=r"add\.pack (is damaged|cannot be read)"):
        for name in MODULES:
            library.load(name)


def test_an_interrupted_write_leaves_the_old_file(packed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = (packed / "add.pack").read_bytes()

    def killed(source: str, target: Path) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("os.replace", killed)
    with pytest.raises(KeyboardInterrupt):
        write_pack(packed / "add.pack", {"add.1": MODULES["add.1"]})
    assert [path.name for path in packed.iterdir()] == ["add.pack"]
    assert (packed / "add.pack").read_bytes() == before
