"""What ONNX models of all architectures consist of: products with plain and packed weights, norms, rows of tables.

Packed weights become dmlvk's own MatMulNBits, or com.microsoft's in folders for others. There, and of experts, what a
block's minimum takes from a sum is a product of its own, of the minimum and the sum of the block's operands.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import Any, BinaryIO

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from dmlvk.language.architectures import Decoder, Mixture
from dmlvk.language.source import Source
from dmlvk.language.weights import Matrix, Numbers

DATA = "model.onnx.data"
DMLVK, MICROSOFT = "dmlvk", "com.microsoft"
_LEAST_EXTERNAL = 1024  # Bytes from which a tensor's contents lie in the file of data

_ALIGNMENT = 64


def _packing(weights: Matrix) -> dict[str, int]:
    """What nodes are told of packed weights."""
    if weights.scales is None:
        return {}
    zero = {"table": weights.table} if weights.table else {"zero_point": weights.zero}
    return {"bits": weights.bits, "block_size": weights.block, **zero}


def _packing_with_minima(weights: Matrix) -> dict[str, int]:
    """The same where minima lie beside scales and factors."""
    return {**_packing(weights), **({} if weights.minima is None else {"minima": 1})}


class ModelGraph(ABC):
    """Nodes and constants, as they are put together: the layers that all have, but for what their heads look at.

    Args:
        data: the file beside the model in which large tensors lie.
    """

    def __init__(self, source: Source, decoder: Decoder, data: BinaryIO) -> None:
        self._source, self._decoder, self._data = source, decoder, data
        self._nodes: list[onnx.NodeProto] = []
        self._constants: dict[str, onnx.TensorProto] = {}
        self._sums: dict[tuple[str, int], str] = {}

    def _convolved(self, layer: int, normed: str) -> str:
        """What a short convolution gives.

        Raises:
            UnsupportedError: of a model that has no states.
        """
        raise self._source.refusal(f"its layer {layer} has a short convolution, which only decoders run")

    def _delta(self, layer: int, normed: str) -> str:
        """What linear attention gives.

        Raises:
            UnsupportedError: of a model that has no states.
        """
        raise self._source.refusal(f"its layer {layer} has linear attention, which only decoders run")

    @abstractmethod
    def _attended(self, layer: int, normed: str) -> str:
        """What the heads of a layer give."""

    def _states(self, embedding: Matrix) -> str:
        """The states behind the last layer, normalized: [batch, tokens, hidden]."""
        decoder = self._decoder
        for number, angles in enumerate(decoder.angles):
            for name, table in zip(("cosines", "sines"), angles.tables(self._source, decoder.context), strict=True):
                self._constant(f"{name}.{number}", table)
        state = self._embedded(embedding, "token_embd", "embedded")
        state = self._scaled(state, decoder.embedding_scale, "embedded.scaled")
        self._add_layer_inputs(state)
        if decoder.places:
            state = normed = self._placed(state)
        else:
            normed = self._normed(state, "blk.0.attn_norm")
        for layer in range(len(decoder.layers)):
            state, normed = self._layer(layer, state, normed)
        return normed

    def _placed(self, state: str) -> str:
        """With rows of places and segments added, and normalized."""
        decoder, hidden = self._decoder, self._decoder.hidden
        table = self._source.matrix("position_embd.weight", decoder.places, hidden).multiplied_out()
        places = self._constant("places", table[decoder.first_place :])
        self._node("Shape", ["input_ids"], "tokens.shape")
        ends = [self._constant(name, np.array([number])) for name, number in (("first", 0), ("one", 1), ("two", 2))]
        length = self._node("Slice", ["tokens.shape", ends[1], ends[2]], "tokens.length")
        state = self._node("Add", [state, self._node("Slice", [places, ends[0], length], "places.own")], "placed")
        if decoder.segments:
            table = self._source.matrix("token_types.weight", decoder.segments, hidden).multiplied_out()
            rows = self._node("Gather", [self._constant("segments", table), "token_type_ids"], "segments.own", axis=0)
            state = self._node("Add", [state, rows], "of_segments")
        return self._normed(state, "token_embd_norm")

    def _layer(self, layer: int, state: str, normed: str) -> tuple[str, str]:
        """A layer; the state behind it, and the same normalized for the next."""
        decoder, own = self._decoder, f"blk.{layer}"
        is_last = layer + 1 == len(decoder.layers)
        norms = f"{own}.ffn_norm", "output_norm" if is_last else f"blk.{layer + 1}.attn_norm"
        if decoder.normalizes_sums:
            norms = f"{own}.attn_output_norm", f"{own}.layer_output_norm"
        if decoder.layers[layer].taps:
            more = self._convolved(layer, normed) if decoder.delta is None else self._delta(layer, normed)
        else:
            attended, width = self._attended(layer, normed), decoder.heads * decoder.layers[layer].head
            if decoder.has_head_gates:
                gates = self._biased(normed, self._queries(layer, 1))
                share = self._node("Sigmoid", [gates], f"{own}.head_shares")
                attended = self._node("Mul", [attended, share], f"{own}.attended.gated")
            more = self._biased(attended, self._weights(own, "attn_output", decoder.hidden, width))
        if decoder.has_post_norms:
            more = self._normed(more, f"{own}.post_attention_norm")
        state, normed = self._added(state, more, norms[0])
        if decoder.mixture is None or layer < decoder.mixture.first:
            more = self._mlp(layer, normed)
        elif decoder.mixture.is_beside:
            more = self._beside(layer, state, normed, decoder.mixture)
        else:
            more = self._mixture(own, normed, decoder.mixture)
        if decoder.has_post_norms:
            more = self._normed(more, f"{own}.post_ffw_norm")
        return self._ended(own, state, more, norms[1])

    def _ended(self, own: str, state: str, more: str, norm: str) -> tuple[str, str]:
        """The state behind a layer, with what comes of the layer's input, and times its scale; and normalized."""
        has_scale = self._source.has(f"{own}.layer_output_scale.weight")
        if not self._decoder.layer_input and not has_scale:
            return self._added(state, more, norm)
        state = self._node("Add", [state, more], f"{own}.sum")
        if self._decoder.layer_input:
            state = self._node("Add", [state, self._of_layer_input(own, state)], f"{own}.with_input")
        if has_scale:
            scale = self._constant(f"{own}.scale", self._source.vector(f"{own}.layer_output_scale.weight", 1))
            state = self._node("Mul", [state, scale], f"{own}.scaled")
        return state, self._normed(state, norm)

    def _of_layer_input(self, own: str, state: str) -> str:
        """A layer's input, gated by the state."""
        wide, hidden = self._decoder.layer_input, self._decoder.hidden
        gate = self._gated(self._biased(state, self._weights(own, "inp_gate", wide, hidden)), f"{own}.input")
        gated = self._node("Mul", [gate, f"{own}.input"], f"{own}.input.inner")
        made = self._biased(gated, self._weights(own, "proj", hidden, wide))
        return self._normed(made, f"{own}.post_norm")

    def _add_layer_inputs(self, state: str) -> None:
        """For each layer what it takes: a row of a token's own, and a part of what is made of the first state."""
        decoder, source, wide = self._decoder, self._source, self._decoder.layer_input
        if not wide:
            return
        count, name = len(decoder.layers), "per_layer_model_proj"
        rows, columns = decoder.vocabulary, count * wide
        table = source.matrix("per_layer_token_embd.weight", rows, columns).in_order().quantized(source.quantize)
        weights = source.matrix(f"{name}.weight", columns, decoder.hidden).quantized(source.quantize)
        made = self._scaled(self._product(state, weights, name), decoder.hidden**-0.5, f"{name}.scaled")
        shapes = [np.array([0, 0, count, wide]), np.array([0, 0, columns])]
        apart, together = (self._constant(f"layer_inputs.{len(shape)}", shape) for shape in shapes)
        heads, norm = self._node("Reshape", [made, apart], f"{name}.apart"), self._norm("per_layer_proj_norm", wide)
        normed = self._root_mean_square(heads, norm, decoder.epsilon, f"{name}.normed")
        flat = self._node("Reshape", [normed, together], f"{name}.flat")
        parts = [f"{name}.{layer}" for layer in range(count)]
        sizes = self._constant(f"{name}.sizes", np.array([wide] * count))
        self._nodes.append(helper.make_node("Split", [flat, sizes], parts, name=f"{name}.parts", axis=-1))
        for layer, part in enumerate(parts):
            own = f"per_layer_token_embd.{layer}"
            row = self._embedded(table.between(layer * wide, (layer + 1) * wide), own, f"{own}.rows")
            total = self._node("Add", [part, self._scaled(row, wide**0.5, f"{own}.scaled")], f"{own}.sum")
            self._scaled(total, 2**-0.5, f"blk.{layer}.input")

    def _mlp(self, layer: int, normed: str) -> str:
        decoder, own, wide = self._decoder, f"blk.{layer}", self._decoder.layers[layer].feed_forward
        if decoder.has_gate:
            gate, up = self._gate_and_up(own, normed, wide)
            inner = self._node("Mul", [self._gated(gate, f"{own}.mlp"), up], f"{own}.mlp.inner")
        else:
            up = self._biased(normed, self._weights(own, "ffn_up", wide, decoder.hidden))
            inner = self._gated(up, f"{own}.mlp")
        return self._biased(inner, self._weights(own, "ffn_down", decoder.hidden, wide))

    def _beside(self, layer: int, state: str, normed: str, mixture: Mixture) -> str:
        """What an MLP and a mixture give, which have norms of their own."""
        own, hidden, epsilon = f"blk.{layer}", self._decoder.hidden, self._decoder.epsilon
        name = f"{own}.ffn_gate_inp.scale"
        scales = self._constant(name, self._source.vector(name, hidden) * np.float32(hidden**-0.5))
        chooses = self._root_mean_square(state, scales, epsilon, f"{own}.ffn_gate_inp.operand")
        rows = self._normed(state, f"{own}.pre_ffw_norm_2")
        parts = self._mlp(layer, normed), self._mixture(own, rows, mixture, chooses)
        both = [self._normed(part, f"{own}.post_ffw_norm_{number}") for number, part in enumerate(parts, 1)]
        return self._node("Add", both, f"{own}.both")

    def _mixture(self, own: str, normed: str, mixture: Mixture, chooses: str = "") -> str:
        """What the experts give that each token chooses, by their shares.

        Args:
            chooses: by what; empty: by what experts are given.
        """
        shares, experts = self._choice(own, chooses or normed, mixture)
        axis = self._constant("second_axis", np.array([2]))
        rows = self._node("Unsqueeze", [normed, axis], f"{own}.rows")
        gate, up = self._both_by_experts(own, rows, experts, mixture)
        if mixture.limit:
            inner = self._limited(own, gate, up, mixture)
        else:
            inner = self._node("Mul", [self._gated(gate, own), up], f"{own}.inner")
        down = self._by_experts(f"{own}.ffn_down_exps", self._of_experts(own, "down", mixture), inner, experts, mixture)
        share = self._node("Unsqueeze", [shares, self._constant("third", np.array([3]))], f"{own}.shares.each")
        weighted = self._node("Mul", [down, share], f"{own}.weighted")
        made = self._node("ReduceSum", [weighted, axis], f"{own}.mixture", keepdims=0)
        if not mixture.shared:
            return made
        return self._node("Add", [made, self._shared(own, normed, mixture.shared)], f"{own}.with_shared")

    def _shared(self, own: str, normed: str, wide: int) -> str:
        """What the expert gives that all tokens take."""
        hidden, name = self._decoder.hidden, f"{own}.ffn_gate_inp_shexp"
        gate, up = (
            self._biased(normed, self._weights(own, f"ffn_{part}_shexp", wide, hidden)) for part in ("gate", "up")
        )
        inner = self._node("Mul", [self._gated(gate, f"{own}.shared"), up], f"{own}.shared.inner")
        down = self._biased(inner, self._weights(own, "ffn_down_shexp", hidden, wide))
        share = self._node("Sigmoid", [self._product(normed, self._source.row(f"{name}.weight", hidden), name)], name)
        return self._node("Mul", [down, share], f"{own}.shared.weighted")

    def _choice(self, own: str, normed: str, mixture: Mixture) -> tuple[str, str]:
        """Shares of the experts that each token chooses, and their numbers."""
        name = f"{own}.ffn_gate_inp"
        weights = self._source.matrix(f"{name}.weight", mixture.experts, self._decoder.hidden)
        bias = self._source.vector(f"{name}.bias", mixture.experts) if mixture.has_biases else None
        scores = self._biased(normed, (name, weights, bias))
        if mixture.has_sigmoids:
            return self._choice_by_sigmoids(own, scores, mixture)
        if not mixture.is_whole:
            scores = self._node("Softmax", [scores], f"{name}.shares", axis=-1)
        best, _, experts = self._best(name, scores, mixture)
        shares = self._node("Softmax", [best], f"{name}.whole", axis=-1) if mixture.is_whole else best
        if not mixture.is_beside:
            return shares, experts
        scales = f"{own}.ffn_down_exps.scale"
        table = self._constant(scales, self._source.vector(scales, mixture.experts))
        chosen = self._node("Gather", [table, experts], f"{scales}.chosen", axis=0)
        return self._node("Mul", [shares, chosen], f"{name}.scaled"), experts

    def _best(self, name: str, scores: str, mixture: Mixture) -> tuple[str, str, str]:
        """The greatest scores, and whose they are, in INT64 and INT32."""
        count = self._constant("chosen", np.array([mixture.chosen]))
        best, numbers = f"{name}.best", f"{name}.numbers"
        self._nodes.append(helper.make_node("TopK", [scores, count], [best, numbers], name=f"{name}.choice", axis=-1))
        return best, numbers, self._node("Cast", [numbers], f"{name}.experts", to=TensorProto.INT32)

    def _choice_by_sigmoids(self, own: str, scores: str, mixture: Mixture) -> tuple[str, str]:
        """Shares are sigmoids; what is added to them decides who is chosen, and nothing else."""
        name = f"{own}.ffn_gate_inp"
        each = wanted = self._node("Sigmoid", [scores], f"{name}.shares")
        if mixture.has_choice_bias:
            bias = f"{own}.exp_probs_b.bias"
            table = self._constant(bias, self._source.vector(bias, mixture.experts))
            wanted = self._node("Add", [each, table], f"{name}.wanted")
        _, numbers, experts = self._best(name, wanted, mixture)
        shares = self._node("GatherElements", [each, numbers], f"{name}.chosen", axis=-1)
        if mixture.is_whole:
            last, least = self._constant("last", np.array([-1])), self._constant("least", np.array(1e-6, np.float32))
            total = self._node("ReduceSum", [shares, last], f"{name}.total", keepdims=1)
            more = self._node("Add", [total, least], f"{name}.more")
            shares = self._node("Div", [shares, more], f"{name}.whole")
        return self._scaled(shares, mixture.scale, f"{name}.scaled"), experts

    def _of_experts(self, own: str, part: str, mixture: Mixture) -> tuple[Matrix, Numbers | None]:
        """The matrices of all experts, one behind the other, and what they add, [experts, rows]."""
        hidden, inner = self._decoder.hidden, mixture.feed_forward
        high, wide = (hidden, inner) if part == "down" else (inner, hidden)
        weights = self._source.experts(own, part, (mixture.experts, high, wide)).quantized(self._source.quantize)
        biases = self._source.expert_biases(own, part, (mixture.experts, high)) if mixture.has_biases else None
        return weights, biases

    def _both_by_experts(self, own: str, rows: str, experts: str, mixture: Mixture) -> list[str]:
        """Gates and what they multiply: one product where their weights are of one kind."""
        parts = {part: self._of_experts(own, part, mixture) for part in ("gate", "up")}
        (gate, first), (up, second) = parts.values()
        if gate.kind != up.kind:
            names = {part: f"{own}.ffn_{part}_exps" for part in parts}
            return [self._by_experts(names[part], parts[part], rows, experts, mixture) for part in parts]
        biases = None if first is None or second is None else np.concatenate([first, second], axis=1)
        both = Matrix.beside([gate, up], mixture.experts), biases
        made = self._by_experts(f"{own}.ffn_gate_up_exps", both, rows, experts, mixture)
        sizes, halves = self._constant("halves", np.array([mixture.feed_forward] * 2)), [f"{own}.gate", f"{own}.up"]
        self._nodes.append(helper.make_node("Split", [made, sizes], halves, name=f"{own}.halves", axis=-1))
        return halves

    def _by_experts(
        self, name: str, matrices: tuple[Matrix, Numbers | None], rows: str, experts: str, mixture: Mixture
    ) -> str:
        """Rows by the matrices of the experts that are chosen for each."""
        weights, biases = matrices
        high = weights.rows // mixture.experts
        numbers, scales, factors = self._matrix(name, weights)
        operands = [rows, numbers, experts, scales, "", factors]
        made = self._node("MatMulExperts", operands, f"{name}.product", domain=DMLVK, N=high, **_packing(weights))
        if weights.minima is not None:
            blocks = self._constant(f"{name}.blocks", np.array([0, 0, 0, -1, weights.block]))
            parts = self._node("Reshape", [rows, blocks], f"{name}.parts")
            sums = self._node("ReduceSum", [parts, self._constant("fourth", np.array([4]))], f"{name}.sums", keepdims=0)
            less = self._by_experts(f"{name}.minima", (weights.minima, None), sums, experts, mixture)
            made = self._node("Sub", [made, less], f"{name}.difference")
        if biases is None:
            return made
        table = self._constant(f"{name}.bias", biases)
        return self._node("Add", [made, self._node("Gather", [table, experts], f"{name}.added", axis=0)], f"{name}.sum")

    def _limited(self, own: str, gate: str, up: str, mixture: Mixture) -> str:
        """gpt-oss's gate: both sides within a limit, and the other side with 1 added."""
        high, low = (
            self._constant(name, np.array(sign * mixture.limit, np.float32))
            for name, sign in (("high", 1), ("low", -1))
        )
        gate = self._node("Min", [gate, high], f"{own}.gate.limited")
        up = self._node("Clip", [up, low, high], f"{own}.up.limited")
        share = self._node("Sigmoid", [self._scaled(gate, mixture.slope, f"{own}.slope")], f"{own}.share")
        gated = self._node("Mul", [gate, share], f"{own}.gated")
        more = self._node("Add", [up, self._constant("one.float", np.array(1, np.float32))], f"{own}.up.more")
        return self._node("Mul", [more, gated], f"{own}.inner")

    def _sizes(self, layer: int) -> list[int]:
        """Elements of all queries, keys and values of a token."""
        kind = self._decoder.layers[layer]
        return [heads * kind.head for heads in (self._decoder.heads, kind.key_heads, kind.key_heads)]

    def _parts(self, layer: int, normed: str) -> list[str]:
        """Queries, keys and values, each for itself."""
        projected, own = self._projected(normed, layer), f"blk.{layer}"
        if projected[1]:
            return projected
        lengths = self._constant(f"projected.sizes.{layer}", np.array(self._sizes(layer)))
        names = [f"{own}.{part}" for part in "qkv"]
        self._nodes.append(helper.make_node("Split", [projected[0], lengths], names, name=f"{own}.split", axis=-1))
        return names

    def _normed_parts(self, layer: int, normed: str) -> list[str]:
        """The same, with heads normalized; queries alone where a layer sees the keys and values of another."""
        decoder, own, kind = self._decoder, f"blk.{layer}", self._decoder.layers[layer]
        if kind.source is None and not kind.values_are_keys:
            parts = self._parts(layer, normed)
        else:
            wide, width, _ = self._sizes(layer)
            parts = [self._biased(normed, self._weights(own, "attn_q", wide, decoder.hidden))]
            if kind.source is None:
                parts += [self._biased(normed, self._weights(own, "attn_k", width, decoder.hidden))] * 2
        wanted = "qkv" if decoder.has_value_norms else "qk" if decoder.has_head_norms else ""
        return [
            self._of_heads(layer, part, tensor) if part in wanted else tensor
            for part, tensor in zip("qkv", parts, strict=False)
        ]

    def _of_heads(self, layer: int, part: str, tensor: str) -> str:
        """Heads of a layer, normalized each for itself."""
        own, head, width = f"blk.{layer}", self._decoder.layers[layer].head, self._sizes(layer)["qkv".index(part)]
        shapes = [np.array([0, 0, width // head, head]), np.array([0, 0, width])]
        apart, together = (self._constant(f"shape.{'.'.join(map(str, shape))}", shape) for shape in shapes)
        headed = self._node("Reshape", [tensor, apart], f"{own}.{part}.heads")
        if part == "v":
            weights = self._constant(f"ones.{head}", np.ones(head, np.float32))
        else:
            weights = self._norm(f"{own}.attn_{part}_norm", head)
        normed = self._root_mean_square(headed, weights, self._decoder.epsilon, f"{own}.{part}.normed")
        return self._node("Reshape", [normed, together], f"{own}.{part}.joined")

    def _projected(self, normed: str, layer: int) -> list[str]:
        """Queries, keys and values: one product where their weights are of one kind."""
        decoder, own, sizes = self._decoder, f"blk.{layer}", self._sizes(layer)
        if decoder.is_joined:
            return [self._biased(normed, self._weights(own, "attn_qkv", sum(sizes), decoder.hidden)), "", ""]
        parts = [
            self._queries(layer, 0)
            if part == "q" and decoder.has_head_gates
            else self._weights(own, f"attn_{part}", size, decoder.hidden)
            for part, size in zip("qkv", sizes, strict=True)
        ]
        if len({weights.kind for _, weights, _ in parts}) > 1:
            return [self._biased(normed, part) for part in parts]
        together = Matrix.joined([weights for _, weights, _ in parts])
        bias = None
        if any(each is not None for _, _, each in parts):
            lines = [np.zeros(weights.rows, np.float32) if each is None else each for _, weights, each in parts]
            bias = np.concatenate(lines)
        return [self._biased(normed, (f"{own}.attn_qkv", together, bias)), "", ""]

    def _queries(self, layer: int, half: int) -> tuple[str, Matrix, Numbers | None]:
        """Of each head's rows the first half, its queries, or the second one, its gates."""
        heads, head = self._decoder.heads, self._decoder.layers[layer].head
        name, weights, bias = self._weights(f"blk.{layer}", "attn_q", 2 * heads * head, self._decoder.hidden)
        rows = np.arange(2 * heads * head).reshape(heads, 2, head)[:, half].reshape(-1)
        return f"{name}.{half}", weights.chosen(rows), None if bias is None else bias[rows]

    def _gate_and_up(self, own: str, normed: str, wide: int) -> list[str]:
        """The two products of the gated MLP."""
        decoder, hidden = self._decoder, self._decoder.hidden
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
        return self._node("FastGelu" if kind == "tanh" else "Gelu", [gate], f"{own}.gated", domain=MICROSOFT)

    def _added(self, state: str, more: str, norm: str) -> tuple[str, str]:
        """The sum of two states, and the same normalized."""
        total, normed = f"{norm}.state", f"{norm}.normed"
        more = self._scaled(more, self._decoder.residual_scale, f"{norm}.residual")
        if self._decoder.normalizes_sums:
            normed = self._normed(self._node("Add", [state, more], total), norm)
            return normed, normed
        self._nodes.append(
            helper.make_node(
                "SkipSimplifiedLayerNormalization",
                [state, more, self._norm(norm, self._decoder.hidden)],
                [normed, "", "", total],
                name=norm,
                domain=MICROSOFT,
                epsilon=self._decoder.epsilon,
            )
        )
        return total, normed

    def _weights(self, own: str, part: str, rows: int, columns: int) -> tuple[str, Matrix, Numbers | None]:
        """A product's name, its matrix, and the bias that the file has for it."""
        name, bias = f"{own}.{part}", None
        weights = self._source.matrix(f"{name}.weight", rows, columns).quantized(self._source.quantize)
        if part in self._decoder.biases or (self._source.has_any_bias and self._source.has(f"{name}.bias")):
            bias = self._source.vector(f"{name}.bias", rows)
        return name, weights, bias

    def _biased(self, operand: str, weights: tuple[str, Matrix, Numbers | None]) -> str:
        name, matrix, bias = weights
        product = self._product(operand, matrix, name)
        if bias is None:
            return product
        return self._node("Add", [product, self._constant(f"{name}.bias", bias)], f"{name}.sum")

    def _normed(self, state: str, name: str) -> str:
        weights, epsilon = self._norm(name, self._decoder.hidden), self._decoder.epsilon
        made = f"{name}.normed"
        if self._decoder.has_means:
            bias = self._constant(f"{name}.bias", self._source.vector(f"{name}.bias", self._decoder.hidden))
            return self._node("LayerNormalization", [state, weights, bias], made, axis=-1, epsilon=epsilon)
        return self._root_mean_square(state, weights, epsilon, made)

    def _root_mean_square(self, rows: str, weights: str, epsilon: float, made: str) -> str:
        inputs = [rows, weights]
        return self._node("SimplifiedLayerNormalization", inputs, made, axis=-1, epsilon=epsilon, stash_type=1)

    def _norm(self, name: str, length: int) -> str:
        weights = self._source.vector(f"{name}.weight", length)
        return self._constant(f"{name}.weight", weights + np.float32(1) if self._source.adds_one else weights)

    def _scaled(self, operand: str, factor: float, name: str) -> str:
        if factor == 1:
            return operand
        return self._node("Mul", [operand, self._constant(f"{name}.factor", np.array(factor, np.float32))], name)

    def _embedded(self, table: Matrix, name: str, made: str) -> str:
        """The rows of the tokens."""
        if self._source.is_for_others and table.scales is not None:
            return self._embedded_by_onnx(table, name, made)
        numbers, scales, factors = self._matrix(name, table, has_minima=table.minima is not None)
        if table.scales is None:
            return self._node("Gather", [numbers, "input_ids"], made, axis=0)
        inputs, packing = [numbers, "input_ids", scales, factors], _packing_with_minima(table)
        return self._node("GatherNBits", inputs, made, domain=DMLVK, K=table.columns, **packing)

    def _embedded_by_onnx(self, table: Matrix, name: str, made: str) -> str:
        """The same by ONNX's own operators."""
        numbers, scales, _ = self._matrix(name, table)
        found = self._node("Gather", [numbers, "input_ids"], f"{made}.numbers", axis=0)
        floats = self._node("Cast", [found], f"{made}.floats", to=TensorProto.FLOAT)
        if table.bits == 4:
            floats = self._halves(floats, table.block, made)
        if table.zero:
            middle = self._constant("middle", np.array(table.zero, np.float32))
            floats = self._node("Sub", [floats, middle], f"{made}.signed")
        whole = self._node("Mul", [floats, self._of_blocks(scales, f"{made}.scales")], f"{made}.products")
        if table.minima is not None:
            minima = self._of_blocks(self._matrix(f"{name}.minima", table.minima)[0], f"{made}.minima")
            whole = self._node("Sub", [whole, minima], f"{made}.less")
        shape = self._constant(f"{made}.shape", np.array([0, 0, table.columns]))
        return self._node("Reshape", [whole, shape], made)

    def _of_blocks(self, values: str, name: str) -> str:
        """What the blocks of the tokens' rows have, with an axis for the elements of a block."""
        found = self._node("Gather", [values, "input_ids"], f"{name}.rows", axis=0)
        return self._node("Unsqueeze", [found, self._constant("third", np.array([3]))], name)

    def _halves(self, floats: str, block: int, made: str) -> str:
        """Numbers of four bits, of bytes that were made floats."""
        sixteen = self._constant("sixteen", np.array(16, np.float32))
        high = self._node("Floor", [self._node("Div", [floats, sixteen], f"{made}.quotients")], f"{made}.high")
        low = self._node("Sub", [floats, self._node("Mul", [high, sixteen], f"{made}.highest")], f"{made}.low")
        axis = self._constant("fourth", np.array([4]))
        pairs = [self._node("Unsqueeze", [half, axis], f"{half}.column") for half in (low, high)]
        joined = self._node("Concat", pairs, f"{made}.pairs", axis=4)
        shape = self._constant(f"{made}.blocks", np.array([0, 0, 0, block]))
        return self._node("Reshape", [joined, shape], f"{made}.unpacked")

    def _product(self, operand: str, weights: Matrix, name: str) -> str:
        is_for_others = self._source.is_for_others
        has_minima = weights.minima is not None and not is_for_others
        numbers, scales, factors = self._matrix(name, weights, has_minima=has_minima)
        if weights.scales is None:
            inputs = [operand, numbers]
            return self._node("FusedMatMul", inputs, f"{name}.product", domain=MICROSOFT, transB=1)
        if weights.order is not None:
            order = weights.order.astype(np.int64)
            operand = self._node(
                "Gather", [operand, self._constant(f"{name}.order", order)], f"{name}.operand", axis=-1
            )
        inputs = [operand, numbers, scales, *(["", "", "", factors] if factors else [])]
        packing = {"K": weights.columns, "N": weights.rows, **_packing(weights)}
        if not is_for_others:
            packing |= _packing_with_minima(weights)
            return self._node("MatMulNBits", inputs, f"{name}.product", domain=DMLVK, **packing)
        if not packing.pop("zero_point"):
            width = math.ceil(weights.numbers.shape[1] * weights.bits / 8)
            inputs.append(self._constant(f"{name}.zero_points", np.zeros((weights.rows, width), np.uint8)))
        product = self._node("MatMulNBits", inputs, f"{name}.product", domain=MICROSOFT, **packing)
        if weights.minima is None:
            return product
        less = self._less(operand, weights.minima, weights.block, name)
        return self._node("Sub", [product, less], f"{name}.difference")

    def _less(self, operand: str, minima: Matrix, block: int, name: str) -> str:
        """What blocks' minima take from a product."""
        key = operand, block
        if key not in self._sums:
            blocks = self._blocks(operand, block)
            axis = self._constant("third", np.array([3]))
            self._sums[key] = self._node("ReduceSum", [blocks, axis], f"{blocks}.sums", keepdims=0)
        return self._product(self._sums[key], minima, f"{name}.minima")

    def _blocks(self, operand: str, block: int) -> str:
        shape = self._constant(f"blocks.{block}", np.array([0, 0, -1, block]))
        return self._node("Reshape", [operand, shape], f"{operand}.blocks.{block}")

    def _matrix(self, name: str, weights: Matrix, *, has_minima: bool = False) -> tuple[str, str, str]:
        """Numbers, and what belongs to packed ones: scales and factors; empty where there are none.

        Args:
            has_minima: whether minima lie beside both.
        """
        if weights.scales is None:
            return self._constant(f"{name}.weight", weights.numbers), "", ""
        scales, factors = weights.pairs() if has_minima else (weights.scales, weights.factors)
        numbers = self._constant(f"{name}.numbers", weights.planes)
        made = self._constant(f"{name}.scales", scales)
        return numbers, made, "" if factors is None else self._constant(f"{name}.factors", factors)

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

    def _onnx(
        self, inputs: list[onnx.ValueInfoProto], outputs: list[onnx.ValueInfoProto], version: int
    ) -> onnx.ModelProto:
        graph = helper.make_graph(self._nodes, self._decoder.name, inputs, outputs, list(self._constants.values()))
        versions = [
            helper.make_opsetid("", version),
            *(helper.make_opsetid(domain, 1) for domain in (DMLVK, MICROSOFT)),
        ]
        return helper.make_model(graph, opset_imports=versions, ir_version=8, producer_name="dmlvk")
