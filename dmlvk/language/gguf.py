"""Converts llama models in GGUF files to folders as onnxruntime-genai has them; packed weights keep their bits.

The layout of blocks is GGUF's (the `gguf` package reads the file): a FLOAT16 scale, for Q4_1 a FLOAT16 minimum, and 32
numbers. They become MatMulNBits of com.microsoft, whose weight is (number - zero point) x scale.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
from onnx import TensorProto, helper, numpy_helper
from onnx.external_data_helper import set_external_data

from dmlvk.errors import ModelFileError, UnsupportedError
from dmlvk.support.files import checked_path, open_regular

_BLOCK = 32
"""Elements that share a scale, in every type of GGUF that is converted."""

_SPECIAL_TOKEN = 3
"""GGUF's type of tokens that stand for no text."""

_DIGIT_BY_DIGIT = {"type": "Digits", "individual_digits": True}
_BYTES = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
_PRE_TOKENIZERS: Mapping[str, list[dict[str, object]]] = {"gpt-2": [_BYTES], "smollm": [_DIGIT_BY_DIGIT, _BYTES]}
"""How text is cut before its bytes are merged, by GGUF's name."""

_WEIGHTS = "model.onnx.data"
"""The file beside the model that has its weights."""

_LEAST_BYTES_APART = 1024
"""Of a weight that lies there; smaller ones are in the model's own file."""

Numbers = npt.NDArray[Any]


@dataclasses.dataclass(frozen=True)
class _QuantizedMatrix:
    """A matrix of numbers of four or eight bits.

    Attributes:
        bits: of a number.
        numbers: UINT8 [rows, blocks of a row, bytes of a block]; the first of two numbers is in the low bits.
        scales: FLOAT32 [rows, blocks of a row].
        zero_points: likewise; ``None``: half of what the bits hold.
    """

    bits: int
    numbers: Numbers
    scales: Numbers
    zero_points: Numbers | None

    @property
    def columns(self) -> int:
        """Elements of a row."""
        return int(self.numbers.shape[1]) * _BLOCK

    def multiplied_out(self) -> Numbers:
        """The weights themselves, FLOAT32 [rows, columns]."""
        numbers = self.numbers
        if self.bits == 4:
            numbers = np.stack([numbers & 15, numbers >> 4], axis=-1).reshape(*numbers.shape[:2], _BLOCK)
        zero_points = np.float32(2 ** (self.bits - 1)) if self.zero_points is None else self.zero_points[..., None]
        weights: Numbers = ((numbers - zero_points) * self.scales[..., None]).astype(np.float32)
        return weights.reshape(len(numbers), -1)


def convert_gguf(file: Path | str, folder: Path | str) -> None:
    """Writes a folder with genai_config.json, model.onnx, tokenizer.json and tokenizer_config.json.

    Args:
        file: a llama model in a GGUF file, with weights of the types Q4_0, Q4_1 and Q8_0, and others of FLOAT32 or
            FLOAT16.
        folder: where it goes; is made.

    Raises:
        ModelFileError: the file cannot be read, is damaged, or lacks something.
        InvalidArgumentError: one of them is no path.
        UnsupportedError: another architecture, type of weights or tokenizer; or the package gguf is not installed.
        OSError: the folder cannot be written.
    """
    file, folder = checked_path(file, "convert_gguf: file"), checked_path(folder, "convert_gguf: folder")
    try:
        from gguf import GGUFReader
    except ImportError as error:
        raise UnsupportedError("convert-gguf needs the package gguf: pip install gguf") from error
    try:
        with open_regular(file):  # the reader maps whatever it is given
            pass
        reader = GGUFReader(file)
        facts = {name: field.contents() for name, field in reader.fields.items()}
        tensors = {tensor.name: tensor for tensor in reader.tensors}
    except OSError as error:
        raise ModelFileError(f"{file}: cannot be read: {error}") from error
    except (ValueError, KeyError, IndexError, TypeError, OverflowError, UnicodeDecodeError) as error:
        raise ModelFileError(f"{file}: is no GGUF file: {' '.join(str(error).split())}") from error
    source = _GgufSource(file, facts, tensors)
    sizes = _ModelSizes.of(source)
    tokenizer = _tokenizer(source)
    model = _FolderBuilder(source, sizes).model()
    folder.mkdir(parents=True, exist_ok=True)
    (folder / _WEIGHTS).unlink(missing_ok=True)  # onnx appends to it
    for tensor in model.graph.initializer:  # onnx.save would look for the file in the current folder, and refuse it
        if len(tensor.raw_data) >= _LEAST_BYTES_APART:
            set_external_data(tensor, _WEIGHTS)
    onnx.save(model, folder / "model.onnx")
    for name, content in (
        ("genai_config.json", _genai_config(source, sizes)),
        ("tokenizer.json", tokenizer),
        ("tokenizer_config.json", _tokenizer_config(source)),
    ):
        text = json.dumps(content, ensure_ascii=False, indent=None if name == "tokenizer.json" else 2)
        (folder / name).write_text(text, encoding="utf-8")


