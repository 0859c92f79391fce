"""GGUF files, packed and damaged folders: converted to the same tokens, or one error of dmlvk's each."""

from __future__ import annotations

import contextlib
import json
import math
import os
import pickle
import random
import shutil
import struct
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import onnx
import pytest

import dmlvk as dml
from dmlvk.language import Conversation, LanguageModel, convert_gguf
from dmlvk.language.architectures import decoder_of
from dmlvk.language.conversion import read_folder
from dmlvk.language.decoder_graph import DecoderGraph
from dmlvk.language.gguf_blocks import BLOCKS, matrix, plain
from dmlvk.language.gguf_source import GgufSource
from dmlvk.language.weights import Matrix
from dmlvk.onnx import InferenceSession, SessionOptions
from dmlvk.support.file_arrays import fill, is_of_files
from dmlvk.support.mapped_files import MappedFile, check_unchanged
from tests.effort import IS_QUICK
from tests.language.damage import damage_folder, damaged_gguf
from tests.language.small_llama import HIDDEN, random_blocks, write_folder, write_llama
from tests.language.small_models import write_pieces
from tests.language.test_files import write_folder as write_plain_folder
from tests.processes import python

DAMAGED_FILES = 500
"""Files of the long mode."""

Facts = dict[str, Any]


def add_field(writer: gguf.GGUFWriter, name: str, value: Any) -> None:
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


@pytest.mark.parametrize("number", [np.inf, -np.inf, np.nan])
def test_weights_that_are_no_numbers_are_refused_by_name(tmp_path: Path, number: float) -> None:
    write_llama(tmp_path / "model.gguf")
    reader = gguf.GGUFReader(tmp_path / "model.gguf", "r+")
    next(tensor for tensor in reader.tensors if tensor.name == "output_norm.weight").data[3] = number
    reader.data.flush()
    with pytest.raises(dml.DmlError, match=r"output_norm\.weight has NaN or infinity"):
        convert_gguf(tmp_path / "model.gguf", tmp_path / "folder")


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
        (lambda field: field.update(merges=["a q"]), r"model\.gguf: is no tokenizer"),
        (
            lambda field: field.update(merges=["a b c"]),
            r"^\S*model\.gguf: tokenizer\.ggml\.merges has 'a b c', which is",
        ),
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


@pytest.mark.parametrize("first", range(0, DAMAGED_FILES, 100)[: 1 if IS_QUICK else None])
def test_damaged_files_are_one_error_and_leave_nothing_behind(tmp_path: Path, first: int) -> None:
    write_llama(tmp_path / "sound.gguf")
    call = f"convert_damaged({first}, 100, Path({str(tmp_path)!r}))"
    code = f"from pathlib import Path; from tests.language.test_gguf import convert_damaged; {call}"
    done = python("-c", code, timeout=800)
    assert done.returncode == 0, f"seed {done.stdout[-5:]}: {done.stderr[-3000:]}"


PROMPT = [70, 80, 90, 100, 110, 75] * 2 + [33]


def bytes_read(model: onnx.ModelProto, matrix: str) -> int:
    """What the model's operators read of a matrix, which lies on the device as it is."""
    return sum(
        math.prod(part.dims) * onnx.helper.tensor_dtype_to_np_dtype(part.data_type).itemsize
        for part in model.graph.initializer
        if part.name.startswith(matrix)
    )


