"""A step of training that fails or is interrupted anywhere is done or not done, and the next ones go on from there."""

from __future__ import annotations

from typing import Any

import pytest

import dmlvk as dml

torch = pytest.importorskip("torch")

from dmlvk.torch.device import recorder  # noqa: E402 - needs PyTorch
from tests.torch.test_optimizer import WAYS  # noqa: E402 - likewise

STEPS = 2  # In which something fails; as many follow

_MOST_CALLS = 60


class _Training:
    """A network with two groups of parameters, and the optimizer of them."""

    def __init__(self, where: str, way: dict[str, bool]) -> None:
        self._where, self._way = where, way
        self.model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.Tanh(), torch.nn.Linear(16, 4)).to(where)
        self.x, self.labels = torch.randn(6, 8), torch.randint(0, 4, (6,)).to(where)
        self._start = {name: value.clone() for name, value in self.model.state_dict().items()}
        self.begin()

    def begin(self) -> None:
        self.model.load_state_dict(self._start)
        groups = [
            {"params": list(layer.parameters()), "lr": lr}
            for layer, lr in zip(self.model[::2], (0.05, 0.02), strict=True)
        ]
        self.optimizer = torch.optim.Adam(groups, weight_decay=0.01, **self._way)
        torch.dmlvk.synchronize()

    def step(self) -> None:
        self.optimizer.zero_grad()
        torch.nn.functional.cross_entropy(self.model(self.x.to(self._where)), self.labels).backward()
        self.optimizer.step()
        torch.dmlvk.synchronize()

    def state(self) -> bytes:
        moments = [each for kept in self._kept() for _, each in sorted(kept.items())]
        return b"".join(each.detach().cpu().numpy().tobytes() for each in (*self.model.parameters(), *moments))

    def _kept(self) -> Any:
        return self.optimizer.state_dict()["state"].values()


@pytest.mark.parametrize("is_before", [True, False], ids=["before", "after"])
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", ["write", "submit_prepared", "begin", "record"])
def test_the_state_is_always_one_that_whole_steps_lead_to(
    strict: str, name: str, way: str, is_before: bool, any_device: dml.Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    training = _Training(strict, WAYS[way])
    wanted = []
    for _ in range(2 * STEPS):
        training.step()
        wanted.append(training.state())
    owner = type(any_device.engine) if name != "record" else recorder.Recorder
    name = "add" if name == "record" else name
    works = getattr(owner, name)
    failures = 0
    for call in range(_MOST_CALLS):
        calls = 0

        def fails(*arguments: Any, at: int = call, **named: Any) -> Any:
            nonlocal calls
            calls += 1
            if calls == at + 1 and is_before:
                raise KeyboardInterrupt
            made = works(*arguments, **named)
            if calls == at + 1:
                raise KeyboardInterrupt
            return made

        training.begin()
        has_failed = False
        monkeypatch.setattr(owner, name, fails)
        for _ in range(STEPS):
            try:
                training.step()
            except KeyboardInterrupt:
                has_failed = True
        monkeypatch.undo()
        failures += has_failed
        for more in range(STEPS):
            assert training.state() in wanted, f"{more} steps after call {call + 1} of {name} had failed"
            training.step()
        if not has_failed:
            break
    assert failures, f"nothing calls {name}"
