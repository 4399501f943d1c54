"""What does routing look like across depth, samples and training?"""

from app.compute import mechanism as compute
from app.parts import headlines
from app.parts import mechanism as parts
from app.shell.page import open_page
from app.state.selection import feature_label
from engine.verdict.wording import mechanism_sentence

page = open_page("mechanism", tests=False)
view = page.view
name = compute.stand_in(view)
profile = compute.depth(view) if view.run.n_layers else None
relation = compute.relation(view, name)
sentence = mechanism_sentence(
    profile, relation, feature_label(name),
    lacking="" if view.rho is not None else view.feature_label,
)  # fmt: skip
page.verdict(headlines.of_mechanism(profile, relation, feature_label(name)), sentence, tested=False)

views = [(view, "depth")]
if view.selection.compare_id is not None:
    views.append((view.of_run(view.selection.compare_id), "depth-compare"))
parts.depth(page, views)
tabs = page.tabs("Across samples", "Across training", "Ensemble against last epoch")
with next(tabs):
    parts.samples(page, name)
with next(tabs):
    parts.training(page)
with next(tabs):
    parts.ensemble(page)
page.how(r"""
$H_l$ is the entropy of the routing weights of layer $l$ over its $T_l$ alternatives (earlier layers in Attention
Residuals, experts in a mixture of experts), averaged over tokens and divided by $\log T_l$: 1 for an even mix of all,
0 for one only. Layers with a single alternative are left out. The error of a sample is $|c - t|$, confidence minus
correctness. The rank correlation is Spearman's, with the interval $\tanh(\text{atanh}\, r \pm 1.96 \sqrt{(1 +
r^2/2)/(n - 3)})$ (Bonett and Wright 2000). P(wrong higher) is the chance that a wrong prediction has a higher value
than a correct one, 0.5 for no difference; its p-value is Mann and Whitney's. If confidence were calibrated, $|c - t|$
would average $2 c (1 - c)$: the dashed line. A feature can correlate with the error only because it correlates with
confidence, so nothing here is a test of routing.
""")
page.finish()
