"""The container files, without a container engine: what they copy exists, what they run works in a clean directory.

Of RUN, `dnf` and `useradd` are not run here, since they change the system, nor is `pip`, which downloads gigabytes. In
their place stands this environment: the same pinned versions, without the packages that an image does not install.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterable
from fnmatch import fnmatch
from importlib.metadata import packages_distributions, requires
from pathlib import Path, PurePath

import pytest
import yaml

from app.compute.jobs import PATIENCE
from app.registry import PAGES
from app.serving.gate import HOSTS, PASSWORD, USER_HEADER
from tests.serving import ROOT, Served, free_port, running
from tests.viewers import Viewer, run_through

Instruction = tuple[str, str]


def stages() -> dict[str, list[Instruction]]:
    """Instructions of the Dockerfile by stage, continuation lines joined."""
    text = re.sub(r"\\\n", " ", (ROOT / "Dockerfile").read_text())
    found: dict[str, list[Instruction]] = {}
    for line in text.splitlines():
        if not line.strip() or line.startswith("#"):
            continue
        word, rest = line.split(maxsplit=1)
        if word == "FROM":
            base, _, name = rest.partition(" AS ")
            found[name] = [("FROM", base)]
        else:
            found[list(found)[-1]].append((word, rest.strip()))
    return found


def copies(stage: str) -> list[list[str]]:
    """Sources and target of each COPY from the checkout."""
    lines = [shlex.split(rest) for word, rest in stages()[stage] if word == "COPY"]
    return [line for line in lines if not line[0].startswith("--from")]


def values(stage: str, word: str) -> list[str]:
    return [rest for found, rest in stages()[stage] if found == word]


def is_ignored(path: PurePath) -> bool:
    """Whether .dockerignore keeps a path of the checkout out, by itself or with a folder that it is in."""
    for pattern in (ROOT / ".dockerignore").read_text().split():
        parts = PurePath(pattern).parts
        if parts[0] == "**":
            if any(fnmatch(part, parts[1]) for part in path.parts):
                return True
        elif len(parts) <= len(path.parts) and all(map(fnmatch, path.parts, parts)):
            return True
    return False


def test_what_docker_ignores():
    assert is_ignored(PurePath("data/routing.duckdb"))
    assert is_ignored(PurePath("engine/store/__pycache__/cache.pyc"))
    assert is_ignored(PurePath("tests/app/driver.py"))
    assert not is_ignored(PurePath("data/shards/run.parquet"))
    assert not is_ignored(PurePath("engine/docs"))


@pytest.mark.parametrize("stage", ["packages", "builder", "dashboard"])
def test_everything_that_is_copied_exists_and_is_not_ignored(stage: str):
    for *sources, _target in copies(stage):
        for source in sources:
            assert (ROOT / source).exists(), source
            assert not is_ignored(PurePath(source)), source


def is_pinned(base: str) -> bool:
    """Whether an image is named with at least a minor version."""
    return re.fullmatch(r"[\w./-]+:\d+\.\d+[\w.-]*", base) is not None


def test_what_a_pinned_base_is():
    assert is_pinned("python:3.11-slim")
    assert not any(map(is_pinned, ("python", "python:3", "python:latest", "python:3-slim")))


@pytest.mark.parametrize("stage", ["packages", "builder", "dashboard"])
def test_bases_are_pinned(stage: str):
    assert is_pinned(values(stage, "FROM")[0])


@pytest.mark.parametrize("stage", ["builder", "dashboard"])
def test_images_run_as_an_ordinary_user(stage: str):
    instructions = [word for word, _ in stages()[stage]]
    assert instructions.index("USER") < instructions.index("CMD")
    assert "USER" not in instructions[instructions.index("CMD") :]
    assert values(stage, "USER") == ["routecal"]


def normal(name: str) -> str:
    """A distribution's name as all its spellings are compared."""
    return re.sub(r"[-_.]+", "-", name).lower()


