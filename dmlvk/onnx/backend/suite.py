"""Runs the ONNX project's own test suite: ``python -m dmlvk.onnx.backend.suite``.

Each case is loaded, run and compared within the suite's own tolerances. A case counts for the device when the host
computed nothing but shapes and constants in it.
"""

from __future__ import annotations

import collections
import dataclasses
import json
import logging
import re
import time
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import click
import numpy as np
import onnx
from onnx import numpy_helper
from onnx.backend.test.loader import load_model_tests
from onnx.backend.test.runner import Runner

from dmlvk.device import Device
from dmlvk.errors import DmlError
from dmlvk.onnx.api.session import InferenceSession
from dmlvk.onnx.backend.exclusions import reason_for
from dmlvk.support import faults

KINDS = ("node", "simple", "pytorch-operator", "pytorch-converted")


@dataclasses.dataclass(frozen=True)
class CaseResult:
    kind: str  # ``node`` and so on
    name: str  # the case's name
    op_type: str  # the operator of the model's first node
    # ``"device"``: right, by the device alone; ``"host"``: right, with nodes on the host; ``"excluded"``: not right,
    # for a known reason; ``"refused"``: dmlvk raised one of its errors; ``"wrong"``: another result, or another error
    outcome: str
    reason: str  # why it is not ``"device"``
    seconds: float  # that it took
    launches: int = 0  # kernels of a run, without those of graphs inside of nodes


def run_suite(device: Device, kinds: Sequence[str] = KINDS, pattern: str = "") -> list[CaseResult]:
    """Runs the cases whose names match a pattern.

    Args:
        device: where.
        kinds: which of :data:`KINDS`.
        pattern: a regular expression.
    """
    level = logging.getLogger("dmlvk").level
    logging.getLogger("dmlvk").setLevel(logging.ERROR)
    try:
        return [run_case(device, kind, case) for kind, case in cases(kinds, pattern)]
    finally:
        logging.getLogger("dmlvk").setLevel(level)


def cases(kinds: Sequence[str] = KINDS, pattern: str = "") -> Iterator[tuple[str, Any]]:
    for kind in kinds:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            found = load_model_tests(kind=kind)
        for case in sorted(found, key=lambda case: str(case.name)):
            if re.search(pattern, case.name):
                yield kind, case


def run_case(device: Device, kind: str, case: Any) -> CaseResult:
    start = time.perf_counter()
    op_type = ""

    def result(outcome: str, reason: str = "", launches: int = 0) -> CaseResult:
        known = reason_for(case.name)
        if outcome in ("wrong", "refused") and known is not None:
            outcome, reason = "excluded", known
        seconds = time.perf_counter() - start
        return CaseResult(
            kind, case.name, op_type, outcome, " ".join(reason.split())[:400], round(seconds, 4), launches
        )

    try:
        model = case.model if case.model is not None else onnx.load(Path(case.model_dir) / "model.onnx")
        op_type = next((node.op_type for node in model.graph.node), "")
        session = InferenceSession(model, device=device)
        check_results(session, model, case)
        hosted = [item for item in session.partition if item.place == "host"]
        launches = session.usage.launches
        session.close()
    except DmlError as error:
        return result("refused", str(error))
    except Exception as error:  # noqa: BLE001 - a case that fails in any way must not end the others
        return result("wrong", f"{type(error).__name__}: {error}")
    if hosted:
        return result("host", f"{hosted[0].op_type}, by {hosted[0].program}: {hosted[0].reason}", launches)
    return result("device", launches=launches)


def check_results(session: Any, model: onnx.ModelProto, case: Any) -> None:
    """Runs a case in a session, dmlvk's or ONNX Runtime's; raises an AssertionError where results are others."""
    names = [argument.name for argument in session.get_inputs()]
    for inputs, expected in data_sets(model, case):
        outputs = session.run(None, dict(zip(names, inputs, strict=False)))
        Runner.assert_similar_outputs(plain(expected), plain(outputs), case.rtol, case.atol)


def plain(values: Any) -> Any:
    """Types that NumPy compares with nothing else, such as FLOAT8, as FLOAT32; their values stay."""
    if isinstance(values, (list, tuple)):
        return [plain(value) for value in values]
    foreign = isinstance(values, np.ndarray) and values.dtype.kind == "V" and values.dtype.names is None
    return values.astype(np.float32) if foreign else values


def data_sets(model: onnx.ModelProto, case: Any) -> Iterator[tuple[list[Any], list[Any]]]:
    """A case's inputs, each time with the outputs that are expected."""
    if case.data_sets is not None:
        for inputs, outputs in case.data_sets:
            yield [_array(item) for item in inputs], [_array(item) for item in outputs]
        return
    for folder in sorted(Path(case.model_dir).glob("test_data_set*")):
        yield _read(folder, "input", model.graph.input), _read(folder, "output", model.graph.output)


def _array(item: Any) -> Any:
    return numpy_helper.to_array(item) if isinstance(item, onnx.TensorProto) else item


def _read(folder: Path, what: str, infos: Sequence[onnx.ValueInfoProto]) -> list[Any]:
    found: list[Any] = []
    for number, info in enumerate(infos):
        path = folder / f"{what}_{number}.pb"
        if not path.exists():
            break
        if info.type.WhichOneof("value") == "sequence_type":
            sequence = onnx.SequenceProto()
            sequence.ParseFromString(path.read_bytes())
            found.append(numpy_helper.to_list(sequence))
        else:
            tensor = onnx.TensorProto()
            tensor.ParseFromString(path.read_bytes())
            found.append(numpy_helper.to_array(tensor))
    return found


OUTCOMES = ("device", "host", "excluded", "refused", "wrong")


