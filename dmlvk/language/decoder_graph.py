"""The ONNX model of a decoder, as onnxruntime-genai's own builder makes it: one fused node for each matter.

Packed weights become MatMulNBits of com.microsoft. What a block's minimum takes from a sum is the minimum times the sum
of the block's operands: so the weights are those of the file, whose difference FLOAT32 does not round.
"""

from __future__ import annotations

import math
from typing import Any, BinaryIO

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from dmlvk.language.architectures import Decoder
from dmlvk.language.source import Source
from dmlvk.language.weights import Matrix, Numbers

DATA = "model.onnx.data"
_LEAST_EXTERNAL = 1024
"""Bytes from which a tensor's contents lie in the file of data."""

_ALIGNMENT = 64
_MICROSOFT = "com.microsoft"


class DecoderGraph:
    """Puts the ONNX model together.

    Args:
        source: the files.
        decoder: what they describe.
        data: the file beside the model in which large tensors lie.
    """

    def __init__(self, source: Source, decoder: Decoder, data: BinaryIO) -> None:
        self._source, self._decoder, self._data = source, decoder, data
        self._nodes: list[onnx.NodeProto] = []
        self._constants: dict[str, onnx.TensorProto] = {}
        self._sums: dict[tuple[str, int], str] = {}

    def model(self) -> onnx.ModelProto:
        """The whole model: tokens, mask and past in; the last position's logits and the new past out."""
        decoder, source = self._decoder, self._source
        self._lengths()
        for number, angles in enumerate(decoder.angles):
            for name, table in zip(("cosines", "sines"), angles.tables(source, decoder.context), strict=True):
                self._constant(f"{name}.{number}", table)
        embedding = source.matrix("token_embd.weight", decoder.vocabulary, decoder.hidden).unpacked()
        state = self._scaled(self._embedded(embedding), decoder.embedding_scale, "embedded.scaled")
        normed = self._normed(state, "blk.0.attn_norm")
        for layer in range(len(decoder.layers)):
            after = f"blk.{layer + 1}.attn_norm" if layer + 1 < len(decoder.layers) else "output_norm"
            state, normed = self._layer(layer, state, normed, after)
        last = self._node("Gather", [normed, self._constant("last", np.array([-1]))], "last_state", axis=1)
        head, name = embedding, "token_embd"
        if source.is_tied is True:
            source.drop("output.weight")
        elif source.has("output.weight") or source.is_tied is False:
            head, name = source.matrix("output.weight", decoder.vocabulary, decoder.hidden), "output"
        logits = self._scaled(self._product(last, head, name), 1 / decoder.logit_divisor, "logits.divided")
        if decoder.logit_cap:
            part = self._scaled(logits, 1 / decoder.logit_cap, "logits.part")
            self._scaled(self._node("Tanh", [part], "logits.tanh"), decoder.logit_cap, "logits.kept")
        self._nodes[-1].output[0] = "logits"
        return self._finished()

    def _layer(self, layer: int, state: str, normed: str, after: str) -> tuple[str, str]:
        """A layer; the state behind it, and the same normalized for the next."""
        decoder, own = self._decoder, f"blk.{layer}"
        width = decoder.heads * decoder.head
        more = self._biased(self._attended(layer, normed), self._weights(own, "attn_output", decoder.hidden, width))
        if decoder.has_post_norms:
            more = self._normed(more, f"{own}.post_attention_norm")
        state, normed = self._added(state, more, f"{own}.ffn_norm")
        gate, up = self._gate_and_up(own, normed)
        inner = self._node("Mul", [self._gated(gate, own), up], f"{own}.inner")
        more = self._biased(inner, self._weights(own, "ffn_down", decoder.hidden, decoder.feed_forward))
        if decoder.has_post_norms:
            more = self._normed(more, f"{own}.post_ffw_norm")
        return self._added(state, more, after)

    def _attended(self, layer: int, normed: str) -> str:
        """What the heads of a layer give."""
        decoder, own = self._decoder, f"blk.{layer}"
        kind = decoder.layers[layer]
        inputs = [*self._projected(normed, own), *(f"past_key_values.{layer}.{part}" for part in ("key", "value"))]
        inputs += ["seqlens_k", "total_length"]
        if kind.angles is not None:
            inputs += [f"cosines.{kind.angles}", f"sines.{kind.angles}"]
        more: dict[str, Any] = {}
        if decoder.has_head_norms:
            inputs += [""] * (14 - len(inputs))
            inputs += [self._norm(f"{own}.attn_{part}_norm", decoder.head) for part in "qk"]
            more["qk_norm_epsilon"] = decoder.epsilon
        if kind.window:
            more["local_window_size"] = kind.window
        if decoder.attention_cap:
            more["softcap"] = decoder.attention_cap
        if kind.angles is not None:
            more |= {"do_rotary": 1, "rotary_interleaved": int(self._source.has_pairs)}
        attended = f"{own}.attended"
        self._nodes.append(
            helper.make_node(
                "GroupQueryAttention",
                inputs,
                [attended, *(f"present.{layer}.{part}" for part in ("key", "value"))],
                name=f"{own}.attention",
                domain=_MICROSOFT,
                num_heads=decoder.heads,
                kv_num_heads=decoder.key_heads,
                scale=float(decoder.scale),
                **more,
            )
        )
        return attended

    def _projected(self, normed: str, own: str) -> list[str]:
        """Queries, keys and values: one product where their weights are of one kind."""
        decoder = self._decoder
        sizes = [heads * decoder.head for heads in (decoder.heads, decoder.key_heads, decoder.key_heads)]
        if decoder.is_joined:
            return [self._biased(normed, self._weights(own, "attn_qkv", sum(sizes), decoder.hidden)), "", ""]
        parts = [
            self._weights(own, f"attn_{part}", size, decoder.hidden) for part, size in zip("qkv", sizes, strict=True)
        ]
        if len({weights.kind for _, weights, _ in parts}) > 1:
            return [self._biased(normed, part) for part in parts]
        together = Matrix.joined([weights for _, weights, _ in parts])
        bias = None
        if any(each is not None for _, _, each in parts):
            lines = [np.zeros(weights.rows, np.float32) if each is None else each for _, weights, each in parts]
            bias = np.concatenate(lines)
        return [self._biased(normed, (f"{own}.attn_qkv", together, bias)), "", ""]

    def _gate_and_up(self, own: str, normed: str) -> list[str]:
        """The two products of the gated MLP."""
        decoder = self._decoder
        wide, hidden = decoder.feed_forward, decoder.hidden
        if not decoder.is_joined:
            return [self._biased(normed, self._weights(own, f"ffn_{part}", wide, hidden)) for part in ("gate", "up")]
        name, weights, bias = self._weights(own, "ffn_up", 2 * wide, hidden)
        halves = []
        for part, start in (("gate", 0), ("up", wide)):
            some = None if bias is None else bias[start : start + wide]
            halves.append(self._biased(normed, (f"{name}.{part}", weights.part(start, start + wide), some)))
        return halves

    def _gated(self, gate: str, own: str) -> str:
        kind = self._decoder.gate
        if kind == "silu":
            return self._node("Mul", [gate, self._node("Sigmoid", [gate], f"{own}.share")], f"{own}.gated")
        return self._node("FastGelu" if kind == "tanh" else "Gelu", [gate], f"{own}.gated", domain=_MICROSOFT)

    def _weights(self, own: str, part: str, rows: int, columns: int) -> tuple[str, Matrix, Numbers | None]:
        """A product's name, its matrix, and the bias that the file has for it."""
        name, bias = f"{own}.{part}", None
        weights = self._source.matrix(f"{name}.weight", rows, columns)
        if part in self._decoder.biases or (self._source.has_any_bias and self._source.has(f"{name}.bias")):
            bias = self._source.vector(f"{name}.bias", rows)
        return name, weights, bias

    def _biased(self, operand: str, weights: tuple[str, Matrix, Numbers | None]) -> str:
        name, matrix, bias = weights
        product = self._product(operand, matrix, name)
        if bias is None:
            return product
        return self._node("Add", [product, self._constant(f"{name}.bias", bias)], f"{name}.sum")

    def _added(self, state: str, more: str, norm: str) -> tuple[str, str]:
        """The sum of two states, and the same normalized."""
        total, normed = f"{norm}.state", f"{norm}.normed"
        more = self._scaled(more, self._decoder.residual_scale, f"{norm}.residual")
        self._nodes.append(
            helper.make_node(
                "SkipSimplifiedLayerNormalization",
                [state, more, self._norm(norm, self._decoder.hidden)],
                [normed, "", "", total],
                name=norm,
                domain=_MICROSOFT,
                epsilon=self._decoder.epsilon,
            )
        )
        return total, normed

    def _normed(self, state: str, name: str) -> str:
        weights, epsilon = self._norm(name, self._decoder.hidden), self._decoder.epsilon
        made = f"{name}.normed"
        return self._node(
            "SimplifiedLayerNormalization", [state, weights], made, axis=-1, epsilon=epsilon, stash_type=1
        )

    def _norm(self, name: str, length: int) -> str:
        weights = self._source.vector(f"{name}.weight", length)
        return self._constant(f"{name}.weight", weights + np.float32(1) if self._source.adds_one else weights)

    def _scaled(self, operand: str, factor: float, name: str) -> str:
        if factor == 1:
            return operand
        return self._node("Mul", [operand, self._constant(f"{name}.factor", np.array(factor, np.float32))], name)

    def _embedded(self, table: Matrix) -> str:
        """The rows of the tokens."""
        if table.scales is None:
            return self._node("Gather", [self._matrix("token_embd", table)[0], "input_ids"], "embedded", axis=0)
        numbers, scales, *_ = self._matrix("token_embd", table)
        found = self._node("Gather", [numbers, "input_ids"], "embedded.numbers", axis=0)
        floats = self._node("Cast", [found], "embedded.floats", to=TensorProto.FLOAT)
        if table.bits == 4:
            floats = self._halves(floats, table.block)
        if table.zero:
            middle = self._constant("middle", np.array(table.zero, np.float32))
            floats = self._node("Sub", [floats, middle], "embedded.signed")
        made = self._node("Mul", [floats, self._of_blocks(scales, "embedded.scales")], "embedded.products")
        if table.minima is not None:
            minima = self._of_blocks(self._minima("token_embd", table), "embedded.minima")
            made = self._node("Sub", [made, minima], "embedded.less")
        shape = self._constant("embedded.shape", np.array([0, 0, self._decoder.hidden]))
        return self._node("Reshape", [made, shape], "embedded")

    def _of_blocks(self, values: str, name: str) -> str:
        """What the blocks of the tokens' rows have, with an axis for the elements of a block."""
        found = self._node("Gather", [values, "input_ids"], f"{name}.rows", axis=0)
        return self._node("Unsqueeze", [found, self._constant("third", np.array([3]))], name)

    def _halves(self, floats: str, block: int) -> str:
        """Numbers of four bits, of bytes that were made floats."""
        sixteen = self._constant("sixteen", np.array(16, np.float32))
        high = self._node("Floor", [self._node("Div", [floats, sixteen], "embedded.quotients")], "embedded.high")
        low = self._node("Sub", [floats, self._node("Mul", [high, sixteen], "embedded.highest")], "embedded.low")
        axis = self._constant("fourth", np.array([4]))
        pairs = [self._node("Unsqueeze", [half, axis], f"{half}.column") for half in (low, high)]
        joined = self._node("Concat", pairs, "embedded.pairs", axis=4)
        shape = self._constant("embedded.blocks", np.array([0, 0, 0, block]))
        return self._node("Reshape", [joined, shape], "embedded.unpacked")

    def _product(self, operand: str, weights: Matrix, name: str) -> str:
        if weights.scales is None:
            inputs = [operand, *self._matrix(name, weights)]
            return self._node("FusedMatMul", inputs, f"{name}.product", domain=_MICROSOFT, transB=1)
        product = self._node(
            "MatMulNBits",
            [operand, *self._matrix(name, weights)],
            f"{name}.product",
            domain=_MICROSOFT,
            K=weights.columns,
            N=weights.rows,
            bits=weights.bits,
            block_size=weights.block,
        )
        if weights.minima is None:
            return product
        key = operand, weights.block
        if key not in self._sums:
            blocks = self._blocks(operand, weights.block)
            axis = self._constant("third", np.array([3]))
            self._sums[key] = self._node("ReduceSum", [blocks, axis], f"{blocks}.sums", keepdims=0)
        lines = [self._sums[key], self._minima(name, weights)]
        less = self._node("FusedMatMul", lines, f"{name}.less", domain=_MICROSOFT, transB=1)
        return self._node("Sub", [product, less], f"{name}.difference")

    def _blocks(self, operand: str, block: int) -> str:
        shape = self._constant(f"blocks.{block}", np.array([0, 0, -1, block]))
        return self._node("Reshape", [operand, shape], f"{operand}.blocks.{block}")

    def _matrix(self, name: str, weights: Matrix) -> list[str]:
        """Numbers, and what belongs to packed ones."""
        if weights.scales is None:
            return [self._constant(f"{name}.weight", weights.numbers)]
        made = [self._constant(f"{name}.numbers", weights.numbers), self._constant(f"{name}.scales", weights.scales)]
        if weights.zero != 2 ** (weights.bits - 1):
            width = math.ceil(weights.scales.shape[1] * weights.bits / 8)
            zeros = np.zeros((weights.rows, width), np.uint8)
            made.append(self._constant(f"{name}.zero_points", zeros))
        return made

    def _minima(self, name: str, weights: Matrix) -> str:
        return self._constant(f"{name}.minima", np.asarray(weights.minima))

    def _lengths(self) -> None:
        """How many tokens there are with the new ones, less one; and how many the mask has room for."""
        self._node("ReduceSum", ["attention_mask", self._constant("one", np.array([1]))], "length", keepdims=1)
        self._node("Sub", ["length", self._constant("one", np.array([1]))], "last_position")
        self._node("Cast", ["last_position"], "seqlens_k", to=TensorProto.INT32)
        self._node("Shape", ["attention_mask"], "mask_shape")
        self._node("Gather", ["mask_shape", self._constant("second", np.array(1))], "mask_length", axis=0)
        self._node("Cast", ["mask_length"], "total_length", to=TensorProto.INT32)

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
        for key, value in (("location", DATA), ("offset", self._data.tell()), ("length", contents.nbytes)):
            tensor.external_data.add(key=key, value=str(value))
        self._data.write(contents.data)
        self._constants[name] = tensor
        return name

    def _node(self, operator: str, inputs: list[str], output: str, domain: str = "", **attributes: Any) -> str:
        self._nodes.append(helper.make_node(operator, inputs, [output], name=output, domain=domain, **attributes))
        return output

    def _finished(self) -> onnx.ModelProto:
        decoder = self._decoder
        inputs = [
            helper.make_tensor_value_info("input_ids", TensorProto.INT64, ["batch_size", "sequence_length"]),
            helper.make_tensor_value_info("attention_mask", TensorProto.INT64, ["batch_size", "total_sequence_length"]),
        ]
        outputs = [helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["batch_size", 1, decoder.vocabulary])]
        for layer in range(len(decoder.layers)):
            for part in ("key", "value"):
                for kind, infos, length in (
                    ("past_key_values", inputs, "past_sequence_length"),
                    ("present", outputs, "total_sequence_length"),
                ):
                    shape: list[int | str | None] = ["batch_size", decoder.key_heads, length, decoder.head]
                    infos.append(helper.make_tensor_value_info(f"{kind}.{layer}.{part}", TensorProto.FLOAT, shape))
        graph = helper.make_graph(self._nodes, decoder.name, inputs, outputs, list(self._constants.values()))
        versions = [helper.make_opsetid("", 14), helper.make_opsetid(_MICROSOFT, 1)]
        return helper.make_model(graph, opset_imports=versions, ir_version=8, producer_name="dmlvk")


__all__ = ["DATA", "DecoderGraph"]