def pins(name: str) -> dict[str, str]:
    """Versions by distribution in one of the requirements files, without those that it includes."""
    lines = (line.split("#")[0].strip() for line in (ROOT / name).read_text().splitlines())
    found = (line.split("==") for line in lines if line and not line.startswith("-r"))
    return {normal(package): version for package, version in found}


def test_the_dashboard_needs_no_training_packages():
    assert values("packages", "COPY") == ["requirements-dashboard.txt ."]
    assert not set(pins("requirements.txt")) & set(pins("requirements-dashboard.txt")), "pinned in two places"
    assert "-r requirements-dashboard.txt" in (ROOT / "requirements.txt").read_text()


def test_compose_builds_the_dashboard_and_mounts_caches_read_only():
    service = yaml.safe_load((ROOT / "compose.yaml").read_text())["services"]["dashboard"]
    assert service["build"]["target"] in stages()
    assert service["read_only"] is True
    assert service["volumes"][0].endswith(":ro")
    # With CACHES set the cache is looked for where they are mounted; without, the image's own is used.
    mounted = service["volumes"][0].rsplit(":", 2)[1]
    assert service["environment"]["ROUTECAL_CACHE"] == f"${{CACHES:+{mounted}/routing.duckdb}}"
    assert {HOSTS, PASSWORD, USER_HEADER} <= set(service["environment"])
    assert "/tmp" in service["tmpfs"]
    assert service["stop_grace_period"] == f"{PATIENCE / 2:g}s"  # what tests/faults/test_serving.py allows it


def image_of(stage: str, folder: Path) -> Path:
    """A folder with what the stage copies from the checkout, and nothing else."""
    for *sources, target in copies(stage):
        for source in sources:
            whole = ROOT / source
            place = folder / target / whole.name if target.endswith("/") else folder / target
            for file in [whole] if whole.is_file() else filter(Path.is_file, whole.rglob("*")):
                if not is_ignored(file.relative_to(ROOT)):
                    copy = place / file.relative_to(whole)
                    copy.parent.mkdir(parents=True, exist_ok=True)
                    shutil.copy(file, copy)
    return folder


HIDE = """
import sys
from importlib.machinery import PathFinder
class Finder(PathFinder):
    @classmethod
    def find_spec(cls, name, path=None, target=None):
        return None if name.partition(".")[0] in {hidden!r} else super().find_spec(name, path, target)
sys.meta_path[sys.meta_path.index(PathFinder)] = Finder
"""


def environment_with(installed: Iterable[str], folder: Path) -> dict[str, str]:
    """Of a process that finds only these of all pinned distributions. Python runs a `sitecustomize` before all else."""
    pinned = pins("requirements-dashboard.txt") | pins("requirements.txt") | pins("requirements-dev.txt")
    missing = set(pinned) - set(installed)
    hidden = {name for name, owners in packages_distributions().items() if set(map(normal, owners)) <= missing}
    folder.mkdir()
    (folder / "sitecustomize.py").write_text(HIDE.format(hidden=hidden))
    return {"PATH": os.environ["PATH"], "PYTHONPATH": str(folder), "PYTHONDONTWRITEBYTECODE": "1"}


def imports(names: Iterable[str], environment: dict[str, str]) -> bool:
    """Whether Python finds these packages there."""
    code = f"import importlib.util as u, sys; sys.exit(not all(map(u.find_spec, {list(names)!r})))"
    return subprocess.run([sys.executable, "-c", code], env=environment, timeout=60).returncode == 0


def in_clean_place(command: list[str], port: int = 8501) -> list[str]:
    """A command of the image as it runs here: this Python, a free port."""
    here = [sys.executable if part == "python" else part for part in command]
    return [part.replace("8501", str(port)).replace("0.0.0.0", "127.0.0.1") for part in here]


