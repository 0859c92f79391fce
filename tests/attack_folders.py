"""Attacks by damaged language models: GGUF files that are converted, folders that are talked to."""

from __future__ import annotations

import functools
import random
import shutil
import tempfile
from pathlib import Path

import dmlvk as dml
from dmlvk.language import Conversation, LanguageModel, convert_gguf
from tests.language.damage import damage_folder, damaged_gguf
from tests.language.small_llama import write_folder


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
            file.write_bytes(damaged_gguf((sound / "model.gguf").read_bytes(), choose))
            convert_gguf(file, folder)
        else:
            shutil.copytree(sound / "folder", folder)
            damage_folder(folder, choose)
        with LanguageModel(folder, device=device) as model:
            list(Conversation(model).reply("ab", most=3))
    return "runs"
