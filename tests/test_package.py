"""The wheel: what is in it, and that it works in an environment and a folder where there is nothing else of ours."""

from __future__ import annotations

import html
import os
import re
import shlex
import shutil
import subprocess
import sys
import sysconfig
import tomllib
import urllib.request
import zipfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.tags import compatible_tags, cpython_tags
from packaging.utils import parse_wheel_filename

from app.registry import PAGES
from engine import __version__
from tests.serving import ROOT, Served, free_port, running
from tests.viewers import Viewer, run_through

SOURCES = ("app", "engine", "cache_builder", "pages", "data/paper", ".streamlit")
FILES = ("pyproject.toml", "setup.py", "routecal.py", "README.md", "LICENSE")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
TWO_SHARDS = ("digits-micro_vit-digits-baseline-s0", "digits-micro_vit-digits-block_ar3-s0")


@dataclass(frozen=True)
class Installed:
    """An environment into which the wheel was installed, and a folder that is not the checkout's to work in."""

    wheel: Path
    bin: Path
    folder: Path

    @property
    def environment(self) -> dict[str, str]:
        """Without what would lead to the checkout."""
        ours = ("PYTHONPATH", "ROUTECAL_")
        return {name: value for name, value in os.environ.items() if not name.startswith(ours)}

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        command = [str(self.bin / "routecal"), *arguments]
        return subprocess.run(
            command, cwd=self.folder, env=self.environment, capture_output=True, text=True, timeout=400
        )


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Installed:
    """Built and installed as a user does, but for what is pinned: that is lent by the environment of the tests."""
    place = tmp_path_factory.mktemp("package")
    tree, environment, folder = (place / name for name in ("tree", "environment", "folder"))
    for name in SOURCES:
        shutil.copytree(ROOT / name, tree / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in FILES:
        shutil.copy(ROOT / name, tree / name)
    stale = tree / "build/lib/engine/forgotten.py"
    stale.parent.mkdir(parents=True)
    stale.write_text("")
    pip = [sys.executable, "-m", "pip"]
    build = [*pip, "wheel", "--quiet", "--no-deps", "--no-build-isolation", "--wheel-dir", str(place), "."]
    subprocess.run(build, cwd=tree, check=True, timeout=300)
    (wheel,) = place.glob("*.whl")
    shutil.rmtree(tree)
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(environment)], check=True)
    (lib,) = environment.glob("lib/python*/site-packages")
    (lib / "lent.pth").write_text(f"{sysconfig.get_path('purelib')}\n")
    install = [*pip, "--python", str(environment / "bin/python"), "install", "--quiet", "--no-deps", "--no-index"]
    subprocess.run([*install, str(wheel)], check=True, timeout=300)
    folder.mkdir()
    return Installed(wheel, environment / "bin", folder)


def shipped(name: str) -> str:
    """Where a file of the checkout is in the wheel."""
    for outside, inside in (("pages/", "app/page_scripts/"), ("data/paper/", "engine/paper/tables/")):
        name = re.sub(f"^{outside}", inside, name)
    return re.sub(r"^\.streamlit/", "app/.streamlit/", name)


def test_all_that_runs_is_in_the_wheel_and_nothing_else(installed: Installed):
    files = {
        str(path.relative_to(ROOT))
        for name in SOURCES
        for path in (ROOT / name).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts and path.suffix != ".md"
    }
    with zipfile.ZipFile(installed.wheel) as archive:
        found = {name for name in archive.namelist() if ".dist-info/" not in name}
    assert found == {shipped(name) for name in files} | {"routecal.py"}
    assert installed.wheel.stat().st_size < 2_000_000


def test_an_installed_command_says_what_it_is(installed: Installed):
    assert installed.run("--version").stdout == f"RouteCal {__version__}\n"
    audited = installed.run("audit", "--paper")
    assert (audited.returncode, audited.stderr) == (0, "")
    assert "claims:" in audited.stdout
    planned = installed.run("sweep", "smoke", "--list")
    assert (planned.returncode, planned.stderr) == (0, "")
    assert "to do" in planned.stdout


def test_without_shards_the_demo_says_where_they_are(installed: Installed):
    refused = installed.run("demo")
    assert refused.returncode == 2
    assert f"{installed.folder}/data/shards: no shards here" in refused.stderr
    assert "`routecal demo FOLDER`" in refused.stderr


