"""Language models: converted from GGUF, run token by token, talked to."""

from __future__ import annotations

import contextlib
import itertools
import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import onnx
import pytest

import dmlvk as dml
from dmlvk.language import Conversation, LanguageModel, Sampling, convert_gguf
from dmlvk.language.sampling import Choices, Sampler
from dmlvk.models import load_model
from tests.language.small_llama import CONTEXT, HEADS, KEY_HEADS, LAYERS, write_folder, write_llama
from tests.processes import python

onnxruntime = pytest.importorskip("onnxruntime")
PROMPT = "<|start|>user\nHow are you, Jürgen?<|end|><|start|>assistant\n"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The converted small llama."""
    return write_folder(tmp_path_factory.mktemp("llama"))


def tokens_of_onnx_runtime(folder: Path, tokens: list[int], count: int) -> list[int]:
    """What ONNX Runtime's CPU provider says to be the likeliest tokens."""
    session = onnxruntime.InferenceSession(folder / "model.onnx", providers=["CPUExecutionProvider"])
    names = [item.name for item in session.get_outputs()]
    head = 64 // HEADS
    caches = {
        f"past_key_values.{layer}.{part}": np.zeros((1, KEY_HEADS, 0, head), np.float32)
        for layer in range(LAYERS)
        for part in ("key", "value")
    }
    made: list[int] = []
    new = list(tokens)
    for _ in range(count):
        total = len(tokens) + len(made)
        feed: dict[str, Any] = {"input_ids": np.array([new]), "attention_mask": np.ones((1, total), np.int64)}
        results = dict(zip(names, session.run(None, {**feed, **caches}), strict=True))
        caches = {name: results[name.replace("past_key_values", "present")] for name in caches}
        new = [int(results["logits"][0, -1].argmax())]
        made += new
    return made


def test_a_file_of_another_model_in_the_current_folder_is_in_nobodys_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "elsewhere").mkdir()
    other = tmp_path / "elsewhere" / "model.onnx.data"
    other.write_bytes(b"weights of another model")
    monkeypatch.chdir(other.parent)
    write_llama(tmp_path / "model.gguf", gguf.GGMLQuantizationType.Q4_0, gguf.GGMLQuantizationType.Q8_0)
    for _ in range(2):  # and what the folder itself had is replaced
        convert_gguf(tmp_path / "model.gguf", tmp_path)
    with LanguageModel(tmp_path, max_length=16) as model:
        assert np.isfinite(model.logits([70, 80, 90]).numpy()).all()
    assert other.read_bytes() == b"weights of another model"


def test_likeliest_tokens_are_those_of_onnx_runtime(folder: Path) -> None:
    with LanguageModel(folder, max_length=96) as model:
        tokens = model.encode(PROMPT)
        made = list(model.generate(tokens, Sampling(), most=8))
        assert made == tokens_of_onnx_runtime(folder, tokens, len(made))
        assert len(made) == 8 == model.generated


_SAMPLINGS = {
    "greedy": Sampling(),
    "random": Sampling(0.9, 20, 0.95, seed=2**40 + 7),
    "without repetitions": Sampling(repetition_penalty=3.0),
}


@pytest.mark.parametrize("sampling", _SAMPLINGS.values(), ids=list(_SAMPLINGS))
def test_steps_that_follow_one_another_on_the_device_choose_as_single_ones(folder: Path, sampling: Sampling) -> None:
    with LanguageModel(folder, max_length=40) as model:
        tokens = [65, 66, 67]
        sampler = Sampler(Choices(model.device, model.folder.vocabulary, dml.FLOAT32), [sampling])
        sampler.resume([tokens], [0])
        expected = [int(sampler.choice(model.logits(tokens))["token"].item())]
        while len(expected) < 12 and expected[-1] not in model.folder.end_tokens:
            sampler.note(expected[-1:])
            expected.append(int(sampler.choice(model.logits(expected[-1:]))["token"].item()))
        for most in (12, 5, 4, 12):  # again on what was recorded, and with a step that nobody wants behind the end
            assert list(itertools.islice(model.generate(tokens, sampling, most=12), 3)) == expected[:3]
            assert list(model.generate(tokens, sampling, most=most)) == expected[:most]
        assert list(model.generate(tokens, sampling))[:12] == expected, "to the end of the room"
        assert model.length <= model.max_length


def test_a_text_may_go_on_and_begin_anew_with_the_same_logits(folder: Path) -> None:
    with LanguageModel(folder, max_length=64) as model:
        whole = model.logits([65, 66, 67, 68, 69]).numpy()
        assert model.keep([65, 66, 67, 70]) == 3
        model.logits([80, 81])
        assert model.keep([65, 66, 67, 68, 69]) == 3
        assert model.logits([68, 69]).numpy().tobytes() == whole.tobytes()


