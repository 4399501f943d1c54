"""A file to fill in and a file to try: made up, the same on every machine."""

import numpy as np
import pandas as pd

TEMPLATE = """confidence,correct,H_1,H_2,H_3,my_score
0.91,1,0.98,0.95,0.90,0.12
0.64,0,0.97,0.91,0.88,0.55
0.77,1,0.99,0.93,0.86,0.31
"""
"""H_1, H_2, ... (routing entropy by layer) and further columns such as my_score may be left out."""
TEMPLATE_NAME = "routecal-template.csv"
EXAMPLE_NAME = "routecal-example.csv"
_N, _CLASSES, _LAYERS = 4000, 5, 4


def example_csv() -> bytes:
    """4,000 simulated samples of an over-confident 5-class model whose `hesitation` says something and routing nothing.

    Labels are drawn from softmax(z / 1.4); routing follows the confidence a little and correctness not at all;
    hesitation is normal noise, 0.5 lower where the prediction is right.
    """
    rng = np.random.default_rng(20)
    logits = np.round(rng.normal(0, 2.2, (_N, _CLASSES)), 3)
    labels = (logits / 1.4 + rng.gumbel(size=logits.shape)).argmax(axis=1)
    shares = np.exp(logits - logits.max(axis=1, keepdims=True))
    confidence = 1 / shares.sum(axis=1)
    routing = np.clip(rng.beta(18, 3, (_N, _LAYERS)) - 0.08 * confidence[:, None], 0, 1)
    hesitation = rng.normal(size=_N) - 0.5 * (logits.argmax(axis=1) == labels)
    columns = {f"logit_{k}": logits[:, k] for k in range(_CLASSES)} | {"label": labels}
    columns |= {f"H_{layer + 1}": np.round(routing[:, layer], 4) for layer in range(_LAYERS)}
    text: str = pd.DataFrame(columns | {"hesitation": np.round(hesitation, 3)}).to_csv(index=False, lineterminator="\n")
    return text.encode()
