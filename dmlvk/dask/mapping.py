"""Models over Dask's arrays, block by block."""

from __future__ import annotations

import itertools
import pickle
import warnings
import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeAlias

import dask.array as da
import distributed
import numpy as np
from dask.base import tokenize
from dask.delayed import delayed

from dmlvk.dask.models import Array, Block, BlockModel, FunctionModel, TensorModel
from dmlvk.errors import DmlError, InvalidArgumentError
from dmlvk.objects.compilation import CompiledOperator
from dmlvk.operators import OperatorDesc
from dmlvk.support.integers import checked_integer, checked_integers
from dmlvk.support.recent import Recent

LARGE = 2**20  # Bytes of a model from which on it stays on the cluster: what is smaller is sent as fast as asked for

_MOST_KEPT = 8  # Large models that stay on a cluster whether arrays need them or not; the last ones

_kept: weakref.WeakKeyDictionary[distributed.Client, Recent[str, Any]] = weakref.WeakKeyDictionary()
"""By client and token: Dask's name of a task that the scheduler knows, and computes again where its worker dies."""


def sent(model: BlockModel, name: str | None) -> Any:
    """The model as an operand of Dask's blockwise operations: a task, which each worker gets once.

    A graph of Dask's has all its tasks in it, so 100 MB of weights would travel with every array that is computed. With
    a client those of a large model travel here, once; what is made of it belongs to that client, as what is
    persisted does.

    Args:
        name: beginning of the task's key; ``None``: the model's.
    """
    token = tokenize(model)
    task = delayed(model, name=f"{name or model.label}-model-{token}", traverse=False)
    client = _client()
    if client is None:
        return task
    kept = _kept.setdefault(client, Recent(_MOST_KEPT))
    there = kept.get(token)
    if there is None or _is_lost(there):
        if _size_in_bytes(model) < LARGE:
            return task
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Sending large graph")  # which is done once, here, for all others
            there = client.persist(task)
    return kept.keep(token, there)


def _is_lost(task: Any) -> bool:
    return any(future.status in ("cancelled", "lost", "error") for future in distributed.futures_of(task))


def _client() -> Any:
    """The client that computes arrays now, if there is one."""
    try:
        return distributed.default_client()
    except ValueError:
        return None


def _size_in_bytes(model: BlockModel) -> int:
    arrays: list[pickle.PickleBuffer] = []
    rest = pickle.dumps(model, protocol=5, buffer_callback=arrays.append)
    return len(rest) + sum(array.raw().nbytes for array in arrays)


def as_block_model(model: Any, outputs: Sequence[str] | None = None) -> BlockModel:
    """A model for blocks.

    Args:
        model: a description, a compiled operator or graph, an ONNX session, or a function of expressions.
        outputs: the names of those that are wanted; ``None``: all.

    Raises:
        InvalidArgumentError: when it is none of them, or has no such output.
    """
    if outputs is not None and (isinstance(outputs, str) or not isinstance(outputs, Sequence)):
        raise InvalidArgumentError(f"dmlvk.dask: outputs must be a sequence of names; got {outputs!r}")
    if isinstance(model, BlockModel):
        return model
    if isinstance(model, (OperatorDesc, CompiledOperator)):
        return TensorModel(model, outputs)
    if type(model).__name__ == "InferenceSession" and type(model).__module__.startswith("dmlvk.onnx"):
        from dmlvk.dask.sessions import SessionModel  # which needs the package onnx

        return SessionModel(model, outputs)
    if callable(model) and not isinstance(model, type):
        return FunctionModel(model, outputs)
    raise InvalidArgumentError(
        "dmlvk.dask: a model is an operator's description, a compiled operator or graph, an ONNX session, or a "
        f"function of expressions; got {model!r}"
    )


Model: TypeAlias = "OperatorDesc | CompiledOperator | Callable[..., Any] | Any"
"""An operator's description, a compiled operator or graph, an ONNX session, or a function of expressions."""

Arrays: TypeAlias = "dict[str, da.Array]"


