"""Folders of the hub with packed weights: FP8, GPTQ, AWQ, MXFP4; and plain ones that are packed when they are read."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest

import dmlvk as dml
from dmlvk.language import LanguageModel
from dmlvk.language.architectures import decoder_of
from dmlvk.language.conversion import read_folder
from dmlvk.language.decoder_graph import DecoderGraph
from dmlvk.language.hub_source import HubSource
from tests.language.small_llama import write_tensors
from tests.language.small_models import write_hub_folder
from tests.language.test_gguf import PROMPT, bytes_read


def read_tensors(file: Path) -> dict[str, Any]:
    """The tensors of a safetensors file of FLOAT32."""
    data = file.read_bytes()
    length = struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8 : 8 + length])
    return {
        name: np.frombuffer(data, np.float32, int(np.prod(each["shape"])), 8 + length + each["data_offsets"][0])
        .reshape(each["shape"])
        .copy()
        for name, each in header.items()
        if name != "__metadata__"
    }


def write_two_folders(name: str, folder: Path) -> Any:
    """A folder to change, and the model of another one, whose file torch keeps mapped."""
    (folder / "plain").mkdir()
    reference = write_hub_folder(name, folder / "plain")
    for file in (folder / "plain").iterdir():
        (folder / file.name).write_bytes(file.read_bytes())
    return reference


def configure(folder: Path, packing: dict[str, Any]) -> None:
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"quantization_config": packing}))


def words(integers: Any, bits: int, axis: int) -> Any:
    """Integers packed along an axis, the first one in the lowest bits."""
    moved = np.moveaxis(integers, axis, -1).astype(np.uint64)
    made = np.zeros((*moved.shape[:-1], moved.shape[-1] * bits // 32), np.uint64)
    for place in range(32 // bits):
        made |= moved[..., place :: 32 // bits] << np.uint64(place * bits)
    return np.ascontiguousarray(np.moveaxis(made, -1, axis)).astype(np.uint32).view(np.int32)


def unpacked(array: Any, axis: int) -> Any:
    """The integers of four bits along an axis."""
    bits = np.moveaxis(array.view(np.uint32), axis, -1)[..., None] >> np.arange(0, 32, 4, dtype=np.uint32) & 15
    return np.moveaxis(bits.reshape(*bits.shape[:-2], -1), -1, axis)


def gptq(weights: Any, random_: Any, bits: int, *, is_symmetric: bool, most: int = 15) -> tuple[dict[str, Any], Any]:
    """A matrix as GPTQ packs it, by its parts' names, and what its integers stand for; ``most`` stands for zero."""
    rows, columns = weights.shape
    group = 32
    integers = random_.integers(0, 2**bits, (rows, columns))
    zeros = (
        np.full((rows, columns // group), 2 ** (bits - 1))
        if is_symmetric
        else random_.integers(1, most + 1, (rows, columns // group))
    )
    scales = (random_.uniform(0.5, 1, zeros.shape) * 0.5 / 2**bits).astype(np.float16)
    wide = scales.repeat(group, 1).astype(np.float32), zeros.repeat(group, 1)
    parts = {"qweight": words(integers.T, bits, 0), "qzeros": words((zeros - 1).T, bits, 1)}
    parts |= {"scales": np.ascontiguousarray(scales.T), "g_idx": (np.arange(columns) // group).astype(np.int32)}
    return parts, (integers - wide[1]) * wide[0]


def awq(weights: Any, random_: Any) -> tuple[dict[str, Any], Any]:
    parts, values = gptq(weights, random_, 4, is_symmetric=False)
    order = [0, 2, 4, 6, 1, 3, 5, 7]

    def reordered(array: Any) -> Any:
        return array.reshape(len(array), -1, 8)[..., order].reshape(array.shape)

    integers, zeros = unpacked(parts["qweight"], 0), unpacked(parts["qzeros"], 1) + 1
    made = {"qweight": words(reordered(integers), 4, 1), "qzeros": words(reordered(zeros), 4, 1)}
    return made | {"scales": parts["scales"]}, values


def fp8(weights: Any, random_: Any, blocks: tuple[int, int] | None) -> tuple[dict[str, Any], Any]:
    """A matrix of FP8 with a scale for each block, or for all."""
    torch: Any = pytest.importorskip("torch")
    rows, columns = blocks or weights.shape
    scales = random_.uniform(0.01, 0.02, (-(-weights.shape[0] // rows), -(-weights.shape[1] // columns)))
    scales = scales.astype(np.float32)
    eighths = torch.tensor(weights / 0.015).clamp(-448, 448).to(torch.float8_e4m3fn)
    wide = scales.repeat(rows, 0).repeat(columns, 1)[: weights.shape[0], : weights.shape[1]]
    parts = {"weight": eighths.view(torch.uint8).numpy(), f"weight_scale{'_inv' if blocks else ''}": scales}
    return parts, eighths.to(torch.float32).numpy() * wide


def packed_as(way: str, weights: Any, random_: Any) -> tuple[dict[str, Any], Any]:
    if way.startswith("fp8"):
        return fp8(weights, random_, (48, 40) if "blocks" in way else None)
    if way == "awq":
        return awq(weights, random_)
    bits, most = 8 if "8" in way else 4, 16 if "act" in way else 15
    parts, values = gptq(weights, random_, bits, is_symmetric=bits == 8, most=most)
    if "act" in way:
        order = np.random.default_rng(weights.shape[1]).permutation(weights.shape[1])
        whole = unpacked(parts["qweight"], 0)[order]
        parts |= {"qweight": words(whole, 4, 0), "g_idx": parts["g_idx"][order]}
        values = values[:, order]
    return parts, values


def weights_of(path: Path, at_once: int) -> dict[str, bytes]:
    """The contents of a model's constants, read by about so many bytes of the file."""
    made = read_folder(path).converted
    assert made is not None
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("dmlvk.support.file_arrays._AT_ONCE", at_once)
        return {name: np.asarray(array).tobytes() for name, array in made.weights.items()}


WRONG: Mapping[str, Sequence[tuple[str, Callable[[Any], Any], str]]] = {
    "fp8 blocks": [
        ("scale_inv", lambda array: array[:, 0].copy(), "a scale for each of the blocks"),
        ("scale_inv", lambda array: array.reshape(-1)[:0], "a scale for each of the blocks"),
    ],
    "gptq": [("g_idx", np.zeros_like, "each of the 3 groups 32 times")],
}
"""By way: tensors that it cannot have, as others are made of them, and what is said of these."""


@pytest.mark.parametrize("way", ["fp8 blocks", "fp8 tensor", "gptq", "gptq 8", "gptq desc_act", "awq"])
def test_packed_matrices_are_multiplied_as_what_they_stand_for(tmp_path: Path, device: dml.Device, way: str) -> None:
    torch = pytest.importorskip("torch")
    pytest.importorskip("transformers")
    reference = write_two_folders("qwen3", tmp_path)
    tensors, random_, values = read_tensors(tmp_path / "model.safetensors"), np.random.default_rng(0), {}
    for name in [name for name in tensors if "_proj" in name]:
        parts, values[name] = packed_as(way, tensors.pop(name), random_)
        tensors |= {f"{name.removesuffix('.weight')}.{part}": array for part, array in parts.items()}
    eights = tuple(name for name, array in tensors.items() if array.dtype == np.uint8)
    write_tensors(tmp_path / "model.safetensors", tensors, eights)
    method = way.split()[0]
    packing: dict[str, Any] = {"quant_method": method, "bits": 8 if way == "gptq 8" else 4, "group_size": 32}
    if method == "fp8":
        packing = {"quant_method": method} | ({"weight_block_size": [48, 40]} if "blocks" in way else {})
    configure(tmp_path, packing)
    with torch.no_grad():
        for name, array in values.items():
            reference.get_parameter(name).copy_(torch.tensor(array))
        expected = reference(torch.tensor([PROMPT])).logits[0, -1].numpy()
    with LanguageModel(tmp_path, device, max_length=32) as model:
        np.testing.assert_allclose(model.logits(PROMPT).numpy()[0], expected, atol=2e-4)
    if way in ("gptq", "gptq 8", "awq"):
        source = HubSource(tmp_path)
        made = DecoderGraph(source, decoder_of(source)).model()
        names = [f"model.layers.0.mlp.down_proj.{part}" for part in ("qweight", "qzeros", "scales")]
        assert bytes_read(made, "blk.0.ffn_down.") <= 1.01 * sum(tensors[name].nbytes for name in names)
    assert weights_of(tmp_path, 256) == weights_of(tmp_path, 2**20), "read by few rows"
    configure(tmp_path, packing | {"quant_method": "bitsandbytes"})
    with pytest.raises(dml.UnsupportedError, match="quant_method is 'bitsandbytes'; fp8, gptq, awq"):
        LanguageModel(tmp_path, device)
    configure(tmp_path, packing)
    for part, wrong, message in WRONG.get(way, ()):
        name = next(name for name in tensors if name.endswith(part))
        write_tensors(tmp_path / "model.safetensors", tensors | {name: wrong(tensors[name])}, eights)
        with pytest.raises(dml.DmlError, match=f"must have {message}"):
            LanguageModel(tmp_path, device)


def test_experts_of_gpt_oss_are_read_in_mxfp4(tmp_path: Path, device: dml.Device) -> None:
    torch = pytest.importorskip("torch")
    pytest.importorskip("transformers")
    reference = write_two_folders("gpt_oss", tmp_path)
    tensors, random_ = read_tensors(tmp_path / "model.safetensors"), np.random.default_rng(0)
    numbers = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6, 0, -0.5, -1, -1.5, -2, -3, -4, -6], np.float32)
    for name in [name for name in tensors if name.endswith(("gate_up_proj", "down_proj"))]:
        count, columns, rows = tensors.pop(name).shape
        blocks = random_.integers(0, 256, (count, rows, columns // 32, 16), np.uint8)
        scales = random_.integers(122, 125, (count, rows, columns // 32)).astype(np.uint8)
        tensors |= {f"{name}_blocks": blocks, f"{name}_scales": scales}
        pairs = np.stack([numbers[blocks & 15], numbers[blocks >> 4]], -1).reshape(count, rows, -1)
        values = np.ldexp(pairs, scales.astype(np.int32).repeat(32, -1) - 127).transpose(0, 2, 1)
        with torch.no_grad():
            reference.get_parameter(name).copy_(torch.tensor(np.ascontiguousarray(values)))
    write_tensors(tmp_path / "model.safetensors", tensors)
    configure(tmp_path, {"quant_method": "mxfp4"})
    with torch.no_grad():
        expected = reference(torch.tensor([PROMPT])).logits[0, -1].numpy()
    with LanguageModel(tmp_path, device, max_length=32) as model:
        np.testing.assert_allclose(model.logits(PROMPT).numpy()[0], expected, atol=2e-4)


@pytest.mark.parametrize("bits", [4, 8])
def test_plain_weights_are_packed_as_ggml_does(tmp_path: Path, device: dml.Device, bits: int) -> None:
    torch = pytest.importorskip("torch")
    pytest.importorskip("transformers")
    reference = write_two_folders("qwen3", tmp_path)
    kind = gguf.GGMLQuantizationType.Q8_0 if bits == 8 else gguf.GGMLQuantizationType.Q4_0
    with torch.no_grad():
        for weights in reference.parameters():
            if weights.dim() == 2:
                weights.copy_(torch.tensor(gguf.dequantize(gguf.quantize(weights.numpy(), kind), kind)))
        expected = reference(torch.tensor([PROMPT])).logits[0, -1].numpy()
    with LanguageModel(tmp_path, device, max_length=32, quantize=bits) as model:
        found = model.logits(PROMPT).numpy()[0]
    np.testing.assert_allclose(found, expected, atol=0.05 * np.abs(expected).max())
    for wrong in (3, "8", True):
        with pytest.raises(dml.InvalidArgumentError, match="quantize must be 4, 8 or None"):
            LanguageModel(tmp_path, device, quantize=wrong)  # type: ignore[arg-type]
