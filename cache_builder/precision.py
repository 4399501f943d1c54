"""Mixed precision by name, and the loss scaling that only half precision needs.

float16 has five bits of exponent: small gradients vanish unless the loss is scaled up first. bfloat16 has the range
of float32 and needs none. Routing scores and entropies are computed in float32 under either (`models.routed`).
"""

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel

from engine.core import validation

DTYPES = {"fp16": torch.float16, "bf16": torch.bfloat16}
MODES = ("auto", "off", *DTYPES)


class Precision:
    """How a device computes while training. `auto` is full precision on a processor and mixed precision on a GPU:
    bfloat16 where the GPU has it, else float16. Evaluation is always in full precision."""

    def __init__(self, mode: str, device: torch.device) -> None:
        validation.choice("--amp", mode, MODES)
        if mode == "auto":
            mode = "off"
            if device.type == "cuda":
                mode = "bf16" if torch.cuda.is_bf16_supported(including_emulation=False) else "fp16"
        self.mode = mode
        self.device = device

    @contextmanager
    def autocast(self) -> Iterator[None]:
        """Of a forward pass with its loss.

        The fused attention of processors has a slow backward pass in bfloat16: it took half of a micro ViT's step.
        """
        slow = self.mode == "bf16" and self.device.type == "cpu"
        with (
            torch.autocast(self.device.type, dtype=DTYPES.get(self.mode), enabled=self.mode != "off"),
            sdpa_kernel(SDPBackend.MATH) if slow else nullcontext(),
        ):
            yield

    def scaler(self) -> torch.amp.GradScaler:
        return torch.amp.GradScaler(self.device.type, enabled=self.mode == "fp16")