class BlockFunction:
    """A model as a function of blocks, for Dask's own functions that take one: ``da.reduction``, ``da.map_overlap``.

    NumPy arrays in, a NumPy array out, or a tuple where there are several outputs. Of blocks without elements, by which
    Dask asks functions for their types, it makes one without elements, and asks no device. It pickles and has a token;
    large models travel with every task, and :func:`map_blocks` sends them once.

    Args:
        model: as for :func:`map_blocks`; of a function a graph is made for every shape of block, where it is run.
        outputs: the names of those that are wanted, in order; ``None``: all.
    """

    def __init__(self, model: Model, outputs: Sequence[str] | None = None) -> None:
        self._model = as_block_model(model, outputs)
        self.__name__ = self._model.label

    def __call__(self, *blocks: Array) -> Any:
        if any(0 in block.shape for block in blocks):
            sized = [Block(tuple(size or 1 for size in block.shape) or (1,), block.dtype) for block in blocks]
            results = [np.empty((0,) * len(made.shape), made.dtype) for made in self._model.results(sized).values()]
        else:
            results = self._model.run(blocks)
        return results[0] if len(results) == 1 else tuple(results)

    def __dask_tokenize__(self) -> object:
        return "dmlvk.dask.BlockFunction", self._model.__dask_tokenize__()


def map_blocks(
    model: Model,
    *arrays: Any,
    outputs: Sequence[str] | None = None,
    drop_axis: int | Iterable[int] | None = None,
    new_axis: int | Iterable[int] | None = None,
    name: str | None = None,
) -> Any:
    """Runs a model on every block of Dask's arrays, on whatever device the process has that computes the block.

    Shapes, chunks and dtypes of the results are known before anything runs. Results have the same bits whichever
    devices compute them.

    With a client of Dask's a model of 1 MiB or more is sent to its cluster here, once for all arrays that it is mapped
    over while that client is the current one, and those arrays belong to it, as persisted ones
    do; a smaller one travels with each.

    Args:
        model: an operator's description, a compiled operator or graph, an ONNX session (whose outputs' shapes a run
            with zeros tells here, once for each shape of blocks); or a function of expressions, as
            ``lambda x, y: F.relu(x) + y``, that gives one or several by name: it is called here for each set of shapes
            that blocks have, and the graphs travel. All others take blocks of their tensors' sizes only.
        arrays: for the model's inputs, in order, or one mapping by name. Of arrays of Dask a block each, the last axes
            side by side as in ``dask.array.map_blocks``; an array of one block along an axis goes to all. Everything
            else, weights for example, goes to every block whole.
        outputs: the names of those that are wanted; ``None``: all.
        drop_axis: axes of the blocks that results lack; ``None``: the last ones. There must be one block along them.
        new_axis: axes of the results that blocks lack; ``None``: the last ones.
        name: beginning of the results' keys; ``None``: the model's.

    Returns:
        A dask array; a dictionary of them by name, where the model has several outputs and ``outputs`` is ``None`` or
        names several.

    Raises:
        InvalidArgumentError: when arrays, blocks and model do not fit together.
    """
    block_model = as_block_model(model, outputs)
    given = _in_order(block_model, arrays)
    dropped, added = _axes(drop_axis, "drop_axis"), _axes(new_axis, "new_axis")
    grid = _Grid(block_model.label, given)
    made = grid.results(block_model)
    if isinstance(block_model, FunctionModel):
        block_model = block_model.without_function()
    layout = {output: grid.layout(output, blocks, dropped, added) for output, blocks in made.items()}
    operand = sent(block_model, name)
    indices = grid.indices()
    operands: list[Any] = []
    for value, index in zip(given, indices, strict=True):
        operands += [value, index] if index is not None else [_whole(value), None]
    label = name or block_model.label
    if len(layout) == 1:
        (placed,) = layout.values()
        return placed.mapped(_only_result, label, operand, *operands)
    everything = da.blockwise(
        _all_results,
        grid.axes,
        operand,
        None,
        *operands,
        token=label,
        dtype=object,
        meta=np.empty((0,) * len(grid.axes), object),
        align_arrays=False,
    )
    return {
        output: placed.mapped(_result, f"{label}-{output}", number, everything, grid.axes)
        for number, (output, placed) in enumerate(layout.items())
    }


