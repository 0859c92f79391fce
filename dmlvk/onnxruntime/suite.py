"""Runs the ONNX project's test suite through ONNX Runtime: ``python -m dmlvk.onnxruntime.suite``.

Each case runs by ONNX Runtime's CPU provider alone, and with dmlvk's provider before it. What the first one passes the
second one must pass.
"""

from __future__ import annotations

import collections
import dataclasses
import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click
import numpy as np
import onnx
import onnxruntime

import dmlvk.onnxruntime
from dmlvk.onnx.backend.exclusions import reason_for
from dmlvk.onnx.backend.suite import KINDS, cases, check_results, put_table

OUTCOMES = ("device", "shared", "host", "folded", "excluded", "refused", "wrong")
_SHOWN = ("Device", "Shared", "Host", "Folded", "Excluded")
"""Columns of the table: what is not right has none, and is missing in a row's sum."""


@dataclasses.dataclass(frozen=True)
class ProviderResult:
    """What became of a case that the CPU provider passes."""

    kind: str  # ``node`` and so on
    name: str  # the case's name
    # ``"device"``: right, all nodes on the device; ``"shared"``: right, some there; ``"host"``: right, none there;
    # ``"folded"``: right, and ONNX Runtime computed all when it was loaded; ``"excluded"``: not right, for a reason
    # of ``dmlvk.onnx``'s; ``"refused"``: an error; ``"wrong"``: another result
    outcome: str
    reason: str  # what is wrong
    on_device: int  # how many nodes the device has
    nodes: int  # how many there are, as ONNX Runtime runs the model


def session_of(model: bytes | str, providers: Sequence[Any]) -> onnxruntime.InferenceSession:
    """A session that notes who computes what, and never tries again with other providers."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.add_session_config_entry("session.record_ep_graph_assignment_info", "1")
    session = onnxruntime.InferenceSession(model, options, providers=list(providers))
    session.disable_fallback()
    return session


def _passes(session: onnxruntime.InferenceSession, model: onnx.ModelProto, case: Any) -> str:
    """What is wrong; empty: nothing."""
    try:
        check_results(session, model, case)
    except AssertionError as error:
        return f"wrong: {error}"
    except Exception as error:  # noqa: BLE001 - whatever ONNX Runtime raises is a result
        return f"refused: {error}"
    return ""


def run_case(kind: str, case: Any) -> ProviderResult | None:
    """Runs one case; ``None``: the CPU provider does not pass it."""
    model = case.model if case.model is not None else onnx.load(Path(case.model_dir) / "model.onnx")
    source = model.SerializeToString() if case.model is not None else str(Path(case.model_dir) / "model.onnx")
    try:
        alone = session_of(source, ["CPUExecutionProvider"])
    except Exception:  # noqa: BLE001 - ONNX Runtime does not have the operator, or the version
        return None
    if _passes(alone, model, case):
        return None
    try:
        session = session_of(source, [dmlvk.onnxruntime.PROVIDER, "CPUExecutionProvider"])
    except Exception as error:  # noqa: BLE001 - likewise
        return ProviderResult(kind, case.name, "refused", f"{error}", 0, 0)
    if dmlvk.onnxruntime.PROVIDER not in session.get_providers():
        return ProviderResult(kind, case.name, "refused", "the provider could not be made", 0, 0)
    counts = {part.ep_name: 0 for part in session.get_provider_graph_assignment_info()}
    for part in session.get_provider_graph_assignment_info():
        counts[part.ep_name] += len(part.get_nodes())
    on_device, nodes = counts.get(dmlvk.onnxruntime.PROVIDER, 0), sum(counts.values())
    outcome, _, reason = _passes(session, model, case).partition(": ")
    if not outcome:
        outcome = "shared" if on_device else "host" if nodes else "folded"
        outcome = "device" if on_device == nodes and nodes else outcome
    elif reason_for(case.name) is not None:
        outcome, reason = "excluded", reason_for(case.name) or ""
    return ProviderResult(kind, case.name, outcome, " ".join(reason.split())[:400], on_device, nodes)


def run_suite(kinds: Sequence[str] = KINDS, pattern: str = "") -> list[ProviderResult]:
    """Runs the cases whose names match a pattern.

    Args:
        kinds: which of ``KINDS``.
    """
    logging.getLogger("dmlvk").setLevel(logging.ERROR)
    onnxruntime.set_default_logger_severity(4)
    with np.errstate(all="ignore"):
        return [result for each in cases(kinds, pattern) if (result := run_case(*each)) is not None]


@click.command()
@click.option("--kind", "kinds", multiple=True, type=click.Choice(KINDS), help="Only these kinds of cases.")
@click.option("--pattern", "-k", default="", help="Only cases whose names match this regular expression.")
@click.option(
    "--page",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="A page of documentation whose table of cases is made anew; of a run with all cases.",
)
@click.option("--show", "-s", multiple=True, type=click.Choice(OUTCOMES), help="Lists the cases of this outcome.")
@click.pass_context
def main(
    context: click.Context, kinds: tuple[str, ...], pattern: str, page: Path | None, show: tuple[str, ...]
) -> None:
    """Run the ONNX project's test suite by ONNX Runtime with dmlvk's provider, and count what holds.

    Exit status 1: a case is wrong or refused that the CPU provider passes.
    """
    if page is not None and (kinds or pattern):
        raise click.UsageError("--page is for a run with all cases: without --kind and --pattern")
    device = dmlvk.onnxruntime.devices()[0].ep_metadata["name"]
    click.echo(f"Running on '{device}', onnxruntime {onnxruntime.__version__}, onnx {onnx.__version__}")
    results = run_suite(kinds or KINDS, pattern)
    numbers = collections.Counter((result.kind, result.outcome) for result in results)
    rows = []
    for kind in KINDS:
        found = [result for result in results if result.kind == kind]
        if found:
            outcomes = {name: numbers[kind, name] for name in OUTCOMES}
            there, nodes = sum(result.on_device for result in found), sum(result.nodes for result in found)
            rows.append([kind, len(found), *(outcomes[name.lower()] for name in _SHOWN), f"{there} of {nodes}"])
            said = ", ".join(f"{number} {name}" for name, number in outcomes.items() if number)
            click.echo(f"{kind}: {len(found)} cases that CPU passes: {said}; {there} of {nodes} nodes on the device")
    for result in results:
        if result.outcome in show or (result.outcome in ("wrong", "refused") and not show):
            click.echo(f"{result.outcome:8} {result.name}: {result.reason}")
    if page is not None:
        origin = f"onnxruntime {onnxruntime.__version__}, onnx {onnx.__version__} on {device}:"
        put_table(page, origin, ("Cases", "CPU passes", *_SHOWN, "Nodes on the device"), rows)
    context.exit(1 if any(result.outcome in ("wrong", "refused") for result in results) else 0)


if __name__ == "__main__":
    main()
