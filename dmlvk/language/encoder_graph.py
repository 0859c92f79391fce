"""The ONNX model of what makes vectors, or a score, of whole texts: all tokens at once, and no caches."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper

from dmlvk.language.model_graph import MICROSOFT, ModelGraph
from dmlvk.language.pooling import Head
from dmlvk.language.weights import Matrix


class EncoderGraph(ModelGraph):
    """Texts of one length in; a vector of each out."""

    def model(self, head: Head) -> onnx.ModelProto:
        """The whole model.

        Args:
            head: what becomes of the states.
        """
        decoder, source = self._decoder, self._source
        self._source.drop("output.weight")
        states = self._states(source.matrix("token_embd.weight", decoder.vocabulary, decoder.hidden).unpacked())
        made = self._pooled(states, head.pooling)
        for number, layer in enumerate(head.layers):
            name = f"head.{number}"
            made = self._biased(made, (name, Matrix(32, layer.weights), layer.bias))
            if layer.has_tanh:
                made = self._node("Tanh", [made], f"{name}.tanh")
        if head.is_normalized:
            made = self._node("LpNormalization", [made], "normalized", axis=-1, p=2)
        self._node("Identity", [made], "vectors")
        names = ["input_ids", *(["token_type_ids"] if decoder.segments else [])]
        inputs = [helper.make_tensor_value_info(name, TensorProto.INT64, ["texts", "tokens"]) for name in names]
        width = head.layers[-1].weights.shape[0] if head.layers else decoder.hidden
        return self._onnx(inputs, [helper.make_tensor_value_info("vectors", TensorProto.FLOAT, ["texts", width])], 25)

    def _pooled(self, states: str, pooling: str) -> str:
        """One vector of a text's states."""
        if pooling == "mean":
            return self._node("ReduceMean", [states, self._constant("one", np.array([1]))], "pooled", keepdims=0)
        place = self._constant("place", np.array(0 if pooling == "first" else -1))
        return self._node("Gather", [states, place], "pooled", axis=1)

    def _attended(self, layer: int, normed: str) -> str:
        decoder, own = self._decoder, f"blk.{layer}"
        kind = decoder.layers[layer]
        inputs = []
        for part, tensor in zip("qkv", self._parts(own, normed), strict=True):
            made, heads = tensor, decoder.heads if part == "q" else decoder.key_heads
            if decoder.has_head_norms and part != "v":
                made = self._of_heads(own, part, made, heads)
            if kind.angles is not None and part != "v":
                tables = [self._constant("start", np.array([0])), f"cosines.{kind.angles}", f"sines.{kind.angles}"]
                is_whole = 2 * len(decoder.angles[kind.angles].steps) == decoder.head
                made = self._node(
                    "RotaryEmbedding",
                    [made, *tables],
                    f"{own}.{part}.turned",
                    domain=MICROSOFT,
                    interleaved=int(self._source.has_pairs),
                    num_heads=heads,
                    rotary_embedding_dim=0 if is_whole else 2 * len(decoder.angles[kind.angles].steps),
                )
            inputs.append(made)
        more: dict[str, Any] = {"is_causal": int(decoder.is_causal)}
        if kind.window:
            more["left_window_size"] = kind.window - 1
            if not decoder.is_causal:
                more["right_window_size"] = kind.window - 1
        return self._node(
            "Attention",
            inputs,
            f"{own}.attended",
            q_num_heads=decoder.heads,
            kv_num_heads=decoder.key_heads,
            scale=float(decoder.scale),
            softcap=decoder.attention_cap,
            **more,
        )

    def _parts(self, own: str, normed: str) -> list[str]:
        """Queries, keys and values, each for itself."""
        decoder = self._decoder
        projected = self._projected(normed, own)
        if projected[1]:
            return projected
        sizes = [heads * decoder.head for heads in (decoder.heads, decoder.key_heads, decoder.key_heads)]
        lengths = self._constant("projected.sizes", np.array(sizes))
        names = [f"{own}.{part}" for part in "qkv"]
        self._nodes.append(helper.make_node("Split", [projected[0], lengths], names, name=f"{own}.split", axis=-1))
        return names

    def _of_heads(self, own: str, part: str, tensor: str, heads: int) -> str:
        """Heads, normalized each for itself."""
        decoder = self._decoder
        shapes = [np.array([0, 0, heads, decoder.head]), np.array([0, 0, heads * decoder.head])]
        apart, together = (self._constant(f"shape.{heads}.{len(shape)}", shape) for shape in shapes)
        headed = self._node("Reshape", [tensor, apart], f"{own}.{part}.heads")
        weights, epsilon = self._norm(f"{own}.attn_{part}_norm", decoder.head), decoder.epsilon
        name = "SimplifiedLayerNormalization"
        normed = self._node(name, [headed, weights], f"{own}.{part}.normed", axis=-1, epsilon=epsilon, stash_type=1)
        return self._node("Reshape", [normed, together], f"{own}.{part}.joined")


__all__ = ["EncoderGraph"]
