"""`minispec plan`: is speculation worth it, and how far to draft?"""

from __future__ import annotations

import argparse

from minispec.commands.ending import at_least
from minispec.core import analysis

DESCRIPTION = """\
Before training or buying anything: how much would speculation bring?

  alpha        accepted / judged, the chance that a draft is accepted if all before it
               were (compare measures it)
  cost ratio   one step of the draft over one step of the target
  gamma        how many tokens are drafted each round

What serving engines report is accepted / drafted, which is lower: it counts the drafts
after a rejection too. Give it as --accepted-per-drafted, with the --gamma it was
measured at, and alpha follows. A mean accepted length L, the extra token included, is
(L - 1) / gamma accepted per drafted.

Also how long a token takes where reading the weights takes the time, as on a GPU that
serves one user; by default for 70 billion weights in fp16 at 3.35 TB/s. --batch shows
how the gain shrinks when many texts share a pass, up to where nothing is left of it.
"""
EXAMPLES = """\
examples:
  minispec plan --alpha 0.7 --cost-ratio 0.1
  minispec plan --accepted-per-drafted 0.54 --gamma 4 --verify-cost 1.5
  minispec plan --parameters 8e9 --bytes 1 --bandwidth 1e12 --batch 512
"""
LONGEST = 64
EXTREME = 1e30  # beyond it, and below 1 over it, products leave the range of floats
MOST = 10_000  # drafts in a round that --gamma may ask about: the sums are term by term
NUMBERS = (
    ("--cost-ratio", "C", 0.05, "a draft step over a target step"),
    ("--verify-cost", "V", 1.0, "verifying over a target step; the paper assumes 1"),
    ("--parameters", "N", 70e9, "weights of the target"),
    ("--bytes", "N", 2.0, "bytes per weight"),
    ("--bandwidth", "N", 3.35e12, "bytes per second that memory delivers"),
    ("--flops", "N", 989e12, "operations per second, for --batch"),
)


