"""``torch.compile(model, backend="dmlvk")`` beside PyTorch on the CPU."""

from __future__ import annotations

import copy
import logging
from collections.abc import Callable
from typing import Any

import pytest

import dmlvk as dml

torch = pytest.importorskip("torch")  # CI has it in a check of its own

import dmlvk.torch  # noqa: E402 - needs PyTorch
from dmlvk.graphs.plan import Plan  # noqa: E402
from dmlvk.torch.decompositions import decompositions  # noqa: E402
from dmlvk.torch.devices import device_for  # noqa: E402
from dmlvk.torch.lowering import LOWERINGS  # noqa: E402
from dmlvk.torch.support import NOT_LOWERED  # noqa: E402
from tests.counted_calls import calls_of  # noqa: E402
from tests.torch.networks import network  # noqa: E402

nn, functional = torch.nn, torch.nn.functional
LIMIT = 1e-4  # Of the largest element, as far as results may differ


def options(device: dml.Device) -> dict[str, object]:
    return {"device": device}


def compiled(model: Any, device: dml.Device, **named: Any) -> Any:
    return torch.compile(model, backend="dmlvk", options=options(device), **named)


def difference(got: Any, wanted: Any) -> float:
    assert got.shape == wanted.shape and got.dtype == wanted.dtype
    wide = wanted.double()
    return float((got.double() - wide).abs().max() / max(float(wide.abs().max()), 1e-30))


def test_a_network_is_one_graph_on_the_device_and_right(device: dml.Device, caplog: pytest.LogCaptureFixture) -> None:
    model, x = network().eval(), torch.randn(2, 3, 32, 32)
    with torch.no_grad(), caplog.at_level(logging.WARNING, "dmlvk"):
        assert difference(compiled(model, device, fullgraph=True)(x), model(x)) < LIMIT
    assert "the CPU computes" not in caplog.text


def test_weights_go_to_the_device_once_and_again_when_they_change(any_device: dml.Device) -> None:
    model, x = nn.Linear(8, 4).eval(), torch.randn(3, 8)
    run = compiled(model, any_device)
    _, residency = device_for(options(any_device))
    with torch.no_grad():
        run(x)
        before = residency.uploads
        run(x)
        assert residency.uploads == before + 1  # the input, which may have been written again unseen
        run(torch.randn(3, 8))
        assert residency.uploads == before + 2
        model.weight.mul_(2)
        assert difference(run(x), model(x)) < LIMIT


def test_what_only_the_backward_graph_reads_stays_on_the_device(any_device: dml.Device) -> None:
    model, x = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 4)), torch.randn(3, 8)
    made = compiled(model, any_device)(x)
    kept = [value for value in made.grad_fn.saved_tensors if isinstance(value, dmlvk.torch.DeviceTensor)]
    assert kept and all(value._host is None for value in kept)
    made.sum().backward()
    assert all(value._host is None for value in kept)
    hidden = next(value for value in kept if value.shape == (3, 16))
    assert difference(hidden * 1, model[1](model[0](x))) < LIMIT  # any other function gets its elements
    assert hidden.numpy().shape == (3, 16)


def test_weights_that_change_change_what_follows_from_them(any_device: dml.Device) -> None:
    model, x = nn.Sequential(nn.Conv2d(3, 4, 1), nn.BatchNorm2d(4)).eval(), torch.randn(2, 3, 4, 4)
    run = compiled(model, any_device)
    with torch.no_grad():
        for factor in (1, 3, 0.5):
            model[1].weight.mul_(factor)
            model[1].running_var.mul_(factor)
            for _ in range(2):
                assert difference(run(x), model(x)) < LIMIT, factor
        model[1].weight = nn.Parameter(torch.full((4,), 7.0))  # another tensor in the same place
        assert difference(run(x), model(x)) < LIMIT


