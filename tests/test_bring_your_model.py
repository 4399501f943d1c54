"""The four worked examples of docs/bring-your-model.md, word by word, on tiny models with random weights."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from cache_builder.models import create_model
from engine.store import open_cache, publish, read_shard
from engine.verdict import judge

DOCUMENT = Path(__file__).resolve().parents[1] / "docs/bring-your-model.md"
EXAMPLES = re.findall(r"^```python\n(.*?)^```", DOCUMENT.read_text(), re.DOTALL | re.MULTILINE)
N_SAMPLES = 24
THEIRS = """
import torch
from torch import nn


def attn_res(sources, norm, proj):
    values = torch.stack(sources)
    logits = torch.einsum("d,nbtd->nbt", proj.weight.squeeze(), norm(values))
    return torch.einsum("nbt,nbtd->btd", logits.softmax(0), values)


class Layer(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.attn = nn.MultiheadAttention(dim, 2, batch_first=True)
        self.mlp = nn.Sequential(nn.LayerNorm(dim), nn.Linear(dim, dim), nn.GELU(), nn.Linear(dim, dim))
        self.attn_res_norm, self.attn_res_proj = nn.RMSNorm(dim), nn.Linear(dim, 1, bias=False)
        self.mlp_res_norm, self.mlp_res_proj = nn.RMSNorm(dim), nn.Linear(dim, 1, bias=False)

    def forward(self, blocks):
        h = attn_res(blocks, self.attn_res_norm, self.attn_res_proj)
        out = self.attn(h, h, h, need_weights=False)[0]
        return [*blocks, out + self.mlp(attn_res([*blocks, out], self.mlp_res_norm, self.mlp_res_proj))]


class TheirViT(nn.Module):
    def __init__(self, dim=16):
        super().__init__()
        self.patches = nn.Conv2d(3, dim, 8, 8)
        self.layers = nn.ModuleList(Layer(dim) for _ in range(3))
        self.res_norm, self.res_proj = nn.RMSNorm(dim), nn.Linear(dim, 1, bias=False)
        self.head = nn.Linear(dim, 10)

    def forward(self, images):
        blocks = [self.patches(images).flatten(2).transpose(1, 2)]
        for layer in self.layers:
            blocks = layer(blocks)
        return self.head(attn_res(blocks, self.res_norm, self.res_proj).mean(1))


def build():
    return TheirViT()
"""


def attention_residuals() -> None:
    Path("their_vit.py").write_text(THEIRS)
    from their_vit import build  # type: ignore[import-not-found]

    torch.save(build().state_dict(), "their_vit.pt")
    torch.save((torch.randn(N_SAMPLES, 3, 32, 32), torch.arange(N_SAMPLES) % 10), "test_images.pt")


def _tokenizer(folder: str) -> int:
    """A tokenizer of words, saved; returns the size of its vocabulary."""
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    words = ["[UNK]", "A", "B", "C", "D", "Answer", *(f"w{number}" for number in range(20))]
    made = Tokenizer(models.WordLevel({word: number for number, word in enumerate(words)}, unk_token="[UNK]"))
    made.pre_tokenizer = pre_tokenizers.Whitespace()
    PreTrainedTokenizerFast(tokenizer_object=made, unk_token="[UNK]").save_pretrained(folder)
    return len(words)


SMALL = {
    "hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2,
    "num_key_value_heads": 2, "pad_token_id": None, "bos_token_id": None, "eos_token_id": None,
}  # fmt: skip


def mixture_of_experts() -> None:
    from transformers import MixtralConfig, MixtralForSequenceClassification

    size = _tokenizer("moe-classifier")
    config = MixtralConfig(vocab_size=size, num_local_experts=4, num_experts_per_tok=2, num_labels=3, **SMALL)
    MixtralForSequenceClassification(config).save_pretrained("moe-classifier")
    texts = [f"w{number % 20} w{number % 7} w3" for number in range(N_SAMPLES)]
    lines = [json.dumps({"text": text, "label": number % 3}) for number, text in enumerate(texts)]
    Path("reviews.jsonl").write_text("\n".join(lines))


def plain_vit() -> None:
    torch.save(create_model("vit_tiny_patch16_224", n_classes=2).state_dict(), "vit.pt")
    for number in range(N_SAMPLES):
        folder = Path("photos", "cat" if number % 2 else "dog")
        folder.mkdir(parents=True, exist_ok=True)
        pixels = np.random.default_rng(number).integers(0, 256, (8, 8, 3), dtype=np.uint8)
        Image.fromarray(pixels).save(folder / f"{number}.png")


def language_model() -> None:
    from transformers import LlamaConfig, LlamaForCausalLM

    LlamaForCausalLM(LlamaConfig(vocab_size=_tokenizer("language-model"), **SMALL)).save_pretrained("language-model")
    asked = [
        {
            "passage": f"p{number // 3}",
            "question": "w1 " * (1 + number % 4),
            "choices": list("wxyz"),
            "answer": number % 4,
        }
        for number in range(N_SAMPLES)
    ]
    Path("questions.jsonl").write_text("\n".join(map(json.dumps, asked)))


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    torch.manual_seed(0)
    return tmp_path


@pytest.mark.parametrize(
    ("example", "prepare", "run_id", "n_sources"),
    [
        (0, attention_residuals, "their-vit", [2, 2, 3, 3, 4, 4]),
        (1, mixture_of_experts, "moe-reviews", [4, 4]),
        (2, plain_vit, "vit-attention", [197] * 12),
        (3, language_model, "lm-choice", [None, None]),
    ],
)
def test_a_worked_example_becomes_a_run_with_a_verdict(
    example: int, prepare: Callable[[], None], run_id: str, n_sources: list[int | None], folder: Path, capsys
):
    prepare()
    exec(compile(EXAMPLES[example], f"{DOCUMENT.name}, example {example + 1}", "exec"), {"__name__": "example"})
    assert ("--tap softmax:axis=0,rank=3" in capsys.readouterr().out) == (
        run_id == "their-vit"
    )  # the survey's proposal
    record = read_shard(folder / "shards" / f"{run_id}.parquet")
    assert record.n_samples == N_SAMPLES
    assert [layer.n_sources for layer in record.layers] == n_sources
    assert (record.clusters is not None) == (run_id == "lm-choice")
    publish(folder / "shards", folder / "routing.duckdb")
    with open_cache(folder / "routing.duckdb") as cache:
        run = cache.load(run_id)
    assert 0 <= run.entropies.min() < run.entropies.max() <= 1
    rho = run.entropies.mean(axis=1)
    verdict = judge(run.confidence, run.correct, rho, clusters=run.clusters, controls=False)
    assert verdict.sentence
