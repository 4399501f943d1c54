"""Image data sets from local files: decoded once for training, batch by batch for evaluation."""

from cache_builder.datasets.images import (
    ImageData,
    Images,
    Split,
    Watched,
    augment,
    moments,
    split_fingerprint,
    to_input,
)
from cache_builder.datasets.registry import (
    DATASETS,
    MissingDataset,
    StoredData,
    dataset_facts,
    load_dataset,
    open_dataset,
)