def test_a_prompt_has_the_bits_of_its_tokens_one_by_one(folder: Path) -> None:
    tokens = [3 + (7 * position) % 250 for position in range(47)]
    with LanguageModel(folder, max_length=48) as model:
        for token in tokens:
            alone = model.logits([token]).numpy()
        model.keep(tokens[:1])
        assert model.logits(tokens).numpy().tobytes() == alone.tobytes()
        assert model.length == len(tokens)


def test_a_conversation_keeps_what_was_said_and_shows_whole_characters(folder: Path) -> None:
    with LanguageModel(folder) as model:
        conversation = Conversation(model, system="Be brief.")
        pieces = list(conversation.reply("Hello", most=6))
        assert conversation.messages[0] == {"role": "system", "content": "Be brief."}
        assert conversation.messages[-1] == {"role": "assistant", "content": "".join(pieces)}
        assert conversation.prompt().startswith("<|start|>system\nBe brief.<|end|><|start|>user\nHello<|end|>")
        before = list(conversation.messages)
        with pytest.raises(dml.InvalidArgumentError, match=r"has \d+ tokens; there is room for 128"):
            list(conversation.reply("x" * CONTEXT))
        assert conversation.messages == before


@pytest.mark.parametrize("sampling", [Sampling(0.7, 5, 1.0), Sampling(1.3, 0, 0.6), Sampling(1.0, 3, 0.0)], ids=repr)
def test_random_tokens_come_as_often_as_they_are_likely(device: dml.Device, sampling: Sampling) -> None:
    logits = np.array([[1.0, 2.5, -1.0, 2.5, 0.0, 3.0, -np.inf, 1.5]], np.float32)
    sampler = Sampler(Choices(device, logits.size, dml.FLOAT32), [sampling])
    on_device = device.array(logits)
    drawn = [int(sampler.choice(on_device)["token"].item()) for _ in range(400)]
    order = np.argsort(-logits[0], kind="stable")[: sampling.top_k or None]
    shares = np.exp(logits[0, order].astype(np.float64) / sampling.temperature)
    shares /= shares.sum()
    may = np.maximum(np.cumsum(shares) - shares < sampling.top_p, np.arange(len(order)) == 0)
    expected = np.where(may, shares, 0) / shares[may].sum()
    counts = np.array([drawn.count(token) for token in order])
    assert counts.sum() == len(drawn), "tokens that may not be chosen were"
    assert np.all(np.abs(counts - 400 * expected) <= 5 * np.sqrt(400 * expected * (1 - expected)) + 1e-9)


def test_the_penalty_of_repetitions_follows_its_formula(device: dml.Device) -> None:
    sampler = Sampler(Choices(device, 4, dml.FLOAT32), [Sampling(repetition_penalty=2.0)])
    logits = device.array(np.array([[4.0, 3.0, -1.0, 2.5]], np.float32))
    chosen = []
    for _ in range(3):
        chosen.append(int(sampler.choice(logits)["token"].item()))
        sampler.note([chosen[-1]])
    assert chosen == [0, 1, 3]


def broken(folder: Path, tmp_path: Path, file: str, content: str | None) -> Path:
    """A copy of the folder in which a file is another one, or missing."""
    copy = tmp_path / "copy"
    shutil.copytree(folder, copy)
    (copy / file).unlink()
    if content is not None:
        (copy / file).write_text(content)
    return copy


@pytest.mark.parametrize(
    ("file", "content", "message"),
    [
        ("genai_config.json", None, "has no genai_config.json"),
        ("genai_config.json", "{", "is no JSON"),
        ("genai_config.json", "[]", "the file must be a JSON object; got list"),
        ("genai_config.json", '{"model": {"decoder": {}, "vision": {}}}', "only models of one decoder"),
        ("tokenizer.json", None, "has no tokenizer.json"),
        ("tokenizer.json", "{}", "is no tokenizer"),
        (
            "tokenizer_config.json",
            '{"chat_template": [{"name": []}, {"name": "default", "template": 3}]}',
            "must be a text",
        ),
        ("model.onnx", None, "is no file of the folder"),
        ("model.onnx", "nothing", "model.onnx"),
        ("model.onnx.data", None, "model.onnx.data"),
    ],
)
def test_a_damaged_folder_is_one_clear_error(
    folder: Path, tmp_path: Path, file: str, content: str | None, message: str
) -> None:
    with pytest.raises(dml.DmlError, match=message):
        LanguageModel(broken(folder, tmp_path, file, content))


