"""A llama of a few thousand random weights in a GGUF file, with a tokenizer of single bytes."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import numpy.typing as npt

from dmlvk.language import convert_gguf
from dmlvk.language.gguf_blocks import BLOCKS

TEMPLATE = (
    "{% for message in messages %}{% if message['role'] == 'odd' %}{{ raise_exception('no ' + message['role']) }}"
    "{% endif %}{{ '<|start|>' + message['role'] + '\n' + message['content'] + '<|end|>' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|start|>assistant\n' }}{% endif %}"
)

HIDDEN, HEADS, KEY_HEADS, FEED_FORWARD, LAYERS, CONTEXT = 64, 4, 2, 96, 2, 128


def byte_tokens() -> list[str]:
    """The characters that stand for bytes in tokenizers that merge bytes, and three tokens that are no text."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    characters = {byte: chr(byte) for byte in plain}
    for byte in range(256):
        characters.setdefault(byte, chr(256 + len(characters) - len(plain)))
    return ["<|start|>", "<|end|>", "<|pad|>", *(characters[byte] for byte in range(256)), "ab"]


def write_llama(
    path: Path,
    weights: gguf.GGMLQuantizationType = gguf.GGMLQuantizationType.Q4_0,
    embedding: gguf.GGMLQuantizationType = gguf.GGMLQuantizationType.Q8_0,
    seed: int = 0,
    head: int = HIDDEN // HEADS,
    more: Callable[[gguf.GGUFWriter], None] = lambda writer: None,
) -> None:
    """Writes the file; the same one for the same seed. More can be written to it before it is closed."""
    random = np.random.default_rng(seed)
    writer = gguf.GGUFWriter(path, "llama")
    tokens = byte_tokens()
    writer.add_block_count(LAYERS)
    writer.add_context_length(CONTEXT)
    writer.add_embedding_length(HIDDEN)
    writer.add_feed_forward_length(FEED_FORWARD)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(KEY_HEADS)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_freq_base(10000.0)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("smollm")
    writer.add_token_list(tokens)
    writer.add_token_types([3, 3, 3, *[1] * 257])
    writer.add_token_merges(["a b"])
    writer.add_bos_token_id(0)
    writer.add_eos_token_id(1)
    writer.add_chat_template(TEMPLATE)

    def add(name: str, rows: int, columns: int, kind: gguf.GGMLQuantizationType) -> None:
        values = (random.standard_normal((rows, columns)) / np.sqrt(columns)).astype(np.float32)
        writer.add_tensor(name, quantized(values, kind), raw_dtype=kind)

    def add_norm(name: str) -> None:
        writer.add_tensor(name, (1 + 0.1 * random.standard_normal(HIDDEN)).astype(np.float32))

    add("token_embd.weight", len(tokens), HIDDEN, embedding)
    for layer in range(LAYERS):
        own = f"blk.{layer}"
        add_norm(f"{own}.attn_norm.weight")
        for part, heads in (("q", HEADS), ("k", KEY_HEADS), ("v", KEY_HEADS)):
            add(f"{own}.attn_{part}.weight", heads * head, HIDDEN, weights)
        add(f"{own}.attn_output.weight", HIDDEN, HEADS * head, weights)
        add_norm(f"{own}.ffn_norm.weight")
        add(f"{own}.ffn_gate.weight", FEED_FORWARD, HIDDEN, weights)
        add(f"{own}.ffn_up.weight", FEED_FORWARD, HIDDEN, weights)
        add(f"{own}.ffn_down.weight", HIDDEN, FEED_FORWARD, weights)
    add_norm("output_norm.weight")
    more(writer)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def write_folder(directory: Path) -> Path:
    """Writes the file ``model.gguf`` and, beside it, the folder that is made of it; gives the folder."""
    write_llama(directory / "model.gguf")
    convert_gguf(directory / "model.gguf", directory / "folder")
    return directory / "folder"


def quantized(values: npt.NDArray[np.float32], kind: gguf.GGMLQuantizationType) -> npt.NDArray[np.uint8]:
    """Weights in the blocks of a type, by the gguf package itself."""
    return np.ascontiguousarray(gguf.quantize(values, kind)).view(np.uint8)


def random_blocks(values: Any, kind: gguf.GGMLQuantizationType) -> Any:
    """Blocks of random bytes for as many weights, whose scales and minima are small."""
    elements, width = BLOCKS[kind.name]
    random_ = np.random.default_rng(values.size)
    if elements == 1:
        return np.ascontiguousarray(gguf.quantize(values, kind)).view(np.uint8)
    data = random_.integers(0, 256, (len(values), values.shape[1] // elements, width), np.uint8)
    size = {"Q2_K": 1e-2, "Q3_K": 2e-3, "Q6_K": 2e-5, "IQ4_XS": 2e-5, "Q4_K": 2e-4, "Q5_K": 1e-4}.get(kind.name, 5e-3)
    if kind.name == "MXFP4":
        data[..., 0] = 120
        return data.reshape(len(values), -1)
    places = {"Q2_K": (80, 82), "Q3_K": (108,), "Q6_K": (208,)}.get(kind.name, (0,))
    if kind.name in ("Q4_1", "Q5_1", "Q4_K", "Q5_K"):
        places = (0, 2)
    for place in places:
        scales = (size * random_.uniform(0.5, 1, data.shape[:2])).astype("<f2")
        data[..., place : place + 2] = scales[..., None].view(np.uint8)
    return data.reshape(len(values), -1)


_NAMES = {"float32": "F32", "float16": "F16", "int32": "I32", "uint8": "U8"}


def write_tensors(file: Path, tensors: dict[str, Any], eights: tuple[str, ...] = ()) -> None:
    """Writes them, some bytes as FP8."""
    header, place = {}, 0
    for name, array in tensors.items():
        kind = "F8_E4M3" if name in eights else _NAMES[array.dtype.name]
        header[name] = {"dtype": kind, "shape": array.shape, "data_offsets": [place, place + array.nbytes]}
        place += array.nbytes
    text = json.dumps(header).encode()
    file.write_bytes(struct.pack("<Q", len(text)) + text + b"".join(array.tobytes() for array in tensors.values()))