def test_tables_that_are_larger_than_a_buffer_are_read_in_parts(
    tmp_path: Path, device: dml.Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_llama(tmp_path / "model.gguf")
    logits = []
    for limit in (None, 5000):
        if limit is not None:
            for place in ("movement", "quantized"):
                monkeypatch.setattr(f"dmlvk.onnx.nodes.operators.{place}.largest_operand", lambda node: 5000)
        with LanguageModel(tmp_path / "model.gguf", device, max_length=32) as model:
            logits.append(model.logits(PROMPT).numpy().tobytes())
            assert {node.reason for node in model._session.partition if node.place != "device"} <= {
                "counts, before each run"
            }
    assert logits[0] == logits[1]


def split_tensors(folder: Path) -> None:
    """Puts a folder's tensors in two files with an index."""
    data = (folder / "model.safetensors").read_bytes()
    length = int.from_bytes(data[:8], "little")
    header = {name: each for name, each in json.loads(data[8 : 8 + length]).items() if name != "__metadata__"}
    names = {f"part{number}.safetensors": list(header)[number::2] for number in range(2)}
    for file, some in names.items():
        made, contents = {}, b""
        for name in some:
            start, end = header[name]["data_offsets"]
            made[name] = header[name] | {"data_offsets": [len(contents), len(contents) + end - start]}
            contents += data[8 + length + start : 8 + length + end]
        text = json.dumps(made).encode()
        (folder / file).write_bytes(struct.pack("<Q", len(text)) + text + contents)
    index = {"weight_map": {name: file for file, some in names.items() for name in some}}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    (folder / "model.safetensors").unlink()


DAMAGED_FOLDERS = 500
"""Folders of the long mode."""

_EACH = 50


def try_damaged(first: int, directory: Path) -> None:
    """Talks to so many damaged folders; an error that is none of dmlvk's, or one that takes long, ends it."""
    import resource  # which Windows has not

    work, temporary = directory / f"work{first}", directory / "temporary"
    temporary.mkdir()
    tempfile.tempdir = str(temporary)
    config = next(name for name in ("genai_config.json", "config.json") if (directory / "folder" / name).exists())
    with dml.Device() as device:
        with LanguageModel(directory / "folder", device, max_length=32) as model:
            assert list(model.generate(model.encode("ab"), most=3))
        there = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (there + 2 * 2**30, there + 2 * 2**30))
        for seed in range(first, first + _EACH):
            shutil.copytree(directory / "folder", work)
            damage_folder(work, random.Random(seed), config)
            print(seed, end=" ", flush=True)
            start = time.thread_time()
            with contextlib.suppress(dml.DmlError), LanguageModel(work, device, max_length=32) as model:
                list(Conversation(model).reply("ab", most=3))
            assert time.thread_time() - start < 10, f"seed {seed} took long"
            assert not os.listdir(temporary), f"seed {seed} left something behind"
            shutil.rmtree(work)


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux limits a process's memory and says what it has")
@pytest.mark.parametrize("first", range(0, DAMAGED_FOLDERS, _EACH)[: 1 if IS_QUICK else None])
@pytest.mark.parametrize("kind", ["genai", "hub", "pieces", "parts"])
def test_damaged_folders_are_one_error_each_and_leave_nothing_behind(tmp_path: Path, kind: str, first: int) -> None:
    if kind == "genai":
        write_folder(tmp_path)
    else:
        (tmp_path / "folder").mkdir()
        write_plain_folder(tmp_path / "folder")
    if kind == "parts":
        split_tensors(tmp_path / "folder")
    if kind == "pieces":
        (tmp_path / "folder" / "tokenizer.json").unlink()
        pieces = ["<unk>", "<s>", "</s>", *"\u2581abc", "ab"]
        write_pieces(tmp_path / "folder" / "tokenizer.model", pieces, [0.0] * 8, [2, 3, 3, *[1] * 5], has_prefix=True)
    call = f"try_damaged({first}, Path({str(tmp_path)!r}))"
    code = f"from pathlib import Path; from tests.language.test_gguf import try_damaged; {call}"
    done = python("-c", code, timeout=800)
    assert done.returncode == 0, f"seed {done.stdout.split()[-1:]}: {done.stderr[-3000:]}"


@pytest.mark.parametrize("bits", [4, 8])
def test_columns_of_weights_that_are_packed_when_they_are_read(tmp_path: Path, bits: int) -> None:
    """As layers of Gemma 4 have them of one table, which may be plain."""
    values = np.random.default_rng(0).standard_normal((24, 256)).astype(np.float32)
    (tmp_path / "numbers").write_bytes(values.tobytes())
    rows = MappedFile.opened(tmp_path / "numbers").array(np.uint8, 0, (24, 1024))
    of_file = Matrix(32, plain("F32", rows)).quantized(bits).between(64, 160)
    in_memory = Matrix(32, values).quantized(bits).between(64, 160)
    assert is_of_files(of_file.planes)
    np.testing.assert_array_equal(of_file.planes, in_memory.planes)
    np.testing.assert_array_equal(of_file.multiplied_out(), in_memory.multiplied_out())


PACKED = [kind for kind, (elements, _) in BLOCKS.items() if elements > 1]


