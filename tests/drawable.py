"""Small real results to draw, and functions that read a figure."""

import itertools
import textwrap
from functools import cache

import numpy as np
from conftest import SMALL_STUDY, compute_table
from matplotlib.backends.backend_agg import FigureCanvasAgg

from evogt_study.plots.catalogue import draw_kind
from evogt_study.plots.groups import PlotRequest
from evogt_study.results.dataset import make_global_attributes, to_dataset
from evogt_study.study.plan import plan_study
from evogt_study.study.study import Study

FAILING = """
import numpy as np

def method(seed, kind, N):
    rng = np.random.default_rng([seed, N])
    if kind == "bad":
        raise ValueError(f"cannot do <b>seed</b> {seed} & N = {N}")
    if seed == 1 and N == 40:
        return {"error": float("nan")}
    return {
        "error": N**-2.0 * rng.lognormal() * (3 if kind == "slow" else 1),
        "count": 2 * N,
        "trace": ("checkpoint", np.cumsum(rng.random(6))),
    }
"""
AXES = """
title = "Failures <script>alert(1)</script> $x^2$ & more"
source = "made up, with \\u6f22"
[axes]
kind = ["fast", "slow", "bad"]
N = [10, 20, 40]
seed = { start = 0, count = 4 }
[output.estimand]
error = "geometric_mean"
"""
PILOT = """
name = "chosen"

[problem]
dimension = 1
exact = "exp(-t)*sin(pi*x)"

[axes]
dictionary = ["transnet", "uniform_elm"]
seed = [0, 1]

[constants]
N = 8
quadrature = 20
validation = 20
final_time = 0.1
dt = 0.05

[pilot]
parameter = "gamma"
seeds = [10, 11]
minimise = "error"
by = ["dictionary"]
candidates = { transnet = [1, 2, 4], uniform_elm = [2, 5] }
"""
IN_2D = {
    'sin(k*pi*x)"': 'sin(k*pi*x)*sin(pi*y)"',
    "dimension = 1": "dimension = 2",
    "quadrature = 40": "quadrature = 9",
}
IN_3D = {**IN_2D, "dimension = 1": "dimension = 3", 'sin(k*pi*x)"': 'sin(k*pi*x)*sin(pi*y)*sin(pi*z)"'}


def write_study(folder, axes, source=FAILING, name="own"):
    """Write a study of a user function to a folder, and read it."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "method.py").write_text(textwrap.dedent(source))
    (folder / f"{name}.toml").write_text(f'name = "{name}"\nmethod = "method.py:method"\n{axes}')
    return Study.from_file(folder / f"{name}.toml")


def compute_runs(study):
    """Compute the runs of a study in this process."""
    table = compute_table(plan_study(study)[-1])
    data = to_dataset(table, study)
    data.attrs = {**make_global_attributes(study, "main"), **data.attrs}
    return data


def compute_pilot_runs(study):
    """Compute the runs of the pilot of a study."""
    return to_dataset(compute_table(plan_study(study)[0]), study)


def small_result(dimension=1):
    """Return a result with two dictionaries, two k, three seeds, and all variables that can be drawn."""
    return _small(dimension).copy(deep=True)  # no test sees a change of another


@cache
def _small(dimension):
    text = SMALL_STUDY.replace('"field"]', '"field", "singular_values"]')
    for old, new in {1: {}, 2: IN_2D, 3: IN_3D}[dimension].items():
        text = text.replace(old, new)
    if dimension > 1:
        text = text.replace("validation = 60", "validation = 8")
    return compute_runs(Study.from_text(text))


def request_of(variable=None, over=None, **options):
    """Return a request with its roles and options by their names."""
    return PlotRequest(variable, over=(over,) if isinstance(over, str) else over, **options)


def draw(data, kind, variable=None, **options):
    """Draw a plot with its texts."""
    return draw_kind(data, kind, request_of(variable, **options))


def lines_of(figure, gid):
    """The lines of all axes that are drawn under that name."""
    return [line for axes in figure.axes for line in axes.get_lines() if line.get_gid() == gid]


def points_of(axes, gid="runs"):
    """Coordinates of all points that are drawn under that name, (n, 2)."""
    lines = [line for line in axes.get_lines() if line.get_gid() == gid]
    return np.concatenate([np.empty((0, 2)), *(line.get_xydata() for line in lines)])


def texts_of(figure):
    """Every text of a figure that is not empty."""
    return [text.get_text() for text in figure.findobj(lambda artist: hasattr(artist, "get_text")) if text.get_text()]


def _overlap(one, other):
    return one.x0 < other.x1 - 1 and other.x0 < one.x1 - 1 and one.y0 < other.y1 - 1 and other.y0 < one.y1 - 1


def check_layout(figure):
    """Letters are large enough, nothing is cut off, and no parts overlap."""
    renderer = FigureCanvasAgg(figure).get_renderer()
    panels = [axes for axes in figure.axes if axes.get_label() != "<colorbar>"]
    boxes = [legend.get_window_extent(renderer) for legend in figure.legends]
    boxes += [axes.get_tightbbox(renderer) for axes in panels]
    boxes.append(figure._supxlabel.get_window_extent(renderer))
    for box in boxes:
        assert box.x0 >= figure.bbox.x0 - 1
        assert box.y0 >= figure.bbox.y0 - 1
        assert box.x1 <= figure.bbox.x1 + 1
        assert box.y1 <= figure.bbox.y1 + 1
    rows = [[label.get_window_extent(renderer) for label in axes.get_yticklabels()] for axes in panels[:1]]
    for parts in (boxes, *rows):
        assert not [pair for pair in itertools.combinations(parts, 2) if _overlap(*pair)]
    letters = [text for text in figure.findobj(lambda artist: hasattr(artist, "get_fontsize")) if text.get_text()]
    assert min(text.get_fontsize() for text in letters if text.get_visible()) >= 7.0


def footnote_of(figure):
    """The note below the figure, on one line."""
    return figure.get_supxlabel().replace("\n", " ")
