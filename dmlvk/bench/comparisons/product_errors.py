"""Typical errors of products of matrices, beside NumPy's (OpenBLAS) and cuBLAS's."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import click
import numpy as np
import numpy.typing as npt

import dmlvk as dml
from dmlvk.bench.libraries import module
from dmlvk.bench.report import write_measured
from dmlvk.cli.selection import chosen_device, device_option, json_option
from dmlvk.datatypes import DataType

Array: TypeAlias = npt.NDArray[Any]
Product: TypeAlias = Callable[[Array, Array], Array]

ROWS = COLUMNS = 8
TERMS = (2**6, 2**10, 2**14, 2**20)
KINDS = ("normal", "all positive", "alternating", "cancelling", "huge", "tiny", "denormal")
DATA_TYPES = (dml.FLOAT32, dml.FLOAT16)


def operands(kind: str, terms: int, data_type: DataType) -> tuple[Array, Array]:
    """The two matrices of a kind, the same ones each time.

    normal: around 0. all positive. alternating: signs of products change from term to term. cancelling: the second
    half of the terms takes away all but 2^-12 of the first. huge, tiny: products near the ends of FLOAT32's range, or
    sums near those of FLOAT16's. denormal: all magnitudes down to denormal operands, and products below.
    """
    random = np.random.default_rng([KINDS.index(kind), terms])
    a, b = random.normal(size=(ROWS, terms)), random.normal(size=(terms, COLUMNS))
    half = data_type is DataType.FLOAT16
    if kind in ("all positive", "alternating"):
        a, b = np.abs(a), np.abs(b)
    if kind == "alternating":
        a[:, 1::2] *= -1
    if kind == "cancelling":
        middle = terms // 2
        a[:, middle : 2 * middle] = a[:, :middle]
        b[middle : 2 * middle] = -b[:middle] * (1 + 2.0**-12 * random.normal(size=(middle, COLUMNS)))
    scale = float(terms) ** -0.25 if half else 1.0  # sums stay within FLOAT16's range
    if kind == "huge":
        scale = 2.0**6.5 * scale if half else 2.0**52
    elif kind == "tiny":
        scale = 2.0**-5 * scale if half else 2.0**-55
    elif kind == "denormal":
        low, high = (-24, -4) if half else (-140, 0)
        a = a * np.exp2(random.integers(low, high, a.shape).astype(np.float64))
        b = b * np.exp2(random.integers(low, high, b.shape).astype(np.float64))
        scale = 1.0
    return (scale * a).astype(data_type.numpy_dtype), (scale * b).astype(data_type.numpy_dtype)


def true_sums(a: Array, b: Array) -> tuple[Array, Array]:
    """The sums of the products, and of their magnitudes."""
    values, magnitudes = np.zeros((2, a.shape[0], b.shape[1]))
    columns = np.ascontiguousarray(b.T, np.float64)
    for row, left in enumerate(a.astype(np.float64)):
        for column, right in enumerate(columns):
            products = left * right  # exact: 48 bits
            values[row, column] = products.sum()
            magnitudes[row, column] = np.abs(products, out=products).sum()
    return values, magnitudes


def errors(got: Array, a: Array, b: Array) -> Array:
    """How far results are from the true ones, in roundings of the sums of magnitudes."""
    values, magnitudes = true_sums(a, b)
    unit = 2.0**-11 * magnitudes + 2.0**-25 if a.dtype == np.float16 else 2.0**-24 * magnitudes + 2.0**-126
    found: Array = np.abs(got.astype(np.float64) - values) / unit
    return found


def on_device(device: dml.Device, flags: dml.ExecutionFlags) -> Product:
    """Dmlvk's own product."""

    def multiply(a: Array, b: Array) -> Array:
        data_type = DataType(a.dtype)
        none = dml.MatrixTransform.NONE
        desc = dml.Gemm(
            a_tensor=dml.TensorDesc(data_type, a.shape), b_tensor=dml.TensorDesc(data_type, b.shape),
            output_tensor=dml.TensorDesc(data_type, (a.shape[0], b.shape[1])),
            trans_a=none, trans_b=none, alpha=1.0, beta=0.0, fused_activation=None,
        )  # fmt: skip
        compiled = device.compile_operator(device.create_operator(desc), flags)
        return device.run(compiled, {"ATensor": a, "BTensor": b})["OutputTensor"]

    return multiply


