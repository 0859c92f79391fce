"""Nodes of mixtures of experts: which ones a token chooses, and what these give."""

from __future__ import annotations

import numpy as np
from onnx import TensorProto

from dmlvk.language.decoder import Mixture
from dmlvk.language.weight_nodes import DMLVK, MICROSOFT, WeightNodes, packing
from dmlvk.language.weights import Matrix, Numbers


class MixtureNodes(WeightNodes):
    """Those of a layer's mixture, and the gates that other layers have, too."""

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
        return self._node("Add", [made, self._shared(own, normed, mixture)], f"{own}.with_shared")

    def _shared(self, own: str, normed: str, mixture: Mixture) -> str:
        """What the expert gives that all tokens take."""
        hidden, wide, name = self._decoder.hidden, mixture.shared, f"{own}.ffn_gate_inp_shexp"
        gate, up = (
            self._biased(normed, self._weights(own, f"ffn_{part}_shexp", wide, hidden)) for part in ("gate", "up")
        )
        inner = self._node("Mul", [self._gated(gate, f"{own}.shared"), up], f"{own}.shared.inner")
        down = self._biased(inner, self._weights(own, "ffn_down_shexp", hidden, wide))
        if not mixture.has_shared_gate:
            return down
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
        outputs = [f"{name}.best", f"{name}.numbers"]
        best, numbers = self._several("TopK", [scores, count], outputs, f"{name}.choice", axis=-1)
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
            last, least = (
                self._constant("last", np.array([-1])),
                self._constant("least", np.array(mixture.least, np.float32)),
            )
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
        halves = [f"{own}.gate", f"{own}.up"]
        return self._split(made, [mixture.feed_forward] * 2, "halves", halves, f"{own}.halves")

    def _by_experts(
        self, name: str, matrices: tuple[Matrix, Numbers | None], rows: str, experts: str, mixture: Mixture
    ) -> str:
        """Rows by the matrices of the experts that are chosen for each."""
        weights, biases = matrices
        high = weights.rows // mixture.experts
        numbers, scales, factors = self._matrix(name, weights)
        operands = [rows, numbers, experts, scales, self._zeros(name, weights), factors]
        made = self._node("MatMulExperts", operands, f"{name}.product", domain=DMLVK, N=high, **packing(weights))
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

    def _gated(self, gate: str, own: str) -> str:
        kind = self._decoder.gate
        if kind == "silu":
            return self._node("Mul", [gate, self._node("Sigmoid", [gate], f"{own}.share")], f"{own}.gated")
        return self._node("FastGelu" if kind == "tanh" else "Gelu", [gate], f"{own}.gated", domain=MICROSOFT)
