"""What pyproject.toml cannot say: folders that lie beside the packages in a checkout lie inside them in a wheel."""

import shutil
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py

INSIDE = {"pages": "app/page_scripts", ".streamlit": "app/.streamlit", "data/paper": "engine/paper/tables"}


class BuildWithFolders(build_py):
    """Copies them, and starts empty: what an earlier build left behind would be shipped too."""

    def run(self) -> None:
        if self.editable_mode:
            return super().run()
        shutil.rmtree(self.build_lib, ignore_errors=True)
        super().run()
        for source, target in INSIDE.items():
            shutil.copytree(source, Path(self.build_lib) / target, ignore=shutil.ignore_patterns("__pycache__", "*.md"))


setup(cmdclass={"build_py": BuildWithFolders})