def map_overlap(
    model: Model,
    *arrays: Any,
    depth: Any,
    boundary: Any = None,
    trim: bool = True,
    outputs: Sequence[str] | None = None,
    name: str | None = None,
) -> Any:
    """Runs a model on every block with a halo of its neighbours' elements, which Dask exchanges.

    Args:
        model: as for :func:`map_blocks`; it sees blocks with their halos.
        arrays: likewise. Those of Dask get halos.
        depth: elements of the halo, as for ``dask.array.map_overlap``: for all axes, or by axis; a list of them for
            several arrays of Dask's.
        boundary: what lies outside the array, likewise: ``"reflect"``, ``"periodic"``, ``"nearest"``, a number;
            ``None`` or ``"none"``: nothing, so that blocks at the edge are smaller. Lists likewise.
        trim: whether to cut the halos off the results, those of the first array; ``False`` for models that use them
            up, as convolutions without padding do.
        outputs: likewise.
        name: likewise.

    Returns:
        As :func:`map_blocks`.

    Raises:
        InvalidArgumentError: when there is no such halo, or as for :func:`map_blocks`.
    """
    block_model = as_block_model(model, outputs)
    given = _in_order(block_model, arrays)
    count = sum(isinstance(value, da.Array) for value in given)
    halos = list(zip(_each(depth, count, "depth"), _each(boundary, count, "boundary"), strict=True))
    left = iter(halos)
    wider = [_with_halo(value, *next(left)) if isinstance(value, da.Array) else value for value in given]
    made = map_blocks(block_model, *wider, name=name)
    if not trim:
        return made
    if isinstance(made, dict):
        return {output: _trimmed(array, *halos[0]) for output, array in made.items()}
    return _trimmed(made, *halos[0])


def _each(given: Any, count: int, what: str) -> list[Any]:
    listed = list(given) if isinstance(given, list) else [given] * count
    if len(listed) != count:
        raise InvalidArgumentError(f"map_overlap: {what} must be one for {count} arrays of Dask's; got {given}")
    return listed


_MOST_AXES = 64  # Of an array of NumPy's

_BOUNDARIES = ("reflect", "periodic", "nearest", "none")


def _with_halo(array: da.Array, depth: Any, boundary: Any) -> Any:
    for elements in _leaves(depth):
        checked_integer(elements, "map_overlap: depth", 0)
    for kind in _leaves(boundary):
        if kind is not None and kind not in _BOUNDARIES and not isinstance(kind, (int, float, np.number)):
            raise InvalidArgumentError(
                f"map_overlap: boundary must be one of {', '.join(_BOUNDARIES)}, a number or None; got {kind!r}"
            )
    try:
        return da.overlap.overlap(array, depth=depth, boundary="none" if boundary is None else boundary)
    except (ValueError, TypeError, KeyError, NotImplementedError) as error:
        raise InvalidArgumentError(
            f"map_overlap: depth {depth!r} and boundary {boundary!r} for an array of {list(array.shape)}: {error}"
        ) from error


def _leaves(given: Any) -> list[Any]:
    """What is said of axes: one for all, or by axis, the same before and behind or two different ones."""
    if isinstance(given, dict):
        return [leaf for item in given.values() for leaf in _leaves(item)]
    return [leaf for item in given for leaf in _leaves(item)] if isinstance(given, (tuple, list)) else [given]


def _trimmed(array: da.Array, depth: Any, boundary: Any) -> Any:
    trimmed = da.overlap.trim_overlap(array, depth, "none" if boundary is None else boundary)
    if any(size < 0 for sizes in trimmed.chunks for size in sizes):
        raise InvalidArgumentError(
            f"map_overlap: results' blocks of {array.chunks} are smaller than the halos of {depth!r} to be cut off: "
            "give trim=False where the model uses halos up"
        )
    return trimmed


class _Placed:
    """Where an output's blocks go."""

    def __init__(self, axes: tuple[int, ...], chunks: tuple[tuple[int, ...], ...], dtype: np.dtype[Any]) -> None:
        self.axes = axes  # of the grid of blocks, or new ones, for each of its axes
        self.chunks = chunks  # the sizes of its blocks along each axis
        self.dtype = dtype  # its type

    def mapped(self, function: Callable[..., Any], label: str, model: Any, *operands: Any) -> da.Array:
        """The output as an array: a function of the model and of the blocks."""
        there = {axis for index in operands[1::2] if index is not None for axis in index}
        new = {axis: sizes for axis, sizes in zip(self.axes, self.chunks, strict=True) if axis not in there}
        changed = {axis: sizes for axis, sizes in zip(self.axes, self.chunks, strict=True) if axis in there}
        made: da.Array = da.blockwise(
            function,
            self.axes,
            model,
            None,
            *operands,
            token=label,
            dtype=self.dtype,
            meta=np.empty((0,) * len(self.axes), self.dtype),
            adjust_chunks=changed,
            new_axes=new,
            align_arrays=False,
        )
        return made


