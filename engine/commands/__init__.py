"""The sub-commands of `python -m engine`, one module each: `add_arguments(parser)` and `run(arguments)`."""
