"""For teachers: the points of a learner's folder, and a repository without solutions.

notebooks/teaching.md says how a course uses them.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any

from course.catalogue import EXERCISES, FUNCTIONS
from course.overlay import PACKAGE, PACKED, ROOT, pack, reference
from course.sessions import graded, warm_up
from course.stubs import stub

# What holds solutions, beside the package itself
SOLVED = ("tests/course/mistakes", "tests/course/answers", "tests/course/test_")
# The original's front page, whose commands and figures need the solutions
FRONT = ("README", "tests/test_readme")
STUDENTS_FRONT = Path(__file__).with_name("students.md")


def grade(args: argparse.Namespace) -> int:
    """Each exercise alone, so that one mistake costs one exercise."""
    found = grades_of(args.folder)
    if args.json:
        print(json.dumps(found, indent=1))
    else:
        for number, one in found["exercises"].items():
            print(f"{number:>3}  {one['points']} of {one['of']}  {one['title']}")
            print(one["message"] or f"  {one['verdict']}")
        print(f"{found['points']} of {found['of']} points")
    return 0


def grades_of(folder: Path) -> dict[str, Any]:
    """{"points", "of", "exercises": {"8": {"points", "of", "verdict", "message"}}}."""
    if not folder.is_dir():
        raise ValueError(f"{folder}: no such folder")
    warm_up()
    found: dict[str, Any] = {}
    for number, one in EXERCISES.items():
        with tempfile.TemporaryDirectory() as empty:
            path = Path(empty, "grades.json")
            _, said = graded(folder, [number], path)
            if path.exists():
                found |= json.loads(path.read_text(encoding="utf-8"))
            else:  # a file that cannot be read or does not run
                verdict = said.strip().removeprefix("ERROR: ")
                about = {"title": one.title, "points": 0, "of": one.points}
                found[str(number)] = {**about, "verdict": verdict, "message": ""}
    points, of = (sum(one[key] for one in found.values()) for key in ("points", "of"))
    return {"folder": str(folder), "points": points, "of": of, "exercises": found}


def student_repo(args: argparse.Namespace) -> None:
    """Copy the files that git tracks, with stubs for the solutions, as one commit.

    The reference lies packed in tests/course/reference.bin, since every exercise is
    graded with everything else right.
    """
    if PACKED.exists():
        raise ValueError("this is a student's repository already")
    if args.out.exists() and any(args.out.iterdir()):
        raise ValueError(f"{args.out} is not empty")
    try:
        listed = git(ROOT, "ls-files", "-z")
    except ValueError as error:
        why = f"student-repo needs a git clone of minispec, not a bare copy; {error}"
        raise ValueError(why) from error
    for name in filter(None, listed.split("\0")):
        if not name.startswith(SOLVED + FRONT) and (ROOT / name).is_file():
            (args.out / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, args.out / name)
    texts = {one.split(":")[0]: reference(one.split(":")[0]) for one in FUNCTIONS}
    for file in texts:
        (args.out / PACKAGE.name / file).write_text(stub(file), encoding="utf-8")
    (args.out / PACKED.relative_to(ROOT)).write_bytes(pack(texts))
    shutil.copy(STUDENTS_FRONT, args.out / "README.md")
    git(args.out, "init", "--quiet")
    git(args.out, "add", "--all")
    who = ["-c", "user.name=course", "-c", "user.email=course@example.org"]
    git(args.out, *who, "commit", "--quiet", "--message=The exercises")
    print(f"{args.out}: students write in its folder {PACKAGE.name}/ and grade it with")
    print("  python scripts/exercises.py check 8")


def git(folder: Path, *arguments: str) -> str:
    """What git says. Raises ValueError where it fails."""
    command = ["git", "-C", str(folder), *arguments]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise ValueError(f"git {arguments[0]} failed: {done.stderr.strip():.200}")
    return done.stdout
