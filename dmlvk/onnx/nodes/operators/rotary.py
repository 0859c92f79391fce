"""Rotary position embeddings: pairs of elements turned by angles that follow from their places in a sequence."""

from __future__ import annotations

import numpy as np
from onnx import TensorProto

from dmlvk.onnx.nodes.assembly import New
from dmlvk.onnx.nodes.translation import MICROSOFT, Node, translates
from dmlvk.onnx.nodes.values import NotOnDevice, Tensor

_BY = ("ELEMENT_WISE_MULTIPLY", "ELEMENT_WISE_SUBTRACT", "ELEMENT_WISE_ADD", "SPLIT", "JOIN", "GATHER")


_PLACES = 3  # Of a token in pictures: time, height and width


@translates("RotaryEmbedding", by=_BY, since=23)
def rotary_embedding(node: Node) -> None:
    """The angles are given for each place, or by the numbers of the places."""
    cosines, sines = node.tensor(1), node.tensor(2)
    if node.has(3):
        positions = node.tensor(3)
        cosines, sines = (rows_of(node, cache, positions) for cache in (cosines, sines))
    _embed(node, cosines, sines)


@translates("RotaryEmbedding", by=_BY, domain=MICROSOFT)
def rotary_embedding_of_onnx_runtime(node: Node) -> None:
    """The angles by the numbers of the places, or by that of the first one."""
    if node.integer("is_packed_batching") or node.real("scale", 1.0) != 1.0:
        raise NotOnDevice("is_packed_batching and scale are not there yet")
    if node.integer("rotary_embedding_dim") and not node.integer("num_heads"):
        raise NotOnDevice("rotary_embedding_dim needs num_heads")
    tensor, positions = node.tensor(0), node.tensor(1)
    length = tensor.shape[-2]
    if positions.shape in ((1,), ()):
        positions = positions.viewed((1,))
        positions = following(node, positions, length)
    cosines, sines = (rows_of(node, node.tensor(index), positions) for index in (2, 3))
    _embed(node, cosines, sines)


@translates("MRotaryEmbedding", by=_BY, domain=MICROSOFT, note="places of time, height and width for each token")
def rotary_embedding_of_pictures(node: Node) -> None:
    """Each pair of elements turns by one of three places of its token."""
    sections, half = node.list("mrope_section") or [], node.shape(2)[-1]
    if node.integer("is_packed_batching") or node.real("scale", 1.0) != 1.0:
        raise NotOnDevice("is_packed_batching and scale are not there yet")
    if node.integer("rotary_embedding_dim") and not node.integer("num_heads"):
        raise NotOnDevice("rotary_embedding_dim needs num_heads")
    positions = node.tensor(1)
    tables = [node.shape(index)[-1] for index in (2, 3)]
    are_places = positions.rank == _PLACES and positions.shape[0] == _PLACES
    if len(sections) != _PLACES or min(sections) < 0 or tables != [sum(sections)] * 2 or not are_places:
        raise NotOnDevice(f"mrope_section {sections} of {tables} pairs, by places {list(positions.shape)}")
    if node.integer("mrope_layout"):
        chosen = np.arange(half) % _PLACES
        chosen[np.arange(half) >= _PLACES * np.array(sections)[chosen]] = 0
    else:
        chosen = np.repeat(np.arange(_PLACES), sections)
    columns = node.assembly.constant(chosen * half + np.arange(half), TensorProto.INT64)
    parts = [part.viewed(positions.shape[1:]) for part in split(node, positions, [1] * _PLACES, axis=0)]

    def angles(index: int) -> Tensor:
        rows = join(node, [rows_of(node, node.tensor(index), part) for part in parts])
        return node.apply(
            "GATHER", input_tensor=rows, indices_tensor=columns.viewed((1, 1, half)), axis=2, index_dimensions=1
        )

    _embed(node, angles(2), angles(3))


def following(node: Node, first: Tensor, count: int) -> Tensor:
    """The numbers from one on: a number for each sequence becomes a row of so many."""
    steps = node.assembly.constant(np.arange(count, dtype=np.int64), TensorProto.INT64)
    return node.cast(first, TensorProto.INT64).viewed((first.shape[0], 1)) + steps