class _Grid:
    """The blocks of several arrays side by side."""

    def __init__(self, label: str, given: Sequence[Any]) -> None:
        self._label = label
        self._given = given
        arrays = [value for value in given if isinstance(value, da.Array)]
        if not arrays:
            raise InvalidArgumentError(f"{label}: map_blocks needs at least one array of Dask's among its arrays")
        rank = max(array.ndim for array in arrays)
        self.counts = [1] * rank
        for array in arrays:
            if any(np.isnan(size) for sizes in array.chunks for size in sizes):
                raise InvalidArgumentError(f"{label}: an array's chunks have no sizes: call its compute_chunk_sizes()")
            for axis, count in enumerate(array.numblocks, rank - array.ndim):
                if count != 1 and self.counts[axis] not in (1, count):
                    counts = ", ".join(" x ".join(map(str, each.numblocks)) for each in arrays)
                    raise InvalidArgumentError(
                        f"{label}: the arrays' blocks do not lie side by side: there are {counts} of them; rechunk one"
                    )
                self.counts[axis] = max(self.counts[axis], count)

    @property
    def axes(self) -> tuple[int, ...]:
        """Its axes, as ``da.blockwise`` names them."""
        return tuple(range(len(self.counts)))

    def indices(self) -> list[tuple[int, ...] | None]:
        """For each input the axes along which its blocks lie; ``None`` for one that goes to every block whole."""
        return [self.axes[len(self.axes) - v.ndim :] if isinstance(v, da.Array) else None for v in self._given]

    def results(self, model: BlockModel) -> dict[str, dict[tuple[int, ...], Block]]:
        """For each output what its blocks are like, by the block's place; of equal blocks the first one's only."""
        firsts = [self._first_of_each_kind(axis) for axis in self.axes]
        made: dict[str, dict[tuple[int, ...], Block]] = {}
        for index in itertools.product(*firsts):
            blocks = [self._block(value, index) for value in self._given]
            try:
                results = model.results(blocks)
            except DmlError as error:
                raise InvalidArgumentError(f"{error} (block {list(index)})") from error
            for output, block in results.items():
                made.setdefault(output, {})[index] = block
        return made

    def layout(
        self, output: str, blocks: Mapping[tuple[int, ...], Block], drop: list[int] | None, new: list[int] | None
    ) -> _Placed:
        """Where the blocks of an output go, which must have one size at one place of an axis."""
        ranks = {len(block.shape) for block in blocks.values()}
        dtypes = {block.dtype for block in blocks.values()}
        if len(ranks) != 1 or len(dtypes) != 1:
            raise InvalidArgumentError(f"{self._label}: {output} has blocks of different ranks or types: {blocks}")
        (rank,), (dtype,) = ranks, dtypes
        axes = self._axes_of(output, rank, drop, new)
        chunks = []
        for number, axis in enumerate(axes):
            along = axis < len(self.counts)
            kinds = self._kinds(axis) if along else [0]
            sizes: dict[int, int] = {}
            for index, block in blocks.items():
                first = index[axis] if along else 0
                if sizes.setdefault(first, block.shape[number]) != block.shape[number]:
                    raise InvalidArgumentError(
                        f"{self._label}: {output} has blocks of {sizes[first]} and {block.shape[number]} elements side "
                        f"by side along axis {number}, which make no array"
                    )
            chunks.append(tuple(sizes[first] for first in kinds))
        return _Placed(axes, tuple(chunks), dtype)

    def _axes_of(self, output: str, rank: int, drop: list[int] | None, new: list[int] | None) -> tuple[int, ...]:
        """For each axis of an output the grid's axis along which its blocks lie, or a new one."""
        there = len(self.counts)
        added = sorted({_position(axis, rank) for axis in new}) if new is not None else None
        if added is None:
            left = there if drop is None else there - len(drop)
            added = list(range(left, rank)) if rank > left else []
        if drop is None:
            kept = list(range(min(there, rank - len(added))))
        else:
            gone = {_position(axis, there) for axis in drop}
            kept = [axis for axis in range(there) if axis not in gone]
        if len(kept) + len(added) != rank:
            raise InvalidArgumentError(
                f"{self._label}: {output} has {rank} axes, but {len(kept)} of the blocks' {there} are kept and "
                f"{len(added)} are new: say so by drop_axis and new_axis"
            )
        for axis in set(range(there)) - set(kept):
            if self.counts[axis] != 1:
                raise InvalidArgumentError(
                    f"{self._label}: {output} lacks the blocks' axis {axis}, along which there are {self.counts[axis]} "
                    "of them and not one: rechunk the array, or name others by drop_axis"
                )
        names = iter(kept)
        return tuple(there + axis if axis in added else next(names) for axis in range(rank))

    def _kinds(self, axis: int) -> list[int]:
        """For each place along an axis the first one at which all arrays have blocks of the same sizes."""
        seen: dict[tuple[int, ...], int] = {}
        return [seen.setdefault(self._sizes(axis, index), index) for index in range(self.counts[axis])]

    def _first_of_each_kind(self, axis: int) -> list[int]:
        return list(dict.fromkeys(self._kinds(axis)))

    def _sizes(self, axis: int, index: int) -> tuple[int, ...]:
        sizes = []
        for value in self._given:
            own = axis - len(self.counts) + value.ndim if isinstance(value, da.Array) else -1
            if own >= 0:
                sizes.append(value.chunks[own][min(index, len(value.chunks[own]) - 1)])
        return tuple(sizes)

    def _block(self, value: Any, index: Sequence[int]) -> Block:
        if not isinstance(value, da.Array):
            return Block(value.shape, value.dtype)
        own = index[len(index) - value.ndim :]
        shape = tuple(sizes[min(at, len(sizes) - 1)] for at, sizes in zip(own, value.chunks, strict=True))
        return Block(shape, np.dtype(value.dtype))