@click.command()
@click.option("--device", "-d", metavar="N|NAME", help="Index of a device, or a part of its name.")
@click.option("--kind", "kinds", multiple=True, type=click.Choice(KINDS), help="Only these kinds of cases.")
@click.option("--pattern", "-k", default="", help="Only cases whose names match this regular expression.")
@click.option("--json", "json_path", type=click.Path(dir_okay=False, path_type=Path), help="Where results are written.")
@click.option(
    "--page",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="A page of documentation whose table of cases is made anew; of a run with all cases.",
)
@click.option(
    "--stated",
    multiple=True,
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="A page whose table or sentence of these cases must say what this run finds; of a run with all cases.",
)
@click.option("--show", "-s", multiple=True, type=click.Choice(OUTCOMES), help="Lists the cases of this outcome.")
@click.pass_context
def main(
    context: click.Context,
    device: str | None,
    kinds: tuple[str, ...],
    pattern: str,
    json_path: Path | None,
    page: Path | None,
    stated: tuple[Path, ...],
    show: tuple[str, ...],
) -> None:
    """Run the ONNX project's test suite on a device and count what holds.

    Exit status 1: a case is wrong or refused that is not among the exclusions, or a page states other numbers.
    """
    if (page is not None or stated) and (kinds or pattern):
        raise click.UsageError("--page and --stated are for a run with all cases: without --kind and --pattern")
    faults.raise_all()
    with Device(int(device) if device is not None and device.isdecimal() else device) as opened:
        click.echo(f"Running on '{opened.info.name}', onnx {onnx.__version__}")
        results = run_suite(opened, kinds or KINDS, pattern)
        about = {"onnx": onnx.__version__, "device": opened.info.name}
    numbers = collections.Counter((result.kind, result.outcome) for result in results)
    idle = collections.Counter(item.kind for item in results if item.outcome == "host" and item.launches == 0)
    for kind in KINDS:
        found = [f"{numbers[kind, name]} {name}" for name in OUTCOMES if numbers[kind, name]]
        if found:
            total = sum(numbers[kind, name] for name in OUTCOMES)
            nothing = f"; {idle[kind]} with nodes on the host launch nothing" if idle[kind] else ""
            click.echo(f"{kind}: {total} cases: {', '.join(found)}{nothing}")
    for result in results:
        if result.outcome in show or (result.outcome in ("wrong", "refused") and not show):
            click.echo(f"{result.outcome:8} {result.name}: {result.reason}")
    if json_path is not None:
        contents = about | {"results": [dataclasses.asdict(result) for result in results]}
        json_path.write_text(json.dumps(contents, indent=1) + "\n", encoding="utf-8")
    counts = {kind: {name: numbers[kind, name] for name in OUTCOMES} for kind in KINDS}
    rows = [
        [kind, sum(of.values()), of["device"], of["host"], idle[kind], of["excluded"]] for kind, of in counts.items()
    ]
    if page is not None:
        put_table(page, f"onnx {onnx.__version__} on {about['device']}:", _COLUMNS, rows)
    wrong = misstatements({str(each): each.read_text(encoding="utf-8") for each in stated}, rows)
    for line in wrong:
        click.echo(line)
    context.exit(1 if wrong or any(result.outcome in ("wrong", "refused") for result in results) else 0)


_SENTENCE = re.compile(r"([\d,]+) of the ([\d,]+) node tests, ([\d,]+) by the device alone")


def misstatements(pages: Mapping[str, str], rows: Sequence[Sequence[object]]) -> list[str]:
    """What pages state of the cases that is not so; nothing where one of their tables is of another package onnx.

    Args:
        pages: their texts by their names, each with a sentence such as "7 of the 9 node tests, 5 by the device alone",
            or a table of cases.
        rows: for each kind of cases its name, and how many are in all, right on the device, right with the host,
            without a launch, and excluded.
    """
    found = []
    for name, page in pages.items():
        sentence = _SENTENCE.search(page)
        if sentence is not None:
            _, whole, device, host, *_ = rows[0]
            right = int(str(device)) + int(str(host))
            now = f"{right:,} of the {whole:,} node tests, {device:,} by the device alone"
            found += [f"{name}: says {sentence[0]!r}; it is {now!r}"] if sentence[0] != now else []
            continue
        table = table_in(page)
        if not table.startswith(f"onnx {onnx.__version__} "):
            return []
        lines = (f"| {' | '.join(map(str, row))} |" for row in rows)
        found += [f"{name}: its table lacks {line!r}" for line in lines if line not in table.splitlines()]
    return found


_COLUMNS = ("Cases", "All", "Device", "Host", "of these launch nothing", "Excluded")

_TABLE = re.compile(r"^onnx[^\n]* on [^\n]*:\n\n\| Cases \|.*?\n(?!\|)", re.MULTILINE | re.DOTALL)


def table_in(page: str) -> str:
    """A page's table of cases, below the line that says of which versions and device.

    Raises:
        ValueError: when the page has none, or several.
    """
    found = _TABLE.findall(page)
    if len(found) != 1:
        raise ValueError(f"a page must have one table of the ONNX project's cases; has {len(found)}")
    return str(found[0])


def put_table(page: Path, origin: str, columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Puts a table of cases where a page has one.

    Args:
        page: the page.
        origin: the line above it, ``onnx 1.0 on llvmpipe:``.
        columns: their titles.
        rows: a row for each kind of cases.

    Raises:
        ValueError: when the page has no table of cases, or several.
    """
    text = page.read_text(encoding="utf-8")
    lines = [origin, "", *(f"| {' | '.join(map(str, row))} |" for row in (columns, *rows))]
    lines.insert(3, "|---" * len(columns) + "|")
    page.write_text(text.replace(table_in(text), "\n".join(lines) + "\n"), encoding="utf-8")


if __name__ == "__main__":
    main()
