"""Looking inside: pictures, the values of every operator, what each kernel takes."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import numpy as np
import pytest

import dmlvk as dml
from dmlvk import functions as F
from tests.graphs.support import DIAMOND_OF_X, X, diamond

SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture
def model(any_device: dml.Device) -> dml.CompiledGraph:
    """Three kernels: EXP of a row, what it is used for, and another output."""
    graph = dml.Graph(any_device)
    a, row = graph.input("a & <b>", dml.FLOAT32, (4, 6)), graph.input("row", dml.FLOAT32, (6,))
    weights = graph.constant(np.arange(24, dtype=np.float32).reshape(4, 6), name='the "weights"')
    return graph.compile(y=F.clip(a * F.exp(row) + weights, min=0, max=9), root=F.sqrt(abs(row)))


def test_svg_shows_kernels_operators_and_tensors(model: dml.CompiledGraph, tmp_path: Path) -> None:
    model.write_picture(tmp_path / "graph.svg")
    root = ElementTree.parse(tmp_path / "graph.svg").getroot()
    texts = [text.text or "" for text in root.iter(f"{SVG}text")]
    assert len([text for text in texts if text.startswith("kernel ")]) == len(model.stages) == 3
    for wanted in ("a & <b>", "row", 'the "weights"', "y", "EXP", "MULTIPLY", "ADD", "CLIP", "SQRT", "ABS"):
        assert wanted in texts
    assert "FLOAT32 [4, 6]" in texts
    assert "FLOAT32 [4, 6], strides [0, 1]" in texts
    width, height = float(root.attrib["width"]), float(root.attrib["height"])
    boxes = [
        tuple(float(box.attrib[name]) for name in ("x", "y", "width", "height"))
        for box in root.iter(f"{SVG}rect")
        if box.attrib["class"] != "operator"
    ]
    assert all(x >= 0 and y >= 0 and x + w <= width and y + h <= height for x, y, w, h in boxes)
    for number, (x, y, w, h) in enumerate(boxes):  # nothing lies upon something else
        for x2, y2, w2, h2 in boxes[:number]:
            assert x + w <= x2 or x2 + w2 <= x or y + h <= y2 or y2 + h2 <= y
    arrows = [path for path in root.iter(f"{SVG}path") if "C" in path.attrib["d"]]
    assert len(arrows) == 7


def test_dot_is_what_graphviz_reads(model: dml.CompiledGraph, tmp_path: Path) -> None:
    model.write_picture(tmp_path / "graph.dot")
    text = (tmp_path / "graph.dot").read_text()
    assert len(re.findall(r"subgraph cluster_\d+ \{", text)) == len(model.stages)
    assert 'label="the \\"weights\\""' in text
    assert len(re.findall(r"^    \w+ -> node_\d+ ", text, re.MULTILINE)) == sum(
        len(node.reads()) for node in model.network.nodes
    )
    assert text.count("{") == text.count("}")
    if shutil.which("dot"):
        subprocess.run(["dot", "-Tsvg", "-o", tmp_path / "out.svg", tmp_path / "graph.dot"], check=True)


def test_pictures_have_a_known_suffix(model: dml.CompiledGraph, tmp_path: Path) -> None:
    with pytest.raises(dml.InvalidArgumentError, match=r"a \.svg or a \.dot file; got '.*graph\.png'"):
        model.write_picture(tmp_path / "graph.png")


def test_values_inside_a_fused_graph(device: dml.Device) -> None:
    compiled = device.compile_graph(diamond(device))
    assert len(compiled.stages) == 1
    values = compiled.node_values({"Input0": X})
    assert list(values) == ["sign", "threshold", "max", "sum"]
    assert (values["threshold"] == np.maximum(X, np.float32(0.25))).all()
    assert (values["sum"] == DIAMOND_OF_X).all()


def test_profile_and_trace(model: dml.CompiledGraph, any_device: dml.Device, tmp_path: Path) -> None:
    arrays = {"a & <b>": X, "row": X[0]}
    times = any_device.profile(model, arrays, repeats=3)
    assert [time.label for time in times] == [step.label for step in model.steps]
    assert all(time.seconds > 0 for time in times)
    dml.write_trace(tmp_path / "trace.json", times, any_device)
    events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    spans = [event for event in events if event["ph"] == "X"]
    assert [span["name"] for span in spans] == [time.label for time in times]
    assert spans[1]["ts"] == pytest.approx(spans[0]["ts"] + spans[0]["dur"])
    assert {event["args"]["name"] for event in events if event["ph"] == "M"} == {any_device.info.name, "compute queue"}
    for repeats in (0, True, "3"):
        with pytest.raises(dml.InvalidArgumentError, match="repeats"):
            any_device.profile(model, arrays, repeats=repeats)  # type: ignore[arg-type]  # refused
