"""What an operator brings besides its declaration, and the one line that names what is missing or fails.

A run of many operators goes on with the others: who asks for a facet gets :class:`FacetError` for whatever is wrong
with it, and nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeVar

from dmlvk.errors import DmlError

_Result = TypeVar("_Result")


class FacetError(DmlError):
    """An operator's reference or sampler is missing, fails, or gives what it may not; the message names both."""


def fault(operator_name: str, facet: str, words: str) -> FacetError:
    return FacetError(f"{operator_name}: {facet}: {words}")


def missing(operator_name: str, facet: str, folder: str) -> FacetError:
    """What is told of an operator that lacks something."""
    return fault(operator_name, facet, f"there is none in {folder}")


def result_of(operator_name: str, facet: str, compute: Callable[[], _Result]) -> _Result:
    """What a facet's function gives.

    Raises:
        FacetError: the function raised something.
    """
    try:
        return compute()
    except Exception as error:
        raise _failed(operator_name, facet, error) from error


def each_of(operator_name: str, facet: str, made: Iterator[_Result]) -> Iterator[_Result]:
    """What a facet's generator yields.

    Raises:
        FacetError: the generator raised something.
    """
    while True:
        try:
            value = next(made)
        except StopIteration:
            return
        except Exception as error:
            raise _failed(operator_name, facet, error) from error
        yield value


def _failed(operator_name: str, facet: str, error: Exception) -> FacetError:
    if isinstance(error, FacetError):
        return error  # of an operator that this one is made of
    innermost = error.__traceback__
    while innermost is not None and innermost.tb_next is not None:
        innermost = innermost.tb_next
    where = (
        ""
        if innermost is None
        else f" ({innermost.tb_frame.f_code.co_filename.rsplit('/', 1)[-1]}:{innermost.tb_lineno})"
    )
    return fault(operator_name, facet, f"{type(error).__name__}: {error}{where}")