def test_a_configuration_of_another_model_is_refused_by_name(folder: Path, tmp_path: Path) -> None:
    config = json.loads((folder / "genai_config.json").read_text())
    for member, value, message in (
        ("num_key_value_heads", 3, r"'past_key_values.0.key' is .*; genai_config.json says \[1, 3, 128, 16\]"),
        ("num_hidden_layers", 3, "has no input 'past_key_values.2.key'"),
        ("num_hidden_layers", 1, "has caches for more layers than 1"),
        ("outputs", {"present_key_names": "present.%d.key", "present_value_names": "present.%d.key"}, "a name twice"),
        ("inputs", {"past_key_names": "p.%d.key", "past_value_names": "p.%d.key"}, "a name twice"),
        ("filename", "../elsewhere.onnx", "is no file of the folder"),
        ("filename", "x" * 5000, "is no file of the folder"),
        ("filename", "with\0zero", "is no file of the folder"),
        ("num_hidden_layers", 10**9, "genai_config.json says 1000000000 layers"),
        ("sliding_window", {"window_size": 2**31 - 1}, "a cache for 2147483647 tokens has .* at most"),
    ):
        changed = json.loads(json.dumps(config))
        changed["model"]["decoder"][member] = value
        directory = tmp_path / f"{len(list(tmp_path.iterdir()))}"  # a folder for each
        with pytest.raises(dml.DmlError, match=message):
            LanguageModel(broken(folder, directory, "genai_config.json", json.dumps(changed)))


def test_a_folder_of_links_is_run_as_caches_of_downloads_have_them(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "blobs").mkdir()
    (tmp_path / "snapshot").mkdir()
    for file in folder.iterdir():
        shutil.copy(file, tmp_path / "blobs" / f"of {file.name}")
        (tmp_path / "snapshot" / file.name).symlink_to(Path("..", "blobs", f"of {file.name}"))
    with LanguageModel(folder, max_length=16) as expected, LanguageModel(tmp_path / "snapshot", max_length=16) as model:
        assert model.logits([65, 66]).numpy().tobytes() == expected.logits([65, 66]).numpy().tobytes()
        with pytest.raises(dml.InvalidArgumentError, match=r"'\\udcff' at place 2, which is no character"):
            model.encode("a \udcff")


def test_tokens_that_cannot_be_leave_the_caches_as_they_were(folder: Path) -> None:
    with LanguageModel(folder, max_length=8) as model:
        logits = model.logits([65, 66, 67]).numpy()
        for tokens, message in (([], "no tokens"), ([260], "none of the vocabulary's 260"), ([-1], "none of")):
            with pytest.raises(dml.InvalidArgumentError, match=message):
                model.logits(tokens)
        with pytest.raises(dml.InvalidArgumentError, match="9 tokens, but there is room for 8"):
            model.logits([70] * 6)
        assert model.length == 3
        model.keep([65, 66, 67])
        assert model.logits([67]).numpy().tobytes() == logits.tobytes()


def test_tokens_that_failed_in_the_middle_may_be_run_again(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """None of them is in the caches twice, whichever part of the work could not be submitted."""
    text = [3 + (7 * position) % 250 for position in range(24)]  # in two chunks, and the last token
    with LanguageModel(folder, max_length=48) as model:
        model.logits([65, 66])
        wanted = model.logits(text).numpy().tobytes()
        engine, failures = type(model.device.engine), 0
        works = engine.submit_prepared
        for call in itertools.count():
            left = call

            def fails(*arguments: Any, **named: Any) -> Any:
                nonlocal left
                left -= 1
                if left == -1:
                    raise dml.OutOfMemoryError("for this test")
                return works(*arguments, **named)

            model.keep([65, 66, 1])
            monkeypatch.setattr(engine, "submit_prepared", fails)
            with contextlib.suppress(dml.OutOfMemoryError):
                model.logits(text)
                break
            failures += 1
            monkeypatch.undo()
            assert model.length == 2
            assert model.logits(text).numpy().tobytes() == wanted, f"behind call {call + 1}"
        monkeypatch.undo()
    assert failures > 0


@pytest.mark.parametrize("tokens", [[-1], [260], [2**64], [0.5], ["a"], None, 3, [[1]]])
def test_what_are_no_tokens_has_no_text_and_no_logits(folder: Path, tokens: Any) -> None:
    with LanguageModel(folder, max_length=8) as model:
        for call in (model.decode, model.logits, model.keep, model.generate, model.sequence().logits):
            with pytest.raises(dml.InvalidArgumentError, match=r"tokens must be integers|none of the vocabulary"):
                call(tokens)
        for most in (-1, 0.5, "3", True):
            with pytest.raises(dml.InvalidArgumentError, match="most must be a count"):
                model.generate([65], most=most)  # type: ignore[arg-type]
        with pytest.raises(dml.InvalidArgumentError, match="sampling must be"):
            model.generate([65], {"temperature": 1})  # type: ignore[arg-type]
        for text in (None, 3, b"text"):
            with pytest.raises(dml.InvalidArgumentError, match="text"):
                model.encode(text)  # type: ignore[arg-type]
            with pytest.raises(dml.InvalidArgumentError, match="must be a text"):
                list(Conversation(model).reply(text))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "value",
    [float("nan"), float("inf"), -1, 10**400, -(10**5000), "1", None, True, 1j, [1]],
    ids=lambda value: type(value).__name__,
)
@pytest.mark.parametrize("name", ["temperature", "top_k", "top_p", "repetition_penalty", "seed"])
def test_sampling_of_no_possible_number_is_refused_by_name(name: str, value: Any) -> None:
    with pytest.raises(dml.InvalidArgumentError, match=f"Sampling: {name} must be an? .* from"):
        Sampling(**{name: value})
    assert Sampling(top_k=np.int64(3), top_p=np.float32(0.5), temperature=2) == Sampling(2.0, 3, 0.5)  # type: ignore[arg-type]


