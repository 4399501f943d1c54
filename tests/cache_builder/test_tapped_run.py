"""Any model and loader to a shard: what it holds, what is refused, and that a killed extraction goes on."""

from __future__ import annotations

import sys
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from cache_builder import tapped_run
from cache_builder.__main__ import main
from cache_builder.extract import extract_run
from cache_builder.tapped_run import logits_of
from cache_builder.taps import AttentionTap, NormTap, RouterTap, SoftmaxTap, tap
from cache_builder.taps.parse import parse_tap
from engine.core.errors import CacheError, InvalidInput, UnknownName
from engine.store import read_shard, verify_shard


class Routed(nn.Module):
    """A gate over four experts for every token; classes from the mean token, or of every token."""

    def __init__(self, by_token: bool = False) -> None:
        super().__init__()
        self.gate, self.head, self.by_token = nn.Linear(6, 4), nn.Linear(4, 3), by_token

    def forward(self, x: Tensor) -> Tensor:
        routed = self.gate(x).softmax(dim=-1)
        return self.head(routed if self.by_token else routed.mean(1))


def build(by_token: bool = False) -> Routed:
    torch.manual_seed(0)
    return Routed(by_token)


def loader() -> list[tuple[Tensor, Tensor]]:
    generator = torch.Generator().manual_seed(0)
    x, y = torch.randn(50, 5, 6, generator=generator), torch.randint(0, 3, (50,), generator=generator)
    return list(zip(x.split(8), y.split(8), strict=True))


TAP = SoftmaxTap(axis=-1, size=4)


def test_a_run_holds_what_the_model_computes(tmp_path):
    model, batches, told = build().train(), loader(), []
    path = extract_run(
        model, batches, tap=TAP, run_id="mine", out=tmp_path, dataset="mine", seed=3,
        progress=lambda share, text: told.append((share, text)),
    )  # fmt: skip
    record = verify_shard(path)
    x, y = (torch.cat(parts) for parts in zip(*batches, strict=True))
    with torch.no_grad(), tap(model, TAP) as capture:
        np.testing.assert_allclose(record.logits, model(x).numpy(), atol=1e-6)
        np.testing.assert_allclose(record.entropies, capture.take().numpy(), atol=1e-6)
    np.testing.assert_array_equal(record.labels, y.numpy())
    assert model.training
    assert (record.backbone, record.dataset, record.variant, record.seed) == ("Routed", "mine", "extracted", 3)
    assert {
        "tap": "softmax",
        "axis": -1,
        "size": 4,
        "places": ["Routed"],
        "left_out": [],
    }.items() <= record.capture.items()
    assert record.layers[0].n_sources == 4
    assert record.clusters is None
    assert record.provenance["source"] == "cache_builder extract_run"
    assert told[-1] == (1.0, "7 batches")
    assert [entry.name for entry in tmp_path.iterdir()] == ["mine.parquet"]
    assert extract_run(model, batches, tap=TAP, run_id="mine", out=tmp_path, dataset="mine", seed=3) == path
    nn.init.zeros_(model.head.bias)
    with pytest.raises(InvalidInput, match="not taken"):
        extract_run(model, batches, tap=TAP, run_id="mine", out=tmp_path, dataset="mine", seed=3)


def test_a_killed_extraction_goes_on(tmp_path, monkeypatch):
    monkeypatch.setattr(tapped_run, "PART_BATCHES", 2)
    whole = extract_run(build(), loader(), tap=TAP, run_id="mine", out=tmp_path / "whole")
    model, batches, seen = build(), loader(), []

    def killed():
        yield from batches[:5]
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        extract_run(model, killed(), tap=TAP, run_id="mine", out=tmp_path)
    with pytest.raises(CacheError, match="other batches"):
        extract_run(model, batches[::-1], tap=TAP, run_id="mine", out=tmp_path)
    with pytest.raises(CacheError, match="another model or tap"):
        extract_run(model, batches, tap=SoftmaxTap(), run_id="mine", out=tmp_path)
    model.register_forward_hook(lambda _m, inputs, _o: seen.append(len(inputs[0])))
    path = extract_run(model, batches, tap=TAP, run_id="mine", out=tmp_path)
    assert seen == [8, 8, 2]  # four batches were done, in two parts
    one, other = read_shard(path), read_shard(whole)
    for name in ("logits", "labels", "entropies"):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name))
    assert one.provenance["data_fingerprint"] == other.provenance["data_fingerprint"]
    assert one.capture == other.capture


def test_tokens_are_samples_and_their_sequence_is_the_cluster(tmp_path):
    model, x = build(by_token=True), torch.randn(7, 5, 6)
    labels = torch.randint(0, 3, (7, 5))
    labels[2, 3:] = -100  # padding
    batches = [{"x": part, "labels": some} for part, some in zip(x.split(4), labels.split(4), strict=True)]
    record = read_shard(extract_run(model, batches, tap=TAP, run_id="tokens", out=tmp_path))
    kept = labels.flatten() >= 0
    assert record.n_samples == 33
    np.testing.assert_array_equal(record.clusters, np.arange(7).repeat(5)[kept.numpy()])
    alpha = model.gate(x).softmax(-1).detach().double().flatten(0, 1)[kept]
    expected = torch.special.entr(alpha).sum(-1) / np.log(4)
    np.testing.assert_allclose(record.entropies[:, 0], expected, atol=1e-6)