def write_packed(file: Path, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    """A llama of random blocks of a type."""
    for name, value in (("HIDDEN", 256), ("FEED_FORWARD", 256), ("quantized", random_blocks)):
        monkeypatch.setattr(f"tests.language.small_llama.{name}", value)
    weights = gguf.GGMLQuantizationType[kind]
    write_llama(file, weights, weights, head=64)


@pytest.mark.parametrize("kind", PACKED)
def test_a_folder_for_other_programs_gives_the_bits_of_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """Its scales are FLOAT32 of each block, minima are products of their own; those of the file stay as they are."""
    write_packed(tmp_path / "model.gguf", monkeypatch, kind)
    convert_gguf(tmp_path / "model.gguf", tmp_path / "folder")
    logits = []
    for path in ("model.gguf", "folder"):
        with LanguageModel(tmp_path / path, max_length=32) as model:
            logits.append([model.logits(tokens).numpy() for tokens in (PROMPT, PROMPT[:1])])
    for of_file, of_folder in zip(*logits, strict=True):
        if kind in ("Q4_1", "Q5_1", "Q2_K", "Q4_K", "Q5_K"):
            assert np.abs(of_file - of_folder).max() < 1e-4 * np.abs(of_file).max()
        else:
            assert of_file.tobytes() == of_folder.tobytes()


@pytest.mark.parametrize("kind", PACKED)
def test_numbers_that_stay_in_the_file_are_read_by_whoever_looks(tmp_path: Path, kind: str) -> None:
    (elements, width), path = BLOCKS[kind], tmp_path / "blocks"
    path.write_bytes(np.random.default_rng(0).bytes(24 * 512 // elements * width))
    rows = MappedFile.opened(path).array(np.uint8, 0, (24, 512 // elements * width))
    made = Matrix.joined([matrix(kind, rows[start:stop]) for start, stop in ((9, 24), (0, 9))])
    in_memory = matrix(kind, rows.take([*range(9, 24), *range(9)], 0))
    both = [each.pairs() if made.has_pairs else (each.scales, each.factors) for each in (made, in_memory)]
    array: Any
    expected: Any
    for array, expected in ((made.planes, in_memory.planes), *zip(*both, strict=True)):
        if array is None:
            continue
        assert is_of_files(array)
        assert isinstance(array, np.ndarray)
        whole = np.asarray(expected).reshape(array.shape)
        for view in (np.s_[:], np.s_[3:20], np.s_[7:7], np.s_[5, 11:], np.s_[20:2:-3, 1::2]):
            np.testing.assert_array_equal(np.asarray(array[view]), whole[view])
            np.testing.assert_array_equal(array[view].T, whole[view].T)
        np.testing.assert_array_equal(array[3:20] == array[3:4], whole[3:20] == whole[3:4])
        assert array.tobytes() == whole.tobytes() == pickle.loads(pickle.dumps(array)).tobytes()
        part = np.empty(array.nbytes - 5, np.uint8)
        fill([(array, 3, part)])
        assert part.tobytes() == whole.tobytes()[3:-2], "from the middle of a row to that of another one"
    array = made.planes
    with pytest.raises(ValueError, match="read-only"):
        np.add(array, 1, out=array)
    check_unchanged([array])
    path.write_bytes(b"others")
    with pytest.raises(dml.ModelFileError, match="was written to after the model was loaded"):
        check_unchanged([array])


def test_a_file_that_is_cut_while_it_is_read_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its pages are not there any more, and whoever touched one would end the process."""
    write_packed(tmp_path / "model.gguf", monkeypatch, "Q4_K")
    made = read_folder(tmp_path / "model.gguf").converted
    assert made is not None
    options = SessionOptions()
    options.add_external_initializers(list(made.weights), list(made.weights.values()))
    os.truncate(tmp_path / "model.gguf", 2**12)
    with pytest.raises(dml.ModelFileError, match=r"model\.gguf: was written to after the model was loaded"):
        InferenceSession(made.model, options)


def test_numbers_of_a_file_are_neither_copied_nor_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_packed(tmp_path / "model.gguf", monkeypatch, "Q4_K")
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "nowhere"))
    made = read_folder(tmp_path / "model.gguf").converted
    assert made is not None
    copied = sum(array.nbytes for array in made.weights.values() if not is_of_files(array))
    assert copied + made.model.ByteSize() < (tmp_path / "model.gguf").stat().st_size / 10


@pytest.mark.parametrize("kind", PACKED)
def test_packed_weights_have_about_the_bytes_of_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    write_packed(tmp_path / "model.gguf", monkeypatch, kind)
    source = GgufSource.opened(tmp_path / "model.gguf")
    made_of_file = DecoderGraph(source, decoder_of(source)).model()
    of_file = next(t for t in gguf.GGUFReader(tmp_path / "model.gguf").tensors if t.name == "blk.0.ffn_down.weight")
    assert bytes_read(made_of_file, "blk.0.ffn_down.") <= 1.1 * of_file.n_bytes
