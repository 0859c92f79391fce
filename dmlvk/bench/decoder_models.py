"""Decoders of the sizes that people run, with random weights, as onnxruntime-genai's model builder writes them."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

from dmlvk.language.decoder_graph import POSITIONS

_BLOCK = 32  # Elements of a row of weights that share a scale

_PATTERN_BYTES = 2**24  # Random bytes that large weights repeat: what a step takes does not depend on them


@dataclasses.dataclass(frozen=True)
class DecoderSize:
    layers: int  # how many
    hidden: int  # elements of a token's state
    heads: int  # of queries
    key_heads: int  # of keys and values
    head: int  # elements of a head
    inner: int  # elements between gate and down projection
    vocabulary: int  # tokens


SIZES = {
    "tiny": DecoderSize(2, 256, 4, 2, 64, 704, 1024),
    "135M": DecoderSize(30, 576, 9, 3, 64, 1536, 49152),
    "1B": DecoderSize(16, 2048, 32, 8, 64, 8192, 128256),
    "8B": DecoderSize(32, 4096, 32, 8, 128, 14336, 128256),
}


def write_decoder(path: Path, size: DecoderSize, positions: int, data_type: npt.DTypeLike = np.float16) -> None:
    """Writes a decoder with int4 weights (MatMulNBits) and logits of the last token only.

    Args:
        path: of the .onnx file; its weights go to one beside it with ``.data`` behind its name.
        positions: tokens for which there are angles.
        data_type: of everything but the weights.
    """
    import onnx

    with open(f"{path}.data", "wb") as file:
        onnx.save(_DecoderWriter(file, Path(f"{path}.data").name, size, np.dtype(data_type)).model(positions), path)


class _DecoderWriter:
    def __init__(self, file: BinaryIO, location: str, size: DecoderSize, data_type: np.dtype[Any]) -> None:
        from onnx import helper

        self._file, self._location, self._size, self._type = file, location, size, data_type
        self._element = helper.np_dtype_to_tensor_dtype(data_type)
        self._random = np.random.default_rng(0)
        self._pattern = self._random.integers(0, 256, _PATTERN_BYTES, np.uint8)
        self._nodes: list[Any] = []
        self._constants: list[Any] = []

    def model(self, positions: int) -> Any:
        """The model; its weights are written."""
        from onnx import TensorProto, helper

        size = self._size
        self._lengths(positions)
        x = self._node("Gather", [self._numbers("embedding", (size.vocabulary, size.hidden), 1.0), "input_ids"], "x")
        normed = self._node(
            "SimplifiedLayerNormalization", [x, self._weight("norm")], "normed", axis=-1, epsilon=1e-5, stash_type=1
        )
        inputs = [
            helper.make_tensor_value_info("input_ids", TensorProto.INT64, ["batch", "tokens"]),
            helper.make_tensor_value_info("attention_mask", TensorProto.INT64, ["batch", "total"]),
        ]
        outputs = [helper.make_tensor_value_info("logits", self._element, ["batch", 1, size.vocabulary])]
        for layer in range(size.layers):
            x, normed = self._layer(layer, x, normed)
            for part in ("key", "value"):
                for infos, name, rows in ((inputs, "past_key_values", "past"), (outputs, "present", "total")):
                    shape: list[int | str | None] = ["batch", size.key_heads, rows, size.head]
                    infos.append(helper.make_tensor_value_info(f"{name}.{layer}.{part}", self._element, shape))
        last = self._node("Gather", [normed, self._constant(POSITIONS, np.array([-1]))], "last_token", axis=1)
        self._product("logits", last, size.hidden, size.vocabulary)
        graph = helper.make_graph(self._nodes, "decoder", inputs, outputs, self._constants)
        versions = [helper.make_opsetid("", 14), helper.make_opsetid("com.microsoft", 1)]
        return helper.make_model(graph, opset_imports=versions, ir_version=8, producer_name="dmlvk")

    def _lengths(self, positions: int) -> None:
        from onnx import TensorProto

        one = self._constant("one", np.array([1]))
        self._node("ReduceSum", ["attention_mask", one], "length", keepdims=1)
        self._node("Sub", ["length", one], "last_place")
        self._node("Cast", ["last_place"], "ends", to=TensorProto.INT32)
        self._node("Shape", ["attention_mask"], "mask_shape")
        self._node("Gather", ["mask_shape", self._constant("second", np.array(1))], "mask_length", axis=0)
        self._node("Cast", ["mask_length"], "total_length", to=TensorProto.INT32)
        angles = np.arange(positions)[:, None] * 10000.0 ** (-np.arange(0, self._size.head, 2) / self._size.head)
        self._constant("cosines", np.cos(angles).astype(self._type))
        self._constant("sines", np.sin(angles).astype(self._type))

    def _layer(self, layer: int, x: str, normed: str) -> tuple[str, str]:
        size, own = self._size, f"layer.{layer}"
        caches = [f"past_key_values.{layer}.{part}" for part in ("key", "value")]
        attended = [
            self._product(f"{own}.{part}", normed, size.hidden, heads * size.head)
            for part, heads in (("q", size.heads), ("k", size.key_heads), ("v", size.key_heads))
        ]
        attended += [*caches, "ends", "total_length", "cosines", "sines"]
        present = [cache.replace("past_key_values", "present") for cache in caches]
        self._nodes.append(
            _made(
                "GroupQueryAttention",
                attended,
                [f"{own}.attended", *present],
                num_heads=size.heads,
                kv_num_heads=size.key_heads,
                do_rotary=1,
            )
        )
        product = self._product(f"{own}.o", f"{own}.attended", size.heads * size.head, size.hidden)
        x, normed = self._norm(f"{own}.middle", x, product)
        gate = self._product(f"{own}.gate", normed, size.hidden, size.inner)
        up = self._product(f"{own}.up", normed, size.hidden, size.inner)
        sigmoid = self._node("Sigmoid", [gate], f"{own}.sigmoid")
        silu = self._node("Mul", [gate, sigmoid], f"{own}.silu")
        inner = self._node("Mul", [silu, up], f"{own}.inner")
        return self._norm(f"{own}.end", x, self._product(f"{own}.down", inner, size.inner, size.hidden))

    def _norm(self, name: str, x: str, added: str) -> tuple[str, str]:
        inputs, outputs = [x, added, self._weight(name)], [f"{name}.normed", "", "", f"{name}.sum"]
        self._nodes.append(_made("SkipSimplifiedLayerNormalization", inputs, outputs, epsilon=1e-5))
        return f"{name}.sum", f"{name}.normed"

    def _weight(self, name: str) -> str:
        values = 1 + 0.1 * self._random.standard_normal(self._size.hidden)
        return self._constant(f"{name}.weight", values.astype(self._type))

    def _product(self, name: str, x: str, columns: int, rows: int) -> str:
        blocks = columns // _BLOCK
        weights = self._external(f"{name}.numbers", np.dtype(np.uint8), (rows, blocks, _BLOCK // 2))
        # Numbers of four bits are -8 to 7, of which the root of the mean square is 4.6.
        scales = self._numbers(f"{name}.scales", (rows * blocks,), 1 / (4.6 * np.sqrt(columns)))
        self._nodes.append(
            _made("MatMulNBits", [x, weights, scales], [name], K=columns, N=rows, bits=4, block_size=_BLOCK)
        )
        return name

    def _numbers(self, name: str, shape: Sequence[int], scale: float) -> str:
        """Random numbers, many of which are the same."""
        few = ((self._random.random(65536) + 0.5) * self._random.choice([-scale, scale], 65536)).astype(self._type)
        return self._external(name, self._type, shape, few.view(np.uint8))

    def _external(
        self, name: str, data_type: np.dtype[Any], shape: Sequence[int], pattern: npt.NDArray[np.uint8] | None = None
    ) -> str:
        from onnx import TensorProto, helper

        contents = self._pattern if pattern is None else pattern
        start, left = self._file.tell(), int(np.prod(shape)) * data_type.itemsize
        tensor = TensorProto(name=name, dims=shape, data_location=TensorProto.EXTERNAL)
        tensor.data_type = helper.np_dtype_to_tensor_dtype(data_type)
        for key, value in (("location", self._location), ("offset", str(start)), ("length", str(left))):
            tensor.external_data.add(key=key, value=value)
        while left:
            left -= self._file.write(contents[:left].data)
        self._file.write(bytes(-self._file.tell() % 64))
        self._constants.append(tensor)
        return name

    def _constant(self, name: str, array: npt.NDArray[Any]) -> str:
        from onnx import numpy_helper

        if all(constant.name != name for constant in self._constants):
            self._constants.append(numpy_helper.from_array(array, name))
        return name

    def _node(self, operator: str, inputs: list[str], output: str, **attributes: Any) -> str:
        self._nodes.append(_made(operator, inputs, [output], **attributes))
        return output


_MICROSOFT = ("MatMulNBits", "GroupQueryAttention", "SkipSimplifiedLayerNormalization")


def _made(operator: str, inputs: list[str], outputs: list[str], **attributes: Any) -> Any:
    from onnx import helper

    domain = "com.microsoft" if operator in _MICROSOFT else ""
    return helper.make_node(operator, inputs, outputs, name=outputs[0], domain=domain, **attributes)
