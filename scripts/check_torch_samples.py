#!/usr/bin/env python3
"""Compare operators of dmlvk with PyTorch's CPU, on the samples that PyTorch tests them with (OpInfo).

    python scripts/check_torch_samples.py [NAME ...] [--samples 2] [--part 1/10] [--device]

Needs the package expecttest, as those samples do. Each operator of FLOAT32 is compiled alone and called with its
samples. With --device it is not compiled, and its samples are on the device: a line for each operator says whether it
is computed there, what the CPU computes, or which type or kind of tensors the device lacks. What differs from one run
on the CPU to the next (random numbers, memory that is not written), and what the CPU refuses, is left out. A result is
right within 1e-3, of the largest number in it where that is above 1. What dmlvk leaves to PyTorch's CPU is compared,
too, and equal.

With --device, what the CPU computes must be on the list of docs/how-to/pytorch.md.

Exit status: 0 all are right, 1 some are not, or the page does not list them, 2 wrong usage.
"""

from __future__ import annotations

import argparse
import itertools
import logging
import re
import sys
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import torch
from torch.testing._internal.common_methods_invocations import op_db
from torch.utils._pytree import tree_leaves, tree_map

import dmlvk.torch
from dmlvk.errors import DataTypeError, UnsupportedError
from dmlvk.torch.device import NAME
from dmlvk.torch.types import DATA_TYPES

_NEAR = 1e-3

_HAS_FREE_SIGNS = ("linalg.eigh",)
"""Operators of whose results the sizes are compared: the signs of eigenvectors are free."""


def _tensors(made: Any) -> list[torch.Tensor]:
    return [leaf.detach() for leaf in tree_leaves(made) if isinstance(leaf, torch.Tensor)]


def _error(got: Sequence[torch.Tensor], wanted: Sequence[torch.Tensor]) -> str:
    """What is wrong; empty: nothing."""
    if [(item.shape, item.dtype) for item in got] != [(item.shape, item.dtype) for item in wanted]:
        return f"gives {[(list(item.shape), item.dtype) for item in got]}"
    for a, b in zip(got, wanted, strict=True):
        if a.layout is not torch.strided or not b.numel():
            continue
        if not b.is_floating_point():
            if not torch.equal(a, b):
                return f"{int((a != b).sum())} of {b.numel()} differ"
            continue
        finite = b[b.isfinite()].abs()
        most = max(1.0, float(finite.max()) if finite.numel() else 1.0)
        if not torch.allclose(a, b, rtol=0, atol=_NEAR * most, equal_nan=True):
            far = (a.double() - b.double()).abs()
            return f"differs by {float(far.nan_to_num().max()):.1e}, the largest is {most:.1e}"
    return ""


def _on_device(item: Any) -> Any:
    return item.to(NAME) if isinstance(item, torch.Tensor) and item.dtype in DATA_TYPES else item


def _checked(call: Callable[..., Any], make: Callable[[], Sequence[Any]], *, is_compiled: bool) -> str | None:
    """What is wrong with a call on one sample; ``None``: it cannot be compared."""
    runs = []
    for seed in (0, 1):
        torch.manual_seed(seed)
        try:
            runs.append(_tensors(call(*make())))
        except (AssertionError, NotImplementedError, RuntimeError):  # what wants another device, say
            return None
    if not runs[0] or any(item.dtype is torch.complex32 for item in runs[0]) or _error(runs[1], runs[0]):
        return None
    torch._dynamo.reset()
    torch.manual_seed(0)
    if is_compiled:
        return _error(_tensors(torch.compile(call, backend="dmlvk")(*make())), runs[0])
    given = tree_map(lambda item: _on_device(item) if isinstance(item, torch.Tensor) else item, make())
    named = {
        name: NAME if isinstance(item, (str, torch.device)) and name == "device" else item
        for name, item in given[2].items()
    }
    return _error([item.cpu() for item in _tensors(call(*given[:2], named))], runs[0])


def _check(info: Any, count: int, *, is_compiled: bool) -> tuple[int, list[str], list[str]]:
    """How many samples of an operator were compared, what is wrong, and what the device refuses by name."""
    compared, wrong, refused = 0, [], []
    for sample in itertools.islice(info.sample_inputs("cpu", torch.float32), count):

        def call(first: Any, rest: Any, named: Any) -> Any:
            made = info.op(first, *rest, **named)
            return tree_map(torch.abs, tuple(made)) if info.name in _HAS_FREE_SIGNS else made

        def make(sample: Any = sample) -> Sequence[Any]:
            copied = sample.transform(lambda item: item.clone() if isinstance(item, torch.Tensor) else item)
            return copied.input, copied.args, copied.kwargs

        try:
            found = _checked(call, make, is_compiled=is_compiled)
        except (DataTypeError, UnsupportedError) as error:
            refused.append(str(error).partition(";")[0])
            continue
        except Exception as error:  # noqa: BLE001 - any kind is a finding
            found = f"{type(error).__name__}: {str(error).strip().splitlines()[0][:160]}"
        compared += found is not None
        if found:
            wrong.append(found)
    return compared, wrong, refused


def _listed() -> list[str]:
    """What the page says that the CPU computes."""
    page = (Path(__file__).resolve().parent.parent / "docs/how-to/pytorch.md").read_text(encoding="utf-8")
    found = page[page.index("Lacking are ") :]
    return re.findall(r"`(\w+)`", found[: found.index("Refused by name")])


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the script; returns the exit status."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help="of operators, as OpInfo has them; default: all")
    parser.add_argument("--samples", type=int, default=2, help="of each operator, at most")
    parser.add_argument("--device", action="store_true", help="eager, with tensors on the device")
    parser.add_argument("--part", default="1/1", metavar="N/M", help="every M-th operator, from the N-th on")
    options = parser.parse_args(arguments)
    warnings.simplefilter("ignore")
    logging.getLogger("dmlvk").setLevel(logging.ERROR)
    number, parts = map(int, options.part.split("/"))
    infos = [
        info
        for info in op_db
        if torch.float32 in info.dtypes
        and not info.name.removeprefix("new_").startswith("empty")
        and (not options.names or info.name in options.names)
    ]
    compared = failed = operators = whole = 0
    unlisted: set[str] = set()
    for info in infos[number - 1 :: parts]:
        before = dmlvk.torch.device.fallbacks()
        count, wrong, refused = _check(info, options.samples, is_compiled=not options.device)
        operators, compared, failed = operators + bool(count), compared + count, failed + bool(wrong)
        for found in dict.fromkeys([*wrong, *refused]):
            print(f"{info.formatted_name}: {found}", flush=True)
        left = [name for name, times in dmlvk.torch.device.fallbacks().items() if times > before.get(name, 0)]
        if options.device:
            unlisted |= {name for name in left if not any(listed in name for listed in _listed())}
        if options.device and count and not wrong:
            whole += not left and not refused
            where = f"the CPU computes {', '.join(left)}" if left else "on the device"
            print(f"{info.formatted_name}: {where}", flush=True)
    print(f"{operators} operators, {compared} samples: {failed} operators are wrong, by PyTorch {torch.__version__}")
    if options.device:
        print(f"{whole} of them are wholly computed on the device")
    if unlisted:
        print(f"docs/how-to/pytorch.md does not list: {', '.join(sorted(unlisted))}")
    return 1 if failed or unlisted else 0


if __name__ == "__main__":
    assert dmlvk.torch  # importing it registers the backend
    sys.exit(main())
