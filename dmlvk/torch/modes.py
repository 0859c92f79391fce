"""Contexts that an interrupt does not leave behind."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import torch


@contextlib.contextmanager
def without_gradients() -> Iterator[None]:
    """As ``torch.no_grad()``, which leaves gradients off where an interrupt comes while it is entered.

    Of a generator that is dropped, Python executes the end.
    """
    before = torch.is_grad_enabled()
    try:
        torch._C._set_grad_enabled(False)
        yield
    finally:
        torch._C._set_grad_enabled(before)
