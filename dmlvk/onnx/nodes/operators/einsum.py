"""Einsum of one or two tensors: a transposition, sums, and a product of matrices or of elements."""

from __future__ import annotations

import math
import string

from onnx import TensorProto

from dmlvk.onnx.nodes import emptiness
from dmlvk.onnx.nodes.operators.matrix import matmul
from dmlvk.onnx.nodes.operators.reduction import reduced
from dmlvk.onnx.nodes.translation import FLOATS, Node, translates
from dmlvk.onnx.nodes.values import NotOnDevice, Tensor

_SUM = 10  # DML_REDUCE_FUNCTION


@translates("Einsum", note="of one or two tensors, no letter twice in one; others: host", empty=emptiness.zeros)
def einsum(node: Node) -> None:
    """Letters that only one tensor has and the result lacks are summed up first."""
    terms, result = _terms(node)
    tensors = node.tensors()
    if len(tensors) > 2:
        raise NotOnDevice("more than two tensors")
    sizes = _sizes(terms, tensors)
    element = tensors[0].element
    if element == TensorProto.FLOAT16 and len(tensors) > 1 and (set(terms[0]) ^ set(terms[1])) - set(result):
        tensors = [node.cast(tensor, TensorProto.FLOAT) for tensor in tensors]  # sums before the product round no more
    if len(tensors) == 1:
        made, letters = _summed(node, tensors[0], terms[0], set(result))
    else:
        made, letters = _product(node, tensors, terms, result, sizes)
    if set(letters) != set(result):
        raise NotOnDevice("the result has letters that no tensor has")
    node.set(node.cast(made.transposed([letters.index(letter) for letter in result]), element))


def _terms(node: Node) -> tuple[list[str], str]:
    """The letters of each tensor's axes and of the result's; those of an ellipsis are capital."""
    equation = node.text("equation").replace(" ", "")
    left, arrow, right = equation.partition("->")
    terms = left.split(",")
    if len(terms) != node.input_count:
        raise NotOnDevice(f"the equation {equation!r} is not of {node.input_count} tensors")
    counts = [len(node.shape(index)) - len(term.replace("...", "")) for index, term in enumerate(terms)]
    most = max((count for count, term in zip(counts, terms, strict=True) if "..." in term), default=0)
    if min(counts) < 0 or any(count and "..." not in term for count, term in zip(counts, terms, strict=True)):
        raise NotOnDevice(f"the equation {equation!r} does not fit the tensors' axes")
    spare = [letter for letter in string.ascii_uppercase if letter not in equation][:most]
    if len(spare) < most:
        raise NotOnDevice("too many axes")
    found = [
        term.replace("...", "".join(spare[most - count :]) if count else "")
        for term, count in zip(terms, counts, strict=True)
    ]
    if any(len(set(term)) < len(term) for term in found):
        raise NotOnDevice("a letter twice in one tensor")
    if arrow:
        return found, right.replace("...", "".join(spare))
    letters = "".join(term.replace("...", "") for term in terms)
    return found, "".join(spare) + "".join(sorted(letter for letter in set(letters) if letters.count(letter) == 1))


def _sizes(terms: list[str], tensors: list[Tensor]) -> dict[str, int]:
    sizes: dict[str, int] = {}
    for term, tensor in zip(terms, tensors, strict=True):
        for letter, size in zip(term, tensor.shape, strict=True):
            if sizes.setdefault(letter, size) != size:
                raise NotOnDevice(f"the axes {letter!r} have different sizes")
    return sizes


def _summed(node: Node, tensor: Tensor, term: str, kept: set[str]) -> tuple[Tensor, str]:
    """The sum along all axes that are not kept."""
    axes = [axis for axis, letter in enumerate(term) if letter not in kept]
    if axes:
        tensor = reduced(node, _SUM, tensor, axes).without_axes(axes)
    return tensor, "".join(letter for letter in term if letter in kept)


def _product(
    node: Node, tensors: list[Tensor], terms: list[str], result: str, sizes: dict[str, int]
) -> tuple[Tensor, str]:
    a, left = _summed(node, tensors[0], terms[0], set(result) | set(terms[1]))
    b, right = _summed(node, tensors[1], terms[1], set(result) | set(terms[0]))
    batch = [letter for letter in left if letter in right and letter in result]
    inner = [letter for letter in left if letter in right and letter not in result]
    rows = [letter for letter in left if letter not in right]
    columns = [letter for letter in right if letter not in left]

    def arranged(tensor: Tensor, term: str, *groups: list[str]) -> Tensor:
        ordered = tensor.transposed([term.index(letter) for group in groups for letter in group])
        return node.reshaped(ordered, [math.prod(sizes[letter] for letter in group) for group in groups])

    letters = "".join((*batch, *rows, *columns))
    shape = [sizes[letter] for letter in letters]
    if not inner or a.element not in FLOATS:
        if inner:
            raise NotOnDevice("a product of matrices of integers")
        wide = arranged(a, left, batch, rows, [])
        flat = arranged(b, right, batch, [], columns)
        return (wide * flat).viewed(shape), letters
    made = matmul(node, arranged(a, left, batch, rows, inner), arranged(b, right, batch, inner, columns))
    return made.viewed(shape), letters