class Positions(torch.nn.Module):  # type: ignore[misc, name-defined]  # of a package that may be missing
    """Tokens and their places, attention, the last place's logits."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding, self.mixed, self.head = nn.Embedding(50, 32), nn.Linear(32, 96), nn.Linear(32, 50)

    def forward(self, tokens: Any) -> Any:
        batch, count = tokens.shape
        x = self.embedding(tokens) + torch.arange(count)[None, :, None] * 0.01
        parts = self.mixed(x).reshape(batch, count, 3, 4, 8).permute(2, 0, 3, 1, 4).unbind(0)
        made = functional.scaled_dot_product_attention(*parts, is_causal=True)
        return self.head(made.transpose(1, 2).reshape(batch, count, 32)[:, -1:])


def test_sizes_may_vary_without_another_plan(any_device: dml.Device, monkeypatch: pytest.MonkeyPatch) -> None:
    plans = calls_of(monkeypatch, Plan, "__init__")
    model = Positions().eval()
    run = compiled(model, any_device, dynamic=True)
    with torch.no_grad():
        for batch, count in ((3, 12), (4, 12), (3, 16), (4, 9)):  # between the same powers of two
            tokens = torch.randint(0, 50, (batch, count))
            assert difference(run(tokens), model(tokens)) < LIMIT, count
            assert len(plans) == 1, (batch, count)
        model.head.weight.mul_(2)
        assert difference(run(tokens), model(tokens)) < LIMIT
        one = torch.randint(0, 50, (1, 1))  # sizes of 1 are planned as such
        assert difference(run(one), model(one)) < LIMIT


def test_training_with_sizes_that_vary(any_device: dml.Device) -> None:
    model = Positions()
    run = torch.compile(model, backend="dmlvk", options=options(any_device))
    for count in (5, 7, 6):
        tokens = torch.randint(0, 50, (2, count))
        torch._dynamo.maybe_mark_dynamic(tokens, 1)
        wanted = torch.autograd.grad(model(tokens).square().sum(), list(model.parameters()))
        found = torch.autograd.grad(run(tokens).square().sum(), list(model.parameters()))
        assert all(difference(own, other) < LIMIT for own, other in zip(found, wanted, strict=True)), count


@pytest.mark.parametrize("norm_first", [False, True])
def test_layers_that_pytorch_computes_as_one_operator_in_inference(
    any_device: dml.Device, caplog: pytest.LogCaptureFixture, norm_first: bool
) -> None:
    layer = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True, norm_first=norm_first)
    model, x = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False).eval(), torch.randn(2, 5, 16)
    mask = torch.tensor([[False] * 5, [False] * 3 + [True] * 2])
    with torch.no_grad(), caplog.at_level(logging.WARNING, "dmlvk"):
        run = compiled(lambda x: model(x, src_key_padding_mask=mask), any_device)
        assert difference(run(x), model(x, src_key_padding_mask=mask)) < LIMIT
    assert "the CPU computes" not in caplog.text


def test_dropout_has_eager_pytorchs_random_numbers_and_divides_nothing(
    any_device: dml.Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    graphs = calls_of(monkeypatch, Plan, "__init__")
    layers = [nn.Linear(8, 16), nn.Dropout(0.3), nn.GELU(), nn.Linear(16, 16), nn.Dropout(0.5), nn.Linear(16, 4)]
    model, x = nn.Sequential(*layers), torch.randn(6, 8)
    run = compiled(model, any_device)
    for seed in (1, 2):
        results = []
        for function in (model, run):
            torch.manual_seed(seed)
            y = function(x)
            results.append([y.detach(), *torch.autograd.grad(y.square().sum(), list(model.parameters()))])
        assert all(difference(found, wanted) < LIMIT for wanted, found in zip(*results, strict=True))
    assert len(graphs) == 2, "one forward, one backward"


def test_elements_scattered_by_a_mask(any_device: dml.Device) -> None:
    x, mask, source = torch.randn(3, 4, 5), torch.rand(3, 4, 1) < 0.5, torch.randn(60)

    def program(x: Any, source: Any) -> Any:
        return x.masked_scatter(mask, source) + x[0].masked_scatter(mask, source.reshape(5, 12))

    results = []
    for run in (program, compiled(program, any_device, fullgraph=True)):
        given = [x.clone().requires_grad_(), source.clone().requires_grad_()]
        y = run(*given)
        results.append([y.detach(), *torch.autograd.grad((y * x).sum(), given)])
    for wanted, found in zip(*results, strict=True):
        assert difference(found, wanted) < LIMIT


@pytest.mark.parametrize("is_causal", [False, True])
def test_attention_of_exported_programs_has_both_results(any_device: dml.Device, is_causal: bool) -> None:
    query, key, value = torch.randn(3, 2, 4, 5, 8).unbind()

    def program(query: Any, key: Any, value: Any) -> Any:
        mask = None if is_causal else query[0, 0, :, :5] * 0.5
        function = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu
        return function(query, key, value, is_causal=is_causal, attn_mask=mask)

    for found, wanted in zip(compiled(program, any_device)(query, key, value), program(query, key, value), strict=True):
        assert difference(found, wanted) < LIMIT


@pytest.mark.parametrize(("dtype", "limit"), [(torch.float16, 2e-3), (torch.bfloat16, 1.6e-2)], ids=str)
def test_half_precision(any_device: dml.Device, dtype: Any, limit: float) -> None:
    model = nn.Sequential(nn.Linear(16, 16), nn.GELU(), nn.LayerNorm(16)).eval()
    half, x = copy.deepcopy(model).to(dtype), torch.randn(4, 16)
    with torch.no_grad():
        made = compiled(half, any_device)(x.to(dtype))
        assert made.dtype is dtype
        wide = copy.deepcopy(half).to(torch.float32)(x.to(dtype).to(torch.float32))
        assert float((made.float() - wide).abs().max()) < limit * float(wide.abs().max())


def test_what_the_device_lacks_is_the_cpus_and_said_once(
    any_device: dml.Device, caplog: pytest.LogCaptureFixture
) -> None:
    def program(x: Any) -> Any:
        y = torch.tanh(x) * 2 + 1
        z = torch.linalg.inv(y @ y.T + 4 * torch.eye(4))
        return torch.relu(z - 0.1) * torch.exp(z)

    x = torch.randn(4, 6)
    with caplog.at_level(logging.WARNING, "dmlvk"):
        assert difference(compiled(program, any_device)(x), program(x)) < LIMIT
    assert caplog.text.count("the CPU computes linalg_inv_ex.default: it has no lowering") == 1


def test_core_aten_is_lowered_or_taken_apart_or_the_reason_is_said() -> None:
    taken_apart = decompositions()
    missing = set()
    for name in dir(torch.ops.aten):
        packet = getattr(torch.ops.aten, name)
        for overload in getattr(packet, "overloads", list)():
            operator = getattr(packet, overload)
            if torch.Tag.core in operator.tags and operator not in taken_apart:
                missing.add(str(operator).removeprefix("aten."))
    missing -= LOWERINGS.keys()
    assert missing - NOT_LOWERED.keys() == set()
    assert NOT_LOWERED.keys() & LOWERINGS.keys() == set()


def test_no_version_of_pytorch_changes_how_activations_are_computed() -> None:
    taken_apart = decompositions()
    for name in ("elu", "gelu", "hardsigmoid", "hardswish", "hardtanh", "leaky_relu", "mish", "silu", "softplus"):
        for operator in (getattr(torch.ops.aten, name).default, getattr(torch.ops.aten, f"{name}_backward").default):
            if operator in taken_apart:
                assert taken_apart[operator].__module__ == "dmlvk.torch.activations", operator
            else:
                assert str(operator).removeprefix("aten.") in LOWERINGS, operator


OPERATIONS: dict[str, Callable[[Any], Any]] = {
    "arithmetic": lambda x: (x + 1.5) * x - x / 3 + x.remainder(0.7) - (x.detach() // 0.4) + torch.fmod(x, 0.3),
    "functions": lambda x: x.exp() + x.abs().log1p() + x.sin() * x.cos() + x.erf() + x.expm1() + x.abs().rsqrt(),
    "rounding": lambda x: x.round() + x.floor() + x.ceil() + x.trunc() + x.sign(),
    "powers": lambda x: x**2 + x.abs() ** 0.5 + x.abs().pow(1.7) + 2.0**x,
    "comparisons": lambda x: ((x > 0) & (x < 1)).float() + (x == x).float() + torch.where(x >= 0.5, x, -x),
    "truth": lambda x: (~(x > 0)).to(torch.int64) + ((x > 0) ^ (x < 1)).to(torch.int64),
    "clamps": lambda x: x.clamp(-0.5, 0.5) + x.clamp(min=0.1) + torch.maximum(x, -x) + torch.minimum(x, x * 2),
    "sums": lambda x: (
        x.sum(-1, keepdim=True) + x.mean((0, 2), keepdim=True) + x.amax(1, keepdim=True) + x.prod(2)[..., None]
    ),
    "statistics": lambda x: (
        x.var(-1, keepdim=True) + x.std(1, keepdim=True, correction=0) + x.norm(dim=-1, keepdim=True)
    ),
    "places": lambda x: x.argmax(-1) + x.argmin(1)[:, :1] + x.max(2).indices,
    "softmax": lambda x: x.softmax(-1) + x.log_softmax(1) + x.cumsum(2),
    "views": lambda x: x.transpose(0, 2).reshape(5, -1)[:, 1::2].flip(0) + x.permute(2, 1, 0).flatten(1)[..., :6],
    "joins": lambda x: (
        torch.cat([x, x * 2], 1)[:, 2:7].unsqueeze(1).expand(-1, 2, -1, -1) + torch.stack([x[:, :1], -x[:, :1]], 1)
    ),
    "splits": lambda x: x.split([2, 3], 2)[1] + torch.chunk(x, 5, 2)[0],
    "indices": lambda x: (
        x[:, torch.tensor([2, 0, -1])] + x.index_select(1, torch.tensor([0, 1, 1])) + x.gather(2, (x > 0).long())[:, :3]
    ),
    "indices of later axes": lambda x: (
        x[:, torch.tensor([0, 1, 1]), torch.tensor([3, -1, 0])]
        + x[torch.tensor([2, 0]), :, torch.tensor([1, 1])][:1, :3].T[:3]
    ),
    "put": lambda x: (
        x.index_put((torch.tensor([0, 2]), torch.tensor([1, 3])), x[0, :2] * 2)
        + x.index_put((torch.tensor([1, 1]),), x[:2], accumulate=True)
        + torch.where(x > 0, x, 0.5).masked_fill(x > 1, 3.0)
    ),
    "put along later axes": lambda x: (
        torch.ops.aten.index_put.default(x, [None, torch.tensor([3, -3, 1])], x[:, :3] * 2, True)
        + torch.ops.aten.index_put.default(x, [None, torch.tensor([0, 2]), torch.tensor([1, 3])], x[:, 0, :2] * 2)
    ),
    "samples": lambda x: (
        functional.grid_sample(x[None], torch.linspace(-1.2, 1.2, 40).view(1, 4, 5, 2), align_corners=False)
        + functional.interpolate(x[None, :, :3, :3], (4, 5), mode="bilinear", align_corners=True)
        + functional.interpolate(x[None, :, :3, :3], (4, 5))
        + functional.interpolate(x[None, :, :3, :3], (4, 5), mode="bicubic")
        + functional.adaptive_avg_pool2d(x, (3, 2)).mean()
    ),
    "volumes": lambda x: functional.max_pool3d(x[None], 2, 1),
    "pairs of rows": lambda x: functional.pdist(x.flatten(1)) + functional.pdist(x[:, :, 0], p=1.0),
    "bags": lambda x: (
        functional.embedding_bag(torch.tensor([1, 2, 0, 2]), x[0, :3], torch.tensor([0, 3, 3]), mode="sum")
        + functional.embedding_bag(torch.tensor([[1, 2], [0, 1], [2, 2]]), x[1, :3], mode="mean")
    ),
    "added at indices": lambda x: (
        x.scatter_add(1, (x > 0).long(), x * 2) + x.index_add(0, torch.tensor([1, 1]), x[:2] * 3)
    ),
    "pairs of indices": lambda x: x[torch.tensor([0, 1, 1]), torch.tensor([3, -1, 0])],
    "scatter": lambda x: (
        x.scatter(2, (x[..., :2] > 0).long() * 2, x[..., :2] * 3)
        + torch.zeros_like(x).index_fill(1, torch.tensor([1]), 2.0)
    ),
    "pads": lambda x: (
        functional.pad(x, (1, 2, 0, 1), value=0.5)
        + functional.pad(functional.pad(x, (1, 2), mode="reflect"), (0, 0, 1, 0))
    ),
    "triangles": lambda x: x.tril() + x.triu(1) + torch.ones(4, 5).tril(),
    "top": lambda x: (
        x.topk(3, -1).values + x.sort(-1, descending=True).values[..., :3] + x.topk(3, -1, largest=False).indices
    ),
    "activations": lambda x: (
        functional.elu(x)
        + functional.leaky_relu(x, 0.2)
        + functional.hardswish(x)
        + functional.softplus(x)
        + functional.mish(x)
    ),
    "more activations": lambda x: (
        functional.logsigmoid(x) + functional.hardsigmoid(x * 2) + functional.relu6(x * 4) + functional.gelu(x)
    ),
    "GELU by tanh": lambda x: functional.gelu(x, approximate="tanh") + functional.silu(x) + functional.hardtanh(x),
    "integers": lambda x: (x * 7).to(torch.int32) * 3 - (x * 5).to(torch.int32) % 4 + torch.arange(5) // 2,
    "products": lambda x: torch.baddbmm(x @ x.mT, x, x.mT, beta=0.5, alpha=2) + torch.einsum("bij,bkj->bik", x, x),
    "attention": lambda x: functional.scaled_dot_product_attention(x[None], x[None], x[None], is_causal=True),
    "pools": lambda x: functional.avg_pool2d(x[None], 2, 1) + functional.max_pool2d(x[None], 2, 1),
    "means of parts": lambda x: (
        functional.adaptive_avg_pool2d(x[:, :, :4], (2, 2))
        + functional.adaptive_avg_pool3d(x[None, :, :, :4], (3, 2, 2))
    ),
    "diagonals": lambda x: x.diagonal(1, 1, 2)[:, :3] + x.diagonal(-1, 1, 2) + torch.as_strided(x * 1, (3, 3), (20, 1)),
    "what meets at indices": lambda x: (
        x.scatter_reduce(1, (x > 0).long(), x * 2, "amax") + x.scatter_reduce(2, (x > 0).long(), x, "sum")
    ),
    "distances": lambda x: torch.cdist(x, x.flip(1).detach() + 1) + torch.cdist(x, x.detach() - 2, p=1.0),
    "pools in a row": lambda x: functional.avg_pool1d(x, 3, 2, padding=1, count_include_pad=False),
    "larger": lambda x: (
        functional.interpolate(x[None], scale_factor=2)
        + functional.interpolate(x[None], scale_factor=2, mode="bilinear")
    ),
    "convolutions": lambda x: (
        functional.conv1d(x, torch.ones(6, 2, 3), padding=1, groups=2)
        + functional.conv_transpose1d(x, torch.ones(4, 6, 3), padding=1)
    ),
    "groups": lambda x: functional.group_norm(x, 2) + functional.layer_norm(x, (4, 5)) + functional.rms_norm(x, (5,)),
    "losses": lambda x: (
        functional.mse_loss(x, x * 0.9)
        + functional.smooth_l1_loss(x, x + 1)
        + functional.binary_cross_entropy_with_logits(x, (x > 0).float())
    ),
}


@pytest.mark.parametrize("name", OPERATIONS)
def test_operations_and_their_gradients(any_device: dml.Device, name: str) -> None:
    operation = OPERATIONS[name]
    base = torch.randn(3, 4, 5)
    values, gradients = [], []
    for run in (operation, compiled(operation, any_device)):
        x = base.clone().requires_grad_(True)
        made = run(x)
        values.append(made.detach())
        if made.requires_grad:
            (made.float() * torch.linspace(-1, 1, made.numel()).reshape(made.shape)).sum().backward()
            gradients.append(x.grad)
    assert difference(values[1], values[0]) < LIMIT
    if gradients:
        assert difference(gradients[1], gradients[0]) < LIMIT


def test_special_values_are_pytorchs(any_device: dml.Device) -> None:
    x = torch.tensor([float("nan"), float("inf"), -float("inf"), -0.0, 0.0, 65504.0])

    def program(x: Any) -> Any:
        return torch.stack(
            [x.clamp(-1, 1), torch.relu(x), torch.maximum(x, x * 0), x.exp(), x.sqrt(), x.amax() + 0 * x]
        )

    torch.testing.assert_close(compiled(program, any_device)(x), program(x), equal_nan=True, rtol=1e-6, atol=0)


def test_what_meets_at_a_place_leaves_others_alone(any_device: dml.Device) -> None:
    x, at, values = torch.randn(6, 3), torch.tensor([0, 2, 2, -1, 0]), torch.randn(5, 3)
    values[1, 1], values[0, 0] = float("inf"), float("nan")

    def put(x: Any) -> Any:
        return x.index_put((at,), values, accumulate=True)

    torch.testing.assert_close(compiled(put, any_device)(x), put(x), equal_nan=True)
    tokens = torch.tensor([[49999, 3, 3], [0, 3, 7]])  # of so many that pairs with all of them would be too many
    weight, gradient = torch.randn(50000, 4, requires_grad=True), torch.randn(2, 3, 4)
    gradient[0, 0, 0] = float("inf")
    looked_up = compiled(lambda weight: functional.embedding(tokens, weight, padding_idx=7), any_device)
    (found,) = torch.autograd.grad(looked_up(weight), weight, gradient)
    wanted = torch.zeros_like(weight).index_put((tokens.flatten(),), gradient.flatten(0, 1), accumulate=True)
    wanted[7] = 0
    torch.testing.assert_close(found, wanted, equal_nan=True)


@pytest.mark.parametrize("how", ["sum", "prod", "mean", "amax", "amin"])
def test_what_meets_with_and_without_what_was_there(any_device: dml.Device, how: str) -> None:
    x, at, values = torch.randn(4, 5), torch.randint(0, 5, (3, 7)), torch.randn(4, 8)
    values[0, 0], values[1, 1] = float("inf"), float("nan")

    def program(x: Any) -> Any:
        made = [x.scatter_reduce(1, at, values, how, include_self=is_there) for is_there in (True, False)]
        return made if how == "mean" else [*made, (x * 9).int().scatter_reduce(1, at, at.int(), how)]

    for found, wanted in zip(compiled(program, any_device)(x), program(x), strict=True):
        torch.testing.assert_close(found, wanted, equal_nan=True)


def test_the_same_bits_on_every_device() -> None:
    found: dict[bytes, str] = {}
    model, x = network().eval(), torch.randn(2, 3, 32, 32)
    for info in dml.list_devices():
        torch._dynamo.reset()
        with dml.Device(info.index) as device, torch.no_grad():
            found[compiled(model, device)(x).numpy().tobytes()] = info.name
    assert len(found) == 1, found


def test_an_exported_program_runs(any_device: dml.Device) -> None:
    model, x = network().eval(), torch.randn(2, 3, 32, 32)
    program = torch.export.export(model, (x,))
    with torch.no_grad():
        assert difference(dmlvk.torch.load(program, **options(any_device))(x), model(x)) < LIMIT


def test_tensors_without_contents_give_tensors_without_contents(device: dml.Device) -> None:
    """As with PyTorch's own backends: whoever asks for shapes alone has no data to copy."""
    found = compiled(lambda x: torch.relu(x) @ x.T, device)(torch.empty(3, 4, device="meta"))
    assert found.is_meta and found.shape == (3, 3)


def test_wrong_options_are_named() -> None:
    with pytest.raises(dml.InvalidArgumentError, match="there is no option"):
        dmlvk.torch.backend(torch.fx.symbolic_trace(nn.Linear(2, 2)), [torch.ones(1, 2)], options={"devise": 0})
    with pytest.raises(dml.InvalidArgumentError, match=r"needs a torch\.export\.ExportedProgram"):
        dmlvk.torch.load(nn.Linear(2, 2))


@pytest.mark.parametrize("function", [torch.softmax, torch.log_softmax])
def test_an_axis_that_a_tensor_lacks_is_refused_as_by_pytorch(function: Any) -> None:
    compiled = torch.compile(lambda x: function(x, 2), backend="dmlvk")
    with pytest.raises(Exception, match="Dimension out of range"):
        compiled(torch.ones(2, 3))
