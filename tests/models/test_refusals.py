"""What a model file's resources, dispatchables and commands may not say is refused, in these words.

``refusals.json`` has one in a line: a resource, a dispatchable or a command, and a part of the message about it.
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

REFUSALS = json.loads(Path(__file__).with_name("refusals.json").read_text(encoding="utf-8"))

_MIXED = {"initialValues": [{"type": "FLOAT32", "value": 1}, {"type": "UINT8", "value": 2}]}


@pytest.fixture
def awkward_files(tmp_path: Path) -> None:
    """Beside the model: files that it may name."""
    (tmp_path / "a.bin").write_bytes(b"abc")
    (tmp_path / "e.bin").write_bytes(b"\0" * 12)
    (tmp_path / "empty.bin").write_bytes(b"")
    arrays: dict[str, Any] = {"i": np.zeros(3, np.int32), "u1": np.zeros(3, np.uint8), "c8": np.zeros(3, np.complex64)}
    for name, array in (arrays | {"bool": np.zeros(3, np.bool_), "cut": np.zeros(300)}).items():
        np.save(tmp_path / f"{name}.npy", array)
    np.save(tmp_path / "objects.npy", np.array([None, "x"], dtype=object), allow_pickle=True)
    archive = io.BytesIO()
    np.savez(archive, a=np.zeros(3))
    (tmp_path / "zip.npy").write_bytes(archive.getvalue())
    (tmp_path / "cut.npy").write_bytes((tmp_path / "cut.npy").read_bytes()[:500])
    (tmp_path / "broken.png").write_bytes(b"\x89PNG\r\n\x1a\n and no more")
    Image.fromarray(np.zeros((2, 2), np.uint16)).save(tmp_path / "deep.png")
    Image.fromarray(np.zeros((4, 6, 3), np.uint8)).save(tmp_path / "a.png")


@pytest.mark.usefixtures("awkward_files")
@pytest.mark.parametrize("refusal", REFUSALS, ids=[f"{i}-{next(iter(entry))}" for i, entry in enumerate(REFUSALS)])
def test_refusals(refused: Callable[[Any], str], sign_model: dict[str, Any], refusal: dict[str, Any]) -> None:
    model: dict[str, Any] = {"resources": {}, "dispatchables": {}, "commands": []}
    if "command" in refusal:
        model = sign_model | {"commands": [refusal["command"]]}
        sign_model["resources"]["Mixed"] = _MIXED
    elif "resource" in refusal:
        model |= {"resources": {"A": refusal["resource"]}}
    else:
        model |= {"dispatchables": {"D": refusal["dispatchable"]}}
    assert refusal["message"] in refused(model).split(": ", 1)[1]