@pytest.mark.faults
def test_the_builders_commands_work_in_a_clean_directory(tmp_path: Path):
    image = image_of("builder", tmp_path / "image")
    install = next(line for line in values("builder", "RUN") if "pip install" in line)
    assert "-r requirements.txt" in install
    grep = re.search(r"\$\((grep .*)\)", install)
    assert grep
    found = subprocess.run(shlex.split(grep[1]), cwd=image, capture_output=True, text=True, check=True).stdout.split()
    added = dict(line.split("==") for line in found)
    installed = {*pins("requirements-dashboard.txt"), *pins("requirements.txt"), *added}
    needed = [line for line in requires("ray") or [] if "extra ==" not in line]
    assert {normal(re.split(r"[^\w.-]", line)[0]) for line in needed} <= installed, "not all that ray needs is pinned"
    environment = environment_with(installed, tmp_path / "without")
    assert imports(["timm", "ray"], environment)
    assert not imports(["pytest"], environment)

    def build(*arguments: str) -> subprocess.CompletedProcess[str]:
        entry = in_clean_place(json.loads(values("builder", "ENTRYPOINT")[0]))
        command = [*entry, *arguments]
        return subprocess.run(command, cwd=image, env=environment, capture_output=True, text=True, timeout=120)

    helped = build(*json.loads(values("builder", "CMD")[0]))
    assert helped.returncode == 0, helped.stderr
    assert "sweep" in helped.stdout
    without = build("info")
    assert without.returncode == 2
    assert "no such cache" in without.stderr
    assert "Traceback" not in without.stderr

    instructions = stages()["builder"]
    made = next(line for _, line in instructions if line.startswith("mkdir"))
    assert instructions.index(("RUN", made)) < instructions.index(("USER", "routecal"))
    make, own = made.split(" && ")
    assert own == "chown -R routecal runs data"
    subprocess.run(shlex.split(make), cwd=image, check=True)
    assert build("publish").returncode == 0
    assert "0 runs" in build("info").stdout
    helped = build("sweep", "--help")
    assert helped.returncode == 0, helped.stderr
    assert (image / "runs").is_dir()


@pytest.mark.faults
def test_the_dashboards_commands_work_in_a_clean_directory(tmp_path: Path):
    image, port = image_of("dashboard", tmp_path / "image"), free_port()
    environment = environment_with(pins("requirements-dashboard.txt"), tmp_path / "without")
    assert imports(["streamlit", "torch"], environment)
    assert not any(imports([name], environment) for name in ("timm", "torchvision", "sklearn", "yaml", "ray"))

    built = [shlex.split(line) for line in values("dashboard", "RUN") if line.startswith("python ")]
    assert built
    for command in built:
        subprocess.run(in_clean_place(command), cwd=image, env=environment, check=True, timeout=120)
    before = {path: path.stat().st_mtime_ns for path in image.rglob("*")}
    signature = [sys.executable, "-c", "from app.report.blind import versions; print(versions())"]
    subprocess.run(signature, cwd=image, env=environment, check=True, timeout=60)  # stands in every report
    serve = in_clean_place(json.loads(values("dashboard", "CMD")[0]), port)
    health = in_clean_place(json.loads(values("dashboard", "HEALTHCHECK")[0].split("CMD ", 1)[1]), port)
    with running(serve, port, tmp_path / "log", folder=image, environment=environment) as served:
        subprocess.run(health, env=environment, check=True, timeout=30)
        run_through(_open_every_page(served))
    assert served.process.returncode in (0, -signal.SIGTERM, 128 + signal.SIGTERM)
    assert subprocess.run(health, env=environment, stderr=subprocess.DEVNULL, timeout=30).returncode != 0
    assert {path: path.stat().st_mtime_ns for path in image.rglob("*")} == before, "it wrote into the image"


async def _open_every_page(served: Served) -> None:
    async with Viewer(served) as viewer:
        for page in PAGES:
            seen = await viewer.open(page.name)
            assert seen.titles == [page.question]
            seen.assert_sound()
            assert not seen.alerts, (page.name, seen.alerts)
