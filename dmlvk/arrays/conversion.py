"""Converts arrays that are given for tensors of another data type: where no value changes, or as the caller allows."""

from __future__ import annotations

import typing
from typing import Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from dmlvk.errors import InvalidArgumentError

Casting: TypeAlias = Literal["no", "equiv", "safe", "same_kind", "unsafe"]  # NumPy's words for what may be converted

CASTINGS: tuple[str, ...] = typing.get_args(Casting)


def checked_casting(casting: object) -> None:
    """Checks what a call says of conversions.

    Raises:
        InvalidArgumentError: when it is none of NumPy's words.
    """
    if casting is not None and (not isinstance(casting, str) or casting not in CASTINGS):
        raise InvalidArgumentError(f"run: casting must be one of {', '.join(CASTINGS)}, or None; got {casting!r}")


def converted(
    values: npt.NDArray[Any], wanted: np.dtype[Any], where: str, casting: Casting | None = None
) -> npt.NDArray[Any]:
    """An array of another data type.

    Args:
        values: of any data type; of numbers, where ``casting`` is ``None``.
        where: operator and member, for messages.
        casting: what NumPy's ``astype`` may convert; ``None``: whatever keeps every value.

    Raises:
        InvalidArgumentError: when it may not be converted; the message tells a value that would change.
    """
    if casting is not None:
        try:
            return values.astype(wanted, casting=casting)
        except (TypeError, ValueError):
            raise InvalidArgumentError(
                f"{where}: the array's dtype must be {wanted}; got {values.dtype}, which casting={casting!r} does not "
                "convert"
            ) from None
    with np.errstate(all="ignore"):
        made = values.astype(wanted)
        changed = np.logical_not(_same(values, made))
    if changed.any():
        first = np.unravel_index(int(np.argmax(changed)), changed.shape)
        location = f" at {[int(index) for index in first]}" if changed.ndim else ""
        raise InvalidArgumentError(
            f"{where}: the array's dtype must be {wanted}; got {values.dtype}, whose value {values[first]!s}{location} "
            f"{wanted} does not have: give an array of {wanted} (astype), or, to Device.run, casting='unsafe'"
        )
    return made


def _same(values: npt.NDArray[Any], made: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
    from_float, to_float = values.dtype.kind == "f", made.dtype.kind == "f"
    if from_float and to_float:
        same = (made.astype(values.dtype) == values) | (np.isnan(made) & np.isnan(values))
    elif from_float:  # what lies outside has no integer that is the same everywhere
        limits = np.iinfo(made.dtype)
        same = (values >= float(limits.min)) & (values < float(limits.max) + 1) & (made.astype(values.dtype) == values)
    elif to_float and values.dtype.kind != "b":
        limits = np.iinfo(values.dtype)
        same = (made.astype(np.float64) < float(limits.max) + 1) & (made.astype(values.dtype) == values)
    else:  # integers: those of other signs may have the same bits
        same = (made.astype(values.dtype) == values) & ((made < 0) == (values < 0))
    return np.asarray(same)
