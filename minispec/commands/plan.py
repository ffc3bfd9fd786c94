"""`minispec plan`: is speculation worth it, and how far to draft?"""

from __future__ import annotations

import argparse
from collections.abc import Callable

from minispec import analysis
from minispec.commands.options import at_least

DESCRIPTION = """\
Before training or buying anything: how much would speculation bring?

  alpha        the chance that the target keeps a drafted token (compare measures it)
  cost ratio   one step of the draft over one step of the target
  gamma        how many tokens are drafted each round

Also how long a token takes where reading the weights is what takes the time, as on a
GPU that serves one user; by default for 70 billion weights in fp16 at 3.35 TB/s.
"""
EXAMPLES = """\
examples:
  minispec plan --alpha 0.7 --cost-ratio 0.1
  minispec plan --alpha 0.6 --cost-ratio 0.1 --verify-cost 1.5
  minispec plan --parameters 8e9 --bytes 1 --bandwidth 1e12
"""
LONGEST = 64
MOST = 10_000  # drafts in a round that --gamma may ask about: the sums are term by term


def add_parser(commands: "argparse._SubParsersAction") -> None:
    """Register the command."""
    parser = commands.add_parser(
        "plan",
        help="foretell the speed-up from acceptance rate and cost",
        description=DESCRIPTION,
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )

    def number(name: str, default: float, metavar: str, says: str) -> None:
        says = f"{says} (%(default)g)"
        parser.add_argument(
            name, type=float, default=default, metavar=metavar, help=says
        )

    number("--alpha", 0.8, "A", "acceptance rate, 0 to 1")
    number("--cost-ratio", 0.05, "C", "a draft step over a target step")
    verifying = "checking a block over one target step; 1 is the paper's assumption"
    number("--verify-cost", 1.0, "V", verifying)
    parser.add_argument(
        "--gamma", type=at_least(1), metavar="N", help="also show this draft length"
    )
    number("--parameters", 70e9, "N", "weights of the target")
    number("--bytes", 2.0, "N", "bytes per weight")
    number("--bandwidth", 3.35e12, "N", "bytes per second that memory delivers")
    parser.set_defaults(run=run_plan)


def run_plan(args: argparse.Namespace) -> int:
    """Print the table, the advice and the arithmetic."""
    if args.gamma and args.gamma > MOST:
        raise ValueError(f"gamma must be at most {MOST}, got {args.gamma}")
    best = analysis.best_gamma(
        args.alpha, args.cost_ratio, constant(args.verify_cost), LONGEST
    )
    shown = table(args, best), verdict(args, best), memory_bound(args, best)
    print("\n\n".join(shown))
    return 0


def constant(value: float) -> Callable[[int], float]:
    """A verification cost that is the same for every draft length."""
    return lambda gamma: value


def speedup(args: argparse.Namespace, gamma: int) -> float:
    """The expected one; 1 where nothing is drafted."""
    if gamma == 0:
        return 1.0
    return analysis.expected_speedup(
        args.alpha, gamma, args.cost_ratio, args.verify_cost
    )


def table(args: argparse.Namespace, best: int) -> str:
    """Some draft lengths: tokens per round, speed-up, break-even."""
    lengths = sorted({1, 2, 3, 4, 5, 6, 8, 12, *filter(None, (best, args.gamma))})
    lines = [
        f"alpha {args.alpha:g}, cost ratio {args.cost_ratio:g}",
        "",
        "gamma  tokens per round  speed-up  pays if alpha is above",
    ]
    for gamma in lengths:
        tokens = analysis.expected_tokens(args.alpha, gamma)
        even = analysis.break_even_alpha(gamma, args.cost_ratio, args.verify_cost)
        shown = "never pays" if even is None else f"{even:.3f}"
        mark = "  <- best" if gamma == best else ""
        gain = speedup(args, gamma)
        lines.append(f"{gamma:>5}{tokens:>18.2f}{gain:>9.2f}x{shown:>24}{mark}")
    return "\n".join(lines)


def verdict(args: argparse.Namespace, best: int) -> str:
    """What to do."""
    if best:
        capped = ", the longest tried" if best == LONGEST else ""
        return (
            f"best: gamma {best}{capped}, {speedup(args, best):.2f}x the target alone\n"
            "(if every drafted token is as likely to be kept as any other)"
        )
    costs = args.cost_ratio, args.verify_cost
    evens = (analysis.break_even_alpha(g, *costs) for g in range(1, LONGEST + 1))
    needed = min((even for even in evens if even is not None), default=None)
    if needed is None:
        return "do not speculate: at these costs no draft is good enough"
    return (
        f"do not speculate: alpha {args.alpha:g} is too low for these costs; it would "
        f"have to be above {needed:.3f}"
    )


def memory_bound(args: argparse.Namespace, best: int) -> str:
    """The least time of a token, without speculation and with it."""
    size = args.parameters * args.bytes
    seconds = analysis.seconds_per_token(args.parameters, args.bytes, args.bandwidth)
    lines = [
        f"for example, memory-bound: {short(args.parameters / 1e9)} billion weights x "
        f"{args.bytes:g} bytes = {short(size / 1e9)} GB, read for every token\n"
        f"at {short(args.bandwidth / 1e12)} TB/s: {short(1e3 * seconds)} ms a token"
    ]
    if best:
        faster = 1e3 * seconds / speedup(args, best)
        lines.append(f"and speculating with gamma {best}: {short(faster)} ms a token")
    return "\n".join(lines)


def short(value: float) -> str:
    """A few digits that matter: 0.0123, 3.35, 42, 140."""
    return f"{value:.0f}" if value >= 10 else f"{value:.3g}"
