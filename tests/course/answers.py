"""Answers of learners: right ones pass, wrong ones are told what broke, in numbers.

    python tests/course/answers.py          all of them: some minutes
    python tests/course/answers.py 8        those of exercise 8

answers/*.md hold them: for each exercise right ones, in other idioms than the
package's, and wrong ones that people write. `Told:` is a part of what these are told.
"""

from __future__ import annotations

import re
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

TESTS = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(TESTS))

from course.apart import two_at_a_time  # noqa: E402
from course.catalogue import EXERCISES  # noqa: E402
from course.overlay import reference  # noqa: E402
from course.sessions import graded, warm_up  # noqa: E402
from course.stubs import piece  # noqa: E402

# Of a test's own machinery, nothing in what a learner reads
MACHINERY = r"@py_|monkeypatch|drawn=|StopIteration|IndexError|Traceback|git apply"


class Answer(NamedTuple):
    number: int
    kind: str  # right or wrong
    title: str
    told: str
    files: dict[str, str]  # {"core/verify.py": code}


def read(text: str) -> Iterator[Answer]:
    """The entries of one file."""
    for entry in text.split("\n## Exercise ")[1:]:
        number, kind, title = re.split(", |: ", entry.partition("\n")[0], maxsplit=2)
        told = re.search(r"^Told: (.+)$", entry, re.MULTILINE)
        codes = re.findall(r"^```python\n# (\S+)\n(.+?)^```", entry, re.M | re.S)
        found = told[1] if told else ""
        yield Answer(int(number), kind, title, found, dict(codes))


FILES = sorted(Path(__file__).with_name("answers").glob("*.md"))
ANSWERS = [one for path in FILES for one in read(path.read_text(encoding="utf-8"))]


def fault(one: Answer) -> str:
    """What the grader does wrong with this answer: nothing, if all is well.

    Functions of the exercise that an answer leaves out are the package's.
    """
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for function in EXERCISES[one.number].functions:
            file, missing = function.split(":")
            (folder / file).parent.mkdir(exist_ok=True)
            code = one.files.get(file, reference(file))
            if not re.search(rf"def {missing.rpartition('.')[2]}\(", code):
                part = "\n".join(piece(reference(file), missing))
                owner = missing.rpartition(".")[0]
                if owner and not re.search(rf"^class {owner}\b", code, re.MULTILINE):
                    part = f"class {owner}:\n{part}"
                one.files[file] = f"{code}\n{part}\n"
            (folder / file).write_text(one.files.get(file, code), encoding="utf-8")
        status, said = graded(folder, [one.number], folder / "grades.json")
    if one.kind == "right":
        return "" if status == 0 and ": done, " in said else said
    shows = ("got: " in said and "expected: " in said) or "yours: " in said
    plain = not re.search(MACHINERY, said) and len(said.splitlines()) < 40
    return "" if status == 1 and one.told in said and shows and plain else said


def main(arguments: list[str]) -> int:
    """Grade them; 1 if the grader does wrong."""
    numbers = {int(one) for one in arguments} or {*EXERCISES}
    chosen = [one for one in ANSWERS if one.number in numbers]
    warm_up()
    n_faults = 0
    with two_at_a_time() as pool:
        for one, said in zip(chosen, pool.map(fault, chosen)):
            n_faults += bool(said)
            title = f"{one.number:>2} {one.kind}: {one.title}"
            print(f"{title:<64} {said or 'as it should be'}", flush=True)
    print(f"{n_faults} of {len(chosen)} are graded wrongly")
    return 1 if n_faults else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
