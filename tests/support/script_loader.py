"""Import a script of scripts/ as a module, or run it: scripts/ is not a package."""

import importlib
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType

ROOT = Path(__file__).resolve().parents[2]
SCRIPTS = ROOT / "scripts"


def load_script(name: str) -> ModuleType:
    """The module of scripts/NAME.py, without its `main` run.

    Its neighbours can be imported from then on, as when it is run as a script.
    """
    if str(SCRIPTS) not in sys.path:
        sys.path.insert(0, str(SCRIPTS))
    return importlib.import_module(name)


def run_script(
    name: str, *arguments: object, **environment: str
) -> subprocess.CompletedProcess[str]:
    """scripts/NAME.py in a process of its own; what it says is kept as text."""
    return subprocess.run(
        [sys.executable, str(SCRIPTS / f"{name}.py"), *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=300,
        env={**os.environ, "PYTHONPATH": str(ROOT), **environment},
    )
