"""Converts llama models in GGUF files to folders as onnxruntime-genai has them; packed weights keep their bits.

Weights become MatMulNBits of com.microsoft, whose weight is (number - zero point) x scale.
"""

from __future__ import annotations

import contextlib
import json
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from dmlvk.errors import ModelFileError
from dmlvk.language.gguf_file import GgufFile
from dmlvk.language.gguf_source import BLOCK, GgufSource, ModelSizes, Numbers, QuantizedMatrix
from dmlvk.language.gguf_tokenizer import GgufTokenizer
from dmlvk.support.files import checked_path

_DATA = "model.onnx.data"
_LEAST_EXTERNAL = 1024
"""Bytes from which a tensor's contents lie in the file of data."""

_ALIGNMENT = 64

_ROWS = 2**14
"""Positions whose angles are computed at once."""


def convert_gguf(file: Path | str, folder: Path | str) -> None:
    """Writes a folder with genai_config.json, model.onnx, model.onnx.data, tokenizer.json and tokenizer_config.json.

    Whatever changes the model's numbers, a field or a tensor, is converted or refused by its name. Where it fails,
    nothing is left behind, and a folder that was there has its files as before.

    Args:
        file: a llama model in a GGUF file, with weights of the types Q4_0, Q4_1 and Q8_0, and others of FLOAT32 or
            FLOAT16.
        folder: where it goes; is made. Files of these names that are there are replaced.

    Raises:
        ModelFileError: the file cannot be read, is damaged, or lacks something; or the folder cannot be written.
        InvalidArgumentError: one of them is no path.
        UnsupportedError: another architecture, type of weights or tokenizer; a field or tensor that is not converted.
    """
    file, folder = checked_path(file, "convert_gguf: file"), checked_path(folder, "convert_gguf: folder")
    with GgufFile(file) as opened, written_folder(folder) as directory:
        source = GgufSource(opened)
        sizes = ModelSizes.of(source)
        tokens = GgufTokenizer.of(source)
        with open(directory / _DATA, "wb") as data:
            model = _FolderBuilder(source, sizes, data).model()
        source.check_all_tensors_are_used()
        (directory / "model.onnx").write_bytes(model.SerializeToString())
        for name, content in (
            ("tokenizer.json", tokens.tokenizer()),
            ("tokenizer_config.json", tokens.configuration()),
            ("genai_config.json", _genai_config(tokens, sizes)),
        ):
            text = json.dumps(content, ensure_ascii=False, indent=None if name == "tokenizer.json" else 2)
            (directory / name).write_text(text, encoding="utf-8")


@contextlib.contextmanager
def written_folder(folder: Path) -> Iterator[Path]:
    """A folder to write to, which becomes the wanted one, or gives it its files, when all is written.

    Raises:
        ModelFileError: it cannot be written.
    """
    if "\0" in str(folder):
        raise ModelFileError(f"{str(folder)!a}: cannot be written: a name has no zero byte")
    try:
        missing = [parent for parent in folder.parents if not parent.exists()]
        try:
            folder.parent.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryDirectory(prefix=".dmlvk-", dir=folder.parent) as temporary:
                directory = Path(temporary) / "folder"
                directory.mkdir()
                yield directory
                if folder.is_dir():
                    for path in directory.iterdir():
                        os.replace(path, folder / path.name)
                else:
                    os.rename(directory, folder)
        except BaseException:
            for parent in missing:  # the innermost first
                with contextlib.suppress(OSError):
                    parent.rmdir()
            raise
    except OSError as error:
        raise ModelFileError(f"{folder}: cannot be written: {error}") from error