@pytest.fixture(scope="module")
def served(installed: Installed) -> Iterator[Served]:
    """What `routecal publish` and `routecal serve` make of two shards in the folder they are started in."""
    shards = installed.folder / "data/shards"
    shards.mkdir(parents=True, exist_ok=True)
    for name in TWO_SHARDS:
        for path in (ROOT / "data/shards").glob(f"{name}.*"):
            shutil.copy(path, shards)
    port, log = free_port(), installed.folder / "log"
    published = installed.run("publish")
    assert published.returncode == 0, published.stderr
    command = [str(installed.bin / "routecal"), "serve", "--port", str(port)]
    with running(command, port, log, folder=installed.folder, environment=installed.environment) as dashboard:
        yield dashboard


def test_the_wheel_serves_every_page_of_two_shards(served: Served, installed: Installed):
    async def open_every_page() -> None:
        async with Viewer(served) as viewer:
            for page in PAGES:
                seen = await viewer.open(page.name)
                assert seen.titles == [page.question]
                seen.assert_sound()
                assert not seen.alerts, (page.name, seen.alerts)

    run_through(open_every_page())
    served.assert_no_faults()
    assert (installed.folder / "data/routing.duckdb").is_file()
    known = installed.run("info")
    assert known.returncode == 0
    assert all(name in known.stdout for name in TWO_SHARDS)


def test_the_installed_server_has_the_settings_of_the_checkout(installed: Installed):
    """Streamlit looks beside the script; what it finds in the folder it was started in must not win."""
    (installed.folder / ".streamlit").mkdir()
    (installed.folder / ".streamlit/config.toml").write_text("[server]\nmaxUploadSize = 7\n")
    code = """
import sys
from streamlit.starlette import App
from app.registry import ROOT
from streamlit import config
App(ROOT / "app/main.py").run = None
config.get_config_options(force_reparse=True)
print(ROOT, config.get_option("server.maxUploadSize"), config.get_option("client.showErrorDetails"))
"""
    command = [str(installed.bin / "python"), "-c", code]
    ran = subprocess.run(command, cwd=installed.folder, env=installed.environment, capture_output=True, text=True)
    root, most, details = ran.stdout.split()[-3:]
    assert Path(root).is_relative_to(installed.bin.parent)
    assert (most, details) == ("100", "type")


@pytest.fixture(scope="module")
def lab(installed: Installed) -> Installed:
    """A folder with nothing but the file that the README takes for one's own."""
    folder = installed.folder / "lab"
    folder.mkdir()
    rng = np.random.default_rng(0)
    confidence = rng.uniform(0.5, 1, 1000)
    table = {"confidence": confidence, "correct": rng.random(1000) < confidence, "margin": rng.random(1000)}
    pd.DataFrame(table).to_csv(folder / "mine.csv", index=False)
    return replace(installed, folder=folder)


