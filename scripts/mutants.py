"""The zoo of mistakes, and which test catches each.

    python scripts/mutants.py                      run all of them; takes some minutes
    python scripts/mutants.py residual_is_a_softmax bonus_from_the_row_before
    python scripts/mutants.py --list               what the mistakes are, without a run
    pytest --mutant residual_is_a_softmax tests/test_rejection.py
                                                   see one be caught, and what it says

A mutant is a file in tests/mutants/: one function of minispec/ as somebody might
wrongly write it, and the test files that must notice. Each runs in a process of its
own until the first test fails. A mistake that no test notices has "survived": then
a test is missing, and this script ends with status 1.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from ending import ended, positive

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from grafting import UnusableFile  # noqa: E402
from mutating import Mutant, Outcome, names, read, run, survivors  # noqa: E402


def main() -> None:
    """Run what is asked for; show the table, also of a run that was interrupted."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help="only these mutants")
    parser.add_argument("--list", action="store_true", help="name and explain them")
    parser.add_argument("--jobs", type=positive, metavar="N", help="how many at a time")
    parser.add_argument("--markdown", action="store_true", help="a table for a page")
    args = parser.parse_args()
    try:
        mutants = [read(name) for name in args.names or names()]
    except UnusableFile as error:
        parser.exit(2, f"mutants.py: {error}\n")
    if args.list:
        print("\n\n".join(map(described, mutants)))
        return
    outcomes: list[Outcome] = []
    try:
        run_all(mutants, args.jobs, outcomes)
    except KeyboardInterrupt:
        print("\ninterrupted; so far:", file=sys.stderr)
    outcomes.sort(key=lambda one: (one.mutant.replaces, one.mutant.name))
    rows = table(outcomes)
    print("\n".join(markdown(rows) if args.markdown else plain(rows)))
    n_all = sum(len(mutant.caught_by) for mutant in mutants)
    survived = survivors(outcomes)
    print(f"\n{len(outcomes) - len(survived)} caught, {len(survived)} not", end="")
    print(f", {n_all - len(outcomes)} not run" if len(outcomes) < n_all else "")
    sys.exit(1 if survived else 130 if len(outcomes) < n_all else 0)


def described(mutant: Mutant) -> str:
    who = mutant.who.replace("\n", "\n    ")
    where = f"in {':'.join(mutant.replaces)}; {', '.join(mutant.caught_by)} must notice"
    return f"{mutant.name}\n    {mutant.mistake}\n    {who}\n    {where}"


def run_all(mutants: Sequence[Mutant], n_jobs: int | None, done: list[Outcome]) -> None:
    """Append the outcomes as they come, and say so."""
    n_all = sum(len(mutant.caught_by) for mutant in mutants)
    for outcome in run(mutants, n_jobs):
        done.append(outcome)
        print(
            f"{len(done):>3}/{n_all} {outcome.verdict:<11} {outcome.mutant.name}",
            file=sys.stderr,
            flush=True,
        )


def table(outcomes: Sequence[Outcome]) -> list[list[str]]:
    """A head and one row an outcome."""
    rows = [["mutant", "of", "caught by", "seconds"]]
    for one in outcomes:
        by = one.by if one.verdict == "caught" else f"{one.verdict}: {one.by}"
        if one.verdict == "survived":
            by = f"SURVIVED {one.tests}"
        function = ":".join(one.mutant.replaces)
        rows.append([one.mutant.name, function, by, f"{one.seconds:.1f}"])
    return rows


def plain(rows: Sequence[Sequence[str]]) -> list[str]:
    """Columns as wide as what stands in them."""
    widths = [max(map(len, column)) for column in zip(*rows)]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip()
        for row in rows
    ]


def markdown(rows: Sequence[Sequence[str]]) -> list[str]:
    lines = ["| " + " | ".join(row) + " |" for row in rows]
    return [lines[0], "|---|---|---|---:|", *lines[1:]]


if __name__ == "__main__":
    sys.exit(ended(main))