class _FolderBuilder:
    """Puts the ONNX model together, as onnxruntime-genai's own builder does: one fused node for each matter.

    Args:
        source: the file.
        sizes: of the model.
        data: the file beside the model in which large tensors lie.
    """

    def __init__(self, source: GgufSource, sizes: ModelSizes, data: BinaryIO) -> None:
        self._source, self._sizes, self._data = source, sizes, data
        self._nodes: list[onnx.NodeProto] = []
        self._constants: dict[str, onnx.TensorProto] = {}

    def model(self) -> onnx.ModelProto:
        """The whole model: tokens, mask and past in; the last position's logits and the new past out."""
        sizes = self._sizes
        self._lengths()
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
        self._rotary_tables()
        last = self._node("Gather", [normed, self._constant("last", np.array([-1]))], "last_state", axis=1)
        head = embedding
        if self._source.has("output.weight"):
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
                scale=float(sizes.scale),
                do_rotary=1,
                rotary_interleaved=1,  # GGUF's llamas have their rows in this order
            )
        )
        output = self._source.blocks(f"{own}.attn_output.weight", sizes.hidden, sizes.heads * sizes.head)
        state, normed = self._added(state, self._biased(attended, output, f"{own}.attn_output"), f"{own}.ffn_norm")
        gate, up = (
            self._biased(
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
        return self._added(state, self._biased(inner, down, f"{own}.ffn_down"), after)

    def _projected(self, normed: str, parts: list[QuantizedMatrix], own: str) -> list[str]:
        """Queries, keys and values: one product where their weights are of one kind."""
        names = [f"{own}.attn_{part}" for part in "qkv"]
        kinds = {(part.bits, part.zero_points is None) for part in parts}
        if len(kinds) > 1:
            return [self._biased(normed, part, name) for name, part in zip(names, parts, strict=True)]
        zero_points = [part.zero_points for part in parts if part.zero_points is not None]
        together = QuantizedMatrix(
            parts[0].bits,
            np.concatenate([part.numbers for part in parts]),
            np.concatenate([part.scales for part in parts]),
            np.concatenate(zero_points) if zero_points else None,
        )
        biases = [self._bias(name, len(part.numbers)) for name, part in zip(names, parts, strict=True)]
        bias = None
        if any(one is not None for one in biases):
            pairs = zip(biases, parts, strict=True)
            bias = np.concatenate(
                [np.zeros(len(part.numbers), np.float32) if one is None else one for one, part in pairs]
            )
        product = self._product(normed, together, f"{own}.attn_qkv")
        return [self._sum(product, bias, f"{own}.attn_qkv"), "", ""]

    def _biased(self, operand: str, weights: QuantizedMatrix, name: str) -> str:
        """A product, with the bias that the file has for it."""
        return self._sum(self._product(operand, weights, name), self._bias(name, len(weights.numbers)), name)

    def _bias(self, name: str, length: int) -> Numbers | None:
        return self._source.vector(f"{name}.bias", length) if self._source.has(f"{name}.bias") else None

    def _sum(self, product: str, bias: Numbers | None, name: str) -> str:
        return (
            product
            if bias is None
            else self._node("Add", [product, self._constant(f"{name}.bias", bias)], f"{name}.sum")
        )

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

    def _embedded(self, table: QuantizedMatrix) -> str:
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

    def _product(self, operand: str, weights: QuantizedMatrix, name: str, result: str | None = None) -> str:
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
            block_size=BLOCK,
        )

    def _matrix(self, name: str, weights: QuantizedMatrix) -> None:
        self._constant(f"{name}.numbers", weights.numbers)
        self._constant(f"{name}.scales", weights.scales)

    def _zero_points(self, name: str, weights: QuantizedMatrix) -> list[str]:
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
        """Cosines and sines of positions' angles; ``rope_freqs.weight`` divides those of each pair (Llama 3.1)."""
        sizes = self._sizes
        steps = sizes.rotary_base ** (-np.arange(0, sizes.head, 2) / sizes.head) * sizes.positions
        if self._source.has("rope_freqs.weight"):
            factors = self._source.vector("rope_freqs.weight", sizes.head // 2).astype(np.float64)
            if not np.all(factors > 0):
                raise self._source.fault("rope_freqs.weight must be positive")
            steps = steps / factors
        tables = np.empty((2, sizes.context, sizes.head // 2), np.float32)
        for start in range(0, sizes.context, _ROWS):
            angles = np.arange(start, min(start + _ROWS, sizes.context))[:, None] * steps
            tables[0, start : start + _ROWS], tables[1, start : start + _ROWS] = np.cos(angles), np.sin(angles)
        self._constant("cosines", tables[0])
        self._constant("sines", tables[1])

    def _constant(self, name: str, array: Numbers) -> str:
        if name in self._constants:  # one matrix that is used twice
            return name
        contents = np.ascontiguousarray(array).reshape(array.shape)
        if contents.nbytes < _LEAST_EXTERNAL:
            self._constants[name] = numpy_helper.from_array(contents, name)
            return name
        self._data.write(bytes(-self._data.tell() % _ALIGNMENT))
        tensor = TensorProto(name=name, dims=contents.shape, data_location=TensorProto.EXTERNAL)
        tensor.data_type = helper.np_dtype_to_tensor_dtype(contents.dtype)
        for key, value in (("location", _DATA), ("offset", self._data.tell()), ("length", contents.nbytes)):
            tensor.external_data.add(key=key, value=str(value))
        self._data.write(contents.data)
        self._constants[name] = tensor
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


def _genai_config(tokens: GgufTokenizer, sizes: ModelSizes) -> dict[str, object]:
    past, present = "past_key_values.%d.", "present.%d."
    return {
        "model": {
            "type": "llama",
            "vocab_size": sizes.vocabulary,
            "context_length": sizes.context,
            "bos_token_id": tokens.begin,
            "eos_token_id": tokens.end,
            "pad_token_id": tokens.padding,
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


__all__ = ["convert_gguf"]
