"""Plot kinds by name: the kinds that fit a result, and each figure with its title, caption and alternative text."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple, TypeVar

import numpy as np
import xarray as xr
from matplotlib.figure import Figure

from evogt_study.analysis.design import along_sample, drawn_dimensions
from evogt_study.analysis.runs import KEYS, count_runs, mark_first_cells, numeric_variables, run_numbers
from evogt_study.errors import InputError, shortened
from evogt_study.plots.canvas import DisplayedFigure, Given, Look, explained, restyled, without_notes
from evogt_study.plots.comparison import Compared, comparable, compared, comparison, setups_of
from evogt_study.plots.dependence import against_each_run, along_numbers, dependence, rank_error, trend
from evogt_study.plots.distribution import distribution
from evogt_study.plots.fields import DIRECTIONS, EXACT, FIELD, fields, one_run
from evogt_study.plots.groups import (
    Arranged,
    Places,
    arranged,
    at,
    axes_of,
    check_places,
    default_over,
    is_numeric,
    numbers_in,
    sampled_runs,
    title_of,
)
from evogt_study.plots.heat_map import cells, heat_map
from evogt_study.plots.histories import (
    SINGULAR_VALUES,
    WANTED,
    histories,
    is_history,
    own_dimension,
    own_dimensions,
    spectrum,
)
from evogt_study.schema.variables import BOOKKEEPING, CANDIDATE, HEADLINE, PILOT, Status, status_codes

T = TypeVar("T")
SPOKEN = 3
"""Setups of a comparison whose conclusion an alternative text has."""
NO_SOLUTION_ERROR = "there is no solution error: the problem has no exact solution, and the study no reference for it"


@dataclass(frozen=True)
class Wish:
    """Request for a picture: the variable (None: what the study is about), places, reference slopes, look, and axes.

    compared: the comparison, if it is known already.  With 100,000 runs it takes seconds.  notes: True puts footnotes
    and counts of runs into the figure, False into its caption.
    """

    variable: str | None = None
    places: Places = field(default_factory=Places)
    slopes: tuple[float, ...] | None = None
    look: Look = field(default_factory=Look)
    ax: Given = None
    compared: Compared | None = None
    notes: bool = True


@dataclass(frozen=True, eq=False)
class Drawn:
    """A figure with its texts.

    name: of its file, "pilot_" and the kind for a figure of the pilot, which replaces no figure of the study.
    """

    name: str
    title: str
    caption: str
    alt: str
    figure: Figure


class Choice(NamedTuple):
    """A plot that fits a result: its kind and its variable."""

    kind: str
    variable: str


@dataclass(frozen=True)
class Kind:
    """A kind of picture.

    title: a format with a place for the variable and, if runs are grouped, for the axes `along` and `by`; does: a
    sentence for the caption; fits: returns the variables to draw by default; words: the alternative text; runs: the
    groups of the plot, or None if it has no groups.
    """

    title: str
    does: str
    fits: Callable[[xr.Dataset, str | None, Places], list[str]]
    draw: Callable[[xr.Dataset, str, Wish], Figure]
    words: Callable[[xr.Dataset, str, Wish], str]
    runs: Callable[[xr.Dataset, str, Wish], Arranged | None] = lambda *_: None


def fitting(data: xr.Dataset, wish: Wish | None = None) -> list[Choice]:
    """The pictures that say something about a result, or about a variable wished for, in the order of `KINDS`.

    None where no run has a value.  Raises InputError for a variable that cannot be drawn, and for axes that are none.
    """
    asked = wish or Wish()
    if asked.variable is not None:
        numbers_in(data, asked.variable)
    check_places(data, asked.places)
    about = asked.variable or subject(data)
    names = ["dependence"] if CANDIDATE in data.dims else list(KINDS)  # a pilot has one question
    found = [Choice(name, variable) for name in names for variable in KINDS[name].fits(data, about, asked.places)]
    return [choice for choice in found if asked.variable in (None, choice.variable)]


def drawn(data: xr.Dataset, kind: str, wish: Wish | None = None) -> Drawn:
    """The picture of that kind with a title, a caption, and a text in its place.

    The caption has the long names of short labels, and footnotes and counts that the figure does not have.  Raises
    InputError for an unknown kind, and if the result does not allow it.
    """
    check_kind(kind)
    asked = wish or Wish()
    variable = asked.variable or _default(data, kind)
    if asked.ax is not None and asked.look != Look():
        raise InputError(
            "`ax` must be left out where a title, labels or a size are wished for: they are those of your axes"
        )
    if kind == "comparison" and asked.compared is None:  # once for the figure and its texts
        asked = replace(asked, compared=compared(data, variable, asked.places))
    # before the drawing: the width decides how many panels are in a row
    room = asked.ax if asked.look.size is None else DisplayedFigure(figsize=asked.look.size)
    figure = KINDS[kind].draw(data, variable, replace(asked, ax=room))
    alone = "" if asked.notes else without_notes(figure)
    figure = restyled(figure, asked.look)
    alt, runs = KINDS[kind].words(data, variable, asked), KINDS[kind].runs(data, variable, asked)
    # a scatter of a sample has no groups: its horizontal axis is the requested one
    along, by = (asked.places.along, asked.places.by) if runs is None else (runs.along.name, runs.series.name)
    title = KINDS[kind].title.format(variable.replace("_", " "), along=along, by=by)
    shown = "" if runs is None else _shown(data, variable, asked, runs)
    spoken = f"{alt}{_sentence(alone, alt)}" if not (asked.notes and shown) else ""
    prefix = "pilot_" if data.attrs.get("phase") == PILOT else ""
    return Drawn(
        name=prefix + (variable if kind == "histories" else kind),
        title=title[:1].upper() + title[1:],
        caption="  ".join(filter(None, [shown, KINDS[kind].does, explained(figure, data, variable), spoken])),
        alt=alt,
        figure=figure,
    )


def _shown(data: xr.Dataset, variable: str, wish: Wish, runs: Arranged) -> str:
    """Return a sentence with the variable of grouped runs, their axes, fixed and pooled parameters, and the runs."""
    own = "".join(f", against {title_of(data[dim])}" for dim in own_dimensions(data, variable) if dim in data.coords)
    counts = f"; {runs.counted()}" if wish.notes else ""
    text = f"{runs.placed()}{own}{counts}"
    return f"{text[:1].upper()}{text[1:]}."


def _sentence(notes: str, said: str) -> str:
    """Small print as a sentence, without the count of runs at its beginning where that is said already."""
    counted, _, rest = notes.partition("; ")
    left = rest if counted in said else notes
    return f"  {left[:1].upper()}{left[1:]}." if left else ""


def check_kind(kind: str | None) -> None:
    """Raises InputError for a kind of picture that is none."""
    if kind is not None and kind not in KINDS:
        raise InputError(f"`KIND` must be one of {', '.join(KINDS)}, got {shortened(kind)}")


def numbers(data: xr.Dataset) -> list[str]:
    """Return the variables with one number for each run and a finite value in at least one run."""
    return [
        str(name)
        for name, array in data.data_vars.items()
        if name not in BOOKKEEPING and array.dtype.kind in "iufb" and set(array.dims) <= set(data["run_status"].dims)
        and bool(np.isfinite(array.values).any())
    ]  # fmt: skip


def subject(data: xr.Dataset) -> str | None:
    """Return the main number of a study: a headline, `error`, or the first number without a declaration."""
    own = numbers(data)
    headlines = [name for name in own if data[name].attrs.get(HEADLINE) == 1]
    undeclared = [name for name in own if HEADLINE not in data[name].attrs]
    ordered = [*headlines, *(["error"] if "error" in undeclared else []), *undeclared]
    return ordered[0] if ordered else None


def lacks_error(data: xr.Dataset) -> bool:
    """Test for an initial error, which all methods of the package record, without an error at the end."""
    return "initial_error" in data and "error" not in data


def _default(data: xr.Dataset, kind: str) -> str:
    """Return the default variable of a kind.  Raises InputError if there is none with values."""
    if kind in ("fields", "spectrum"):
        return FIELD if kind == "fields" else SINGULAR_VALUES
    if kind == "histories":
        found = _histories(data, None, Places())
        if not found:
            raise InputError("`FILE` must hold a history to draw, got none; put e.g. error_history into `record`")
        return found[0]
    found_subject = subject(data)
    if found_subject is None:
        planned = status_codes(data["run_status"])[mark_first_cells(run_numbers(data[KEYS]))]
        arrays = [name for name in numeric_variables(data) if name not in BOOKKEEPING]
        if lacks_error(data):
            raise InputError(f"{NO_SOLUTION_ERROR}; name what to draw with --variable: {', '.join(arrays)}")
        if arrays and (planned == Status.ok).any():
            over = ", ".join(f"{name} over {', '.join(own_dimensions(data, name))}" for name in arrays)
            raise InputError(f"`FILE` must hold a number for each run to draw a {kind}, got arrays alone ({over})")
        fates = ", ".join(f"{n} {s.name}" for s in Status if (n := int(np.count_nonzero(planned == s))))
        raise InputError(f"`FILE` must have runs with numbers to draw, got none ({fates}); `evogt status` tells why")
    return found_subject


def _free(data: xr.Dataset, variable: str, places: Places) -> list[str]:
    """Axes of several values that are neither held fixed nor part of the sample."""
    over = places.over if places.over is not None else default_over(data)
    return [
        name for name in axes_of(data, variable) if name not in over and name not in places.at and data.sizes[name] > 1
    ]


def _numeric(data: xr.Dataset, variable: str, places: Places) -> list[str]:
    """Free axes that have numbers; a pilot's candidates only where these are numbers."""
    followed = any(
        CANDIDATE in coord.dims and is_numeric(data, str(name))
        for name, coord in data.coords.items()
        if name != CANDIDATE
    )
    free = _free(data, variable, places)
    return [name for name in free if is_numeric(data, name) and (name != CANDIDATE or followed)]