def test_the_commands_of_the_readme_do_what_they_say(lab: Installed):
    """One after the other; those that install or serve are what the other tests here do."""
    blocks = re.findall(r"```sh\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    told = [shlex.split(line, comments=True) for block in blocks for line in block.splitlines()]
    served = ["routecal", "serve", "my/routing.duckdb"]
    elsewhere = [
        ["make", "run"],
        ["make", "test"],
        ["pipx", "install", "."],
        ["uvx", "--from", ".", "routecal", "demo"],
    ]
    assert [command for command in told if command[0] != "routecal"] == elsewhere
    assert served in told
    for command in told:
        if command[0] == "routecal" and command != served:
            ran = lab.run(*command[1:])
            assert ran.returncode == 0, (command, ran.stderr)
    made = {path.name for path in (lab.folder / "my").iterdir()}
    assert {"shards", "routing.duckdb", "tables", "report.html"} <= made
    assert any((lab.folder / "my/tables").iterdir())
    port = free_port()
    command = [str(lab.bin / "routecal"), *served[1:], "--port", str(port)]
    with running(command, port, lab.folder / "log", folder=lab.folder, environment=lab.environment) as dashboard:
        dashboard.assert_no_faults()


def pins(*files: str) -> dict[str, str]:
    lines = [line for file in files for line in (ROOT / file).read_text().splitlines() if re.match(r"\w", line)]
    return {found[1].lower(): found[2] for line in lines if (found := re.match(r"([\w.-]+)==(\S+)", line))}


def directly(file: str) -> set[str]:
    """What a file of requirements names before the first empty line: the rest is what that pulls in."""
    return {
        line.split("==")[0].lower() for line in (ROOT / file).read_text().split("\n\n")[0].splitlines() if "==" in line
    }


def test_the_wheel_asks_for_what_is_pinned():
    asked = {Requirement(text).name.lower(): Requirement(text).specifier for text in PROJECT["dependencies"]}
    tested = pins("requirements.txt", "requirements-dashboard.txt")
    assert set(asked) == directly("requirements.txt") | directly("requirements-dashboard.txt")
    assert not {name for name, specifier in asked.items() if not specifier.contains(tested[name])}


TARGETS = {
    "Linux": ["manylinux_2_28_x86_64", "manylinux_2_27_x86_64", "manylinux_2_17_x86_64", "manylinux2014_x86_64"],
    "macOS": [f"macosx_{version}_{arch}" for version in ("14_0", "13_0", "12_0", "11_0", "10_15", "10_13", "10_9")
              for arch in ("arm64", "universal2")],
    "Windows": ["win_amd64"],
}  # fmt: skip
PYTHONS = ((3, 11), (3, 12), (3, 13), (3, 14))


@pytest.mark.parametrize("system", TARGETS)
@pytest.mark.parametrize("python", PYTHONS, ids=lambda version: "{}.{}".format(*version))
def test_pip_takes_the_wheel_for_any_system_and_python(system: str, python: tuple[int, int], installed: Installed):
    """The resolver is asked about another machine; what the wheel depends on is asked below."""
    target = [part for platform in TARGETS[system] for part in ("--platform", platform)]
    command = [
        sys.executable, "-m", "pip", "install", "--dry-run", "--quiet", "--no-index", "--no-deps", "--ignore-installed",
        "--only-binary", ":all:", "--target", str(installed.folder / "none"), "--implementation", "cp",
        "--python-version", "{}.{}".format(*python), *target, str(installed.wheel),
    ]  # fmt: skip
    subprocess.run(command, check=True, timeout=120)


@pytest.mark.faults
def test_the_registry_has_a_wheel_of_all_that_is_pinned_for_any_system_and_python():
    """From its list of files, which takes seconds; pip would have to load every wheel to read what it depends on, and
    would ask markers such as `platform_system` of this machine. What is pinned is complete, so no more is asked for.
    """
    pinned = pins("requirements.txt", "requirements-dashboard.txt")

    def files(name: str) -> str:
        with urllib.request.urlopen(f"https://pypi.org/simple/{name.lower().replace('_', '-')}/", timeout=60) as page:
            return page.read().decode()

    try:
        files("packaging")
    except OSError as error:
        pytest.skip(f"the registry cannot be reached: {error}")
    with ThreadPoolExecutor(8) as pool:
        pages = dict(zip(pinned, pool.map(files, pinned), strict=True))
    missing = []
    for name, page in pages.items():
        wheels = [
            (parse_wheel_filename(found[2])[3], SpecifierSet(html.unescape(found[1] or "")))
            for found in re.finditer(r'<a [^>]*?(?:data-requires-python="([^"]*)"[^>]*)?>([^<]+\.whl)</a>', page)
            if found[2].split("-")[1] == pinned[name]
        ]
        for system, platforms in TARGETS.items():
            for python in PYTHONS:
                fitting = {*cpython_tags(python, platforms=platforms), *compatible_tags(python, "cp", platforms)}
                version = "{}.{}.0".format(*python)
                if not any(tags & fitting and admitted.contains(version) for tags, admitted in wheels):
                    missing.append((name, pinned[name], system, version))
    assert not missing


def test_one_version_everywhere():
    assert PROJECT["dynamic"] == ["version"]
    assert f"version: {__version__}\n" in (ROOT / "CITATION.cff").read_text()
    assert (ROOT / "CHANGELOG.md").read_text().startswith(f"# Changes\n\n## {__version__}\n")


def test_any_python_from_3_11_on_may_install_it():
    assert PROJECT["requires-python"] == ">=3.11"
    plan = ["make", "--dry-run", "--always-make", "run", "PYTHON=anything"]
    planned = subprocess.run(plan, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    checks = [line.split("-c ", 1)[1].strip("'") for line in planned.splitlines() if "version_info" in line]

    def said(version: tuple[int, int]) -> tuple[int, str]:
        code = "; ".join(
            check.replace("import sys", f"import sys; sys.version_info = {version}") for check in checks[:1]
        )
        first = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
        code = checks[1].replace("import sys", f"import sys; sys.version_info = {version}")
        second = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        return first.returncode, first.stderr + second.stdout

    assert said((3, 11)) == (0, "")
    assert said((3, 14)) == (0, "note: RouteCal is tested on Python 3.11, this is 3.14\n")
    assert said((3, 10))[0] == 1
