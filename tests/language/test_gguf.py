"""GGUF files: what changes numbers is converted or refused by name; damaged files are one error and leave nothing."""

from __future__ import annotations

import contextlib
import os
import random
import shutil
import struct
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest

import dmlvk as dml
from dmlvk.language import convert_gguf
from tests.effort import IS_QUICK
from tests.language.damage import damaged_gguf
from tests.language.small_llama import HIDDEN, write_llama

DAMAGED = 500
"""Files of the long mode."""

Facts = dict[str, Any]


def add_field(writer: gguf.GGUFWriter, name: str, value: Any) -> None:
    """A field of the architecture, of its value's type."""
    kind: dict[type, Any] = {
        bool: writer.add_bool,
        int: writer.add_uint32,
        float: writer.add_float32,
        str: writer.add_string,
    }
    kind.get(type(value), writer.add_array)(f"llama.{name}", value)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(
            ("logit_scale", 0.5),
            ("residual_scale", 2.0),
            ("embedding_scale", 12.0),
            ("expert_used_count", 4),
            ("anything", 1),
        ),
        *(("attention.sliding_window", 0.5), ("attn_logit_softcapping", 50.0), ("final_logit_softcapping", 30.0)),
        *(("rope.scaling.type", "dynamic"), ("rope.scaling.attn_factor", 1.5), ("rope.dimension_count", 7)),
        *(("attention.value_length", 32), ("attention.causal", False), ("rope.dimension_sections", [4, 4])),
        *(("hidden_activation", "gelu"), ("use_parallel_residual", True), ("attention.layer_norm_epsilon", 1e-5)),
        *(("vocab_size", 300), ("attention.scale", float("nan")), ("attention.scale", "1"), ("vocab_size", True)),
        *(("rope.scaling.factor", float("inf")), ("rope.scaling.factor", -1.0), ("rope.scaling.type", 3)),
    ],
)
def test_fields_that_change_numbers_are_refused_by_name(tmp_path: Path, name: str, value: Any) -> None:
    write_llama(tmp_path / "model.gguf", more=lambda writer: add_field(writer, name, value))
    with pytest.raises(dml.DmlError, match=f"llama.{name}"):
        convert_gguf(tmp_path / "model.gguf", tmp_path / "folder")
    assert os.listdir(tmp_path) == ["model.gguf"]


@pytest.mark.parametrize(
    "name",
    [
        *("blk.0.attn_q_norm.weight", "blk.1.ffn_gate_inp.weight", "blk.0.attn_q.scale", "blk.0.attn_norm.bias"),
        *(
            "blk.0.ffn_down_exps.weight",
            "blk.2.attn_norm.weight",
            "output_norm.bias",
            "rope_factors_long.weight",
            "extra",
        ),
        *("output.bias", "blk.0.post_attention_norm.weight", "blk.0.attn_sinks.weight", "token_types.weight"),
    ],
)
def test_tensors_that_are_not_converted_are_refused_by_name(tmp_path: Path, name: str) -> None:
    write_llama(tmp_path / "model.gguf", more=lambda writer: writer.add_tensor(name, np.ones(HIDDEN, np.float32)))
    with pytest.raises(dml.UnsupportedError, match=f"tensors that are not converted, .*{name}"):
        convert_gguf(tmp_path / "model.gguf", tmp_path / "folder")
    assert os.listdir(tmp_path) == ["model.gguf"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            lambda field: field.update(context=2**31 - 1),
            r"llama.context_length 2147483647: tables .* have 68719476704 bytes",
        ),
        (
            lambda field: field.update(epsilon=float("nan")),
            "layer_norm_rms_epsilon must be a number from 0.0 to 1.0; got nan",
        ),
        (lambda field: field.update(epsilon=-1.0), "layer_norm_rms_epsilon must be"),
        (lambda field: field.update(base=float("inf")), "llama.rope.freq_base must be"),
        (lambda field: field.update(base=0.0), "llama.rope.freq_base must be"),
        (lambda field: field.update(end=260), "eos_token_id must be an integer from 0 to 259; got 260"),
        (lambda field: field.update(merges=["a q"]), "its tokenizer is none"),
        (lambda field: field.update(tokens=["a"] * 260), "has a token twice"),
        (lambda field: field.update(types=[1]), "token_type must be a number for each of 260"),
        (lambda field: field.update(template=3), "tokenizer.chat_template must be a text"),
        (lambda field: field.update(norm=float("nan")), "output_norm.weight has NaN or infinity"),
    ],
)
def test_values_that_cannot_be_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: Callable[[Facts], None], message: str
) -> None:
    field: Facts = {}
    change(field)
    add_tensor = gguf.GGUFWriter.add_tensor

    def tensor(writer: gguf.GGUFWriter, name: str, values: Any, **named: Any) -> None:
        add_tensor(
            writer, name, values * np.float32(field["norm"]) if name == "output_norm.weight" else values, **named
        )

    for method, name in (
        *(("add_context_length", "context"), ("add_layer_norm_rms_eps", "epsilon"), ("add_rope_freq_base", "base")),
        *(("add_eos_token_id", "end"), ("add_token_merges", "merges"), ("add_token_list", "tokens")),
        ("add_token_types", "types"),
    ):
        if name in field:
            own = getattr(gguf.GGUFWriter, method)
            monkeypatch.setattr(gguf.GGUFWriter, method, lambda writer, _, own=own, name=name: own(writer, field[name]))
    if "norm" in field:
        monkeypatch.setattr(gguf.GGUFWriter, "add_tensor", tensor)
    if "template" in field:
        monkeypatch.setattr(
            gguf.GGUFWriter, "add_chat_template", lambda writer, _: writer.add_uint32("tokenizer.chat_template", 3)
        )
    write_llama(tmp_path / "model.gguf")
    with pytest.raises(dml.DmlError, match=message):
        convert_gguf(tmp_path / "model.gguf", tmp_path / "folder")
    assert os.listdir(tmp_path) == ["model.gguf"]


