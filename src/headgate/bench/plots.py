"""Plots as inline SVG. Words stand beside them as text, so that they stay readable on a small screen."""

from collections.abc import Sequence
from math import floor, log10

from headgate.bench.summary import PassRate

_BARS = 24


def rate_bar(rates: Sequence[PassRate]) -> str:
    """A bar from 0 to 100%: a piece for each try, and the interval of the last one."""
    pieces: list[str] = []
    before = 0.0
    for number, rate in enumerate(rates, 1):
        width = 100 * (rate.share - before)
        if width > 0:
            place = f'x="{100 * before:.2f}" y="2" width="{width:.2f}" height="12"'
            pieces.append(f'<rect class="try{min(number, 3)}" {place}/>')
        before = rate.share
    if rates and rates[-1].total:
        low, high = (100 * end for end in rates[-1].interval)
        pieces.append(f'<line class="whisker" x1="{low:.2f}" x2="{high:.2f}" y1="8" y2="8"/>')
        pieces += [f'<line class="whisker" x1="{x:.2f}" x2="{x:.2f}" y1="4" y2="12"/>' for x in (low, high)]
    frame = '<rect class="frame" x="0" y="2" width="100" height="12"/>'
    return _svg("0 0 100 16", "bar", frame + "".join(pieces))


def share_bar(share: float) -> str:
    """A plain bar from 0 to 100%."""
    frame = '<rect class="frame" x="0" y="2" width="100" height="12"/>'
    return _svg(
        "0 0 100 16", "bar", f'{frame}<rect class="plain" x="0" y="2" width="{100 * share:.2f}" height="12"/>'
    )


def histogram(values: Sequence[float]) -> tuple[str, float, int]:
    """How values are spread, where it ends on the right, and how high the highest bar is."""
    most = _round_up(max(values, default=0.0))
    counts = [0] * _BARS
    for value in values:
        counts[min(int(_BARS * value / most), _BARS - 1)] += 1
    highest = max(counts)
    width = 100 / _BARS
    bars = "".join(
        f'<rect class="plain" x="{number * width + 0.2:.2f}" y="{60 - 58 * count / highest:.2f}"'
        f' width="{width - 0.4:.2f}" height="{58 * count / highest:.2f}"><title>{count}</title></rect>'
        for number, count in enumerate(counts)
        if count
    )
    ground = '<line class="ground" x1="0" x2="100" y1="60" y2="60"/>'
    return _svg("0 0 100 61", "histogram", bars + ground), most, highest


def _round_up(value: float) -> float:
    """The next round number that is not smaller."""
    if value <= 0:
        return 1.0
    unit = 10.0 ** floor(log10(value))
    return next(step * unit for step in (1, 2, 5, 10) if step * unit >= value * (1 - 1e-9))


def axis_steps(most: float) -> tuple[float, float, float]:
    """What is written below a histogram."""
    return 0.0, most / 2, most


def _svg(box: str, name: str, content: str) -> str:
    return (
        f'<svg class="{name}" viewBox="{box}" preserveAspectRatio="none" role="img" aria-hidden="true">'
        f"{content}</svg>"
    )
