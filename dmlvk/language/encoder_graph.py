"""The ONNX model of what makes vectors, or a score, of whole texts: all tokens at once, and no caches."""

from __future__ import annotations

from typing import Any, BinaryIO

import numpy as np
import onnx
from onnx import TensorProto, helper

from dmlvk.language.architectures import Decoder
from dmlvk.language.model_graph import MICROSOFT, ModelGraph
from dmlvk.language.pooling import Head
from dmlvk.language.source import Source
from dmlvk.language.weights import Matrix


class EncoderGraph(ModelGraph):
    """Texts of one length in; a vector of each out."""

    def __init__(self, source: Source, decoder: Decoder, data: BinaryIO) -> None:
        super().__init__(source, decoder, data)
        self._keys_and_values: dict[int, list[str]] = {}  # of layers, which later ones may see, too

    def model(self, head: Head) -> onnx.ModelProto:
        """The whole model.

        Args:
            head: what becomes of the states.
        """
        decoder, source = self._decoder, self._source
        self._source.drop("output.weight")
        states = self._states(source.matrix("token_embd.weight", decoder.vocabulary, decoder.hidden).in_order())
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
        if pooling == "mean":
            return self._node("ReduceMean", [states, self._constant("one", np.array([1]))], "pooled", keepdims=0)
        place = self._constant("place", np.array(0 if pooling == "first" else -1))
        return self._node("Gather", [states, place], "pooled", axis=1)

    def _attended(self, layer: int, normed: str) -> str:
        decoder, kind = self._decoder, self._decoder.layers[layer]
        parts = self._normed_parts(layer, normed)
        inputs = [self._turned(layer, part, tensor) for part, tensor in zip("qkv", parts, strict=False)]
        if kind.source is None:
            self._keys_and_values[layer] = inputs[1:]
        else:
            inputs += self._keys_and_values[kind.source]
        more: dict[str, Any] = {"is_causal": int(decoder.is_causal)}
        if kind.window:
            more["left_window_size"] = kind.window - 1
            if not decoder.is_causal:
                more["right_window_size"] = kind.window - 1
        return self._node(
            "Attention",
            inputs,
            f"blk.{layer}.attended",
            q_num_heads=decoder.heads,
            kv_num_heads=kind.key_heads,
            scale=float(decoder.scale),
            softcap=decoder.attention_cap,
            **more,
        )

    def _turned(self, layer: int, part: str, tensor: str) -> str:
        """Queries and keys, turned by their positions."""
        decoder, kind = self._decoder, self._decoder.layers[layer]
        if kind.angles is None or part == "v":
            return tensor
        turned = 2 * len(decoder.angles[kind.angles].steps)
        return self._node(
            "RotaryEmbedding",
            [tensor, self._constant("start", np.array([0])), f"cosines.{kind.angles}", f"sines.{kind.angles}"],
            f"blk.{layer}.{part}.turned",
            domain=MICROSOFT,
            interleaved=int(self._source.has_pairs),
            num_heads=decoder.heads if part == "q" else kind.key_heads,
            rotary_embedding_dim=0 if turned == kind.head else turned,
        )
