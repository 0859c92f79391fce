"""The ONNX model of a decoder, as onnxruntime-genai's own builder makes it: one fused node for each matter."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper

from dmlvk.language.model_graph import MICROSOFT, ModelGraph

POSITIONS = "logit_positions"
"""The initializer that says behind which of a run's tokens logits are wanted: the last one."""


class DecoderGraph(ModelGraph):
    """Tokens, mask and past in; the last position's logits and the new past out."""

    def model(self) -> onnx.ModelProto:
        """The whole model."""
        decoder, source = self._decoder, self._source
        self._lengths()
        embedding = source.matrix("token_embd.weight", decoder.vocabulary, decoder.hidden).unpacked()
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
        """What the heads of a layer give."""
        decoder, own = self._decoder, f"blk.{layer}"
        kind = decoder.layers[layer]
        inputs = [*self._projected(normed, own), *(f"past_key_values.{layer}.{part}" for part in ("key", "value"))]
        inputs += ["seqlens_k", "total_length"]
        if kind.angles is not None:
            inputs += [f"cosines.{kind.angles}", f"sines.{kind.angles}"]
        more: dict[str, Any] = {}
        if decoder.has_sinks:
            inputs += [""] * (11 - len(inputs))
            inputs.append(
                self._constant(f"{own}.sinks", self._source.vector(f"{own}.attn_sinks.weight", decoder.heads))
            )
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
                domain=MICROSOFT,
                num_heads=decoder.heads,
                kv_num_heads=decoder.key_heads,
                scale=float(decoder.scale),
                **more,
            )
        )
        return attended

    def _convolved(self, layer: int, normed: str) -> str:
        """Channels that are gated before and behind a convolution over a token and the last ones before it."""
        decoder, own, taps = self._decoder, f"blk.{layer}.shortconv", self._decoder.layers[layer].taps
        hidden = decoder.hidden
        wide = self._biased(normed, self._weights(f"blk.{layer}", "shortconv.in_proj", 3 * hidden, hidden))
        parts, sizes = (
            [f"{own}.{part}" for part in ("before", "behind", "x")],
            self._constant("thirds", np.array([hidden] * 3)),
        )
        self._nodes.append(helper.make_node("Split", [wide, sizes], parts, name=f"{own}.parts", axis=-1))
        gated = self._node("Mul", [parts[0], parts[2]], f"{own}.gated")
        new = self._node("Transpose", [gated], f"{own}.new", perm=[0, 2, 1])
        lines = self._node("Concat", [f"past_conv.{layer}", new], f"{own}.lines", axis=2)
        ends = [
            self._constant(name, np.array([number]))
            for name, number in (("last_taps", 1 - taps), ("end", 2**31 - 1), ("axis", 2))
        ]
        self._node("Slice", [lines, *ends], f"present_conv.{layer}")
        kernel = self._source.taps(f"{own}.conv.weight", hidden, taps)
        inputs = [lines, self._constant(f"{own}.conv.weight", kernel[:, None, :])]
        if "shortconv.out_proj" in decoder.biases:
            inputs.append(self._constant(f"{own}.conv.bias", self._source.vector(f"{own}.conv.bias", hidden)))
        made = self._node("Conv", inputs, f"{own}.convolved", group=hidden, kernel_shape=[taps])
        back = self._node("Transpose", [made], f"{own}.back", perm=[0, 2, 1])
        made = self._node("Mul", [parts[1], back], f"{own}.both")
        return self._biased(made, self._weights(f"blk.{layer}", "shortconv.out_proj", hidden, hidden))

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
        outputs = [helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["batch_size", 1, decoder.vocabulary])]
        for layer, kind in enumerate(decoder.layers):
            if kind.taps:
                sizes: list[int | str | None] = ["batch_size", decoder.hidden, kind.taps - 1]
                inputs.append(helper.make_tensor_value_info(f"past_conv.{layer}", TensorProto.FLOAT, sizes))
                outputs.append(helper.make_tensor_value_info(f"present_conv.{layer}", TensorProto.FLOAT, sizes))
                continue
            for part in ("key", "value"):
                for name, infos, length in (
                    ("past_key_values", inputs, "past_sequence_length"),
                    ("present", outputs, "total_sequence_length"),
                ):
                    shape: list[int | str | None] = ["batch_size", decoder.key_heads, length, decoder.head]
                    infos.append(helper.make_tensor_value_info(f"{name}.{layer}.{part}", TensorProto.FLOAT, shape))
        return self._onnx(inputs, outputs, 14)


__all__ = ["DecoderGraph"]