def test_a_folder_that_is_there_keeps_its_files_until_all_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_llama(tmp_path / "model.gguf")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "model.onnx.data").write_text("of another model, in the current folder")
    convert_gguf("model.gguf", "folder")
    before = {path.name: path.read_bytes() for path in (tmp_path / "folder").iterdir()}
    (tmp_path / "folder" / "mine.txt").write_text("mine")
    write_llama(tmp_path / "other.gguf", seed=1, more=lambda writer: writer.add_tensor("x", np.ones(1, np.float32)))
    with pytest.raises(dml.UnsupportedError, match="x"):
        convert_gguf("other.gguf", "folder")
    with pytest.raises(dml.UnsupportedError):
        convert_gguf("other.gguf", tmp_path / "a" / "b" / "c")
    assert not (tmp_path / "a").exists()
    assert {path.name: path.read_bytes() for path in (tmp_path / "folder").iterdir()} == before | {"mine.txt": b"mine"}
    convert_gguf("model.gguf", "folder")
    assert {path.name: path.read_bytes() for path in (tmp_path / "folder").iterdir()} == before | {"mine.txt": b"mine"}
    assert sorted(os.listdir(tmp_path)) == ["folder", "model.gguf", "model.onnx.data", "other.gguf"]
    for path in ("model.gguf", "model.gguf/inside", "x" * 5000, "\0"):
        with pytest.raises(dml.ModelFileError, match="cannot be written"):
            convert_gguf("model.gguf", path)


@pytest.mark.parametrize("inner", [0, 7, 8, 9, 12, 99])
def test_counts_beyond_the_file_end_at_once(tmp_path: Path, inner: int) -> None:
    field = struct.pack("<Q1sIIQ", 1, b"a", 9, inner, 2**60)
    (tmp_path / "model.gguf").write_bytes(b"GGUF" + struct.pack("<IQQ", 3, 0, 1) + field)
    with pytest.raises(dml.ModelFileError, match=r"'a' has 1152921504606846976 elements, but 0 bytes are left"):
        convert_gguf(tmp_path / "model.gguf", tmp_path / "folder")
    assert os.listdir(tmp_path) == ["model.gguf"]


def convert_damaged(first: int, count: int, directory: Path) -> None:
    """Converts so many damaged files; an error that is none of dmlvk's, or what is left behind, ends it."""
    if sys.platform == "linux":
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (2 * 2**30, 2 * 2**30))
    sound = (directory / "sound.gguf").read_bytes()
    work = directory / f"work{first}"
    for seed in range(first, first + count):
        work.mkdir()
        (work / "model.gguf").write_bytes(damaged_gguf(sound, random.Random(seed)))
        start = time.process_time()
        print(seed, end=" ", flush=True)
        with contextlib.suppress(dml.DmlError):
            convert_gguf(work / "model.gguf", work / "folder")
            shutil.rmtree(work / "folder")
        assert os.listdir(work) == ["model.gguf"], f"seed {seed} left something behind"
        assert time.process_time() - start < 10, f"seed {seed} took long"
        shutil.rmtree(work)


@pytest.mark.parametrize("first", range(0, DAMAGED, 100)[: 1 if IS_QUICK else None])
def test_damaged_files_are_one_error_and_leave_nothing_behind(tmp_path: Path, first: int) -> None:
    write_llama(tmp_path / "sound.gguf")
    call = f"convert_damaged({first}, 100, Path({str(tmp_path)!r}))"
    code = f"from pathlib import Path; from tests.language.test_gguf import convert_damaged; {call}"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=800)
    assert done.returncode == 0, f"seed {done.stdout[-5:]}: {done.stderr[-3000:]}"
