"""Folders of the hub whose weights are packed, and plain ones that are packed when they are read."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest

import dmlvk as dml
from dmlvk.language import LanguageModel
from tests.language.small_models import write_hub_folder

PROMPT = [70, 80, 90, 100, 110, 75] * 2 + [33]
_NAMES = {"float32": "F32", "float16": "F16", "int32": "I32", "uint8": "U8"}


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


def write_tensors(file: Path, tensors: dict[str, Any], eights: tuple[str, ...] = ()) -> None:
    """Writes them, some bytes as FP8."""
    header, place = {}, 0
    for name, array in tensors.items():
        kind = "F8_E4M3" if name in eights else _NAMES[array.dtype.name]
        header[name] = {"dtype": kind, "shape": array.shape, "data_offsets": [place, place + array.nbytes]}
        place += array.nbytes
    text = json.dumps(header).encode()
    file.write_bytes(struct.pack("<Q", len(text)) + text + b"".join(array.tobytes() for array in tensors.values()))


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


def gptq(weights: Any, random_: Any, bits: int, *, is_symmetric: bool) -> tuple[dict[str, Any], Any]:
    """A matrix as GPTQ packs it, by its parts' names, and what its integers stand for."""
    rows, columns = weights.shape
    group = 32
    integers = random_.integers(0, 2**bits, (rows, columns))
    zeros = (
        np.full((rows, columns // group), 2 ** (bits - 1))
        if is_symmetric
        else random_.integers(1, 2**bits, (rows, columns // group))
    )
    scales = (random_.uniform(0.5, 1, zeros.shape) * 0.5 / 2**bits).astype(np.float16)
    wide = scales.repeat(group, 1).astype(np.float32), zeros.repeat(group, 1)
    parts = {"qweight": words(integers.T, bits, 0), "qzeros": words((zeros - 1).T, bits, 1)}
    parts |= {"scales": np.ascontiguousarray(scales.T), "g_idx": (np.arange(columns) // group).astype(np.int32)}
    return parts, (integers - wide[1]) * wide[0]


def awq(weights: Any, random_: Any) -> tuple[dict[str, Any], Any]:
    """The same as AWQ packs it."""
    parts, values = gptq(weights, random_, 4, is_symmetric=False)
    order = [0, 2, 4, 6, 1, 3, 5, 7]

    def reordered(array: Any) -> Any:
        return array.reshape(len(array), -1, 8)[..., order].reshape(array.shape)

    def unpacked(array: Any, axis: int) -> Any:
        bits = np.moveaxis(array.view(np.uint32), axis, -1)[..., None] >> np.arange(0, 32, 4, dtype=np.uint32) & 15
        return np.moveaxis(bits.reshape(*bits.shape[:-2], -1), -1, axis)

    integers, zeros = unpacked(parts["qweight"], 0), unpacked(parts["qzeros"], 1) + 1
    made = {"qweight": words(reordered(integers), 4, 1), "qzeros": words(reordered(zeros), 4, 1)}
    return made | {"scales": parts["scales"]}, values


@pytest.mark.parametrize("way", ["fp8 blocks", "fp8 tensor", "gptq", "gptq 8", "awq"])
def test_packed_matrices_are_multiplied_as_what_they_stand_for(tmp_path: Path, device: dml.Device, way: str) -> None:
    torch = pytest.importorskip("torch")
    pytest.importorskip("transformers")
    reference = write_two_folders("qwen3", tmp_path)
    tensors, random_, eights, values = read_tensors(tmp_path / "model.safetensors"), np.random.default_rng(0), [], {}
    for name in [name for name in tensors if "_proj" in name]:
        weights, module = tensors.pop(name), name.removesuffix(".weight")
        if way.startswith("fp8"):
            blocks = (48, 40) if "blocks" in way else weights.shape
            counts = [-(-size // block) for size, block in zip(weights.shape, blocks, strict=True)]
            scales = random_.uniform(0.01, 0.02, counts).astype(np.float32)
            eighths = torch.tensor(weights / 0.015).clamp(-448, 448).to(torch.float8_e4m3fn)
            tensors[name] = eighths.view(torch.uint8).numpy()
            tensors[f"{module}.weight_scale{'_inv' if 'blocks' in way else ''}"] = scales
            wide = scales.repeat(blocks[0], 0).repeat(blocks[1], 1)[: weights.shape[0], : weights.shape[1]]
            values[name] = eighths.to(torch.float32).numpy() * wide
            eights.append(name)
        else:
            parts, values[name] = (
                awq(weights, random_)
                if way == "awq"
                else gptq(weights, random_, 8 if "8" in way else 4, is_symmetric="8" in way)
            )
            tensors |= {f"{module}.{part}": array for part, array in parts.items()}
    write_tensors(tmp_path / "model.safetensors", tensors, tuple(eights))
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
    configure(tmp_path, packing | {"quant_method": "bitsandbytes"})
    with pytest.raises(dml.UnsupportedError, match="quant_method is 'bitsandbytes'; fp8, gptq, awq"):
        LanguageModel(tmp_path, device)
    if way == "gptq":
        name = next(name for name in tensors if name.endswith("g_idx"))
        write_tensors(tmp_path / "model.safetensors", tensors | {name: tensors[name][::-1].copy()})
        configure(tmp_path, packing)
        with pytest.raises(dml.UnsupportedError, match="desc_act"):
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