def test_a_model_with_other_states_than_caches_is_refused_by_their_name(folder: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(folder, copy)
    model = onnx.load(copy / "model.onnx", load_external_data=False)
    shape: list[int | str | None] = ["batch_size", 64, 3]
    model.graph.input.append(onnx.helper.make_tensor_value_info("past_conv.0", onnx.TensorProto.FLOAT, shape))
    onnx.save(model, copy / "model.onnx")
    with pytest.raises(dml.UnsupportedError, match=r"has the inputs past_conv\.0, .*hybrid models"):
        LanguageModel(copy)


def test_a_template_that_refuses_is_an_error_of_dmlvk(folder: Path) -> None:
    with LanguageModel(folder) as model:
        conversation = Conversation(model)
        conversation.messages.append({"role": "odd", "content": ""})
        with pytest.raises(dml.ModelFileError, match="its chat template fails: no odd"):
            list(conversation.reply("Hello"))
        conversation.messages[:] = ["Hello"]  # type: ignore[list-item]
        with pytest.raises(dml.InvalidArgumentError, match="a message must be a dictionary; got 'Hello'"):
            list(conversation.reply("Hello"))
        assert [str(message) for message in conversation.messages] == ["Hello"]


def test_gguf_files_of_other_kinds_are_refused(tmp_path: Path) -> None:
    (tmp_path / "text.gguf").write_text("no GGUF file at all, but long enough to be looked at")
    with pytest.raises(dml.ModelFileError, match="is no GGUF file"):
        convert_gguf(tmp_path / "text.gguf", tmp_path / "folder")
    write_llama(tmp_path / "model.gguf")
    data, name = bytearray((tmp_path / "model.gguf").read_bytes()), b"blk.0.attn_q.weight"
    place = data.index(name) + len(name) + 4 + 2 * 8  # behind the count of sizes, and two of them
    data[place] = gguf.GGMLQuantizationType.IQ2_XXS
    (tmp_path / "model.gguf").write_bytes(data)
    with pytest.raises(dml.UnsupportedError, match=r"blk.0.attn_q.weight is of the type IQ2_XXS; F32, F16, BF16, Q4_0"):
        convert_gguf(tmp_path / "model.gguf", tmp_path / "folder")
    assert not (tmp_path / "folder").exists()
    for path, message in (
        ("x" * 5000, "too long"),
        (tmp_path, "directory"),
        ("/dev/zero", "no regular"),
        ("\0", "null"),
    ):
        with pytest.raises(dml.ModelFileError, match=message):
            convert_gguf(path, tmp_path / "folder")


@pytest.mark.parametrize("path", [None, 3, b"model"])
def test_what_is_no_path_is_refused_as_such(path: Any, tmp_path: Path) -> None:
    for call in (
        lambda: LanguageModel(path),
        lambda: load_model(path),
        lambda: load_model(tmp_path, root=path if path is not None else 3),  # type: ignore[arg-type]
        lambda: convert_gguf(path, tmp_path),
        lambda: convert_gguf(tmp_path, path),
    ):
        with pytest.raises(dml.InvalidArgumentError, match="must be a path"):
            call()
    for text in ("x" * 5000, "\0"):
        with pytest.raises(dml.ModelFileError, match="no such file or folder"):
            LanguageModel(text)


def test_the_command_converts_and_talks(folder: Path, tmp_path: Path) -> None:
    source = folder.parent / "model.gguf"
    made = python("-m", "dmlvk", "convert-gguf", str(source), str(tmp_path / "made"))
    assert made.returncode == 0, made.stderr
    command = [sys.executable, "-m", "dmlvk", "chat", str(tmp_path / "made"), "--max-tokens", "3", "-p", "Hello"]
    said = subprocess.run(command, capture_output=True, text=True, check=False)
    assert said.returncode == 0, said.stderr
    assert "tokens/s" in said.stderr
    with LanguageModel(tmp_path / "made") as model:
        assert said.stdout == "".join(Conversation(model).reply("Hello", most=3)) + "\n"
