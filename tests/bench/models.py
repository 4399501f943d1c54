"""`python -m tests.bench.models`: what routing and capturing it cost beside the plain timm model, in one run.

Plain, routed and captured passes alternate and the median of their ratios is reported, so that a noisy machine slows
all alike. The last line shows that extraction's peak memory does not grow with the number of samples.
"""

from __future__ import annotations

import argparse
import resource
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from statistics import median
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from cache_builder.datasets import Split
from cache_builder.evaluate import evaluate
from cache_builder.models import BACKBONES, create_model
from cache_builder.taps import AttentionTap, Capture, RoutedTap, RouterTap, SoftmaxTap, Tap, tap

CAPTURE_LIMIT, TAP_LIMIT = 1.05, 1.15
MEMORY_LIMIT = 20.0
"""MB by which extracting many samples may exceed extracting few, beside their outputs."""


@dataclass(frozen=True)
class Cost:
    """One model at one batch size: the largest acceptable ratio of its forward pass to that of the plain backbone."""

    backbone: str
    batch: int
    repeats: int
    limit: float | None
    variant: str = "full_ar"
    block_size: int | None = None


COSTS = (
    Cost("swin_tiny", 8, 7, 1.20),
    Cost("vit_base", 8, 5, 1.20),
    Cost("micro_vit", 8, 200, 1.35),
    Cost("micro_vit", 128, 60, 1.35),
    Cost("micro_deit", 128, 60, None),
    Cost("micro_swin", 128, 60, None),
    Cost("micro_vit", 128, 60, 1.40, "attnres", 3),
    Cost("micro_vit", 128, 60, 1.40, "moe"),
)


def seconds(work: Callable[[], object]) -> float:
    """Processor time: other work on the machine takes wall time, but none of this."""
    start = time.process_time()
    work()
    return time.process_time() - start


@torch.inference_mode()
def measure(cost: Cost) -> tuple[float, float, float]:
    """Seconds of the plain pass, median ratio of routed to plain, median ratio of captured to routed."""
    side = BACKBONES[cost.backbone].image_size
    images = torch.randn(cost.batch, 3, side, side)
    plain = create_model(cost.backbone).eval()
    routed = create_model(cost.backbone, variant=cost.variant, block_size=cost.block_size).eval()

    plain_times, routing, capturing = [], [], []
    for repeat in range(cost.repeats + 1):
        before = seconds(lambda: plain(images))
        with_routing = seconds(lambda: routed(images))
        with tap(routed, RoutedTap()) as capture:

            def captured(capture: Capture = capture) -> None:
                routed(images)
                capture.take()

            captured()  # a capture is set up once and serves many passes, so its set-up is not in the figure
            with_capture = seconds(captured)
        if repeat:  # the first round warms up
            plain_times.append(before)
            routing.append(with_routing / before)
            capturing.append(with_capture / with_routing)
    return median(plain_times), median(routing), median(capturing)


def mixtral() -> tuple[nn.Module, Tensor]:
    import transformers

    config = transformers.MixtralConfig(
        vocab_size=1000, hidden_size=256, intermediate_size=512, num_hidden_layers=4, num_attention_heads=4,
        num_key_value_heads=4, num_local_experts=8,
    )  # fmt: skip
    return transformers.MixtralForCausalLM(config).eval(), torch.randint(0, 1000, (8, 64))


def ours(name: str, batch: int, **settings: Any) -> tuple[nn.Module, Tensor]:
    side = BACKBONES[name].image_size
    return create_model(name, **settings).eval(), torch.randn(batch, 3, side, side)