def _in_order(model: BlockModel, arrays: Sequence[Any]) -> list[Any]:
    """The inputs in the model's order: those of Dask as they are, others as arrays of NumPy."""
    given = list(arrays)
    if len(given) == 1 and isinstance(given[0], Mapping):
        if model.input_names is None:
            raise InvalidArgumentError(f"{model.label}: a function's arrays have no names: give them in order")
        named = given[0]
        if set(named) != set(model.input_names):
            raise InvalidArgumentError(f"{model.label}: takes {list(model.input_names)}; got {list(named)}")
        given = [named[name] for name in model.input_names]
    if model.input_names is not None and len(given) != len(model.input_names):
        names = list(model.input_names)
        raise InvalidArgumentError(f"{model.label}: takes {len(names)} arrays, {names}; got {len(given)}")
    for value in given:
        refuse_mask(value._meta if isinstance(value, da.Array) else value, model.label)
    return [value if isinstance(value, da.Array) else np.asarray(value) for value in given]


def refuse_mask(value: object, label: str) -> None:
    """What is masked would be computed with, and the mask be lost."""
    if isinstance(value, np.ma.MaskedArray):
        raise InvalidArgumentError(f"{label}: takes no masked arrays: fill them first (numpy.ma.filled)")


def _whole(value: Array) -> Any:
    """An array that goes to every block, as a task of its own where it is large."""
    return delayed(value, traverse=False, pure=True) if value.nbytes > 4096 else value


def _results(model: BlockModel, blocks: Sequence[Any]) -> list[Array]:
    for block in blocks:
        refuse_mask(_unwrapped(block), model.label)
    arrays = [np.asarray(_unwrapped(block)) for block in blocks]
    promised = model.results([Block(array.shape, array.dtype) for array in arrays])
    results = model.run(arrays)
    for (output, block), result in zip(promised.items(), results, strict=True):
        if (result.shape, result.dtype) != block:
            raise InvalidArgumentError(
                f"{model.label}: {output} of a block is {result.dtype} of the shape {list(result.shape)}, and was to "
                f"be {block.dtype} of the shape {list(block.shape)}: shapes must not depend on values"
            )
    return results


def _only_result(model: BlockModel, *blocks: Any) -> Array:
    return _results(model, blocks)[0]


def _all_results(model: BlockModel, *blocks: Any) -> tuple[Array, ...]:
    return tuple(_results(model, blocks))


def _result(number: int, everything: Any) -> Array:
    result: Array = _unwrapped(everything)[number]
    return result


def _unwrapped(block: Any) -> Any:
    """A block from the lists, one for each axis that results lack, in which ``da.blockwise`` hands it over."""
    while isinstance(block, list):
        (block,) = block
    return block


def _axes(given: int | Iterable[int] | None, what: str) -> list[int] | None:
    if given is None:
        return None
    return checked_integers([given] if isinstance(given, int) else given, f"map_blocks: {what}", -_MOST_AXES)


def _position(axis: int, rank: int) -> int:
    if not -rank <= axis < rank:
        raise InvalidArgumentError(f"map_blocks: axis {axis!r} is none of {rank}")
    return axis % rank
