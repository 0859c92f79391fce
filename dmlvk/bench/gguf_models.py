"""GGUF files of random weights: llamas of the sizes of decoder_models.py, of the types that llama.cpp's files have."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterator, Mapping
from pathlib import Path

import gguf
import numpy as np
import numpy.typing as npt

from dmlvk.bench.decoder_models import DecoderSize
from dmlvk.language.gguf_blocks import BLOCKS

_SCALES: Mapping[str, Mapping[int, float]] = {
    **{kind: {0: 1.0} for kind in ("Q4_0", "Q5_0", "Q8_0")},
    "Q4_K": {0: 1.0, 2: 7.5},
    "Q6_K": {208: 1.0},
}
"""Where FLOAT16 scales stand in a block, and how large one is beside the first: weights are as often below zero."""

_OF_SHORT_ROWS = {"Q4_K": "Q5_0", "Q6_K": "Q8_0"}  # Of rows that are no multiples of a block

_FILE_TYPES = {"Q4_0": gguf.LlamaFileType.MOSTLY_Q4_0, "Q4_K_M": gguf.LlamaFileType.MOSTLY_Q4_K_M}

TYPES = tuple(_FILE_TYPES)

_PATTERN_BLOCKS = 2**15  # Random ones that tensors repeat: what a step takes does not depend on them

_ALPHABET = [chr(code) for code in (*range(33, 127), *range(161, 173), *range(174, 324))]
"""The characters that stand for bytes in tokenizers that merge bytes."""


def tensor_type(kind: str, name: str, columns: int, layers: int) -> str:
    """The type that a file of a type has a tensor in, as llama.cpp's llama-quant.cpp chooses it.

    Args:
        kind: of :data:`TYPES`. In Q4_0, all tensors have that type.
        columns: weights of a row.
    """
    if kind == "Q4_0":
        return kind
    chosen, part = "Q4_K", name.split(".")[-2]
    if part == "output":
        chosen = "Q6_K"
    elif part in ("attn_v", "ffn_down"):
        layer, eighth = int(name.split(".")[1]), layers // 8
        if layer < eighth or layer >= 7 * layers // 8 or (layer - eighth) % 3 == 2:
            chosen = "Q6_K"
    return chosen if columns % BLOCKS[chosen][0] == 0 else _OF_SHORT_ROWS[chosen]


def write_model(path: Path, size: DecoderSize, positions: int, kind: str) -> None:
    """Writes a llama of random weights.

    Args:
        positions: tokens that it can look back at.
        kind: of :data:`TYPES`.
    """
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_block_count(size.layers)
    writer.add_context_length(positions)
    writer.add_embedding_length(size.hidden)
    writer.add_feed_forward_length(size.inner)
    writer.add_head_count(size.heads)
    writer.add_head_count_kv(size.key_heads)
    writer.add_key_length(size.head)
    writer.add_value_length(size.head)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_dimension_count(size.head)
    writer.add_rope_freq_base(10000.0)
    writer.add_vocab_size(size.vocabulary)
    writer.add_file_type(_FILE_TYPES[kind])
    _add_tokenizer(writer, size.vocabulary)
    types = {}
    for name, rows, columns in _tensors(size):
        if rows == 1:
            writer.add_tensor_info(name, (columns,), np.dtype(np.float32), 4 * columns)
            continue
        types[name] = own = tensor_type(kind, name, columns, size.layers)
        elements, width = BLOCKS[own]
        line = columns // elements * width
        writer.add_tensor_info(
            name, (rows, line), np.dtype(np.uint8), rows * line, raw_dtype=gguf.GGMLQuantizationType[own]
        )
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_ti_data_to_file()
    pattern = functools.cache(_pattern)
    for name, rows, columns in _tensors(size):
        if rows == 1:
            writer.write_tensor_data(np.ones(columns, np.float32))
            continue
        elements, width = BLOCKS[types[name]]
        weights = np.resize(pattern(types[name], columns), (rows, columns // elements * width))
        if name == "output.weight":
            weights[-1] = 0  # of the token that ends a text: it is never the likeliest one
        writer.write_tensor_data(weights)
    writer.close()


def _tensors(size: DecoderSize) -> Iterator[tuple[str, int, int]]:
    """Names, rows and columns of tensors; a norm has one row."""
    wide, narrow = size.heads * size.head, size.key_heads * size.head
    yield "token_embd.weight", size.vocabulary, size.hidden
    yield "output_norm.weight", 1, size.hidden
    yield "output.weight", size.vocabulary, size.hidden
    for layer in range(size.layers):
        for part, rows, columns in (
            ("attn_norm", 1, size.hidden),
            ("attn_q", wide, size.hidden),
            ("attn_k", narrow, size.hidden),
            ("attn_v", narrow, size.hidden),
            ("attn_output", size.hidden, wide),
            ("ffn_norm", 1, size.hidden),
            ("ffn_gate", size.inner, size.hidden),
            ("ffn_up", size.inner, size.hidden),
            ("ffn_down", size.hidden, size.inner),
        ):
            yield f"blk.{layer}.{part}.weight", rows, columns


def _pattern(kind: str, columns: int) -> npt.NDArray[np.uint8]:
    """Random blocks of a type; the weights' mean square is 1 / columns."""
    blocks = np.random.default_rng(0).integers(0, 256, (_PATTERN_BLOCKS, BLOCKS[kind][1]), np.uint8)

    def scale(factor: float) -> None:
        for place, own in _SCALES[kind].items():
            blocks[:, place : place + 2] = np.array([factor * own], "<f2").view(np.uint8)

    scale(1.0)
    values = gguf.dequantize(blocks[:1024], gguf.GGMLQuantizationType[kind])
    scale(float(1 / np.sqrt(columns * np.mean(np.square(values, dtype=np.float64)))))
    return blocks


def _add_tokenizer(writer: gguf.GGUFWriter, vocabulary: int) -> None:
    """One that merges bytes, of as many merges as there are tokens beside bytes and the one that ends a text."""
    twos = itertools.product(_ALPHABET, repeat=2)
    threes = ((left + middle, right) for left, middle, right in itertools.product(_ALPHABET, repeat=3))
    pairs = list(itertools.islice(itertools.chain(twos, threes), vocabulary - len(_ALPHABET) - 1))
    tokens = [*_ALPHABET, *(left + right for left, right in pairs), "<|end_of_text|>"]
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("llama-bpe")
    writer.add_token_list(tokens)
    writer.add_token_types([gguf.TokenType.NORMAL] * (vocabulary - 1) + [gguf.TokenType.CONTROL])
    writer.add_token_merges([f"{left} {right}" for left, right in pairs])
    writer.add_bos_token_id(vocabulary - 1)
    writer.add_eos_token_id(vocabulary - 1)
