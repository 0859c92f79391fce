"""The numeric tests can fail: a shader with one character changed is caught on every device.

``broken_shaders.json`` has what is changed, why it matters, in which case it shows, and a part of the message.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from dmlvk.conformance.cases import ValueCase, batches, value_cases
from dmlvk.conformance.execution import Workbench, check_batch
from tests.operators.broken import break_shader
from tests.operators.geometries import Geometry
from tests.operators.test_geometry import check_geometry

BROKEN = json.loads(Path(__file__).with_name("broken_shaders.json").read_text(encoding="utf-8"))


def _case(name: str) -> ValueCase:
    return next(case for case in value_cases() if case.name == name)


@pytest.mark.parametrize("change", BROKEN, ids=lambda change: change["why"])
def test_wrong_values_are_caught(
    change: dict[str, str], benches: list[Workbench], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    break_shader(monkeypatch, tmp_path, change["file"], change["text"], change["broken"])
    case = _case(change["case"])
    for bench in benches:
        with pytest.raises(AssertionError, match=change["message"]) as caught:
            for batch in batches(case, total=2**18):
                check_batch([bench], case, change["layout"], batch)
        assert str(caught.value).startswith(f"{bench.device.info.name}: ELEMENT_WISE_"), caught.value


def test_bytes_outside_the_output_are_caught(
    benches: list[Workbench], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Whole words are stored where only some of their bytes belong to the row."""
    break_shader(
        monkeypatch, tmp_path, "patterns/elementwise/elementwise_axes.glsl", "mask == 0xffffffffu", "mask != 0u"
    )
    for bench in benches:
        with pytest.raises(AssertionError, match=r"bytes outside the output's elements changed|elements differ"):
            check_geometry([bench], _case("sign-int8"), Geometry("rows of 7", (6, 7), (9, 1), ((7, 1),)))


def test_an_unbroken_copy_is_not_caught(
    benches: list[Workbench], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The way in which the tests above compile shaders is not what they catch."""
    break_shader(monkeypatch, tmp_path, "elementwise/sign.comp", "SIGN", "SIGN")
    for batch in batches(_case("sign-float32"), total=2**16):
        check_batch(benches, _case("sign-float32"), "contiguous", batch)
