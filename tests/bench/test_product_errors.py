"""``dmlvk bench product-errors``: data are what they are called, errors right, the table complete."""

from __future__ import annotations

import json
from fractions import Fraction
from pathlib import Path

import click
import numpy as np
import pytest

import dmlvk as dml
from dmlvk.bench.comparisons.product_errors import DATA_TYPES, KINDS, command, errors, operands, true_sums
from dmlvk.spirv.specialization import NAIVE_DRIVERS
from scripts.docs_tools.product_errors import product_errors_section


@pytest.mark.parametrize("data_type", DATA_TYPES, ids=lambda t: t.name)
@pytest.mark.parametrize("terms", [2, 64, 1000])
def test_kinds_are_what_they_are_called(data_type: dml.DataType, terms: int) -> None:
    made = {kind: tuple(m.astype(np.float64) for m in operands(kind, terms, data_type)) for kind in KINDS}
    assert all(np.isfinite(a).all() and np.isfinite(b).all() for a, b in made.values())
    a, b = made["all positive"]
    assert (a >= 0).all() and (b >= 0).all()
    a, b = made["alternating"]
    assert (a[:, ::2] >= 0).all() and (a[:, 1::2] <= 0).all() and (b >= 0).all()
    a, b = made["cancelling"]
    assert (np.abs(a @ b) < 2.0**-9 * (np.abs(a) @ np.abs(b))).all()
    largest = np.finfo(data_type.numpy_dtype).max
    a, b = made["huge"]
    assert largest / 2**26 < (np.abs(a) @ np.abs(b)).max() and np.abs(a @ b).max() < largest
    smallest = float(np.finfo(data_type.numpy_dtype).smallest_normal)
    a, b = made["denormal"]
    if terms == 1000:
        assert ((a != 0) & (np.abs(a) < smallest)).any() and (np.abs(a[:, :, None] * b) < smallest).any()


def test_true_sums_and_errors_are_those_of_fractions() -> None:
    a, b = operands("denormal", 37, dml.FLOAT32)
    values, magnitudes = true_sums(a, b)
    terms = [Fraction(float(x)) * Fraction(float(y)) for x, y in zip(a[3], b[:, 5], strict=True)]
    assert values[3, 5] == pytest.approx(float(sum(terms)), rel=1e-14)
    assert magnitudes[3, 5] == pytest.approx(float(sum(map(abs, terms))), rel=1e-14)
    ones = np.ones((8, 4), np.float32)
    got = np.full((8, 8), 4, np.float32)
    got[2, 3] = np.nextafter(np.float32(4), np.float32(5))
    found = errors(got, ones, np.ascontiguousarray(ones.T))
    assert found[2, 3] == pytest.approx(2.0**-21 / (4 * 2.0**-24)) and found.sum() == found[2, 3]


def test_the_command_writes_what_it_prints_and_the_table_shows_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "errors.json"
    usable = [info for info in dml.list_devices() if info.usable]
    quick = [info for info in usable if info.driver not in NAIVE_DRIVERS] or usable  # to compile
    options = ["-d", str(quick[0].index), "--terms", "4,33", "--json", str(file)]
    command.main(options, standalone_mode=False)
    printed = capsys.readouterr().out
    document = json.loads(file.read_text())
    assert len(document["results"]) == len(DATA_TYPES) * len(KINDS) * 2 == printed.count("; NumPy ")
    for entry in document["results"]:
        # Of so few terms the worst that is promised is near.
        assert entry["dmlvk"]["typical"] <= entry["dmlvk"]["largest"] <= entry["terms"] + 3
    text = "\n".join(product_errors_section(file))
    assert text.count("| not yet |") == len(document["results"]) and "cuBLAS was not measured yet" in text
    assert text.count("| data, FLOAT32 |") == text.count("| data, FLOAT16 |") == 1
    assert all(text.count(f"\n| {kind} | {terms} |") == len(DATA_TYPES) for kind in KINDS for terms in (4, 33))
    document["libraries"].append({"name": "cuBLAS", "version": "PyTorch 9", "device": "a GPU"})
    for entry in document["results"]:
        entry["cuBLAS"] = {"typical": 0.125, "largest": 0.5}
    file.write_text(json.dumps({**document, "device_kind": "discrete GPU"}))
    text = "\n".join(product_errors_section(file))
    assert "| dmlvk, device arithmetic |" in text and "cuBLAS by PyTorch 9" in text
    assert "not yet" not in text and text.count("| 0.12, 0.5 |") == len(document["results"])


@pytest.mark.parametrize("wrong", ["", "1", "x", "64,", "99999999"])
def test_wrong_numbers_of_terms_are_refused(wrong: str) -> None:
    with pytest.raises(click.BadParameter, match=r"no list of numbers|there are 2 to") as refused:
        command.main(["--terms", wrong], standalone_mode=False)
    assert refused.value.param is not None and refused.value.param.name == "terms"
