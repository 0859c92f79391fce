"""Packed weights of folders of the hub: FP8 with scales of blocks, GPTQ and AWQ.

FP8 is E4M3 of OCP's 8-bit Floating Point Specification (5.1), times a scale of a tensor, a row or a block
(transformers, finegrained_fp8.py). GPTQ packs integers along the terms, AWQ along the columns in an order of its own
(AutoGPTQ, AutoAWQ: qlinear_*.py); both have a scale and a zero for each group of terms.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from dmlvk.language.weights import Matrix, Numbers, packed, unpacked
from dmlvk.support.file_arrays import FileArray, contents_of
from dmlvk.support.mapped_files import files_of

if TYPE_CHECKING:
    from dmlvk.language.hub_source import HubSource

_METHODS = ("fp8", "gptq", "awq", "mxfp4", "compressed-tensors")
_ORDER_OF_AWQ = (0, 4, 1, 5, 2, 6, 3, 7)  # Where the columns of a word stand in it

_WORD_BITS = 32
_LEAST_BLOCK = 16


class Packing:
    """What ``quantization_config`` says.

    Args:
        config: of config.json; ``None``: nothing is packed.

    Raises:
        ModelFileError, UnsupportedError: it is none, or of a kind that is not read.
    """

    def __init__(self, source: HubSource, config: Any) -> None:
        self._source = source
        self._config: Mapping[str, Any] = {} if config is None else config
        if not isinstance(self._config, dict):
            raise source.fault(f"quantization_config must be an object; got {config!r:.100}")
        self._method = self._config.get("quant_method")
        if config is not None and self._method not in _METHODS:
            raise source.refusal(f"quant_method is {self._method!r:.100}; {', '.join(_METHODS)} are run")

    def matrix(self, name: str, rows: int, columns: int) -> Matrix | None:
        """A packed matrix by the name of its weights; ``None`` where these are plain."""
        module = name.removesuffix(".weight")
        if self._method in ("gptq", "awq") and self._source.has(f"{module}.qweight"):
            return self._of_integers(module, rows, columns)
        if self._method in ("fp8", "compressed-tensors") and self._source.kind(name) == "F8_E4M3":
            return self._of_floats(module, rows, columns)
        return None

    def _of_floats(self, module: str, rows: int, columns: int) -> Matrix:
        """FLOAT32 numbers, since no integers stand for them."""
        source = self._source
        codes = source.codes(f"{module}.weight", (rows, columns))
        own = next((each for each in ("weight_scale_inv", "weight_scale") if source.has(f"{module}.{each}")), None)
        if own is None:
            raise source.fault(f"has no tensor {source.tensor_named(f'{module}.weight_scale')} beside weights of FP8")
        source.drop(f"{module}.input_scale")  # of operands, which are FLOAT32 here
        shape = source.sizes(source.tensor_named(f"{module}.{own}"))
        blocks, wanted = [rows, columns], (1, 1)
        if math.prod(shape) != 1:
            blocks = self._config.get("weight_block_size") or [1, columns]
            is_pair = isinstance(blocks, list) and len(blocks) == 2 and all(type(n) is int and n > 0 for n in blocks)
            wanted = (-(-rows // blocks[0]), -(-columns // blocks[1])) if is_pair else (-1, -1)
            if shape != wanted and (*shape, 1) != wanted:
                raise source.fault(
                    f"{source.tensor_named(f'{module}.{own}')} must have a scale for each of the blocks "
                    f"{blocks!r:.50} of {rows} x {columns} weights; got {list(shape)}"
                )
        scale = source.any_matrix(f"{module}.{own}").reshape(wanted)

        def read(start: int, stop: int) -> Numbers:
            wide = scale[np.arange(start, stop) // blocks[0]].repeat(min(blocks[1], columns), 1)[:, :columns]
            return source.finite(f"{module}.weight", _FP8[contents_of(codes[start:stop])] * wide)

        return Matrix(32, FileArray.computed(read, (rows, columns), np.float32, files_of([codes]), columns))

    def _of_integers(self, module: str, rows: int, columns: int) -> Matrix:
        source, is_awq = self._source, self._method == "awq"
        bits, group = self._config.get("bits", self._config.get("w_bit", 4)), self._config.get("group_size", 128)
        if bits not in ((4,) if is_awq else (2, 4, 8)):
            raise source.refusal(f"quantization_config.bits is {bits!r:.20}; {'4' if is_awq else '2, 4 and 8'} are run")
        group = columns if group == -1 else group
        if type(group) is not int or group < _LEAST_BLOCK or group % _LEAST_BLOCK or columns % group:
            raise source.refusal(
                f"quantization_config.group_size {group!r:.20} must be a multiple of {_LEAST_BLOCK} that divides "
                f"{columns}"
            )
        count, of_word = columns // group, _WORD_BITS // bits
        if rows % of_word or columns % of_word:
            raise source.refusal(f"{source.tensor_named(module)}: {rows} x {columns} integers are no whole words")
        order = self._order(module, columns, group)
        numbers = self._integers(module, (rows, count, group * bits // 8), bits, order)
        scales = source.turned(f"{module}.scales", (count, rows))
        made = Matrix(bits, numbers, scales, None, group, order, zero=2 ** (bits - 1))
        words = source.codes(f"{module}.qzeros", (count, rows // of_word))
        more = int(not is_awq and self._config.get("checkpoint_format", "gptq") != "gptq_v2")

        def zeros(start: int, stop: int) -> Numbers:
            return _columns(words, bits, slice(start, stop), is_awq=is_awq) + np.int32(more)

        whole, files = zeros(0, rows), files_of([words])
        if whole.max() < 2**bits:
            halves = _halves(scales)
            if source.kind(f"{module}.scales") == "F16" or np.array_equal(halves, scales):
                made = dataclasses.replace(made, scales=halves)
            if (whole == made.zero).all():
                return made
            own = FileArray.computed(lambda *some: zeros(*some).astype(np.uint8), (rows, count), np.uint8, files)
            return dataclasses.replace(made, zeros=own)
        middle = 0 if bits < 8 else made.zero

        def minima(start: int, stop: int) -> Numbers:
            made: Numbers = (zeros(start, stop) - middle).astype(np.float32) * np.asarray(scales[start:stop])
            return made

        below = FileArray.computed(minima, (rows, count), np.float32, files_of([words, scales]))
        return dataclasses.replace(made, minima=Matrix(32, below), zero=middle)

    def _integers(self, module: str, shape: tuple[int, int, int], bits: int, order: Numbers | None) -> FileArray:
        """The numbers of a matrix, packed along its rows: UINT8 [rows, blocks, bytes of a block]."""
        source, rows, width, of_word = self._source, shape[0], shape[1] * shape[2], _WORD_BITS // bits
        if self._method == "awq":
            words = source.codes(f"{module}.qweight", (width * 8 // bits, rows // of_word))
            read = functools.partial(_rows_of_awq, words)
            made = FileArray.computed(read, shape, np.uint8, files_of([words]), width // 4)
        else:
            words = source.codes(f"{module}.qweight", (width // 4, rows))
            blocks = words.view(np.uint8).reshape(*words.shape, -1).swapaxes(0, 1)
            made = FileArray.of(blocks, np.asarray, shape, np.uint8)
        if order is None:
            return made
        return made.then(lambda lines: packed(unpacked(lines.reshape(len(lines), -1), bits)[:, order], bits))

    def _order(self, module: str, columns: int, group: int) -> Numbers | None:
        """The terms group by group, where they lie in another order (desc_act); ``None``: as they lie."""
        source = self._source
        if not source.has(f"{module}.g_idx"):
            return None
        groups = contents_of(source.codes(f"{module}.g_idx", (columns,))).astype(np.int64)
        order: Numbers = np.argsort(groups, kind="stable")
        if not np.array_equal(groups[order], np.arange(columns) // group):
            raise source.refusal(
                f"{source.tensor_named(f'{module}.g_idx')} must have each of the {columns // group} groups "
                f"{group} times"
            )
        return None if np.array_equal(order, np.arange(columns)) else order


def _halves(scales: FileArray) -> FileArray:
    """As FLOAT16, infinite where they are too large."""

    def narrow(values: Numbers) -> Numbers:
        with np.errstate(over="ignore"):
            return values.astype(np.float16)

    return scales.then(narrow, None, np.float16)


def _columns(words: Numbers, bits: int, which: slice, *, is_awq: bool) -> Numbers:
    """Columns of integers in a file's words, each of several columns: INT32 [columns, rows]."""
    each = _WORD_BITS // bits
    first = which.start // each
    found = contents_of(words[:, first : -(-which.stop // each)]).view(np.uint32)
    integers = found[..., None] >> np.arange(0, _WORD_BITS, bits, dtype=np.uint32) & np.uint32(2**bits - 1)
    whole = (integers[..., list(_ORDER_OF_AWQ)] if is_awq else integers).reshape(len(found), -1)
    made: Numbers = whole[:, which.start - first * each : which.stop - first * each].T.astype(np.int32)
    return made


def _rows_of_awq(words: Numbers, start: int, stop: int) -> Numbers:
    """Rows of packed integers of four bits, UINT8 [rows, bytes], which are columns in a file's words."""
    each = len(_ORDER_OF_AWQ)
    first, columns = start // each, len(words)
    found = np.ascontiguousarray(contents_of(words[:, first : -(-stop // each)]))
    pairs = np.ascontiguousarray(found.view(np.uint8).T).view("<u2")  # of a column and the next one
    halves = [pairs & 0x0F | pairs >> 4 & 0xF0, pairs >> 4 & 0x0F | pairs >> 8 & 0xF0]
    lines = np.stack(halves, axis=1).astype(np.uint8).reshape(-1, each, columns // 2)
    rows: Numbers = lines[:, list(_ORDER_OF_AWQ)].reshape(-1, columns // 2)
    return rows[start - first * each : stop - first * each]


def _table() -> Numbers:
    """The numbers of E4M3: without infinities, and NaN where all bits but the sign are set."""
    codes = np.arange(256)
    exponents, parts = codes >> 3 & 15, codes & 7
    sizes = np.where(exponents == 0, np.ldexp(parts / 8, -6), np.ldexp(1 + parts / 8, exponents - 7))
    made = np.where(codes & 128, -sizes, sizes).astype(np.float32)
    made[[127, 255]] = np.nan
    return made


_FP8 = _table()
