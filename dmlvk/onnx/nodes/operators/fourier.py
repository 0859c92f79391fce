"""DFT and STFT: products with matrices of cosines and sines, which the host makes in FLOAT64."""

from __future__ import annotations

import math

import numpy as np
from onnx import TensorProto

from dmlvk.onnx.nodes.operators.matrix import matmul
from dmlvk.onnx.nodes.translation import FLOATS, Node, translates
from dmlvk.onnx.nodes.values import Array, NotOnDevice, Tensor

_LARGEST_MATRIX = 2**24  # Elements; a longer transform is the host's, whose fast one is better then

_NOTE = "of FLOAT types, up to lengths of about 2,000"


@translates("DFT", by=["GEMM"], note=_NOTE)
def dft(node: Node) -> None:
    """One axis of real or complex numbers, forwards and backwards."""
    tensor = node.tensor(0)
    node.check_element(0, *FLOATS)
    if node.version >= 20:
        said = node.integers(2)[0] if node.has(2) else -2
    else:
        said = node.integer("axis", 1)
    axis, parts = node.axis(said, tensor.rank), tensor.shape[-1]
    if parts not in (1, 2) or axis == tensor.rank - 1:
        raise NotOnDevice("the last axis must have the 1 or 2 parts of each number, and is not transformed")
    is_inverse, is_onesided = bool(node.integer("inverse")), bool(node.integer("onesided"))
    count = tensor.shape[axis]
    length = node.integers(1)[0] if node.has(1) else 2 * (count - 1) if is_inverse and is_onesided else count
    if length < 1:
        raise NotOnDevice(f"a length of {length}")
    order = [*(index for index in range(tensor.rank - 1) if index != axis), axis, tensor.rank - 1]
    rows = node.cast(node.packed(tensor.transposed(order)), TensorProto.FLOAT)
    matrix = _matrix(count, parts, length, inverse=is_inverse, onesided=is_onesided)
    others = [tensor.shape[index] for index in order[:-2]]
    made = _transformed(node, rows.viewed((math.prod(others), count * parts)), matrix)
    back = [order.index(index) for index in range(tensor.rank)]
    node.set(node.cast(made.viewed((*others, *matrix.shape[2:])).transposed(back), tensor.element))


@translates("STFT", by=["GEMM"], note=_NOTE)
def stft(node: Node) -> None:
    """Windows are overlapping views of the signal; a known window becomes part of the matrix."""
    signal, step = node.tensor(0), node.integers(1)[0]
    node.check_element(0, *FLOATS)
    if signal.rank == 2:  # ONNX Runtime takes real signals so
        signal = signal.with_axis(2)
    if signal.rank != 3 or signal.shape[2] not in (1, 2) or step < 1:
        raise NotOnDevice(f"a signal {list(signal.shape)} in steps of {step}")
    batch, samples, parts = signal.shape
    window_size = node.shape(2)[0] if node.has(2) else 0
    length = node.integers(3)[0] if node.has(3) else window_size or samples
    used = window_size or length
    if not 1 <= used <= length <= samples:
        raise NotOnDevice(f"a window of {used} in frames of {length} of {samples} samples")
    frames = 1 + (samples - length) // step
    matrix = _matrix(used, parts, length, inverse=False, onesided=bool(node.integer("onesided", 1)))
    packed = node.cast(node.packed(signal), TensorProto.FLOAT)
    rows = packed.viewed((batch, frames, used * parts), (samples * parts, step * parts, 1))
    window = node.known(2) if node.has(2) else None
    if window is not None:
        matrix = window.astype(np.float64)[:, None, None, None] * matrix
    elif node.has(2):
        weights = node.packed(node.cast(node.tensor(2), TensorProto.FLOAT))
        repeated = weights.viewed((1, 1, used, parts), (0, 0, 1, 0))
        seen = rows.viewed((batch, frames, used, parts), (samples * parts, step * parts, parts, 1))
        rows = (seen * repeated).viewed((batch, frames, used * parts))
    made = _transformed(node, rows, matrix)
    node.set(node.cast(made.viewed((batch, frames, *matrix.shape[2:])), signal.element))


def _transformed(node: Node, rows: Tensor, matrix: Array) -> Tensor:
    flat = matrix.reshape(math.prod(matrix.shape[:2]), -1).astype(np.float32)
    return matmul(node, rows, node.assembly.constant(np.ascontiguousarray(flat), TensorProto.FLOAT))


def _matrix(count: int, parts: int, length: int, *, inverse: bool, onesided: bool) -> Array:
    """By what each part of each input is multiplied, for each part of each output: inputs, parts, outputs, parts."""
    outputs = length // 2 + 1 if onesided and not inverse else length
    if count * parts * outputs * 2 > _LARGEST_MATRIX:
        raise NotOnDevice(f"a transform of {length} numbers, which a fast one computes better")
    inputs = np.arange(count)
    angles = 2 * np.pi / length * (inputs[:, None] * np.arange(outputs)[None, :] % length)
    cosines, sines = np.cos(angles), np.sin(angles) * (1 if inverse else -1)
    if inverse and onesided:  # the other half are the conjugates
        twice = np.where((inputs == 0) | (2 * inputs == length), 1.0, 2.0) * (inputs <= length // 2) / length
        return np.asarray(np.stack([cosines, -sines][:parts], 1)[..., None] * twice[:, None, None, None])
    scale = (inputs < length)[:, None] * (1 / length if inverse else 1.0)
    by_real = np.stack([cosines, sines], -1) * scale[..., None]
    by_imaginary = np.stack([-sines, cosines], -1) * scale[..., None]
    return np.stack([by_real, by_imaginary][:parts], 1)
