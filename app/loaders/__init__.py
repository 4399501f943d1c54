"""The only place that caches: the open cache file, the runs read from it, and what the engine made of them."""
