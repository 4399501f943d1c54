"""The container files, without a container engine: what they copy exists, what they run works in a clean directory."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
import yaml

from app.serving.gate import PASSWORD, USER_HEADER

ROOT = Path(__file__).resolve().parents[1]
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


@pytest.mark.parametrize("stage", ["packages", "builder", "dashboard"])
def test_everything_that_is_copied_exists_and_is_not_ignored(stage: str):
    ignored = (ROOT / ".dockerignore").read_text().split()
    for *sources, _target in copies(stage):
        for source in sources:
            assert (ROOT / source).exists(), source
            assert source.rstrip("/") not in ignored


@pytest.mark.parametrize("stage", ["builder", "dashboard"])
def test_images_run_as_an_ordinary_user_with_pinned_bases(stage: str):
    assert re.search(r":[\w.-]*\d", values(stage, "FROM")[0]), "the base is not pinned"
    instructions = [word for word, _ in stages()[stage]]
    assert instructions.index("USER") < instructions.index("CMD")
    assert "USER" not in instructions[instructions.index("CMD") :]
    assert values(stage, "USER") == ["routecal"]


def pins(name: str) -> dict[str, str]:
    lines = (line.split("#")[0].strip() for line in (ROOT / name).read_text().splitlines())
    return dict(line.split("==") for line in lines if line and not line.startswith("-r"))


def test_the_dashboard_needs_no_training_packages():
    assert values("packages", "COPY") == ["requirements-dashboard.txt ."]
    assert not {"timm", "torchvision", "scikit-learn"} & set(pins("requirements-dashboard.txt"))
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
    assert {PASSWORD, USER_HEADER} <= set(service["environment"])
    assert "/tmp" in service["tmpfs"]


def copy_into(target: Path, source: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    if source.is_file():
        shutil.copy(source, target)
    else:
        shutil.copytree(source, target, ignore=shutil.ignore_patterns("*.duckdb", "__pycache__"))


def in_clean_place(command: list[str], port: int) -> list[str]:
    """A command of the image as it runs here: this Python, a free port."""
    here = [sys.executable if part == "python" else part for part in command]
    return [part.replace("8501", str(port)).replace("0.0.0.0", "127.0.0.1") for part in here]


def test_the_dashboards_commands_work_in_a_clean_directory(tmp_path: Path):
    image, without = tmp_path / "image", tmp_path / "without"
    for *sources, target in copies("dashboard"):
        for source in sources:
            copy_into(image / target, ROOT / source)
    without.mkdir()
    for name in ("timm", "torchvision", "sklearn", "yaml"):
        (without / f"{name}.py").write_text(f"raise ImportError('{name} is not in the image')")
    environment = {"PATH": os.environ["PATH"], "PYTHONPATH": str(without), "PYTHONDONTWRITEBYTECODE": "1"}
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]

    built = [shlex.split(line) for line in values("dashboard", "RUN") if line.startswith("python ")]
    assert built
    for command in built:
        subprocess.run(in_clean_place(command, port), cwd=image, env=environment, check=True, timeout=120)
    before = {path: path.stat().st_mtime_ns for path in image.rglob("*")}
    signature = [sys.executable, "-c", "from app.report.provenance import versions; print(versions())"]
    subprocess.run(signature, cwd=image, env=environment, check=True, timeout=60)  # stands in every report
    serve = in_clean_place(json.loads(values("dashboard", "CMD")[0]), port)
    health = in_clean_place(json.loads(values("dashboard", "HEALTHCHECK")[0].split("CMD ", 1)[1]), port)
    server = subprocess.Popen(serve, cwd=image, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        deadline = time.monotonic() + 90
        while subprocess.run(health, env=environment, stderr=subprocess.DEVNULL, timeout=30).returncode:
            assert server.poll() is None, "the server ended"
            assert time.monotonic() < deadline, "never healthy"
            time.sleep(0.5)
        server.send_signal(signal.SIGTERM)
        server.wait(timeout=20)
    finally:
        server.kill()
    assert subprocess.run(health, env=environment, stderr=subprocess.DEVNULL, timeout=30).returncode != 0
    assert {path: path.stat().st_mtime_ns for path in image.rglob("*")} == before, "it wrote into the image"
