"""Receipts: an answer is computed again, and the first token that differs is named."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import dmlvk as dml
from dmlvk.cli import cli
from dmlvk.language import LanguageModel
from tests.serving.small_server import running


@pytest.fixture(scope="module")
def answers(folder: Path) -> list[dict[str, Any]]:
    """What the server says to requests for receipts."""
    bodies: list[dict[str, Any]] = [
        {"max_tokens": 9, "temperature": 0.9, "seed": 11},
        {"max_tokens": 7, "repetition_penalty": 1.5},
        {"max_tokens": 20, "response_format": {"type": "json_object"}},
        {"max_tokens": 6, "n": 2, "temperature": 1, "stop": ["\x03", "zzz"], "echo": True, "logprobs": 1},
    ]
    with LanguageModel(folder, max_length=96, sequences=4) as model, running(model) as server:
        made = []
        for body in bodies:
            status, answer = server.ask("/v1/completions", {"prompt": "Hello", "receipt": True, **body})
            assert status == 200
            made.append(json.loads(answer))
        return made


def verified(answer: dict[str, Any], folder: Path, tmp_path: Path, device: dml.Device) -> tuple[int, str]:
    """Exit status and output of the command."""
    file = tmp_path / "receipt.json"
    file.write_text(json.dumps(answer))
    result = CliRunner().invoke(cli, ["verify", str(file), str(folder), "--device", str(device.info.index)])
    return result.exit_code, result.output


def test_answers_are_the_same_again_on_any_device(
    answers: list[dict[str, Any]], folder: Path, tmp_path: Path, device: dml.Device
) -> None:
    for answer in answers:
        status, output = verified(answer, folder, tmp_path, device)
        assert status == 0 and "are the same on" in output, output


def test_the_first_token_that_differs_is_named(
    answers: list[dict[str, Any]], folder: Path, tmp_path: Path, any_device: dml.Device
) -> None:
    for member, place, wrong in (("tokens", 4, 65), ("digests", 2, "0" * 16)):
        receipt = json.loads(json.dumps(answers[0]["choices"][0]["receipt"]))
        assert receipt[member][place] != wrong
        receipt[member][place] = wrong
        status, output = verified(receipt, folder, tmp_path, any_device)
        assert status == 1 and f"token {place} of 9 differs" in output, output
    for files in ({**receipt["files"], "model.onnx": "0" * 64}, {"model.onnx": receipt["files"]["model.onnx"]}, {}):
        status, output = verified({**receipt, "files": files}, folder, tmp_path, any_device)
        assert status == 1 and "other files than the receipt: " in output and "model.onnx" in output


@pytest.mark.parametrize(("answer", "choice"), [(0, 0), (2, 0), (3, 1)])
def test_words_that_tokens_do_not_say_are_found(
    answers: list[dict[str, Any]], folder: Path, tmp_path: Path, any_device: dml.Device, answer: int, choice: int
) -> None:
    forged = json.loads(json.dumps(answers[answer]))
    forged["choices"][choice]["text"] += "!"
    status, output = verified(forged, folder, tmp_path, any_device)
    assert status == 1 and "the answer has other words than its tokens" in output, output
    assert (f"answer {choice}: " in output) == (len(forged["choices"]) > 1)


@pytest.mark.parametrize(
    ("member", "value", "message"),
    [
        ("version", 1, "is no receipt of version 3"),
        ("forced", 10, "forced must be from 0 to 9; got 10"),
        ("files", {"model.onnx": []}, "must be texts"),
        ("stop", [1], "must be texts"),
        ("tokens", [10**6], "10 digests|1 tokens and 9 digests"),
        ("sampling", {"heat": 1}, "sampling"),
        ("prompt", "Hello", "prompt must be list"),
        ("prompt", [5000], "5000 is none of the vocabulary"),
    ],
)
def test_damaged_receipts_are_one_error(
    answers: list[dict[str, Any]],
    folder: Path,
    tmp_path: Path,
    any_device: dml.Device,
    member: str,
    value: Any,
    message: str,
) -> None:
    receipt = json.loads(json.dumps(answers[0]["choices"][0]["receipt"]))
    receipt[member] = value
    (tmp_path / "receipt.json").write_text(json.dumps(receipt))
    arguments = ["verify", str(tmp_path / "receipt.json"), str(folder), "--device", str(any_device.info.index)]
    error = CliRunner().invoke(cli, arguments).exception
    assert isinstance(error, dml.DmlError)
    with pytest.raises(dml.DmlError, match=message):
        raise error
