"""Products of matrices."""

from __future__ import annotations

import itertools
import math

from dmlvk.onnx.nodes import batch_rules as batches
from dmlvk.onnx.nodes import emptiness
from dmlvk.onnx.nodes.translation import MICROSOFT, Node, translates
from dmlvk.onnx.nodes.values import NotOnDevice, Tensor, broadcast_shape
from dmlvk.operators import FusedActivation

_PLAIN, _TRANSPOSED = 0, 1  # DML_MATRIX_TRANSFORM


@translates("Gemm", by=["GEMM"], batch=batches.product)
def gemm(node: Node) -> None:
    """Alpha A B + beta C, where C broadcasts."""
    a, b = node.tensor(0), node.tensor(1)
    transposed = bool(node.integer("transA")), bool(node.integer("transB"))
    shape = a.shape[transposed[0]], b.shape[not transposed[1]]
    c = node.tensor(2).broadcast(shape) if node.has(2) else None
    node.set(
        product(
            node,
            a,
            b,
            c=c,
            transposed=transposed,
            alpha=node.real("alpha", 1.0),
            beta=node.real("beta", 1.0),
            activation=node.activation(),
        )
    )


@translates("MatMul", by=["GEMM"], batch=batches.product, empty=emptiness.zeros)
def matrix_product(node: Node) -> None:
    """As NumPy's matmul: vectors gain a dimension for the time being, leading dimensions broadcast."""
    node.set(matmul(node, node.tensor(0), node.tensor(1)))


@translates("FusedMatMul", by=["GEMM"], domain=MICROSOFT)
def fused_matrix_product(node: Node) -> None:
    """With the axes exchanged as is asked for, and a factor."""
    a, b = factors(node)
    node.set(matmul(node, a, b, alpha=node.real("alpha", 1.0)))


def factors(node: Node) -> tuple[Tensor, Tensor]:
    """The factors of FusedMatMul: a first axis may stand before those of the batch, and the last two be swapped."""
    a, b = (
        _first_inside(node.tensor(index)) if node.integer(f"transBatch{name}") else node.tensor(index)
        for index, name in enumerate("AB")
    )
    return _exchanged(a) if node.integer("transA") else a, _exchanged(b) if node.integer("transB") else b


def _first_inside(tensor: Tensor) -> Tensor:
    if tensor.rank < 3:
        return tensor
    return tensor.transposed([*range(1, tensor.rank - 1), 0, tensor.rank - 1])


def _exchanged(tensor: Tensor) -> Tensor:
    if tensor.rank < 2:
        return tensor
    return tensor.transposed([*range(tensor.rank - 2), tensor.rank - 1, tensor.rank - 2])


def matmul(node: Node, a: Tensor, b: Tensor, *, alpha: float = 1.0) -> Tensor:
    """NumPy's matmul of two tensors of one type."""
    if a.rank == 0 or b.rank == 0:
        raise NotOnDevice("a scalar is no matrix")
    left = a.with_axis(0) if a.rank == 1 else a
    right = b.with_axis(1) if b.rank == 1 else b
    if left.shape[-1] != right.shape[-2]:
        raise NotOnDevice(f"{list(a.shape)} and {list(b.shape)} have no product")
    batch = broadcast_shape(left.shape[:-2], right.shape[:-2])
    shape = (*batch, left.shape[-2], right.shape[-1])
    if math.prod(right.shape[:-2]) == 1 and left.is_packed:  # one matrix for all: all rows at once
        rows = left.viewed((math.prod(left.shape[:-1]), left.shape[-1]))
        made = product(node, rows, right.viewed(right.shape[-2:], right.strides[-2:]), alpha=alpha).viewed(shape)
    else:
        folded_left = _at_most_four(node, left.broadcast((*batch, *left.shape[-2:])))
        folded_right = _at_most_four(node, right.broadcast((*batch, *right.shape[-2:])))
        made = product(node, folded_left, folded_right, alpha=alpha).viewed(shape)
    dropped = [len(shape) - 2] if a.rank == 1 else []
    dropped += [len(shape) - 1] if b.rank == 1 else []
    return made.without_axes(dropped)


def _at_most_four(node: Node, tensor: Tensor) -> Tensor:
    """Leading dimensions folded until four are left."""
    if tensor.rank <= 4:
        return tensor
    folded = (math.prod(tensor.shape[:-3]), *tensor.shape[-3:])
    steps = list(zip(tensor.shape[:-3], tensor.strides[:-3], strict=True))
    if all(a[1] == b[0] * b[1] for a, b in itertools.pairwise(steps)):
        return tensor.viewed(folded, (steps[-1][1], *tensor.strides[-3:]))
    return node.packed(tensor).viewed(folded)


def largest_operand(node: Node) -> int:
    return node.device.info.limits.max_storage_buffer_range


def _columns(node: Node, tensor: Tensor, start: int, stop: int, rows: int) -> Tensor:
    row = tensor.viewed((1, tensor.shape[1]), (0, tensor.strides[1]))
    part = node.apply(
        "SLICE1",
        input_tensor=row,
        input_window_offsets=[0, start],
        input_window_sizes=[1, stop - start],
        input_window_strides=[1, 1],
    )
    return part.broadcast((rows, stop - start))


def product(
    node: Node,
    a: Tensor,
    b: Tensor,
    *,
    c: Tensor | None = None,
    transposed: tuple[bool, bool] = (False, False),
    alpha: float = 1.0,
    beta: float = 0.0,
    activation: FusedActivation | None = None,
) -> Tensor:
    """GEMM of tensors of one rank.

    A constant second matrix that is larger than what a kernel of the device may be given is multiplied in parts, which
    changes no result.
    """
    rows = a.shape[-1] if transposed[0] else a.shape[-2]
    columns = b.shape[-2] if transposed[1] else b.shape[-1]
    parts = -(-b.source.size_in_bytes // largest_operand(node))
    if parts > 1 and b.rank == 2 and b.source.array is not None and b.is_packed and (c is None or c.strides[0] == 0):
        bounds = [columns * number // parts for number in range(parts + 1)]
        made = []
        for start, stop in itertools.pairwise(bounds):
            factor = node.assembly.part(b, 0 if transposed[1] else 1, start, stop)
            summand = None if c is None else _columns(node, c, start, stop, rows)
            made.append(
                product(
                    node, a, factor, c=summand, transposed=transposed, alpha=alpha, beta=beta, activation=activation
                )
            )
        return node.apply("JOIN", input_tensors=made, axis=1)
    return node.apply(
        "GEMM",
        a_tensor=a,
        b_tensor=b,
        c_tensor=c,
        trans_a=_TRANSPOSED if transposed[0] else _PLAIN,
        trans_b=_TRANSPOSED if transposed[1] else _PLAIN,
        alpha=alpha,
        beta=beta,
        fused_activation=activation,
    )