def test_a_function_from_a_batch_to_logits_labels_and_clusters(tmp_path):
    model = build()

    def step(batch):
        x, y = batch
        return model(x).double(), y, [f"story {int(label)}" for label in y]

    record = read_shard(extract_run(model, loader(), tap=TAP, run_id="a", out=tmp_path, step=step))
    np.testing.assert_array_equal(record.clusters, record.labels)
    three = [(x, y, y) for x, y in loader()]
    again = read_shard(extract_run(model, three, tap=TAP, run_id="b", out=tmp_path))
    np.testing.assert_array_equal(again.clusters, record.labels)
    plain = extract_run(lambda x: model(x), loader(), tap=SoftmaxTap(), run_id="c", out=tmp_path, backbone="function")
    np.testing.assert_array_equal(read_shard(plain).entropies, record.entropies)


def test_norms_and_switch_rates_become_extra_columns(tmp_path):
    blocks = nn.Sequential(nn.Sequential(nn.Linear(6, 6), nn.ReLU()), nn.Sequential(nn.Flatten(), nn.Linear(30, 3)))
    record = read_shard(extract_run(blocks, loader(), tap=NormTap(), run_id="norms", out=tmp_path))
    assert record.n_layers == 0
    assert record.extra_names == ("0 norm", "1 norm")
    model = build()
    model.gate.forward = lambda x: x[..., :4].argmax(-1, keepdim=True)
    model.forward = lambda x: model.head(nn.functional.one_hot(model.gate(x)[..., 0], 4).float().mean(1))
    record = read_shard(extract_run(model, loader(), tap=RouterTap(size=4), run_id="ids", out=tmp_path))
    assert (record.n_layers, record.extra_names) == (1, ("gate switch rate",))


def test_logits_of_what_models_return():
    logits = torch.ones(2, 3)
    for output in (logits, (logits, None), [None, logits], {"loss": torch.ones(()), "logits": logits}, {"y": logits},
                   SimpleNamespace(logits=logits)):  # fmt: skip
        assert logits_of(output) is logits
    with pytest.raises(InvalidInput, match=r"^model: expected one that returns logits"):
        logits_of("nothing")


WRONG = {
    "labels of another length": (lambda x, y: (x, y[:-1]), "batch: expected logits .n, classes"),
    "no labels": (lambda x, _y: {"x": x}, "loader: expected batches of inputs and labels"),
    "sequence first": (lambda x, y: (x.transpose(0, 1), y), "batch: expected logits"),
}


@pytest.mark.parametrize("case", WRONG)
def test_batches_that_cannot_be_used(case, tmp_path):
    change, message = WRONG[case]
    with pytest.raises(InvalidInput, match=message):
        extract_run(build(), [change(x, y) for x, y in loader()], tap=TAP, run_id="a", out=tmp_path)
    with pytest.raises(InvalidInput, match="at least one batch"):
        extract_run(build(), [], tap=TAP, run_id="a", out=tmp_path)
    with pytest.raises(InvalidInput, match="softmax of shape"):
        extract_run(build(), loader(), tap=AttentionTap(), run_id="a", out=tmp_path)


def test_taps_as_the_command_line_writes_them():
    for text in ("softmax:axis=-1,rank=3,inside=blocks.*", "router", "router:size=8", "attention", "routed", "norms"):
        assert str(parse_tap(text)) == text
    read = parse_tap("module:pattern=*.gate,read=cache_builder.taps:gate_weights").read
    assert read.__name__ == "gate_weights"
    for text in ("sofmax", "softmax:axes=1", "softmax:axis"):
        with pytest.raises(UnknownName):
            parse_tap(text)
    for text in ("module", "softmax:axis=x", "module:pattern=*,read=nowhere:f", "module:pattern=*,read=f"):
        with pytest.raises(InvalidInput):
            parse_tap(text)


def test_the_command_line(tmp_path, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "mymodule", SimpleNamespace(build=build, batches=loader, number=lambda: 3))
    torch.save(build().state_dict(), tmp_path / "x.pt")
    command = ["extract", "--model", "mymodule:build", "--loader", "mymodule:batches", "--shards", str(tmp_path)]
    assert main([*command, "--tap", "survey"]) == 0
    assert "routers: --tap softmax:axis=2,rank=3,size=4" in capsys.readouterr().out
    command += ["--checkpoint", str(tmp_path / "x.pt")]
    assert main([*command, "--tap", "softmax:axis=2,rank=3,size=4", "--run-id", "theirs"]) == 0
    assert "theirs: 50 samples" in capsys.readouterr().out
    assert read_shard(tmp_path / "theirs.parquet").capture["rank"] == 3
    images = ["--dataset", "digits", "--image-size", "16", "--limit", "60", "--shards", str(tmp_path), "--tap"]
    assert main(["extract", "--backbone", "micro_vit", *images, "attention"]) == 0
    assert read_shard(tmp_path / "micro_vit-digits.parquet").n_layers == 6
    for wrong, message in (
        (["extract"], "a file, or --model"),
        (command, "how the routing of --model is read"),
        ([*command[:3], "--tap", "router"], "--dataset: expected images"),
        (["extract", *images, "router"], "--model: expected a model to tap"),
        (["extract", "--model", "mymodule:number", *command[3:], "--tap", "router"], "returns a torch module"),
        ([*command, "--tap", "attention"], "softmax of shape"),
    ):
        assert main(wrong) != 0
        assert message in capsys.readouterr().err
