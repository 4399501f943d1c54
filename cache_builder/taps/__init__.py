"""Reads the routing of any torch model out of its ordinary forward passes, without touching the model's code.

with tap(model, SoftmaxTap(axis=0, rank=3)) as capture:
    logits = model(images)
    profile = capture.take()  # (batch, L) in [0, 1]
"""

from cache_builder.taps.attention import AttentionTap
from cache_builder.taps.capture import Capture, Place, Tap, tap
from cache_builder.taps.entropy import alpha_to_entropy
from cache_builder.taps.modules import Call, ModuleTap, RouterTap, gate_weights, residual_weights
from cache_builder.taps.norms import NormTap
from cache_builder.taps.routed import RoutedTap, routing_places
from cache_builder.taps.softmax import SoftmaxTap, Survey

TAPS: dict[str, type[Tap]] = {
    kind.name: kind for kind in (SoftmaxTap, ModuleTap, RouterTap, AttentionTap, RoutedTap, NormTap)
}
"""Every tap by the name that the command line gives it."""
