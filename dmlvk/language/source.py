"""What a model's files say, by names that are the same for each kind of file; each field and tensor checked."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any

import numpy as np

from dmlvk.errors import ModelFileError, UnsupportedError
from dmlvk.language.weights import Matrix, Numbers
from dmlvk.support.file_arrays import FileArray


class Source(ABC):
    """Fields and tensors of a model, taken one by one; what nobody takes is refused by its name.

    Fields have the names of GGUF's without the architecture's (``attention.head_count``), tensors GGUF's
    (``blk.0.attn_q.weight``).

    Attributes:
        architecture: its name in the file.
        has_pairs: whether rows of queries and keys are in the order in which neighbours turn together.
        adds_one: whether norms' weights lack the one that some architectures add.
        has_any_bias: whether any product has the bias that the file has for it.
        is_of_llama_cpp: whether what files do not say is what llama.cpp takes for granted.
        quantize: bits of an integer in which plain matrices are packed; 0: they stay as they are.
        is_for_others: whether packed weights are such as other programs have.
        is_tied: whether the embedding is the last product's matrix, too; ``None``: where there is no other.

    Args:
        where: the file, for messages.
        tensors: the names of all in the file.
    """

    architecture: str
    has_pairs = False
    adds_one = False
    has_any_bias = False
    is_tied: bool | None = None
    is_of_llama_cpp = False
    quantize = 0
    is_for_others = False

    def __init__(self, where: str, tensors: set[str]) -> None:
        self._where, self._left, self._taken = where, tensors, set[str]()

    @abstractmethod
    def named(self, name: str) -> str:
        """What the file calls a field."""

    @abstractmethod
    def value(self, name: str) -> Any:
        """A field; ``None`` where there is none."""

    @abstractmethod
    def tensor_named(self, name: str) -> str:
        """What the file calls a tensor."""

    @abstractmethod
    def sizes(self, name: str) -> tuple[int, ...]:
        """The sizes of a tensor of the file, rows first."""

    @abstractmethod
    def read(self, name: str) -> Matrix:
        """The contents of a tensor of the file, by its own name: [rows, columns], or [1, elements]."""

    @abstractmethod
    def angles(self, head: int, theta: float, *, is_local: bool) -> tuple[float, int, Mapping[str, Any]]:
        """How angles of positions follow.

        Args:
            theta: the base, where the files have none.
            is_local: whether those of layers with a window are meant, where these have their own.

        Returns:
            The base; elements of a head that turn; and ``rope_type`` with what it needs, as transformers names it.
        """

    @abstractmethod
    def vocabulary(self) -> int:
        """Rows of the embedding."""

    @abstractmethod
    def flag(self, name: str) -> bool:
        """Whether the file says yes to something."""

    @abstractmethod
    def gate(self, default: str) -> str:
        """The function of the gated MLP, as :class:`~dmlvk.language.decoder.Decoder` names it."""

    @abstractmethod
    def attending(self, layers: int) -> list[bool]:
        """Which layers have attention, of architectures that have a state in the others."""

    @abstractmethod
    def turning(self, layers: int) -> list[bool]:
        """In which layers queries and keys turn, where all but each fourth do unless the file says otherwise."""

    @abstractmethod
    def windows(self, layers: int) -> list[bool] | None:
        """Which layers see a window only; ``None``: the file does not say."""

    def layers(self, most: int) -> int:
        """How many layers there are."""
        return self.whole("block_count", most=most)

    @abstractmethod
    def check_fields(self) -> None:
        """Refuses fields that nobody took, and that may change numbers.

        Raises:
            UnsupportedError: naming it.
        """

    def fault(self, what: str) -> ModelFileError:
        """An error that names the file."""
        return ModelFileError(f"{self._where}: {what}")

    def refusal(self, what: str) -> UnsupportedError:
        """The same for what is right, but not run."""
        return UnsupportedError(f"{self._where}: {what}")

    def whole(self, name: str, default: int | None = None, least: int = 1, most: int = 2**31 - 1) -> int:
        """A field that is an integer.

        Raises:
            ModelFileError: it is missing, or none.
        """
        value = self._value(name, default)
        if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
            raise self.fault(f"{self.named(name)} must be an integer from {least} to {most}; got {value!r:.100}")
        return value

    def wholes(self, name: str, count: int, default: int | None = None) -> list[int]:
        """A field that is an integer for all layers, or a list of one for each.

        Raises:
            ModelFileError: it is missing, or none.
        """
        value = self.value(name)
        if not hasattr(value, "__len__") or isinstance(value, str):
            return [self.whole(name, default)] * count
        made = [
            int(each) if isinstance(each, (int, np.integer)) and not isinstance(each, bool) else 0 for each in value
        ]
        if len(made) != count or not all(1 <= each < 2**31 for each in made):
            raise self.fault(f"{self.named(name)} must have an integer from 1 on for each of {count} layers")
        return made

    def number(self, name: str, default: float | None = None, least: float = 0.0, most: float = 1e30) -> float:
        """A field that is a number.

        Raises:
            ModelFileError: it is missing, or none.
        """
        return self.checked_number(self.named(name), self._value(name, default), least, most)

    def checked_number(self, name: str, value: Any, least: float = 0.0, most: float = 1e30) -> float:
        """What the file has by a name of its own, if it is a number.

        Raises:
            ModelFileError: it is none.
        """
        if not isinstance(value, (int, float)) or isinstance(value, bool) or not least <= value <= most:
            raise self.fault(f"{name} must be a number from {least} to {most}; got {value!r:.100}")
        return float(value)

    def _value(self, name: str, default: float | None) -> Any:
        value = self.value(name)
        if value is None:
            value = default
        if value is None:
            raise self.fault(f"has no field {self.named(name)}")
        return value

    def has(self, name: str) -> bool:
        """Whether there is a tensor, which was not taken yet, or was."""
        own = self.tensor_named(name)
        return own in self._left or own in self._taken

    def vector(self, name: str, length: int) -> Numbers:
        """A tensor of one dimension as FLOAT32.

        Raises:
            ModelFileError: it is missing, of another size, packed, or not finite.
        """
        own = self._take(name, (length,))
        values = self.read(own)
        if values.scales is not None:
            raise self.fault(f"{own} must be {length} numbers of FLOAT32, FLOAT16 or BF16; they are packed")
        return self.finite(own, values.read).reshape(length)

    def matrix(self, name: str, rows: int, columns: int) -> Matrix:
        """A tensor of two dimensions; NaN and infinity are a ModelFileError when they are read.

        Raises:
            ModelFileError: it is missing, or of another size.
            UnsupportedError: of another type.
        """
        return self._checked(self._take(name, (rows, columns)))

    def _checked(self, own: str) -> Matrix:
        made = self.read(own).checked(lambda values: self.finite(own, values))
        return made.common() if self.is_for_others else made

    def cube(self, name: str, sizes: tuple[int, int, int]) -> Matrix:
        """A tensor of three dimensions, as its matrices one behind the other.

        Raises:
            ModelFileError, UnsupportedError: as :meth:`matrix`.
        """
        return self._checked(self._take(name, sizes))

    def taps(self, name: str, channels: int, taps: int) -> Numbers:
        """What a convolution along tokens multiplies by, FLOAT32 [channels, taps]; a third axis of 1 may be between."""
        shape: tuple[int, ...] = (channels, taps)
        if self.has(name) and len(self.sizes(self.tensor_named(name))) > len(shape):
            shape = (channels, 1, taps)
        return self._checked(self._take(name, shape)).read.reshape(channels, taps)

    def row(self, name: str, length: int) -> Matrix:
        """A matrix of one row, which may have one dimension."""
        if self.has(name) and len(self.sizes(self.tensor_named(name))) == 1:
            return Matrix(32, self.vector(name, length).reshape(1, length))
        return self.matrix(name, 1, length)

    def codes(self, name: str, sizes: tuple[int, ...]) -> Numbers:
        """A tensor of integers, or of bytes that are no numbers yet: a view of the file, which is not read.

        Raises:
            ModelFileError, UnsupportedError: it is missing, of another size or type.
        """
        raise self.refusal(f"{name} is of no type that has bytes")

    def turned(self, name: str, sizes: tuple[int, ...], lines: slice = slice(None)) -> FileArray:
        """The columns of plain matrices as rows, those of one behind those of another: FLOAT32 [rows, elements].

        Args:
            sizes: of the tensor: rows and columns, behind how many matrices there are if it has so many dimensions.
            lines: which of the columns.

        Raises:
            ModelFileError, UnsupportedError: as :meth:`matrix`.
        """
        raise self.refusal(f"{name} is read by rows only")

    def experts(self, own: str, part: str, sizes: tuple[int, int, int]) -> Matrix:
        """The matrices of all experts, one behind the other.

        Args:
            own: the layer, ``blk.N``.
            part: ``"gate"``, ``"up"`` or ``"down"``.
            sizes: how many experts, rows and columns of each.
        """
        return self.cube(f"{own}.ffn_{part}_exps.weight", sizes)

    def half(self, name: str, sizes: tuple[int, int, int], *, is_second: bool) -> Matrix:
        """Of matrices that have the rows of two, the rows of one, of each.

        Args:
            sizes: as for :meth:`experts`.
        """
        count, rows, columns = sizes
        both = self.cube(name, (count, 2 * rows, columns))
        starts = range(is_second * rows, 2 * count * rows, 2 * rows)
        return Matrix.joined([both.part(start, start + rows) for start in starts])

    def expert_biases(self, own: str, part: str, sizes: tuple[int, int]) -> Numbers:
        """What all experts add, FLOAT32 [experts, rows]."""
        return self.matrix(f"{own}.ffn_{part}_exps.bias", *sizes).read

    def drop(self, name: str) -> None:
        """Takes a tensor that changes nothing."""
        self._left.discard(self.tensor_named(name))

    def check_tensors(self) -> None:
        """Looks whether the model has anything that was not taken.

        Raises:
            UnsupportedError: it has; the message names it.
        """
        if self._left:
            names = ", ".join(sorted(self._left)[:5])
            raise self.refusal(
                f"has tensors that are not converted, without which its numbers are others: {names:.300}"
            )

    def _take(self, name: str, sizes: tuple[int, ...]) -> str:
        own = self.tensor_named(name)
        if not self.has(name):
            raise self.fault(f"has no tensor {own}")
        found = self.sizes(own)
        if found != sizes:
            raise self.fault(f"{own} must have the sizes {list(sizes)}; got {list(found)}")
        self._left.discard(own)
        self._taken.add(own)
        return own

    def finite(self, name: str, values: Numbers) -> Numbers:
        """Numbers of a tensor of the file.

        Raises:
            ModelFileError: one is NaN or infinite.
        """
        numbers = np.ascontiguousarray(values)
        if numbers.dtype.kind == "f":  # by the bits of exponents: 80 times as fast as FLOAT16's least and greatest
            infinity = np.array(np.inf, numbers.dtype).view(f"u{numbers.itemsize}")
            if ((numbers.view(infinity.dtype) & infinity) == infinity).any():
                raise self.fault(f"{name} has NaN or infinity")
        return numbers
