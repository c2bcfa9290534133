"""Which files lead to which: personalised PageRank over who uses what others define."""

from collections.abc import Mapping

Graph = Mapping[str, Mapping[str, float]]
"""For each file those that it leads to, with the strength of each connection."""

_ROUNDS = 30


def page_rank(graph: Graph, seeds: Mapping[str, float], damping: float) -> dict[str, float]:
    """Where somebody ends up who starts at a seed, follows connections, and now and then starts again.

    All sums are made in the order of the names, so that the result is the same everywhere.
    """
    nodes = sorted({*graph, *seeds, *(target for targets in graph.values() for target in targets)})
    total = sum(seeds[node] for node in nodes if node in seeds)
    if not nodes or total <= 0:
        return {}
    start = {node: seeds.get(node, 0.0) / total for node in nodes}
    shares: dict[str, list[tuple[str, float]]] = {}
    for node in nodes:
        targets = graph.get(node, {})
        strength = sum(targets[target] for target in sorted(targets))
        if strength > 0:
            shares[node] = [(target, targets[target] / strength) for target in sorted(targets)]
    rank = dict(start)
    for _ in range(_ROUNDS):
        following = dict.fromkeys(nodes, 0.0)
        idle = 0.0
        for node in nodes:
            if node not in shares:
                idle += rank[node]
                continue
            for target, share in shares[node]:
                following[target] += rank[node] * share
        rank = {
            node: (1 - damping) * start[node] + damping * (following[node] + idle * start[node])
            for node in nodes
        }
    return rank