@dataclasses.dataclass(frozen=True)
class _GgufSource:
    """What a file holds.

    Attributes:
        file: for messages.
        facts: its fields by name.
        tensors: the reader's own, by name.
    """

    file: Path
    facts: Mapping[str, Any]
    tensors: Mapping[str, Any]

    def fact(self, name: str) -> Any:
        """A field.

        Raises:
            ModelFileError: it is missing.
        """
        if name not in self.facts:
            raise ModelFileError(f"{self.file}: has no field {name}")
        return self.facts[name]

    def whole(self, name: str) -> int:
        """A field that is a positive integer.

        Raises:
            ModelFileError: it is missing, or none.
        """
        value = self.fact(name)
        if not isinstance(value, int) or not 0 < value < 2**31:
            raise ModelFileError(f"{self.file}: {name} must be a positive integer; got {value!r}")
        return value

    def vector(self, name: str, length: int) -> Numbers:
        """A tensor of one dimension as FLOAT32.

        Raises:
            ModelFileError: it is missing, of another size, or packed.
        """
        tensor = self._tensor(name)
        if tensor.data.dtype not in (np.float32, np.float16) or tensor.data.shape != (length,):
            raise ModelFileError(
                f"{self.file}: {name} must be {length} numbers of FLOAT32 or FLOAT16; got {tensor.tensor_type.name} "
                f"{[int(size) for size in tensor.shape]}"
            )
        return np.asarray(tensor.data, np.float32)

    def blocks(self, name: str, rows: int, columns: int) -> _QuantizedMatrix:
        """A matrix of packed numbers.

        Raises:
            ModelFileError: it is missing, or of another size.
            UnsupportedError: of another type.
        """
        tensor = self._tensor(name)
        kind, sizes = tensor.tensor_type.name, [int(size) for size in tensor.shape]
        if sizes != [columns, rows] or columns % _BLOCK:
            raise ModelFileError(f"{self.file}: {name} must have {columns} columns and {rows} rows; got {sizes}")
        if kind not in _UNPACK:
            raise UnsupportedError(f"{self.file}: {name} is of the type {kind}; {', '.join(_UNPACK)} are converted")
        data = np.asarray(tensor.data, np.uint8).reshape(rows, columns // _BLOCK, -1)
        return _UNPACK[kind](data)

    def _tensor(self, name: str) -> Any:
        if name not in self.tensors:
            raise ModelFileError(f"{self.file}: has no tensor {name}")
        return self.tensors[name]


def _halves(data: Numbers, first: int) -> Numbers:
    """The FLOAT16 number that begins at a byte of each block, as FLOAT32."""
    halves = np.ascontiguousarray(data[..., first : first + 2]).view("<f2")[..., 0]
    return halves.astype(np.float32)


def _pairs(data: Numbers) -> Numbers:
    """Sixteen bytes with numbers i and i + 16 to sixteen with numbers 2 i and 2 i + 1."""
    numbers = np.concatenate([data & 15, data >> 4], axis=-1)
    made: Numbers = numbers[..., 0::2] | (numbers[..., 1::2] << 4)
    return made


def _from_q4_0(data: Numbers) -> _QuantizedMatrix:
    return _QuantizedMatrix(4, _pairs(data[..., 2:]), _halves(data, 0), None)


def _from_q4_1(data: Numbers) -> _QuantizedMatrix:
    """Number x scale + minimum is (number - (-minimum / scale)) x scale; all are the minimum where the scale is 0."""
    scales, minima = _halves(data, 0), _halves(data, 2)
    is_flat = scales == 0
    zero_points = np.where(is_flat, np.float32(-1), -minima / np.where(is_flat, np.float32(1), scales))
    numbers = np.where(is_flat[..., None], np.uint8(0), _pairs(data[..., 4:]))
    return _QuantizedMatrix(4, numbers, np.where(is_flat, minima, scales), zero_points.astype(np.float32))


def _from_q8_0(data: Numbers) -> _QuantizedMatrix:
    return _QuantizedMatrix(8, data[..., 2:] ^ np.uint8(128), _halves(data, 0), None)


_UNPACK = {"Q4_0": _from_q4_0, "Q4_1": _from_q4_1, "Q8_0": _from_q8_0}


@dataclasses.dataclass(frozen=True)
class _ModelSizes:
    """The sizes of a llama."""

    layers: int
    hidden: int
    feed_forward: int
    heads: int
    key_heads: int
    head: int
    context: int
    vocabulary: int
    rotary_base: float
    epsilon: float

    @classmethod
    def of(cls, source: _GgufSource) -> _ModelSizes:
        """Those that a file tells.

        Raises:
            ModelFileError: they are missing, or do not fit.
            UnsupportedError: another architecture, or rotary positions that are scaled.
        """
        architecture = source.fact("general.architecture")
        if architecture != "llama":
            raise UnsupportedError(f"{source.file}: the architecture {architecture!r}; only 'llama' is converted")
        scaled = [name for name in source.facts if name.startswith("llama.rope.scaling")]
        if scaled or "rope_freqs.weight" in source.tensors:
            raise UnsupportedError(f"{source.file}: rotary positions are scaled ({scaled or 'rope_freqs.weight'})")
        hidden, heads = source.whole("llama.embedding_length"), source.whole("llama.attention.head_count")
        if hidden % heads or source.facts.get("llama.rope.dimension_count", hidden // heads) != hidden // heads:
            raise ModelFileError(f"{source.file}: {hidden} columns in {heads} heads, of which all must be rotated")
        return cls(
            source.whole("llama.block_count"),
            hidden,
            source.whole("llama.feed_forward_length"),
            heads,
            source.whole("llama.attention.head_count_kv"),
            hidden // heads,
            source.whole("llama.context_length"),
            len(source.fact("tokenizer.ggml.tokens")),
            float(source.facts.get("llama.rope.freq_base", 10000.0)),
            float(source.fact("llama.attention.layer_norm_rms_epsilon")),
        )


class _FolderBuilder:
    """Puts the ONNX model together, as onnxruntime-genai's own builder does: one fused node for each matter.

    Args:
        source: the file.
        sizes: of the model.
    """

    def __init__(self, source: _GgufSource, sizes: _ModelSizes) -> None:
        self._source, self._sizes = source, sizes
        self._nodes: list[onnx.NodeProto] = []
        self._constants: dict[str, onnx.TensorProto] = {}

    def model(self) -> onnx.ModelProto:
        """The whole model: tokens, mask and past in; the last position's logits and the new past out."""
        sizes = self._sizes
        self._lengths()
        self._rotary_tables()
        embedding = self._source.blocks("token_embd.weight", sizes.vocabulary, sizes.hidden)
        state = self._embedded(embedding)
        normed = self._node(
            "SimplifiedLayerNormalization",
            [state, self._norm("blk.0.attn_norm")],
            "normed",
            domain="",
            axis=-1,
            epsilon=sizes.epsilon,
            stash_type=1,
        )
        for layer in range(sizes.layers):
            after = f"blk.{layer + 1}.attn_norm" if layer + 1 < sizes.layers else "output_norm"
            state, normed = self._layer(layer, state, normed, after)
        last = self._node("Gather", [normed, self._constant("last", np.array([-1]))], "last_state", axis=1)
        head = embedding
        if "output.weight" in self._source.tensors:
            head = self._source.blocks("output.weight", sizes.vocabulary, sizes.hidden)
        name = "token_embd" if head is embedding else "output"
        self._product(last, head, name, "logits")
        return self._finished()

    def _layer(self, layer: int, state: str, normed: str, after: str) -> tuple[str, str]:
        """A layer; the state behind it, and the same normalized for the next."""
        sizes, own = self._sizes, f"blk.{layer}"
        parts = [
            self._source.blocks(f"{own}.attn_{part}.weight", heads * sizes.head, sizes.hidden)
            for part, heads in (("q", sizes.heads), ("k", sizes.key_heads), ("v", sizes.key_heads))
        ]
        projected = self._projected(normed, parts, own)
        attended = f"{own}.attended"
        past = [f"past_key_values.{layer}.{part}" for part in ("key", "value")]
        present = [f"present.{layer}.{part}" for part in ("key", "value")]
        self._nodes.append(
            helper.make_node(
                "GroupQueryAttention",
                [*projected, *past, "seqlens_k", "total_length", "cosines", "sines"],
                [attended, *present],
                name=f"{own}.attention",
                domain="com.microsoft",
                num_heads=sizes.heads,
                kv_num_heads=sizes.key_heads,
                scale=float(sizes.head**-0.5),
                do_rotary=1,
                rotary_interleaved=1,  # GGUF's llamas have their rows in this order
            )
        )
        output = self._source.blocks(f"{own}.attn_output.weight", sizes.hidden, sizes.heads * sizes.head)
        state, normed = self._added(state, self._product(attended, output, f"{own}.attn_output"), f"{own}.ffn_norm")
        gate, up = (
            self._product(
                normed,
                self._source.blocks(f"{own}.ffn_{part}.weight", sizes.feed_forward, sizes.hidden),
                f"{own}.ffn_{part}",
            )
            for part in ("gate", "up")
        )
        share = self._node("Sigmoid", [gate], f"{own}.share")
        gated = self._node("Mul", [gate, share], f"{own}.gated")
        inner = self._node("Mul", [gated, up], f"{own}.inner")
        down = self._source.blocks(f"{own}.ffn_down.weight", sizes.hidden, sizes.feed_forward)
        return self._added(state, self._product(inner, down, f"{own}.ffn_down"), after)

    def _projected(self, normed: str, parts: list[_QuantizedMatrix], own: str) -> list[str]:
        """Queries, keys and values: one product where their weights are of one kind."""
        kinds = {(part.bits, part.zero_points is None) for part in parts}
        if len(kinds) > 1:
            return [self._product(normed, part, f"{own}.attn_{name}") for name, part in zip("qkv", parts, strict=True)]
        zero_points = [part.zero_points for part in parts if part.zero_points is not None]
        together = _QuantizedMatrix(
            parts[0].bits,
            np.concatenate([part.numbers for part in parts]),
            np.concatenate([part.scales for part in parts]),
            np.concatenate(zero_points) if zero_points else None,
        )
        return [self._product(normed, together, f"{own}.attn_qkv"), "", ""]

    def _added(self, state: str, more: str, norm: str) -> tuple[str, str]:
        """The sum of two states, and the same normalized."""
        total, normed = f"{norm}.state", f"{norm}.normed"
        self._nodes.append(
            helper.make_node(
                "SkipSimplifiedLayerNormalization",
                [state, more, self._norm(norm)],
                [normed, "", "", total],
                name=norm,
                domain="com.microsoft",
                epsilon=self._sizes.epsilon,
            )
        )
        return total, normed

    def _embedded(self, table: _QuantizedMatrix) -> str:
        """The rows of the tokens: of eight-bit numbers, times their blocks' scales; others are multiplied out here."""
        if table.bits != 8 or table.zero_points is not None:
            rows = self._constant("token_embd.rows", table.multiplied_out())
            return self._node("Gather", [rows, "input_ids"], "embedded", axis=0)
        self._matrix("token_embd", table)
        numbers = self._node("Gather", ["token_embd.numbers", "input_ids"], "embedded.numbers", axis=0)
        scales = self._node("Gather", ["token_embd.scales", "input_ids"], "embedded.scales", axis=0)
        floats = self._node("Cast", [numbers], "embedded.floats", to=TensorProto.FLOAT)
        middle = self._constant("middle", np.array(128, np.float32))
        signed = self._node("Sub", [floats, middle], "embedded.signed")
        column = self._node("Unsqueeze", [scales, self._constant("third", np.array([3]))], "embedded.column")
        scaled = self._node("Mul", [signed, column], "embedded.scaled")
        shape = self._constant("embedded.shape", np.array([0, 0, self._sizes.hidden]))
        return self._node("Reshape", [scaled, shape], "embedded")

    def _product(self, operand: str, weights: _QuantizedMatrix, name: str, result: str | None = None) -> str:
        self._matrix(name, weights)
        rows = int(weights.numbers.shape[0])
        inputs = [operand, f"{name}.numbers", f"{name}.scales", *self._zero_points(name, weights)]
        return self._node(
            "MatMulNBits",
            inputs,
            result or f"{name}.product",
            domain="com.microsoft",
            K=weights.columns,
            N=rows,
            bits=weights.bits,
            block_size=_BLOCK,
        )

    def _matrix(self, name: str, weights: _QuantizedMatrix) -> None:
        self._constant(f"{name}.numbers", weights.numbers)
        self._constant(f"{name}.scales", weights.scales)

    def _zero_points(self, name: str, weights: _QuantizedMatrix) -> list[str]:
        if weights.zero_points is None:
            return []
        return [self._constant(f"{name}.zero_points", weights.zero_points)]

    def _norm(self, name: str) -> str:
        return self._constant(f"{name}.weight", self._source.vector(f"{name}.weight", self._sizes.hidden))

    def _lengths(self) -> None:
        """How many tokens there are with the new ones, less one; and how many the mask has room for."""
        self._node("ReduceSum", ["attention_mask", self._constant("one", np.array([1]))], "length", keepdims=1)
        self._node("Sub", ["length", self._constant("one", np.array([1]))], "last_position")
        self._node("Cast", ["last_position"], "seqlens_k", to=TensorProto.INT32)
        self._node("Shape", ["attention_mask"], "mask_shape")
        self._node("Gather", ["mask_shape", self._constant("second", np.array(1))], "mask_length", axis=0)
        self._node("Cast", ["mask_length"], "total_length", to=TensorProto.INT32)

    def _rotary_tables(self) -> None:
        sizes = self._sizes
        steps = sizes.rotary_base ** (-np.arange(0, sizes.head, 2) / sizes.head)
        angles = np.arange(sizes.context)[:, None] * steps
        self._constant("cosines", np.cos(angles).astype(np.float32))
        self._constant("sines", np.sin(angles).astype(np.float32))

    def _constant(self, name: str, array: Numbers) -> str:
        self._constants[name] = numpy_helper.from_array(np.ascontiguousarray(array).reshape(array.shape), name)
        return name

    def _node(self, operator: str, inputs: list[str], output: str, domain: str = "", **attributes: Any) -> str:
        self._nodes.append(helper.make_node(operator, inputs, [output], name=output, domain=domain, **attributes))
        return output

    def _finished(self) -> onnx.ModelProto:
        sizes = self._sizes
        inputs = [
            helper.make_tensor_value_info("input_ids", TensorProto.INT64, ["batch_size", "sequence_length"]),
            helper.make_tensor_value_info("attention_mask", TensorProto.INT64, ["batch_size", "total_sequence_length"]),
        ]
        outputs = [helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["batch_size", 1, sizes.vocabulary])]
        for layer in range(sizes.layers):
            for part in ("key", "value"):
                for kind, infos, length in (
                    ("past_key_values", inputs, "past_sequence_length"),
                    ("present", outputs, "total_sequence_length"),
                ):
                    shape: list[int | str | None] = ["batch_size", sizes.key_heads, length, sizes.head]
                    infos.append(helper.make_tensor_value_info(f"{kind}.{layer}.{part}", TensorProto.FLOAT, shape))
        graph = helper.make_graph(self._nodes, "llama", inputs, outputs, list(self._constants.values()))
        versions = [helper.make_opsetid("", 14), helper.make_opsetid("com.microsoft", 1)]
        return helper.make_model(graph, opset_imports=versions, ir_version=8, producer_name="dmlvk")


def _genai_config(source: _GgufSource, sizes: _ModelSizes) -> dict[str, object]:
    past, present = "past_key_values.%d.", "present.%d."
    return {
        "model": {
            "type": "llama",
            "vocab_size": sizes.vocabulary,
            "context_length": sizes.context,
            "bos_token_id": int(source.fact("tokenizer.ggml.bos_token_id")),
            "eos_token_id": int(source.fact("tokenizer.ggml.eos_token_id")),
            "pad_token_id": int(source.facts.get("tokenizer.ggml.padding_token_id", 0)),
            "decoder": {
                "filename": "model.onnx",
                "session_options": {"log_id": "onnxruntime-genai", "provider_options": []},
                "hidden_size": sizes.hidden,
                "head_size": sizes.head,
                "num_attention_heads": sizes.heads,
                "num_key_value_heads": sizes.key_heads,
                "num_hidden_layers": sizes.layers,
                "inputs": {
                    "input_ids": "input_ids",
                    "attention_mask": "attention_mask",
                    "past_key_names": f"{past}key",
                    "past_value_names": f"{past}value",
                },
                "outputs": {
                    "logits": "logits",
                    "present_key_names": f"{present}key",
                    "present_value_names": f"{present}value",
                },
            },
        },
        "search": {
            "max_length": min(sizes.context, 2048),
            "do_sample": False,
            "temperature": 1.0,
            "top_k": 50,
            "top_p": 1.0,
            "repetition_penalty": 1.0,
            "past_present_share_buffer": True,
        },
    }


def _tokenizer(source: _GgufSource) -> dict[str, object]:
    """The `tokenizers` package's file of a tokenizer that merges bytes."""
    kind, cut = source.fact("tokenizer.ggml.model"), source.facts.get("tokenizer.ggml.pre", "gpt-2")
    if kind != "gpt2" or cut not in _PRE_TOKENIZERS:
        raise UnsupportedError(f"{source.file}: the tokenizer {kind!r}, {cut!r}; 'gpt2' with {list(_PRE_TOKENIZERS)}")
    tokens, types = source.fact("tokenizer.ggml.tokens"), source.fact("tokenizer.ggml.token_type")
    special = [
        {"id": number, "content": token, "single_word": False, "lstrip": False, "rstrip": False}
        | {"normalized": False, "special": True}
        for number, (token, type_of_it) in enumerate(zip(tokens, types, strict=True))
        if type_of_it == _SPECIAL_TOKEN
    ]
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": special,
        "normalizer": None,
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": _PRE_TOKENIZERS[cut]},
        "post_processor": None,
        "decoder": _BYTES,
        "model": {
            "type": "BPE",
            "vocab": {token: number for number, token in enumerate(tokens)},
            "merges": list(source.fact("tokenizer.ggml.merges")),
        },
    }


def _tokenizer_config(source: _GgufSource) -> dict[str, object]:
    tokens = source.fact("tokenizer.ggml.tokens")
    made: dict[str, object] = {
        "bos_token": tokens[int(source.fact("tokenizer.ggml.bos_token_id"))],
        "eos_token": tokens[int(source.fact("tokenizer.ggml.eos_token_id"))],
        "add_bos_token": bool(source.facts.get("tokenizer.ggml.add_bos_token", False)),
    }
    if "tokenizer.chat_template" in source.facts:
        made["chat_template"] = source.facts["tokenizer.chat_template"]
    return made


__all__ = ["convert_gguf"]
