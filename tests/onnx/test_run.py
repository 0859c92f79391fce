"""``dmlvk run model.onnx``: inputs from files, readable results, clear errors."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

from dmlvk.cli import main
from tests.onnx.models import two_branches

EXAMPLES = Path(__file__).resolve().parent.parent.parent / "examples"


def run(*arguments: object) -> int:
    with pytest.raises(SystemExit) as stop:
        main(["run", *map(str, arguments)])
    return int(stop.value.code or 0)


@pytest.fixture
def model_path(tmp_path: Path) -> Path:
    path = tmp_path / "model.onnx"
    path.write_bytes(two_branches().SerializeToString())
    return path


def test_outputs_are_written_and_summed_up(
    model_path: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    np.save(tmp_path / "x.npy", np.array([[1, 2, 3], [4, 5, 6]], np.float32))
    assert run(model_path, "--input", f"x={tmp_path / 'x.npy'}", "-o", tmp_path / "out") == 0
    shown = capsys.readouterr().out
    assert "input x: tensor(float) [2, 3]" in shown and "output y: float32 [3, 2], from 0 to 9, mean 4.16667" in shown
    np.testing.assert_array_equal(np.load(tmp_path / "out" / "y.npy"), [[2, 0], [6, 5], [3, 9]])


def test_a_single_input_needs_no_name_and_may_be_random(
    model_path: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    np.save(tmp_path / "x.npy", np.zeros((1, 3), np.float32))
    assert run(model_path, "--input", tmp_path / "x.npy", "-o", tmp_path) == 0
    assert run(model_path, "-o", tmp_path, "--timing", "-i", "2", "--trace", tmp_path / "trace.json") == 0
    shown = capsys.readouterr().out
    assert "random numbers" in shown and "median of 2" in shown and (tmp_path / "trace.json").exists()


def test_a_handwritten_digit_is_read_from_a_picture(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(EXAMPLES / "digits.onnx", "--input", EXAMPLES / "digit.png", "-o", tmp_path) == 0
    assert "largest: [7] 0.9" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--input", "w=x.npy"], "must name each input once"),
        (["--input", "x=nothing.npy"], "nothing.npy"),
        (["--input", "x=model.onnx"], "is no .npy file"),
        (["--warm-up", "3"], "for DxDispatch"),
    ],
)
def test_wrong_usage_is_one_line(
    model_path: Path,
    tmp_path: Path,
    arguments: list[str],
    message: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run("model.onnx", *arguments, *(["--timing"] if "--warm-up" in arguments else [])) == 2
    error = capsys.readouterr().err
    assert message in error and error.count("\n") == 1


def test_without_the_onnx_package_one_line_says_what_to_install(
    model_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in [name for name in sys.modules if name.startswith("dmlvk.onnx")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "onnx", None)
    assert run(model_path) == 2
    error = capsys.readouterr().err
    assert "pip install dmlvk[onnx]" in error and error.count("\n") == 1
