"""What PyTorch computes as one submission: a CUDA graph."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

_WARM_UPS = 3  # Runs before, so that nothing is made once within the graph


def captured(torch: Any, run: Callable[[], object], runs: int = 1) -> Callable[[], object]:
    """A call that submits so many runs at once, without waiting.

    Raises:
        RuntimeError: what runs cannot be captured, as calls that wait for the device, or ask it how large a result is.
    """
    own, side = torch.cuda.current_stream(), torch.cuda.Stream()
    side.wait_stream(own)  # which makes what is read
    with torch.cuda.stream(side):
        for _ in range(_WARM_UPS):
            run()
    own.wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    # A capture that fails leaves its own stream behind as the current one.
    with torch.cuda.stream(own), torch.cuda.graph(graph):
        for _ in range(runs):
            run()
    replay: Callable[[], object] = graph.replay
    return replay
