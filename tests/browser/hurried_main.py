"""The dashboard, with no patience: all long work is shown behind its bar first, as on a busy server."""

import runpy
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from app.shell import long_work  # noqa: E402

long_work.FIRST_LOOK = 0.0
runpy.run_path(str(ROOT / "app/main.py"), run_name="__main__")
