"""All devices give equal bits, and the command that compares devices of several machines says so."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import dmlvk as dml
from dmlvk.conformance.cases import value_cases
from tests import hashes


def test_hashes_of_all_devices_are_equal(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """FLOAT16 of every operator that has it, with few patterns: ``test_values`` compares every single result."""
    file = tmp_path / "hashes.json"
    options = ["--operator", "float16", "--patterns", "65536", "--attribute-sets", "2"]
    status = hashes.main([*options, "--json", str(file)])
    output = capsys.readouterr()
    assert status == 0, output.out
    made = json.loads(file.read_text())
    assert list(made["hashes"]) == [case.name for case in value_cases() if "float16" in case.name]
    assert len(made["devices"]) == len([info for info in dml.list_devices() if info.usable])
    for case, digests in made["hashes"].items():
        assert set(digests) - {"reference"} == set(made["devices"])
        assert len(set(digests.values())) == 1, f"{case}: {digests}"
    exact = {case.name for case in value_cases() if case.desc_class.declaration.accuracy.promise != "accurate"}
    assert {case for case, digests in made["hashes"].items() if "reference" in digests} == exact & set(made["hashes"])
    different = {next(iter(digests.values())) for digests in made["hashes"].values()}
    # Equal by right are operators of the same function, and comparisons that no pattern of these tells apart.
    assert len(different) > len(made["hashes"]) // 2, "too many cases share a hash"


def test_a_different_bit_makes_a_different_verdict(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    first = hashes.report(operator="sign-int8", patterns=65536, attribute_sets=1)
    device = next(iter(first["devices"]))
    second = json.loads(json.dumps(first))
    second["hashes"]["sign-int8"][device] = "0" * 64
    files = [tmp_path / "first.json", tmp_path / "second.json"]
    for file, made in zip(files, (first, second), strict=True):
        file.write_text(json.dumps(made))
    assert hashes.main(["--compare", str(files[0]), str(files[0])]) == 0
    assert hashes.main(["--compare", *map(str, files)]) == 1
    assert f"sign-int8: {device} differs from the reference" in capsys.readouterr().out
    second["patterns"] = 1
    files[1].write_text(json.dumps(second))
    assert hashes.main(["--compare", *map(str, files)]) == 1
    assert "different cases or numbers of patterns" in capsys.readouterr().out