def add_parser(commands: "argparse._SubParsersAction") -> None:
    """Register the command."""
    parser = commands.add_parser(
        "plan",
        help="predict the speed-up from acceptance rate and cost",
        description=DESCRIPTION,
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    rate = parser.add_mutually_exclusive_group()
    judged = "accepted / judged, 0 to 1 (%(default)g)"
    rate.add_argument("--alpha", type=float, default=0.8, metavar="A", help=judged)
    drafted = "accepted / drafted, 0 to 1, in place of alpha; needs --gamma"
    rate.add_argument("--accepted-per-drafted", type=float, metavar="F", help=drafted)
    length = "also show this draft length"
    parser.add_argument("--gamma", type=at_least(1), metavar="N", help=length)
    texts = "also show what is left of the gain where up to N texts share a pass"
    parser.add_argument("--batch", type=at_least(1), metavar="N", help=texts)
    for name, metavar, default, says in NUMBERS:
        says += " (%(default)g)"
        parser.add_argument(
            name, type=float, default=default, metavar=metavar, help=says
        )
    parser.set_defaults(run=run_plan)


def run_plan(args: argparse.Namespace) -> int:
    """Print the table, the advice and the arithmetic."""
    for option, n, most in ("gamma", args.gamma, MOST), ("batch", args.batch, EXTREME):
        if n and n > most:
            raise ValueError(f"--{option} must be at most {most:g}, got {n!s:.40}")
    for name, *_ in NUMBERS:
        value = getattr(args, name[2:].replace("-", "_"))
        if value > EXTREME or 0 < value < 1 / EXTREME:
            span = f"between {1 / EXTREME:g} and {EXTREME:g}"
            raise ValueError(f"{name} must be {span}, got {value}")
    if args.accepted_per_drafted is not None:
        args.alpha = alpha_of(args.accepted_per_drafted, args.gamma)
    best = analysis.best_gamma(
        args.alpha, args.cost_ratio, lambda gamma: args.verify_cost, LONGEST
    )
    print(table(args, best), verdict(args, best), memory_bound(args, best), sep="\n\n")
    if args.batch:
        print(f"\n{batches(args)}")
    return 0


def alpha_of(accepted_per_drafted: float, gamma: int | None) -> float:
    """Alpha from an engine's figure."""
    if gamma is None:
        raise ValueError(
            "--accepted-per-drafted needs --gamma, the draft length it was measured at"
        )
    return analysis.alpha_from_accepted_per_drafted(accepted_per_drafted, gamma)


def speedup(args: argparse.Namespace, gamma: int) -> float:
    """The expected one."""
    costs = args.cost_ratio, args.verify_cost
    return analysis.expected_speedup(args.alpha, gamma, *costs)


def break_even(args: argparse.Namespace, gamma: int) -> float | None:
    """The alpha above which it pays; None if it never does."""
    return analysis.break_even_alpha(gamma, args.cost_ratio, args.verify_cost)


def table(args: argparse.Namespace, best: int) -> str:
    """Some draft lengths: tokens per round, speed-up, break-even."""
    lines = [
        f"alpha {args.alpha:.3g}, cost ratio {args.cost_ratio:g}, verification "
        f"{args.verify_cost:g}",
        "",
        "gamma  tokens per round  speed-up  pays if alpha is above",
    ]
    for gamma in sorted({1, 2, 3, 4, 5, 6, 8, 12, *filter(None, (best, args.gamma))}):
        tokens = analysis.expected_tokens(args.alpha, gamma)
        even = break_even(args, gamma)
        shown = "never pays" if even is None else f"{even:.3f}"
        mark = "  <- best" if gamma == best else ""
        gain = two_digits(speedup(args, gamma))
        lines.append(f"{gamma:>5}{tokens:>18.2f}{gain:>9}x{shown:>24}{mark}")
    return "\n".join(lines)


def verdict(args: argparse.Namespace, best: int) -> str:
    """What to do."""
    if best:
        capped = ", the longest tried" if best == LONGEST else ""
        gain = f"{two_digits(speedup(args, best))}x the target alone"
        alike = "(if every draft is as likely to be accepted as any other)"
        return f"best: gamma {best}{capped}, {gain}\n{alike}"
    evens = (break_even(args, gamma) for gamma in range(1, LONGEST + 1))
    needed = min((even for even in evens if even is not None), default=None)
    if needed is None:
        return "do not speculate: at these costs no draft is good enough"
    low = f"do not speculate: alpha {args.alpha:.3g} is too low for these costs"
    return f"{low}; it would have to be above {needed:.3f}"


def memory_bound(args: argparse.Namespace, best: int) -> str:
    """The least time of a token, without speculation and with it."""
    size = args.parameters * args.bytes
    seconds = analysis.seconds_per_token(args.parameters, args.bytes, args.bandwidth)
    told = (
        f"for example, memory-bound: {short(args.parameters / 1e9)} billion weights x "
        f"{args.bytes:g} bytes = {short(size / 1e9)} GB, read for every token\n"
        f"at {short(args.bandwidth / 1e12)} TB/s: {short(1e3 * seconds)} ms a token"
    )
    if not best:
        return told
    faster = short(1e3 * seconds / speedup(args, best))
    return f"{told}\nand speculating with gamma {best}: {faster} ms a token"


def batches(args: argparse.Namespace) -> str:
    """What speculation brings to 1, 2, 4, ... texts that share each pass."""
    numbers = args.bytes, args.bandwidth, args.flops
    flat = analysis.tokens_while_flat(*numbers)
    lines = [
        f"batches: a pass is as long as reading the weights up to {flat:.0f} tokens,",
        "then as long as the arithmetic of its tokens",
        "",
        "texts  best gamma  speed-up",
    ]
    sizes = [2**i for i in range(args.batch.bit_length()) if 2**i < args.batch]
    for n in [*sizes, args.batch]:
        gains = [gain_of_batch(args, flat, n, gamma) for gamma in range(LONGEST + 1)]
        best = max(range(LONGEST + 1), key=lambda gamma: gains[gamma])
        lines.append(f"{n:>5}{best:>12}{gains[best]:>9.2f}x")
    return "\n".join(lines)


def gain_of_batch(args: argparse.Namespace, flat: float, n: int, gamma: int) -> float:
    """The expected speed-up of n texts; 1 for a gamma of 0."""

    def pass_cost(rows: int) -> float:
        return analysis.roofline_cost(rows, flat)

    def draft_cost(rows: int) -> float:
        return args.cost_ratio * pass_cost(rows)

    return analysis.batch_speedup(args.alpha, gamma, n, pass_cost, draft_cost)


def two_digits(value: float) -> str:
    """3.09, and 3.09e+12 where the digits would go on."""
    return f"{value:.2f}" if value < 1e6 else f"{value:.3g}"


def short(value: float) -> str:
    """A few digits that matter: 0.0123, 3.35, 42, 140, 1.4e+06."""
    return f"{value:.0f}" if 10 <= value < 1e6 else f"{value:.3g}"
