"""`minispec plan`: is speculation worth it, and how far to draft?"""

from __future__ import annotations

import argparse

from minispec import analysis

DESCRIPTION = """\
From how often a draft is right and what it costs, foretell what speculation brings:

  alpha        chance that the target keeps a drafted token (compare prints it)
  cost ratio   one step of the draft over one step of the target

Also how long a token takes where reading the weights is all that takes time, as on a
GPU at batch size 1. By default the example of a 70 B model in fp16 over 3.35 TB/s.
"""


def add_parser(commands: "argparse._SubParsersAction") -> None:
    """Register the command."""
    parser = commands.add_parser(
        "plan",
        help="foretell the speed-up from acceptance rate and cost",
        description=DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("--alpha", type=float, default=0.8, metavar="A", help="acceptance rate (0.8)")
    add("--cost-ratio", type=float, default=0.05, metavar="C", help="draft/target (0.05)")
    add(
        "--verify-cost",
        type=float,
        default=1.0,
        metavar="V",
        help="verifying a block over one step of the target (1, as in the paper)",
    )
    add("--gamma", type=int, metavar="N", help="also show this draft length")
    add("--parameters", type=float, default=70e9, metavar="N", help="weights (70e9)")
    add("--bytes", type=float, default=2, metavar="N", help="bytes per weight (2)")
    add(
        "--bandwidth",
        type=float,
        default=3.35e12,
        metavar="N",
        help="bytes per second that memory delivers (3.35e12)",
    )
    parser.set_defaults(run=run_plan)


def run_plan(args: argparse.Namespace) -> int:
    """Print the table, the advice and the arithmetic."""
    if args.gamma is not None and args.gamma < 1:
        raise ValueError(f"gamma must be at least 1, got {args.gamma}")
    verify = constant(args.verify_cost)
    best = analysis.best_gamma(args.alpha, args.cost_ratio, verify)
    seconds = analysis.seconds_per_token(args.parameters, args.bytes, args.bandwidth)
    print(f"alpha {args.alpha}, cost ratio {args.cost_ratio}\n")
    print(table(args, best))
    print(f"\n{verdict(args, best)}\n")
    print(
        f"memory-bound: {args.parameters:.3g} weights x {args.bytes:g} bytes over "
        f"{args.bandwidth:.3g} bytes/s = {1e3 * seconds:.3g} ms a token"
    )
    return 0


def constant(value: float):  # type: ignore[no-untyped-def]
    """A verification cost that is the same for every draft length."""
    return lambda gamma: value


def table(args: argparse.Namespace, best: int) -> str:
    """Some draft lengths: tokens per round, speed-up, break-even."""
    lengths = sorted({1, 2, 3, 4, 5, 6, 8, 12, *filter(None, (best, args.gamma))})
    lines = ["gamma  tokens per round  speed-up  breaks even at alpha"]
    for gamma in lengths:
        tokens = analysis.expected_tokens(args.alpha, gamma)
        gain = analysis.expected_speedup(
            args.alpha, gamma, args.cost_ratio, args.verify_cost
        )
        even = analysis.break_even_alpha(gamma, args.cost_ratio, args.verify_cost)
        mark = "  <- best" if gamma == best else ""
        shown = "never" if even is None else f"{even:.3f}"
        lines.append(f"{gamma:>5}{tokens:>18.2f}{gain:>9.2f}x{shown:>22}{mark}")
    return "\n".join(lines)


def verdict(args: argparse.Namespace, best: int) -> str:
    """What to do."""
    if best == 0:
        return (
            "do not speculate: the draft is right too rarely for what it costs "
            f"(alpha {args.alpha} must exceed the cost ratio {args.cost_ratio})"
        )
    gain = analysis.expected_speedup(
        args.alpha, best, args.cost_ratio, args.verify_cost
    )
    return f"best gamma {best}: {gain:.2f}x, if acceptance is even and costs are flat"
