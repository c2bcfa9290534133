"""`make bestiary`: meets every model, prints the table and writes docs/bestiary.md.

    python -m bestiary [--only NAME]

--only meets one and writes nothing. Exits 1 if any row is worse than promised.
"""

import os
import sys
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

from bestiary.catalogue import ROWS
from bestiary.meeting import meet_all
from bestiary.table import PAGE, cost_of_discipline, read_table, render_page, worse
from bestiary.useless import USELESS


def main(args: list[str]) -> int:
    """The exit code."""
    names = [*ROWS, *USELESS]
    only = args[args.index("--only") + 1] if "--only" in args else ""
    if only:
        findings = {only: meet_all([only])[0]}
    else:
        processes = min(4, os.cpu_count() or 1)
        shares = [names[start::processes] for start in range(processes)]
        with ProcessPoolExecutor(processes, get_context("spawn")) as pool:
            findings = {finding.name: finding for share in pool.map(meet_all, shares) for finding in share}
    promises = read_table()
    found = {
        name: list(finding.problems) if name in USELESS else worse(finding, promises[name])
        for name, finding in findings.items()
    }
    for name, finding in findings.items():
        forced = ", ".join(finding.final_turns)
        print(f"{name}: {finding.requests} requests, {finding.state} ({finding.reason}) {forced}".rstrip())
    for name, faults in found.items():
        for fault in faults:
            print(f"{name}: {fault}", file=sys.stderr)
    print(
        f"{len(findings)} behaviours, {sum(map(bool, found.values()))} worse than promised.", file=sys.stderr
    )
    if not only:
        print(cost_of_discipline(findings), file=sys.stderr)
        PAGE.write_text(render_page(promises), encoding="utf-8")
    return 1 if any(found.values()) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
