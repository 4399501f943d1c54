"""The pages of the dashboard, in the order of the navigation. Tests walk over this list."""

from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PAPER_TITLE = "Probing Routing-Conditional Calibration in Attention-Residual Transformers"
PAPER_LINK = "https://arxiv.org/abs/2605.09850"


@dataclass(frozen=True)
class PageEntry:
    """A script under `pages/`: its section and title in the navigation, and the question that it answers.

    shows : its parts, each with what a run must hold for it (keys of `app.parts.yourdata.NEEDS`).
    """

    name: str
    section: str
    title: str
    question: str
    shows: tuple[tuple[str, tuple[str, ...]], ...] = ()

    @property
    def script(self) -> Path:
        return ROOT / "pages" / f"{self.name}.py"

    @property
    def address(self) -> str:
        """Where the page is served; the first page is served at the root, and only there."""
        return "" if self is PAGES[0] else self.name


PAGES: tuple[PageEntry, ...] = (
    PageEntry(
        "overview", "Browse", "Overview", "What is in this cache, and what does the protocol say about it?",
        (("both tests on this run", ("feature",)),),
    ),
    PageEntry(
        "reliability", "Browse", "Reliability", "Where is this run over- or under-confident?",
        (
            ("confidence against accuracy", ()),
            ("the same after calibration", ("logits",)),
            ("class by class", ("predictions",)),
        ),
    ),
    PageEntry(
        "mechanism", "Browse", "Mechanism", "What does routing look like across depth, samples and training?",
        (
            ("a feature across samples", ()),
            ("routing across depth", ("profile",)),
            ("routing during training", ("training",)),
        ),
    ),
    PageEntry(
        "gap", "Test", "Matched-confidence gap", "At the same confidence, does accuracy depend on routing?",
        (
            ("accuracy by decile and tertile at the same confidence", ("feature",)),
            ("the same given more of the output", ("logits", "feature")),
        ),
    ),
    PageEntry(
        "null", "Test", "Permutation null", "Could that gap be chance?", (("the exact null of the gap", ("feature",)),)
    ),
    PageEntry(
        "sweep", "Test", "Sweep", "Does it hold across seeds, models and data sets?",
        (("this run's line", ("feature",)), ("stability across seeds", ("runs",))),
    ),
    PageEntry(
        "controls", "Test", "Controls", "Could this test detect an effect, and how often does it raise a false alarm?",
        (("power and false alarms for these samples", ("feature",)),),
    ),
    PageEntry(
        "bandwidth", "What-if", "Bandwidth lab", "Does any bandwidth make AR-CondCal work?",
        (("the kernel regression", ("feature",)), ("AR-CondCal at any bandwidth", ("logits", "feature"))),
    ),
    PageEntry(
        "features", "What-if", "Feature lab", "Is there a better routing scalar?",
        (("the paper's features side by side", ()), ("the search for a routing scalar", ("profile",))),
    ),
    PageEntry(
        "calibrators", "What-if", "Calibrators", "Which calibrators help, and by how much?",
        (("the calibrators on two halves of this run", ("logits",)),),
    ),
    PageEntry(
        "probes", "What-if", "Probe audit", "Does the MLP probe gain from routing, or only from being larger?",
        (("probes without your scores", ()), ("probes with your scores", ("columns",))),
    ),
    PageEntry(
        "paper", "Evidence", "Paper", "What did the paper publish, and does it add up?", (("the published tables", ()),)
    ),
    PageEntry("yourdata", "Evidence", "Your data", "What does the protocol say about my model?"),
)  # fmt: skip


def page_for(name: str) -> PageEntry:
    """The entry of a page by its name."""
    return next(page for page in PAGES if page.name == name)
