"""The paper beside a cache: what its tables are here, and what the cache says about its conclusions."""

from engine.paper.conclusions import CONCLUSION_SOURCES, CONCLUSIONS, Conclusion, Reading, conclude, summarise
from engine.paper.counterparts import COUNTERPARTS, FURTHER, WITHOUT, Counterpart, build, cells_with_logits, compare
from engine.paper.sources import SOURCES, Evidence, gather, single_runs
from engine.paper.tables import NoCounterpart