def _sample_size(data: xr.Dataset, variable: str, places: Places) -> int:
    over = places.over if places.over is not None else default_over(data)
    return int(np.prod([data.sizes[name] for name in over if name in data[variable].dims and name not in places.at]))


def _distributions(data: xr.Dataset, name: str | None, places: Places) -> list[str]:
    if name is None or own_dimensions(data, name):
        return []
    alone = _sample_size(data, name, places) == 1 and _numeric(data, name, places)
    return [] if alone else [name]


def _dependences(data: xr.Dataset, name: str | None, places: Places) -> list[str]:
    alone = name is not None and not own_dimensions(data, name)
    return [name] if name is not None and alone and _numeric(data, name, places) else []


def _heat_maps(data: xr.Dataset, name: str | None, places: Places) -> list[str]:
    if name is None or own_dimensions(data, name):
        return []
    return [name] if len(_numeric(data, name, places)) > 1 else []


def _histories(data: xr.Dataset, about: str | None, places: Places) -> list[str]:
    return [
        str(name)
        for name, array in data.data_vars.items()
        if name not in BOOKKEEPING and is_history(data, str(name)) and bool(np.isfinite(array.values).any())
    ]


def _spectra(data: xr.Dataset, about: str | None, places: Places) -> list[str]:
    # a user function may return something else with this name
    there = SINGULAR_VALUES in data and data[SINGULAR_VALUES].dtype.kind == "f"
    several = there and len(own_dimensions(data, SINGULAR_VALUES)) == 1
    return [SINGULAR_VALUES] if several and bool(np.isfinite(data[SINGULAR_VALUES].values).any()) else []


