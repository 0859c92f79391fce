"""The ONNX model of a decoder, as onnxruntime-genai's own builder makes it: one fused node for each matter."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper

from dmlvk.language.decoder import DeltaRule
from dmlvk.language.model_graph import ModelGraph
from dmlvk.language.weight_nodes import MICROSOFT
from dmlvk.language.weights import Matrix, Numbers

POSITIONS = "logit_positions"
"""The initializer that says behind which of a run's tokens logits are wanted: the last one."""


class DecoderGraph(ModelGraph):
    """Tokens, mask and past in; the last position's logits and the new past out."""

    def model(self) -> onnx.ModelProto:
        decoder, source = self._decoder, self._source
        self._lengths()
        embedding = source.matrix("token_embd.weight", decoder.vocabulary, decoder.hidden).in_order()
        embedding = embedding.quantized(source.quantize)
        last = self._node(
            "Gather", [self._states(embedding), self._constant(POSITIONS, np.array([-1]))], "last_state", axis=1
        )
        head, name = embedding, "token_embd"
        if source.is_tied is True:
            source.drop("output.weight")
        elif source.has("output.weight") or source.is_tied is False:
            head, name = source.matrix("output.weight", decoder.vocabulary, decoder.hidden), "output"
            head = head.quantized(source.quantize)
        logits = self._scaled(self._product(last, head, name), 1 / decoder.logit_divisor, "logits.divided")
        if decoder.logit_cap:
            part = self._scaled(logits, 1 / decoder.logit_cap, "logits.part")
            self._scaled(self._node("Tanh", [part], "logits.tanh"), decoder.logit_cap, "logits.kept")
        self._nodes[-1].output[0] = "logits"
        return self._finished()

    def _attended(self, layer: int, normed: str) -> str:
        decoder, own = self._decoder, f"blk.{layer}"
        kind = decoder.layers[layer]
        inputs = [*self._operands(layer, normed), "seqlens_k", "total_length"]
        if kind.angles is not None:
            inputs += [f"cosines.{kind.angles}", f"sines.{kind.angles}"]
        more: dict[str, Any] = {}
        if decoder.has_sinks:
            inputs += [""] * (11 - len(inputs))
            inputs.append(
                self._constant(f"{own}.sinks", self._source.vector(f"{own}.attn_sinks.weight", decoder.heads))
            )
        if decoder.has_head_norms and not decoder.has_norms_apart:
            inputs += [""] * (14 - len(inputs))
            inputs += [self._norm(f"{own}.attn_{part}_norm", kind.head) for part in "qk"]
            more["qk_norm_epsilon"] = decoder.epsilon
        if kind.window:
            more["local_window_size"] = kind.window
        if decoder.attention_cap:
            more["softcap"] = decoder.attention_cap
        if kind.angles is not None:
            more |= {"do_rotary": 1, "rotary_interleaved": int(self._source.has_pairs)}
        more |= {"num_heads": decoder.heads, "kv_num_heads": kind.key_heads, "scale": float(decoder.scale)}
        caches = [f"present.{layer}.{part}" for part in ("key", "value") if kind.source is None]
        outputs = [f"{own}.attended", *caches]
        return self._several("GroupQueryAttention", inputs, outputs, f"{own}.attention", MICROSOFT, **more)[0]

    def _operands(self, layer: int, normed: str) -> list[str]:
        """Queries, new keys and values, and the caches with those before."""
        decoder, kind = self._decoder, self._decoder.layers[layer]
        caches = [f"past_key_values.{layer}.{part}" for part in ("key", "value")]
        if not decoder.has_norms_apart:
            return [*self._projected(normed, layer), *caches]
        parts = self._normed_parts(layer, normed)
        if kind.source is None:
            return [*parts, *caches]
        width = self._sizes(layer)[1]
        none = self._constant(f"no_keys.{width}", np.zeros((1, 0, width), np.float32))
        return [*parts, none, none, *(f"present.{kind.source}.{part}" for part in ("key", "value"))]

    def _convolved(self, layer: int, normed: str) -> str:
        """Channels that are gated before and behind a convolution over a token and the last ones before it."""
        decoder, own, taps = self._decoder, f"blk.{layer}.shortconv", self._decoder.layers[layer].taps
        hidden = decoder.hidden
        wide = self._biased(normed, self._weights(f"blk.{layer}", "shortconv.in_proj", 3 * hidden, hidden))
        parts = [f"{own}.{part}" for part in ("before", "behind", "x")]
        self._split(wide, [hidden] * 3, "thirds", parts, f"{own}.parts")
        gated = self._node("Mul", [parts[0], parts[2]], f"{own}.gated")
        bias = self._source.vector(f"{own}.conv.bias", hidden) if "shortconv.out_proj" in decoder.biases else None
        back = self._causal(layer, f"{own}.conv", gated, self._source.taps(f"{own}.conv.weight", hidden, taps), bias)
        made = self._node("Mul", [parts[1], back], f"{own}.both")
        return self._biased(made, self._weights(f"blk.{layer}", "shortconv.out_proj", hidden, hidden))

    def _causal(
        self, layer: int, own: str, operand: str, taps: Numbers, bias: Numbers | None, activation: str = "none"
    ) -> str:
        """Each channel's own taps over a token and the last ones before it, whose state the layer has."""
        new = self._node("Transpose", [operand], f"{own}.new", perm=[0, 2, 1])
        inputs = [new, self._constant(f"{own}.weight", taps[:, None, :])]
        inputs += ["" if bias is None else self._constant(f"{own}.bias", bias), f"past_conv.{layer}"]
        outputs, name = [f"{own}.convolved", f"present_conv.{layer}"], f"{own}.convolution"
        made = self._several("CausalConvWithState", inputs, outputs, name, MICROSOFT, activation=activation)
        return self._node("Transpose", made[:1], f"{own}.back", perm=[0, 2, 1])

    def _delta(self, layer: int, normed: str) -> str:
        """Convolved queries, keys and values by the gated delta rule; what heads give is normalized, and gated."""
        decoder, source, own = self._decoder, self._source, f"blk.{layer}"
        delta = decoder.delta
        assert delta is not None  # of such a layer
        sizes = [delta.keys, delta.keys, delta.values]
        wide, gate = (self._biased(normed, weights) for weights in self._delta_weights(own, delta))
        taps = source.taps(f"{own}.ssm_conv1d.weight", sum(sizes), decoder.layers[layer].taps)
        made = self._causal(layer, f"{own}.ssm_conv1d", wide, taps, None, "silu")
        parts = [f"{own}.delta.{part}" for part in ("queries", "keys", "values")]
        self._split(made, sizes, "delta.sizes", parts, f"{own}.delta.parts")
        query, key = (self._of_length_one(part, delta) for part in parts[:2])
        attended, _ = self._several(
            "LinearAttention",
            [query, key, parts[2], f"past_recurrent.{layer}", *self._delta_gates(own, normed, delta)],
            [f"{own}.delta.attended", f"present_recurrent.{layer}"],
            f"{own}.delta",
            MICROSOFT,
            q_num_heads=delta.heads if delta.is_tiled else delta.key_heads,
            kv_num_heads=delta.heads,
            scale=delta.size**-0.5,
        )
        weights = self._constant(f"{own}.ssm_norm.weight", source.vector(f"{own}.ssm_norm.weight", delta.value_size))
        inputs = [attended, weights, gate]
        made = self._node("GatedRMSNorm", inputs, f"{own}.delta.made", domain=MICROSOFT, epsilon=decoder.epsilon)
        return self._biased(made, self._weights(own, "ssm_out", decoder.hidden, delta.values))

    def _of_length_one(self, rows: str, delta: DeltaRule) -> str:
        """Heads of queries or keys, normalized and, where heads of values take turns with them, repeated."""
        shape = self._constant("delta.key_heads", np.array([0, 0, delta.key_heads, delta.size]))
        heads = self._node("Reshape", [rows, shape], f"{rows}.heads")
        weights = self._constant("delta.length", np.full(delta.size, delta.size**-0.5, np.float32))
        # a sum of squares and 1e-6 is as many means and their parts of it
        made = self._root_mean_square(heads, weights, 1e-6 / delta.size, f"{rows}.normed")
        flat = self._constant("delta.key_rows", np.array([0, 0, delta.keys]))
        made = self._node("Reshape", [made, flat], f"{rows}.flat")
        if not delta.is_tiled:
            return made
        return self._node("Concat", [made] * (delta.heads // delta.key_heads), f"{rows}.repeated", axis=-1)

    def _delta_weights(self, own: str, delta: DeltaRule) -> list[tuple[str, Matrix, Numbers | None]]:
        """Of queries, keys and values, and of gates; some files have all in one, for each head of keys in turn."""
        hidden, keys, values = self._decoder.hidden, delta.keys, delta.values
        if not self._source.has(f"{own}.ssm_in.weight"):
            parts = (("attn_qkv", 2 * keys + values), ("attn_gate", values))
            return [self._weights(own, part, rows, hidden) for part, rows in parts]
        name, weights, bias = self._weights(own, "ssm_in", 2 * (keys + values), hidden)
        each = values // delta.key_heads
        rows = np.arange(2 * (keys + values)).reshape(delta.key_heads, -1)
        ends = np.cumsum([0, delta.size, delta.size, each, each])
        places = [rows[:, first:last].reshape(-1) for first, last in itertools.pairwise(ends)]
        return [
            (f"{name}.{part}", weights.chosen(chosen), None if bias is None else bias[chosen])
            for part, chosen in (("qkv", np.concatenate(places[:3])), ("z", places[3]))
        ]

    def _delta_gates(self, own: str, normed: str, delta: DeltaRule) -> list[str]:
        """Logarithms of what states are multiplied by, and how much of a difference is written."""
        source, hidden, heads = self._source, self._decoder.hidden, delta.heads
        if source.has(f"{own}.ssm_ba.weight"):
            both = source.matrix(f"{own}.ssm_ba.weight", 2 * heads, hidden)
            rows = np.arange(2 * heads).reshape(delta.key_heads, 2, -1)
            beta, alpha = (both.chosen(rows[:, half].reshape(-1)) for half in range(2))
        else:
            beta, alpha = (source.matrix(f"{own}.ssm_{part}.weight", heads, hidden) for part in ("beta", "alpha"))
        decay = source.vector(f"{own}.ssm_a", heads)
        inputs = [
            self._product(normed, alpha, f"{own}.ssm_alpha"),
            self._constant(f"{own}.ssm_dt.bias", source.vector(f"{own}.ssm_dt.bias", heads)),
            self._constant(f"{own}.ssm_a", decay if source.is_of_llama_cpp else -np.exp(decay)),
            self._product(normed, beta, f"{own}.ssm_beta"),
        ]
        made = [f"{own}.delta.{part}" for part in ("decay", "rate")]
        return self._several("LinearAttentionGate", inputs, made, f"{own}.delta.both_gates", MICROSOFT)

    def _lengths(self) -> None:
        """How many tokens there are with the new ones, less one; and how many the mask has room for."""
        self._node("ReduceSum", ["attention_mask", self._constant("one", np.array([1]))], "length", keepdims=1)
        self._node("Sub", ["length", self._constant("one", np.array([1]))], "last_position")
        self._node("Cast", ["last_position"], "seqlens_k", to=TensorProto.INT32)
        self._node("Shape", ["attention_mask"], "mask_shape")
        self._node("Gather", ["mask_shape", self._constant("second", np.array(1))], "mask_length", axis=0)
        self._node("Cast", ["mask_length"], "total_length", to=TensorProto.INT32)

    def _finished(self) -> onnx.ModelProto:
        decoder = self._decoder
        inputs = [
            helper.make_tensor_value_info("input_ids", TensorProto.INT64, ["batch_size", "sequence_length"]),
            helper.make_tensor_value_info("attention_mask", TensorProto.INT64, ["batch_size", "total_sequence_length"]),
        ]
        shape: list[int | str | None]
        outputs = [helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["batch_size", 1, decoder.vocabulary])]
        for layer, kind in enumerate(decoder.layers):
            if kind.taps:
                for name, sizes in self._state_sizes(kind.taps).items():
                    shape = ["batch_size", *sizes]
                    inputs.append(helper.make_tensor_value_info(f"past_{name}.{layer}", TensorProto.FLOAT, shape))
                    outputs.append(helper.make_tensor_value_info(f"present_{name}.{layer}", TensorProto.FLOAT, shape))
                continue
            for part in ("key", "value") if kind.source is None else ():
                for name, infos, length in (
                    ("past_key_values", inputs, "past_sequence_length"),
                    ("present", outputs, "total_sequence_length"),
                ):
                    shape = ["batch_size", kind.key_heads, length, kind.head]
                    infos.append(helper.make_tensor_value_info(f"{name}.{layer}.{part}", TensorProto.FLOAT, shape))
        return self._onnx(inputs, outputs, 14)

    def _state_sizes(self, taps: int) -> dict[str, list[int]]:
        """The states of a layer that has a convolution."""
        delta = self._decoder.delta
        if delta is None:
            return {"conv": [self._decoder.hidden, taps - 1]}
        channels = 2 * delta.keys + delta.values
        return {"conv": [channels, taps - 1], "recurrent": [delta.heads, delta.size, delta.value_size]}
