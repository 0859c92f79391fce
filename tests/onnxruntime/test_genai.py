"""onnxruntime-genai, unchanged, on the device: its caches stay there."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import dmlvk.onnxruntime
from dmlvk.running.replay import Replay
from tests.counted_calls import calls_of
from tests.language.small_llama import KEY_HEADS, LAYERS, write_folder

genai = pytest.importorskip("onnxruntime_genai")

PROMPT = [(83 * place + 7) % 256 for place in range(40)]  # of which a cache is large enough to stay on the device


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_folder(tmp_path_factory.mktemp("genai"))


def tokens_of(folder: Path, provider: str | None, count: int, *, is_shared: bool = False) -> list[int]:
    """What comes after the prompt, as a program of onnxruntime-genai has it."""
    path = folder / "genai_config.json"
    config: dict[str, Any] = json.loads(path.read_text())
    config["search"] |= {"past_present_share_buffer": is_shared, "do_sample": False, "max_length": 64}
    path.write_text(json.dumps(config))
    made = genai.Config(str(folder))
    made.clear_providers()
    if provider is not None:
        made.append_provider(provider)
    model = genai.Model(made)
    generator = genai.Generator(model, genai.GeneratorParams(model))
    generator.append_tokens(PROMPT)
    found = []
    for _ in range(count):
        generator.generate_next_token()
        found.append(int(generator.get_next_tokens()[0]))
    return found


@pytest.mark.parametrize("is_shared", [False, True])
def test_tokens_are_those_of_the_cpu_and_caches_stay_on_the_device(folder: Path, is_shared: bool) -> None:
    import dmlvk.onnxruntime.genai

    assert dmlvk.onnxruntime.genai
    wanted = tokens_of(folder, None, 9, is_shared=is_shared)
    assert tokens_of(folder, "webgpu", 2, is_shared=is_shared) == wanted[:2]
    traffic = []
    for count in (3, 9):
        before = dmlvk.onnxruntime.traffic()
        assert tokens_of(folder, "webgpu", count, is_shared=is_shared) == wanted[:count]
        after = dmlvk.onnxruntime.traffic()
        traffic.append((after.to_device - before.to_device, after.to_host - before.to_host))
    to_device, to_host = traffic[1][0] - traffic[0][0], traffic[1][1] - traffic[0][1]
    logits = 4 * json.loads((folder / "genai_config.json").read_text())["model"]["vocab_size"]
    assert to_host == 6 * logits, "each of six more steps downloads the logits of a token"
    lengths = range(len(PROMPT) + 3, len(PROMPT) + 9)
    assert to_device <= sum(8 + 8 * (64 if is_shared else length) for length in lengths), "a token and a mask go up"
    # caches would be far more: 2 * 2 layers, each with 2 heads of 16 FLOAT32 elements for each token
    assert to_device < 6 * 2 * LAYERS * KEY_HEADS * 16 * 4 * len(PROMPT) / 4


def taken_ahead(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Any, ...]]:
    """An element for each step that had been begun before it was asked for."""
    return calls_of(monkeypatch, Replay, "finish")


def test_the_likeliest_tokens_step_is_begun_before_it_is_asked_for(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import dmlvk.onnxruntime.genai

    assert dmlvk.onnxruntime.genai
    taken = taken_ahead(monkeypatch)
    room = 64 - len(PROMPT)
    assert tokens_of(folder, "webgpu", room, is_shared=True) == tokens_of(folder, None, room, is_shared=True)
    assert len(taken) >= room - 8


def test_tokens_that_were_not_looked_for_are_computed(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import dmlvk.onnxruntime.genai

    assert dmlvk.onnxruntime.genai
    tokens_of(folder, None, 1, is_shared=True)  # writes the configuration
    taken, found = taken_ahead(monkeypatch), []
    for provider in (None, "webgpu"):
        config = genai.Config(str(folder))
        config.clear_providers()
        if provider is not None:
            config.append_provider(provider)
        model = genai.Model(config)
        generator, tokens = genai.Generator(model, genai.GeneratorParams(model)), []
        generator.append_tokens(PROMPT)
        for turn in range(3):
            for _ in range(7):
                generator.generate_next_token()
                tokens.append(int(generator.get_next_tokens()[0]))
            if turn == 0:
                generator.append_tokens([(tokens[-1] + 5) % 256])  # another token than the likeliest
            else:
                generator.rewind_to(len(PROMPT) + 3)
                generator.append_tokens([(tokens[-1] + 9) % 256])
        found.append(tokens)
    assert found[0] == found[1]
    assert taken


def test_a_provider_of_its_own_name_gives_the_same_tokens(folder: Path) -> None:
    genai.register_execution_provider_library("dmlvk", dmlvk.onnxruntime.library_path())
    assert tokens_of(folder, dmlvk.onnxruntime.PROVIDER, 5) == tokens_of(folder, None, 5)


def test_generators_in_turn_go_on_from_caches_of_their_own(folder: Path) -> None:
    import dmlvk.onnxruntime.genai

    assert dmlvk.onnxruntime.genai
    wanted = tokens_of(folder, None, 8, is_shared=True)
    config = genai.Config(str(folder))
    config.clear_providers()
    config.append_provider("webgpu")
    model = genai.Model(config)
    generators = [genai.Generator(model, genai.GeneratorParams(model)) for _ in range(3)]
    found: list[list[int]] = [[] for _ in generators]
    for start, generator in enumerate(generators):
        generator.append_tokens(PROMPT[: len(PROMPT) - start])
        for token in PROMPT[len(PROMPT) - start :]:  # the prompt's last tokens one by one
            generator.append_tokens([token])
    for _ in range(8):
        for tokens, generator in zip(found, generators, strict=True):
            generator.generate_next_token()
            tokens.append(int(generator.get_next_tokens()[0]))
    assert found == [wanted] * 3


def test_the_interpreter_ends_well_with_a_generator_that_only_a_cycle_keeps(folder: Path) -> None:
    program = (
        "import sys, numpy\n"
        "import dmlvk.onnxruntime.genai\n"
        "import onnxruntime_genai as genai\n"
        "config = genai.Config(sys.argv[1])\n"
        "config.clear_providers()\n"
        "config.append_provider('webgpu')\n"
        "model = genai.Model(config)\n"
        "generator = genai.Generator(model, genai.GeneratorParams(model))\n"
        "generator.append_tokens([7, 200, 31])\n"
        "for _ in range(7):\n"
        "    generator.generate_next_token()\n"
        "numpy.kept = lambda: generator\n"
        "print('end')\n"
    )
    command = [sys.executable, "-c", program, str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert (done.returncode, done.stdout) == (0, "end\n"), done.stderr
