"""Attacks by damaged language models: GGUF files that are converted, folders that are talked to."""

from __future__ import annotations

import functools
import json
import random
import shutil
import tempfile
from pathlib import Path
from typing import Any

import dmlvk as dml
from dmlvk.language import Conversation, LanguageModel, convert_gguf
from tests.language.small_llama import write_folder

_STRANGE: tuple[Any, ...] = (
    *(None, -1, 0, 1, 2**31, 2**64, 1e999, 0.5, True, "", "x" * 5000, "\0", "../x", [], {}, [[]], [{}]),
    *("{%", "{{ 1/0 }}", "{% for i in range(10**9) %}a{% endfor %}", {"content": 3}, [{"name": [], "template": 3}]),
)
_NUMBERS = (2**64 - 1, 2**63, 2**40, 2**32, 2**20, 1, 0)


@functools.cache
def _sound() -> tempfile.TemporaryDirectory[str]:
    """A file, and the folder that is made of it; kept as long as the process."""
    directory = tempfile.TemporaryDirectory(prefix="dmlvk-attack-")
    write_folder(Path(directory.name))
    return directory


def language_model(seed: int, device: dml.Device) -> str:
    """A damaged file is converted, or a folder is damaged, and three tokens are asked of it."""
    choose = random.Random(seed)
    sound = Path(_sound().name)
    with tempfile.TemporaryDirectory() as directory:
        folder = Path(directory) / "folder"
        if choose.random() < 0.5:
            file = Path(directory) / "model.gguf"
            file.write_bytes(_damaged((sound / "model.gguf").read_bytes(), choose))
            convert_gguf(file, folder)
        else:
            shutil.copytree(sound / "folder", folder)
            file = choose.choice(sorted(folder.glob("*.json")))
            content = json.loads(file.read_text(encoding="utf-8"))
            for _ in range(choose.randint(1, 2)):
                _damage(content, choose)
            file.write_text(json.dumps(content), encoding="utf-8")
        with LanguageModel(folder, device=device) as model:
            list(Conversation(model).reply("ab", most=3))
    return "runs"


def _damaged(contents: bytes, choose: random.Random) -> bytes:
    """Most damage is done before the weights."""
    data = bytearray(contents)
    head = contents.find(b"token_embd.weight") + 2500
    for _ in range(choose.randint(1, 3)):
        offset, way = choose.randrange(head if choose.random() < 0.9 else len(data)), choose.randrange(4)
        if way == 0:
            data[offset] ^= 1 << choose.randrange(8)
        elif way == 1:
            del data[offset : offset + choose.randint(1, 9)]
        elif way == 2:
            data[offset : offset + 8] = choose.choice(_NUMBERS).to_bytes(8, "little")
        else:
            data[offset:offset] = bytes(choose.randrange(256) for _ in range(choose.randint(1, 9)))
    return bytes(data[: choose.randrange(len(data))] if choose.random() < 0.1 else data)


def _damage(content: Any, choose: random.Random) -> None:
    """Something inside of a JSON value is missing, or something else."""
    while isinstance(content, (dict, list)) and content:
        keys: list[Any] = list(content) if isinstance(content, dict) else list(range(len(content)))
        key = choose.choice(keys)
        inside = content[key]
        if choose.random() < 0.5 and isinstance(inside, (dict, list)) and inside:
            content = inside
        elif choose.random() < 0.3:
            del content[key]
            return
        else:
            content[key] = choose.choice(_STRANGE)
            return