def _ranks(data: xr.Dataset, about: str | None, places: Places) -> list[str]:
    if about != "error" or not {"error", "rank"} <= set(data.data_vars):
        return []
    # a user function may return something else with these names
    if data["rank"].dtype.kind not in "iufb" or own_dimensions(data, "rank") or own_dimensions(data, "error"):
        return []
    there = np.isfinite(data["error"].values) & np.isfinite(data["rank"].values)
    return ["error"] if len(np.unique(data["rank"].values[there])) > 2 else []


def _comparisons(data: xr.Dataset, name: str | None, places: Places) -> list[str]:
    if name is None or own_dimensions(data, name):
        return []
    return [name] if comparable(data, name, places) else []


def _fields(data: xr.Dataset, about: str | None, places: Places) -> list[str]:
    if FIELD not in data or data[FIELD].dtype.kind not in "iuf":
        return []
    over = {*own_dimensions(data, FIELD)} - {"time"}
    drawable = bool(over) and over <= {*DIRECTIONS}
    return [FIELD] if drawable and bool((status_codes(data["run_status"]) == Status.ok).any()) else []


def _of_samples(data: xr.Dataset, name: str | None, places: Places) -> list[str]:
    """Fits a number along the dimension of a sample."""
    if name is None or own_dimensions(data, name):
        return []
    sample = drawn_dimensions(data)
    return [name] if any(dim in data[name].dims and dim not in places.at for dim in sample) else []