def cublas() -> tuple[Product, dict[str, str]] | None:
    """CuBLAS's product through PyTorch, TF32 off, and who was asked; ``None`` where it has no GPU."""
    torch = module("torch")
    if torch is not None and torch.cuda.is_available():
        torch.backends.cuda.matmul.allow_tf32 = False
        torch.backends.cuda.matmul.allow_fp16_reduced_precision_reduction = False

        def in_torch(a: Array, b: Array) -> Array:
            made: Array = (torch.from_numpy(a).cuda() @ torch.from_numpy(b).cuda()).cpu().numpy()
            return made

        name = {"name": "cuBLAS", "version": f"PyTorch {torch.__version__}", "device": torch.cuda.get_device_name()}
        return in_torch, name
    return None


def measured(products: Mapping[str, Product], terms: Sequence[int]) -> Iterator[dict[str, Any]]:
    """For each data type, kind and number of terms the typical (root mean square) and the largest error of each."""
    for data_type in DATA_TYPES:
        for kind in KINDS:
            for count in terms:
                a, b = operands(kind, count, data_type)
                entry: dict[str, Any] = {"data_type": data_type.name, "kind": kind, "terms": count}
                for name, multiply in products.items():
                    found = errors(multiply(a, b), a, b)
                    typical = float(np.sqrt(np.mean(found * found)))
                    entry[name] = {"typical": float(f"{typical:.3g}"), "largest": float(f"{found.max():.3g}")}
                yield entry


def _terms(_: click.Context, __: click.Parameter, text: str) -> list[int]:
    try:
        counts = [int(part) for part in text.split(",")]
    except ValueError:
        raise click.BadParameter(f"{text!r} is no list of numbers") from None
    if min(counts) < 2 or max(counts) > 2**24:
        raise click.BadParameter(f"{text!r}: there are 2 to {2**24} terms")
    return counts


@click.command()
@device_option
@click.option("--terms", default=",".join(map(str, TERMS)), show_default=True, callback=_terms, help="Of each sum.")
@json_option
def command(device: str | None, terms: list[int], json_file: Path | None) -> None:
    """Measure errors, not time: each product has 8 x 8 results of so many terms each.

    An error is told in roundings of the sum of magnitudes: 2^-24 of the sum of |a b| for FLOAT32, 2^-11 for FLOAT16,
    and half of the smallest number on top of it. True sums are float64's: products of FLOAT32 are exact there, and
    NumPy adds them in pairs. cuBLAS is asked through PyTorch, where it is installed with CUDA.

    docs/accuracy.md shows what it wrote.
    """
    with dml.Device(chosen_device(device), arithmetic="portable") as opened:
        products: dict[str, Product] = {
            "dmlvk": on_device(opened, dml.ExecutionFlags.NONE),
            "dmlvk, device arithmetic": on_device(opened, dml.ExecutionFlags.ALLOW_DEVICE_ARITHMETIC),
            "NumPy": np.matmul,
        }
        libraries = [{"name": "NumPy", "version": np.__version__, "device": "processor"}]
        if (beside := cublas()) is not None:
            products["cuBLAS"], named = beside
            libraries.append(named)
        print(f"{opened.info.name}; typical / largest error, in roundings of the sum of magnitudes")
        entries = []
        for entry in measured(products, terms):
            entries.append(entry)
            figures = (f"{name} {entry[name]['typical']:.3g} / {entry[name]['largest']:.3g}" for name in products)
            print(f"  {entry['data_type']:8} {entry['kind']:13} {entry['terms']:8}  {'; '.join(figures)}", flush=True)
        if json_file is not None:
            write_measured(json_file, opened.info, libraries, entries)
