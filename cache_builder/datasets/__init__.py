"""Image data sets from local files, decoded once and augmented as batches."""

from cache_builder.datasets.images import ImageData, Split, augment, to_input
from cache_builder.datasets.registry import DATASETS, MissingDataset, load_dataset

__all__ = ["DATASETS", "ImageData", "MissingDataset", "Split", "augment", "load_dataset", "to_input"]
