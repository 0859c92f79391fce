"""The library with Kompute that dmlvk brings: its functions, where it is found, what it frees and says."""

from __future__ import annotations

import re
import subprocess
import sys
import weakref
import zipfile
from pathlib import Path
from types import FunctionType

import numpy as np
import pytest

import dmlvk as dml
from dmlvk.runtime import bundled, kompute_choice
from dmlvk.runtime.kompute_choice import is_bundled
from scripts import build_kompute

if not is_bundled():
    pytest.skip("kp is taken instead", allow_module_level=True)

SOURCE = Path(__file__).resolve().parents[2] / "scripts" / "native" / "kompute_library.cpp"


def test_python_calls_the_functions_that_the_library_has() -> None:
    source, caller = SOURCE.read_text(encoding="utf-8"), Path(bundled.__file__).read_text(encoding="utf-8")
    exported = set(re.findall(r"^EXPORT .*?dmlvk_(\w+)\(", source, re.M))
    called = set(re.findall(r'_(?:function|frees)\(\s*"(\w+)"', caller))
    assert exported == called and len(exported) > 30
    assert f"dmlvk_version() {{ return {bundled.VERSION}; }}" in source


def test_a_checkout_without_the_library_takes_the_one_of_the_wheel(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Which scripts/build_kompute.py writes for machines without a compiler."""
    library = tmp_path / "kept" / kompute_choice.LIBRARY.name
    library.parent.mkdir()
    library.write_bytes(kompute_choice.LIBRARY.read_bytes())
    library.with_name("LICENSE").write_text("Kompute's")
    wheel = build_kompute.write_library_wheel(library)
    assert wheel.name.startswith("kp-0.9.0+dmlvk-py3-none-")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path / "site")
    monkeypatch.setattr(kompute_choice, "__file__", str(tmp_path / "checkout" / "kompute_choice.py"))
    assert not kompute_choice.find_library().exists()
    monkeypatch.syspath_prepend(tmp_path / "site")
    assert kompute_choice.find_library() == tmp_path / "site" / "dmlvk_kompute" / library.name


def test_another_kompute_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "kp.py").write_text("raise SystemExit('kp is imported')\n")
    program = "import dmlvk as dml, sys; dml.Device().close(); print('kp' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", f"import sys; sys.path.insert(0, {str(tmp_path)!r}); {program}"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout == "False\n", done.stderr


def test_what_is_made_is_freed_with_its_last_reference_and_no_line_of_python(device: dml.Device) -> None:
    """A signal's handler runs between lines of Python: in a finalizer its exception would be lost, and the memory."""
    manager = device.engine._manager
    tensor = manager.tensor_t(np.arange(5, dtype=np.uint32), bundled.TensorTypes.host)
    assert not any(isinstance(kind.__del__, FunctionType) for kind in (bundled.Tensor, bundled.Algorithm))
    array, gone = tensor.data(), weakref.ref(tensor)
    del tensor
    assert gone() is not None and array.tolist() == [0, 1, 2, 3, 4]  # the array keeps it
    del array
    assert gone() is None


def test_what_the_library_meets_is_raised_with_its_words(device: dml.Device) -> None:
    manager = device.engine._manager
    freed = manager.tensor_t(np.zeros(4, np.uint32), bundled.TensorTypes.host)
    freed.destroy()
    assert not freed.is_init()
    sequence = manager.sequence()
    with pytest.raises(RuntimeError, match=r"\w"):
        sequence.record(bundled.OpTensorSyncDevice([]))
    with pytest.raises(RuntimeError, match=r"[Tt]imestamp"):
        sequence.get_timestamps()
