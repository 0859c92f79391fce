"""The layers of ONNX models of all architectures."""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np

from dmlvk.language.decoder import Mixture
from dmlvk.language.mixture_nodes import MixtureNodes
from dmlvk.language.weight_nodes import MICROSOFT
from dmlvk.language.weights import Matrix, Numbers


class ModelGraph(MixtureNodes, ABC):
    """The layers that all models have, but for what their heads look at."""

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
            normed = self._normed(state, "blk.0.attn_norm") if decoder.has_pre_norms else state
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
        elif not decoder.has_pre_norms:
            norms = "", norms[1] if is_last else ""
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
        self._split(flat, [wide] * count, f"{name}.sizes", parts, f"{name}.parts")
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

    def _sizes(self, layer: int) -> list[int]:
        """Elements of all queries, keys and values of a token."""
        kind = self._decoder.layers[layer]
        return [heads * kind.head for heads in (self._decoder.heads, kind.key_heads, kind.key_heads)]

    def _parts(self, layer: int, normed: str) -> list[str]:
        """Queries, keys and values, each for itself."""
        projected, own = self._projected(normed, layer), f"blk.{layer}"
        if projected[1]:
            return projected
        names = [f"{own}.{part}" for part in "qkv"]
        return self._split(projected[0], self._sizes(layer), f"projected.sizes.{layer}", names, f"{own}.split")

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
        wanted = "qkv" if decoder.has_value_norms else "qk" if decoder.has_head_norms or decoder.has_wide_norms else ""
        return [
            self._of_heads(layer, part, tensor) if part in wanted else tensor
            for part, tensor in zip("qkv", parts, strict=False)
        ]

    def _of_heads(self, layer: int, part: str, tensor: str) -> str:
        """Heads of a layer, normalized each for itself, or all as one."""
        own, head, width = f"blk.{layer}", self._decoder.layers[layer].head, self._sizes(layer)["qkv".index(part)]
        if self._decoder.has_wide_norms:
            weights = self._norm(f"{own}.attn_{part}_norm", width)
            return self._root_mean_square(tensor, weights, self._decoder.epsilon, f"{own}.{part}.normed")
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
        if decoder.has_joined_heads:
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
        if not decoder.has_joined_gates:
            return [self._biased(normed, self._weights(own, f"ffn_{part}", wide, hidden)) for part in ("gate", "up")]
        name, weights, bias = self._weights(own, "ffn_up", 2 * wide, hidden)
        halves = []
        for part, start in (("gate", 0), ("up", wide)):
            some = None if bias is None else bias[start : start + wide]
            halves.append(self._biased(normed, (f"{name}.{part}", weights.part(start, start + wide), some)))
        return halves

    def _added(self, state: str, more: str, norm: str) -> tuple[str, str]:
        """The sum of two states, and the same normalized; without a norm as it is."""
        if not norm:
            return (self._node("Add", [state, more], f"{more}.added"),) * 2
        total, normed = f"{norm}.state", f"{norm}.normed"
        more = self._scaled(more, self._decoder.residual_scale, f"{norm}.residual")
        if self._decoder.normalizes_sums:
            normed = self._normed(self._node("Add", [state, more], total), norm)
            return normed, normed
        inputs, outputs = [state, more, self._norm(norm, self._decoder.hidden)], [normed, "", "", total]
        name = "SkipSimplifiedLayerNormalization"
        self._several(name, inputs, outputs, norm, MICROSOFT, epsilon=self._decoder.epsilon)
        return total, normed
