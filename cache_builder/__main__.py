"""`python -m cache_builder train | extract | sweep | import | publish | diagnose | info | results | verify`."""

import sys

from engine.commands.command_line import run_command

COMMANDS: dict[str, tuple[str, str]] = {
    "train": ("cache_builder.commands.train", "train one model and write its run as a shard"),
    "extract": ("cache_builder.commands.extract", "make a run of a trained checkpoint"),
    "sweep": ("cache_builder.commands.sweep", "train a grid of runs, skipping what is finished"),
    "import": ("cache_builder.commands.import_", "import per-sample outputs as a run"),
    "publish": ("cache_builder.commands.publish", "assemble the cache from the shards"),
    "diagnose": ("cache_builder.commands.diagnose", "compute the answers at default settings that are missing"),
    "info": ("cache_builder.commands.info", "list the runs of a cache"),
    "results": ("cache_builder.commands.results", "print accuracy, ECE and routing of every cell as a table"),
    "verify": ("cache_builder.commands.verify", "check shards against their checksums and their own contents"),
}


def main(arguments: list[str] | None = None) -> int:
    given = sys.argv[1:] if arguments is None else arguments
    return run_command("cache_builder", "From models to RouteCal's cache.", COMMANDS, given)


if __name__ == "__main__":
    sys.exit(main())
