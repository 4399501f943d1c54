"""From results to sentences. Pages, command line and report all use them; nobody else phrases verdicts."""

from engine.verdict.run import Verdict, judge