def rows_of(node: Node, cache: Tensor, positions: Tensor) -> Tensor:
    """The rows of a table that numbers name: batch, places, columns."""
    if cache.rank != 2 or positions.rank != 2:
        raise NotOnDevice(
            f"tables have two dimensions, and places; got {list(cache.shape)} and {list(positions.shape)}"
        )
    if positions.element not in (TensorProto.INT32, TensorProto.INT64):
        raise NotOnDevice("places are INT32 or INT64")
    return node.apply(
        "GATHER",
        input_tensor=cache.viewed((1, *cache.shape), (0, *cache.strides)),
        indices_tensor=positions.viewed((1, *positions.shape), (0, *positions.strides)),
        axis=1,
        index_dimensions=2,
    )


def _embed(node: Node, cosines: Tensor, sines: Tensor) -> None:
    """Sets the output: heads are an axis of the input, or lie in its last one."""
    tensor = node.tensor(0)
    heads, turned = node.integer("num_heads"), node.integer("rotary_embedding_dim")
    if tensor.rank == 3:
        batch, length, hidden = tensor.shape
        heads = heads or hidden // (2 * cosines.shape[-1])
        if heads < 1 or hidden % heads:
            raise NotOnDevice(f"{hidden} elements are not those of {heads} heads")
        headed = node.packed(tensor).viewed((batch, length, heads, hidden // heads))
        axis = 2
    elif tensor.rank == 4:
        headed, axis = tensor, 1
    else:
        raise NotOnDevice(f"needs 3 or 4 dimensions; got {tensor.rank}")
    made = rotated(
        node, headed, cosines.with_axis(axis), sines.with_axis(axis), turned, bool(node.integer("interleaved"))
    )
    node.set(made.viewed(tensor.shape))


def rotated(node: Node, tensor: Tensor, cosines: Tensor, sines: Tensor, turned: int, interleaved: bool) -> Tensor:
    """Pairs of elements of each row, turned by angles that broadcast to half of them.

    Args:
        turned: how many elements of a row are turned; 0: all.
        interleaved: whether pairs are neighbours; else they lie half of the turned elements apart.
    """
    size = tensor.shape[-1]
    turned = turned or size
    if not 0 < turned <= size or turned % 2 or {cosines.shape[-1], sines.shape[-1]} != {turned // 2}:
        raise NotOnDevice(f"{turned} of {size} elements, by {cosines.shape[-1]} cosines and {sines.shape[-1]} sines")
    lead, rest = tensor.shape[:-1], None
    if turned < size:
        tensor, rest = split(node, tensor, [turned, size - turned])
    if interleaved:
        wide = node.packed(tensor).viewed((*lead, turned // 2, 2))
        first, second = (part.viewed((*lead, turned // 2)) for part in split(node, wide, [1, 1]))
    else:
        first, second = split(node, tensor, [turned // 2, turned // 2])

    real = first * cosines - second * sines
    imaginary = first * sines + second * cosines
    if interleaved:
        made = join(node, [part.viewed((*lead, turned // 2, 1)) for part in (real, imaginary)]).viewed((*lead, turned))
        return made if rest is None else join(node, [made, rest])
    return join(node, [real, imaginary] if rest is None else [real, imaginary, rest])


def split(node: Node, tensor: Tensor, sizes: list[int], axis: int = -1) -> tuple[Tensor, ...]:
    """SPLIT along an axis, by default the last one."""
    axis %= tensor.rank
    outputs = [New(tensor.element, (*tensor.shape[:axis], size, *tensor.shape[axis + 1 :])) for size in sizes]
    return node.apply_all("SPLIT", input_tensor=tensor, output_tensors=outputs, axis=axis)


def join(node: Node, tensors: list[Tensor], axis: int = -1) -> Tensor:
    """JOIN along an axis, by default the last one."""
    return node.apply("JOIN", input_tensors=tensors, axis=axis % tensors[0].rank)