def _sample_words(data: xr.Dataset, variable: str, places: Places) -> str:
    runs = sampled_runs(data, variable, places)
    known = runs.values[np.isfinite(runs.values)]
    span = f"from {known.min():.3g} to {known.max():.3g}" if len(known) else "none"
    return f"{runs.title} against {', '.join(runs.names)}: {span}. {runs.notes[0]}."


def _said(runs: Arranged, values: np.ndarray[tuple[int, ...], np.dtype[np.float64]], what: str) -> str:
    """The least and the largest of numbers (P, S, X), and where they are."""
    if not np.isfinite(values).any():
        return f"No run has a value: {runs.counted()}."
    ends = []
    for position in (np.nanargmin(values), np.nanargmax(values)):
        panel, one, place = np.unravel_index(int(position), values.shape)
        where = runs.describe(int(panel), int(one), int(place))
        ends.append(f"{values[panel, one, place]:.3g}" + (f" ({where})" if where else ""))
    span = f"from {ends[0]} to {ends[1]}" if ends[0] != ends[1] else f"{ends[0]}"
    lacking = f"; {incomplete}" if (incomplete := runs.incomplete()) else ""
    return f"{what} {runs.title}: {span}. {runs.counted()}{lacking}."


def _numbers(data: xr.Dataset, variable: str, places: Places) -> Arranged | None:
    """Return the groups of a dependence, or None if it draws single runs."""
    alone = along_sample(data, places.along) or against_each_run(data, places)
    return None if alone else along_numbers(data, variable, places)


def _dependence_words(data: xr.Dataset, variable: str, places: Places) -> str:
    if along_sample(data, places.along):
        return _sample_words(data, variable, places)
    if against_each_run(data, places):
        return _scatter_words(str(places.along))(data, variable, places)
    return _medians_of(along_numbers(data, variable, places))


def _medians_of(runs: Arranged) -> str:
    return _said(runs, runs.medians, "Medians of" if runs.over else "Values of")


def _series(data: xr.Dataset, variable: str, places: Places) -> Arranged:
    """The groups of a picture that has something else along it."""
    return arranged(data, variable, places, wanted=WANTED, own=bool(own_dimensions(data, variable)))


def _history_words(data: xr.Dataset, variable: str, places: Places) -> str:
    dim = own_dimension(data, variable)
    runs = _series(data, variable, places)
    last = replace(runs, values=runs.values[..., -1])
    what = "medians of" if runs.over else "values of"
    return _said(last, last.medians, f"At the end of {title_of(data[dim])}, {what}")


def _spectrum_words(data: xr.Dataset, variable: str, places: Places) -> str:
    values = numbers_in(data, variable)
    if not np.isfinite(values.values).any():
        return "No run has a value."
    return (
        f"Curves that fall from 1 over {data.sizes[values.dims[-1]]} singular values, "
        f"to {float(np.nanmin(values.values / values.values[..., :1])):.1g} at the least."
    )


def _scatter_words(across: str) -> Callable[[xr.Dataset, str, Places], str]:
    def words(data: xr.Dataset, variable: str, places: Places) -> str:
        here = at(data, places.at, axes_of(data, variable))
        x, y = here[across].values, here[variable].values
        there = np.isfinite(x) & np.isfinite(y)
        if not there.any():
            return "No run has a value."
        points = count_runs(run_numbers(here[KEYS])[there])
        return (
            f"A cloud of {points} points: {title_of(data[across])} from {x[there].min():.3g} to "
            f"{x[there].max():.3g}, {title_of(data[variable])} from {y[there].min():.3g} to {y[there].max():.3g}."
        )

    return words