ATTNRES: dict[str, Any] = {"variant": "attnres", "block_size": 3}
TAPPED: dict[str, tuple[Callable[[], tuple[nn.Module, Tensor]], Tap, int]] = {
    "softmax, vit_base attnres": (partial(ours, "vit_base", 8, **ATTNRES), SoftmaxTap(axis=0), 5),
    "softmax, micro_vit attnres": (partial(ours, "micro_vit", 128, **ATTNRES), SoftmaxTap(axis=0), 60),
    "router, Mixtral": (mixtral, RouterTap(), 20),
    "softmax, Mixtral": (mixtral, SoftmaxTap(rank=2), 20),
    "attention, vit_base": (partial(ours, "vit_base", 8), AttentionTap(), 5),
    "attention, micro_vit": (partial(ours, "micro_vit", 128), AttentionTap(), 60),
}
"""Models as somebody else's code: model and batch, tap, repeats."""


@torch.inference_mode()
def tapped_ratio(build: Callable[[], tuple[nn.Module, Tensor]], how: Tap, repeats: int) -> float:
    """Median ratio of tapped to bare passes, which alternate."""
    model, batch = build()
    ratios = []
    for _ in range(repeats + 1):
        bare = seconds(lambda: model(batch))
        with tap(model, how) as capture:
            ratios.append(seconds(lambda capture=capture: (model(batch), capture.take())) / bare)
    return median(ratios[1:])


def peak_megabytes() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def extraction_growth(n_few: int = 1_000, n_many: int = 16_000) -> tuple[float, float]:
    """Growth of peak memory (MB) from extracting few samples to extracting many, and the size of the outputs alone."""
    model = create_model("micro_vit", variant="full_ar")
    pixels = np.zeros((n_many, 3, 32, 32), dtype=np.uint8)
    moments = (torch.zeros(3, 1, 1), torch.ones(3, 1, 1))
    labels = np.zeros(n_many, dtype=np.int64)
    pixels += 1  # touch every page, so that the images themselves are in the first figure
    device = torch.device("cpu")
    for _ in range(2):  # the allocator's own reserves grow in the first pass
        evaluate(model, Split(pixels[:n_few], labels[:n_few]), moments, 32, device)
    before = peak_megabytes()
    outputs = evaluate(model, Split(pixels, labels), moments, 32, device)
    return peak_megabytes() - before, (outputs.logits.nbytes + outputs.captured.nbytes) / 2**20


class Verdicts:
    """Says of each figure whether it keeps its limit, and remembers whether all did."""

    def __init__(self) -> None:
        self.all_kept = True

    def on(self, figure: float, limit: float | None) -> str:
        if limit is None:
            return ""
        self.all_kept &= figure <= limit
        return f"<= {limit:.2f} {'kept' if figure <= limit else 'MISSED'}"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.models", description=__doc__)
    parser.add_argument("--threads", type=int, default=1)
    torch.set_num_threads(parser.parse_args().threads)
    verdicts = Verdicts()
    print(f"{'forward pass':<34}{'plain':>12}  {'routed / plain':<24}{'captured / routed':<24}")
    for cost in COSTS:
        plain, routing, capturing = measure(cost)
        name = f"{cost.backbone} {cost.variant}, batch {cost.batch}"
        routed_text = f"{routing:.3f} {verdicts.on(routing, cost.limit)}"
        captured_text = f"{capturing:.3f} {verdicts.on(capturing, CAPTURE_LIMIT)}"
        print(f"{name:<34}{plain * 1e3:9.1f} ms  {routed_text:<24}{captured_text:<24}", flush=True)
    print(f"{'a tap on other code':<38}tapped / bare")
    for name, (build, how, repeats) in TAPPED.items():
        ratio = tapped_ratio(build, how, repeats)
        print(f"{name:<38}{ratio:.3f} {verdicts.on(ratio, TAP_LIMIT)}", flush=True)
    growth, size = extraction_growth()
    beside = growth - size
    print(
        f"extracting 16,000 samples instead of 1,000 takes {size:.1f} MB for the outputs "
        f"and {beside:.1f} MB beside them {verdicts.on(beside, MEMORY_LIMIT)}"
    )
    return 0 if verdicts.all_kept else 1


if __name__ == "__main__":
    sys.exit(main())
