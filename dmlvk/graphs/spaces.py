"""Iteration spaces: the axes that element-wise operators walk along, brought together where tensors connect them.

Every operand of an operator is a *view*: strides along the operator's axes. Two operators can share one access order
when the elements that one writes are those that the other reads, one for one. Whatever shapes the two descriptions give
them: axes are split and reordered until both sides count the same elements in the same way, or it is found impossible.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
from collections.abc import Mapping
from typing import NamedTuple

from dmlvk.graphs.network import NetworkNode
from dmlvk.kernels.layout import FoldedLayout, fold


class NodeOperand(NamedTuple):  # not a dataclass, for the same reason as a Value
    """An operand of a node.

    Attributes:
        node: the node's index.
        is_output: whether the node writes it.
        number: which input or output.
    """

    node: int
    is_output: bool
    number: int


Axes = tuple[tuple[int, ...], tuple[tuple[int, ...], ...]]
"""Elements along each axis that is longer than one, and each operand's strides along these: inputs, then outputs."""


def axes_of(node: NetworkNode) -> Axes | None:
    """The axes that an operator walks along; ``None`` when its tensors have different sizes."""
    tensors = [tensor for _, tensor, _ in (*node.reads(), *node.writes())]
    common, *others = (tuple(tensor.sizes) for tensor in tensors)
    if any(sizes != common for sizes in others):
        return None
    axes = [axis for axis, size in enumerate(common) if size > 1]
    strides = tuple(tuple(tensor.element_strides[axis] for axis in axes) for tensor in tensors)
    return tuple(common[axis] for axis in axes), strides


@dataclasses.dataclass(frozen=True)
class Space:
    """Axes, innermost first where an order matters, and the strides of views along them."""

    sizes: tuple[int, ...]  # elements along each axis
    strides: Mapping[NodeOperand, tuple[int, ...]]  # of each view, in elements, along the same axes

    @classmethod
    def of_node(cls, node: NetworkNode, axes: Axes) -> Space:
        """The space of one operator.

        Args:
            axes: what :func:`axes_of` says of its description; of many nodes that share one it is asked once.
        """
        sizes, strides = axes
        views = [NodeOperand(node.index, False, number) for number, _, _ in node.reads()]
        views += [NodeOperand(node.index, True, number) for number, _, _ in node.writes()]
        return cls(sizes, dict(zip(views, strides, strict=True)))

    def folded(self, last: NodeOperand, views: tuple[NodeOperand, ...] | None = None) -> FoldedLayout:
        """The fewest axes for some views (``None``: all), in the order of ``last``, whose strides come last."""
        chosen = [view for view in (self.strides if views is None else views) if view != last] + [last]
        return fold(self.sizes, [self.strides[view] for view in chosen])

    def _ordered_by(self, last: NodeOperand) -> Space:
        """The same space with the fewest axes, innermost first in the order of one view."""
        if len(self.sizes) < 2:
            return self
        every = self.strides.values()
        if set(map(type, itertools.chain(self.sizes, *every))) == {int}:
            # Many views of a large group have the same strides, as have those of many operators: these are folded once.
            # A hash would make dynamic ones plain numbers.
            leading = self.strides[last]
            distinct = (*(strides for strides in dict.fromkeys(every) if strides != leading), leading)
            layout = _folded(self.sizes, distinct)
            folded = dict(zip(distinct, layout.strides, strict=True))
            return Space(layout.sizes, {view: folded[strides] for view, strides in self.strides.items()})
        chosen = [view for view in self.strides if view != last] + [last]
        layout = self.folded(last)
        return Space(layout.sizes, dict(zip(chosen, layout.strides, strict=True)))


_folded = functools.lru_cache(maxsize=256)(fold)


def joined(a: Space, view_of_a: NodeOperand, b: Space, view_of_b: NodeOperand) -> Space | None:
    """One space for both, in which the two views show the same element at every coordinate; ``None`` if there is none.

    The two views must be of one memory range. Axes are compared from the innermost on; an axis that is longer on one
    side is split there.
    """
    first, second = a._ordered_by(view_of_a), b._ordered_by(view_of_b)
    if first.sizes == second.sizes and first.strides[view_of_a] == second.strides[view_of_b]:
        return Space(first.sizes, {**first.strides, **second.strides})
    cursors = _Cursor(first, view_of_a), _Cursor(second, view_of_b)
    sizes: list[int] = []
    while not cursors[0].is_done and not cursors[1].is_done:
        if cursors[0].stride != cursors[1].stride:
            return None
        size = min(cursor.size for cursor in cursors)
        if any(cursor.size % size for cursor in cursors):
            return None
        for cursor in cursors:
            cursor.take(size)
        sizes.append(size)
    if not all(cursor.is_done for cursor in cursors):
        return None
    strides = {view: tuple(steps) for cursor in cursors for view, steps in cursor.strides.items()}
    return Space(tuple(sizes), strides)


class _Cursor:
    """Walks along the axes of a space, taking chunks of them."""

    def __init__(self, space: Space, leading: NodeOperand) -> None:
        self._space = space
        self._leading = leading
        self._axis = 0
        self._taken = 1  # how much of the axis, as a factor
        self.strides: dict[NodeOperand, list[int]] = {view: [] for view in space.strides}

    @property
    def is_done(self) -> bool:
        return self._axis == len(self._space.sizes)

    @property
    def size(self) -> int:
        return self._space.sizes[self._axis] // self._taken

    @property
    def stride(self) -> int:
        """The leading view's stride along what is left."""
        return self._space.strides[self._leading][self._axis] * self._taken

    def take(self, size: int) -> None:
        """Takes the innermost ``size`` elements of what is left as an axis of their own."""
        for view, steps in self._space.strides.items():
            self.strides[view].append(steps[self._axis] * self._taken)
        self._taken *= size
        if self._taken == self._space.sizes[self._axis]:
            self._axis, self._taken = self._axis + 1, 1