def _compared_runs(data: xr.Dataset, variable: str, wish: Wish) -> Arranged:
    """Return the runs of a comparison."""
    return setups_of(data, variable, wish.places, _made(data, variable, wish))


def _made(data: xr.Dataset, variable: str, wish: Wish) -> Compared:
    return wish.compared or compared(data, variable, wish.places)


def _comparison_words(data: xr.Dataset, variable: str, wish: Wish) -> str:
    made = _made(data, variable, wish)
    texts = made.found["conclusion"].values.ravel().tolist()
    shown = [f"{name}: {text}" if name else text for name, text in zip(made.setups, texts, strict=True)][:SPOKEN]
    more = f" {len(texts) - SPOKEN} more setups." if len(texts) > SPOKEN else ""
    return f"Comparison by {made.by}. {' '.join(shown)}{more} {_compared_runs(data, variable, wish).counted()}."


def _field_words(data: xr.Dataset, variable: str, places: Places) -> str:
    run, where = one_run(data, places)
    if EXACT not in run:
        return f"The numerical solution at {where}."
    largest = float(np.abs(run[FIELD] - run[EXACT]).max())
    return f"Exact and numerical solution at {where}; they differ by at most {largest:.2g}."


def _at_places(make: Callable[[xr.Dataset, str, Places], T]) -> Callable[[xr.Dataset, str, Wish], T]:
    return lambda data, variable, wish: make(data, variable, wish.places)


KINDS: Mapping[str, Kind] = {
    "distribution": Kind(
        "{} of every run",
        "Every run's value, side by side for each point of the study; bars are medians.",
        _distributions,
        lambda data, variable, wish: distribution(data, variable, wish.places, ax=wish.ax),
        _at_places(lambda *asked: _medians_of(arranged(*asked))),
        runs=_at_places(arranged),
    ),
    "dependence": Kind(
        "{} against {along}",
        "Lines join medians; grey lines, where there are some, have the slopes that are named.",
        _dependences,
        lambda data, variable, wish: dependence(data, variable, wish.places, wish.slopes, ax=wish.ax),
        _at_places(_dependence_words),
        runs=_at_places(_numbers),
    ),
    "heat_map": Kind(
        "{} over {along} and {by}",
        "Each cell has its median.",
        _heat_maps,
        lambda data, variable, wish: heat_map(data, variable, wish.places, ax=wish.ax),
        _at_places(lambda *asked: _medians_of(cells(*asked))),
        runs=_at_places(cells),
    ),
    "trend": Kind(
        "{} against the sampled parameters",
        "Every run against each parameter of the sample; lines are local linear fits.",
        _of_samples,
        lambda data, variable, wish: trend(data, variable, wish.places, ax=wish.ax),
        _at_places(_sample_words),
    ),
    "histories": Kind(
        "{}",
        "What changes along the run: medians, in a band of the runs.",
        _histories,
        lambda data, variable, wish: histories(data, variable, wish.places, ax=wish.ax),
        _at_places(_history_words),
        runs=_at_places(_series),
    ),
    "spectrum": Kind(
        "{}",
        "Decay of the singular values of the trial matrix; what is below a threshold is cut.",
        _spectra,
        lambda data, _, wish: spectrum(data, wish.places, ax=wish.ax),
        _at_places(_spectrum_words),
    ),
    "rank": Kind(
        "{} against rank",
        "Each run's error against the rank of its retained space.",
        _ranks,
        lambda data, variable, wish: rank_error(data, variable, wish.places, ax=wish.ax),
        _at_places(_scatter_words("rank")),
    ),
    "comparison": Kind(
        "comparison of {}",
        "The effect of each value over the leader of its setup, with confidence intervals.",
        _comparisons,
        lambda data, variable, wish: comparison(data, variable, wish.places, ax=wish.ax, made=wish.compared),
        _comparison_words,
        runs=_compared_runs,
    ),
    "fields": Kind(
        "{} of one run",
        "The solution of one run.",
        _fields,
        lambda data, _, wish: fields(data, wish.places, ax=wish.ax),
        _at_places(_field_words),
    ),
}
