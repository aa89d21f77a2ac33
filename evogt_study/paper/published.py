"""Each published number of the paper and the study that computes it.

A CSV file in data/published holds the numbers of one table or of a passage of text, one in each row.  For each file,
`TABLES` names the studies and reads the number of a row from their results.  `find_measure` gives the comparison.
The readers do not see the published values.  A published number is stored as printed, because its text gives the number
of digits that a computed value confirms.
"""

from __future__ import annotations

import csv
import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

import numpy as np
import xarray as xr

from evogt_study.analysis.statistics import IncompleteWarning, summary
from evogt_study.errors import InputError
from evogt_study.pde.methods.declarations import VARIABLES
from evogt_study.schema.variables import Status, status_codes

KNOWN = "known_differences"
"""The CSV that explains differences: the file, labels that single out the entries, and the explanation."""

OWN = "gtransnet"
UNRESOLVED = 2.22e-16  # tab:diagnostics: sigma_min(M_q) <= eps_mach sigma_max(M_q)

Results = Mapping[str, xr.Dataset]
"""Results by the study's name; a pilot's runs by "NAME/pilot"."""
Labels = Mapping[str, str]


class Verdict(StrEnum):
    """Relation of a computed value to a printed one."""

    all_digits = "agrees in all printed digits"
    one_unit = "within one unit of the last digit"
    same_order = "same order of magnitude"
    differs = "differs"


class Measure(StrEnum):
    """Meaning of a published number: its digits, the order of magnitude of rounding noise, or an upper bound."""

    digits = "digits"
    order = "order"
    bound = "bound"


@dataclass(frozen=True)
class Entry:
    """One published number beside the computed one.

    file: the CSV in data/published, without suffix; table: the paper's label, or "text"; labels: as printed (epsilon,
    dictionary, variable, statistic, ...); n_ok, n_planned: its runs; known: the explanation of a known difference.
    """

    file: str
    table: str
    labels: Mapping[str, str]
    published: str
    computed: float | str
    measure: Measure
    verdict: Verdict
    n_ok: int
    n_planned: int
    known: str = ""

    @property
    def relative_difference(self) -> float:
        """(computed - published) / |published|, or NaN for a string and for zero."""
        published = to_number(self.published)
        if isinstance(self.computed, str) or not published:
            return math.nan
        return (self.computed - published) / abs(published)

    @property
    def is_known(self) -> bool:
        """True for a difference that the list of known differences explains."""
        return self.verdict is Verdict.differs and bool(self.known)

    @property
    def agrees(self) -> bool:
        """True if the number is confirmed, or its difference is a known one."""
        return self.verdict is not Verdict.differs or self.is_known


def to_number(text: str) -> float | None:
    """Return a printed number, or None for a string such as "singular"."""
    try:
        return float(text)
    except ValueError:
        return None


def last_digit(text: str) -> float:
    """Return the size of one unit in the last printed digit.

    >>> last_digit("4.50e-2")
    0.0001
    """
    mantissa, _, exponent = text.lower().partition("e")
    return float(f"1e{int(exponent or 0) - len(mantissa.partition('.')[2])}")


def judge_value(published: str, computed: float | str, measure: Measure = Measure.digits) -> Verdict:
    """Return the verdict on a printed number or string.

    All digits: the computed value rounds, once, to the printed one.  One unit: it rounds to a neighbour of it.  Same
    order: less than half a decade apart, if the measure of the number is its order.
    """
    if isinstance(computed, str):
        return Verdict.all_digits if computed == published else Verdict.differs
    target = to_number(published)
    if target is None or not math.isfinite(computed):
        return Verdict.differs
    if measure is Measure.bound:
        return Verdict.all_digits if computed <= target else Verdict.differs
    units = abs(computed - target) / last_digit(published)
    if units <= 0.5 * (1.0 + 1e-9):  # a value on the half-unit itself may round either way
        return Verdict.all_digits
    if measure is Measure.order:
        # zero and numbers of different signs have no ratio in decades
        near = computed * target > 0.0 and abs(math.log10(computed / target)) < 0.5
        return Verdict.same_order if near else Verdict.differs
    return Verdict.one_unit if units <= 1.5 * (1.0 + 1e-9) else Verdict.differs


class Computed(NamedTuple):
    """A number or string, and the runs behind it."""

    value: float | str
    n_ok: int
    n_planned: int


@dataclass(frozen=True)
class Row:
    """One published number: its place, what it is, and its text."""

    file: str
    table: str
    labels: Labels
    published: str


class PublishedTable(NamedTuple):
    """The studies of a row of one CSV, and the function that reads its number from their results."""

    studies: Callable[[Labels], tuple[str, ...]]
    read: Callable[[Results, Labels], Computed]


class NotComputedError(Exception):
    """The given studies do not compute this number: they have other values on their axes."""


def select(data: xr.Dataset, variable: str, labels: Labels) -> xr.DataArray:
    """Return a variable at the labels that are dimensions.  It is missing if no run was ok and so none returned it.

    Raises NotComputedError if a label is not on its axis, and InputError for an unknown variable.
    """
    if variable not in data and variable not in VARIABLES:
        raise InputError(f"unknown variable {variable!r}")
    values = data[variable] if variable in data else xr.full_like(data["run_status"], np.nan, dtype=float)
    for name in [name for name in labels if name in values.dims]:
        label: str | float = labels[name] if values[name].dtype.kind in "OU" else float(labels[name])
        try:
            values = values.sel({name: label})
        except KeyError:
            raise NotComputedError from None
    return values


def compute(values: xr.DataArray, statistic: str = "mean") -> Computed:
    """Return a statistic over all dimensions that are left, by the paper's name for it, from unrounded values."""
    n_ok, n_planned = int(np.isfinite(values.values).sum()), values.size
    if statistic == "max":
        return Computed(float(values.max()), n_ok, n_planned)
    if not values.dims:
        return Computed(float(values), n_ok, n_planned)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", IncompleteWarning)  # n_ok says it
        found = summary(values.reset_coords(drop=True), over=[str(dim) for dim in values.dims], statistics=[statistic])
        return Computed(float(found[statistic]), n_ok, n_planned)


def _join(value: float | str, *parts: Computed) -> Computed:
    """Return a number that rests on the runs of several others."""
    return Computed(value, sum(each.n_ok for each in parts), sum(each.n_planned for each in parts))


def compute_gain(values: xr.DataArray, dictionaries: str, name: str) -> Computed:
    """Return the gain T/G: the statistic of one dictionary over the statistic of another."""
    statistic = {"gain": "mean", "median_gain": "median"}[name]
    first, second = (compute(values.sel(dictionary=each), statistic) for each in dictionaries.split("/"))
    # of unrounded statistics, as the paper's gains are
    return _join(float(first.value) / float(second.value), first, second)


def read_statistic(data: xr.Dataset, labels: Labels) -> Computed:
    """Return a statistic over seeds, or a gain "transnet/gtransnet", which is no value of the axis."""
    values = select(data, labels["variable"], {key: text for key, text in labels.items() if "/" not in text})
    if "/" in labels.get("dictionary", ""):
        return compute_gain(values, labels["dictionary"], labels["statistic"])
    return compute(values, labels["statistic"])


def _statistics(study: str) -> PublishedTable:
    """Return a table of statistics over seeds of one study."""
    return PublishedTable(lambda labels: (study,), lambda results, labels: read_statistic(results[study], labels))


def _read_operator_2d(results: Results, labels: Labels) -> Computed:
    modulation = {"fixed": "0", "time_dependent": "1"}[labels["operator"]]
    return read_statistic(results["operator_2d"], {**labels, "modulation": modulation})


def _read_conditioning(results: Results, labels: Labels) -> Computed:
    data, variable = results["oscillatory_1d"], labels["variable"]
    if variable not in ("raw_condition", "raw_unresolved"):
        return read_statistic(data, labels)
    resolution = select(data, "raw_resolution", labels)
    n_ok, unresolved = int(np.isfinite(resolution.values).sum()), int((resolution <= UNRESOLVED).sum())
    value: float | str = float(unresolved)
    if variable == "raw_condition" and unresolved:
        value = "singular" if unresolved == n_ok else "partly singular"
    elif variable == "raw_condition":
        value = f"1e{math.floor(math.log10(float((1.0 / resolution).median())))}" if n_ok else math.nan
    return Computed(value, n_ok, resolution.size)


def _read_temporal_convergence(results: Results, labels: Labels) -> Computed:
    data = results[f"temporal_{labels['problem']}"]
    error = compute(select(data, "coefficient_error", labels))
    if labels["variable"] == "coefficient_error":
        return error
    double = {"dt": repr(2.0 * float(labels["dt"]))}  # the paper's steps are halved from row to row
    before = compute(select(data, "coefficient_error", double))
    return _join(math.log2(float(before.value) / float(error.value)), before, error)


def _read_reference_tolerance(results: Results, labels: Labels) -> Computed:
    if "condition estimate" in labels["variable"]:
        return compute(select(results["space_time_regression"], "scaled_condition", {}), "max")
    data = results["temporal_tolerance"]
    places = ({"coefficient_rtol": rtol} for rtol in ("1e-12", "1e-13"))
    return _compute_difference(*(select(data, "reference_coefficients", each) for each in places))


def _compute_difference(values: xr.DataArray, reference: xr.DataArray, weights: xr.DataArray | float = 1.0) -> Computed:
    """Return the relative weighted L2 difference of two runs' vectors."""
    number = np.sqrt(float((weights * (values - reference) ** 2).sum()) / float((weights * reference**2).sum()))
    n_ok = sum(int(np.isfinite(run.values).any()) for run in (values, reference))
    return Computed(float(number), n_ok, 2)


# by the labels in data/published/allen_cahn_reference.csv
REFINEMENTS = {
    "relative difference 160^2 vs 320^2 grid, dt=0.002": ((160, 0.002), (320, 0.002)),
    "relative difference dt=0.002 vs dt=0.001 on 320^2": ((320, 0.002), (320, 0.001)),
    "relative difference 160^2, dt=0.002 vs 320^2, dt=0.001": ((160, 0.002), (320, 0.001)),
}


def _read_allen_cahn_reference(results: Results, labels: Labels) -> Computed:
    data = results["allen_cahn_reference"]
    places = [{"points": str(points), "dt": str(dt)} for points, dt in REFINEMENTS[labels["variable"]]]
    coarse, fine = (select(data, "validation_values", each) for each in places)
    return _compute_difference(coarse, fine, data.get("weight", 1.0))


def _find_heat_study(labels: Labels) -> str:
    return "space_time_evolution" if labels["method"] == "evolution" else labels["method"]


def _find_element_study(labels: Labels) -> str:
    return f"p1_fem_{labels['problem'].removesuffix('_1d')}"


# the number of unknowns is a constant of the study, and no axis on which the label could be looked up
def _read_p1_fem(results: Results, labels: Labels) -> Computed:
    data = results[_find_element_study(labels)]
    unknowns = compute(select(data, "degrees_of_freedom", labels))
    if unknowns.n_ok and unknowns.value != float(labels["dofs"]):
        raise NotComputedError
    return compute(select(data, labels["variable"], labels))


PRESCRIBED = {"space_time_diagnostic": "space_time_regression", "temporal_convergence": "temporal_autonomous"}
"""Studies whose names differ from those in the paper's table of shape parameters."""


def _read_gamma_selected(results: Results, labels: Labels) -> Computed:
    """Return the pilot's choice with the pilot's runs, or the value that the study file prescribes with the study's."""
    name = PRESCRIBED.get(labels["study"], labels["study"])
    runs = results.get(f"{name}/pilot", results[name])
    planned = select(runs, "run_key", labels) != ""
    ok = planned & (status_codes(select(runs, "run_status", labels)) == Status.ok)
    # as a string, so that the choice has to be met and not only to be near
    gamma = float(select(results[name], "gamma", labels))
    return Computed(f"{gamma:g}", int(ok.sum()), int(planned.sum()))


CROSS_GRID_STUDIES = ("operator_2d", "nonseparable_2d", "nonseparable_3d")
CHANGE = "relative change of final error, "
REFINED: Mapping[str, tuple[str, Labels]] = {
    f"{CHANGE}refined assembly, fixed 2-D operator": ("operator_2d", {"modulation": "0"}),
    f"{CHANGE}refined assembly, time-dependent 2-D operator": ("operator_2d", {"modulation": "1"}),
    f"{CHANGE}refined assembly, nonseparable 2-D": ("nonseparable_2d", {}),
    f"{CHANGE}3-D Gaussian RF seed 0, 20^3 to 24^3": ("nonseparable_3d", {}),
}


def _cross_grid_studies(labels: Labels) -> tuple[str, ...]:
    if labels["variable"] not in REFINED:
        return CROSS_GRID_STUDIES
    study = REFINED[labels["variable"]][0]
    return (study, f"refined_{study}")


def _read_cross_grid(results: Results, labels: Labels) -> Computed:
    """Return the largest defect over the multidimensional studies, or the largest change by a refined assembly."""
    if labels["variable"] in REFINED:
        study, place = REFINED[labels["variable"]]
        return _read_refined(results[study], results[f"refined_{study}"], place)
    found = [compute(select(results[study], labels["variable"], {}), "max") for study in CROSS_GRID_STUDIES]
    return _join(max(float(each.value) for each in found), *found)


def _read_refined(data: xr.Dataset, refined: xr.Dataset, place: Labels) -> Computed:
    """Return |e_fine - e| / e of the final errors; in 2-D of the case with the largest stiffness defect."""
    errors, defects = select(refined, "error", place), select(data, "stiffness_defect_cross_grid", place)
    if "epsilon" not in errors.dims and np.isfinite(defects.values).any():
        worst = defects.isel(defects.argmax(...))
        chosen = [str(refined[name].item()) == str(worst[name].item()) for name in ("epsilon", "dictionary", "seed")]
        if not all(chosen):
            return Computed("another case has the largest defect", errors.size, errors.size)
    coarse, fine = errors.isel(quadrature=0), errors.isel(quadrature=1)  # first the rule of the study itself
    return Computed(float((abs(fine - coarse) / coarse).max()), int(np.isfinite(errors.values).sum()), errors.size)


# --- claims of the text: counts of cases, a largest change, a bound and a ratio ------------------------------------


class Claim(NamedTuple):
    """The studies and the variable behind a claim, its number from the values of these studies, and a selection."""

    studies: tuple[str, ...]
    variable: str
    compute: Callable[..., float]
    labels: Labels = MappingProxyType({})


def _count_below_elements(oscillatory: xr.DataArray, target: xr.DataArray, *elements: xr.DataArray) -> float:
    pairs = zip((oscillatory, target), elements, strict=True)
    return float(sum(int((errors.mean("seed") < linear).sum()) for errors, linear in pairs))


def _compute_largest_change(errors: xr.DataArray) -> float:
    fixed, moving = (errors.sel(modulation=each).mean("seed") for each in (0, 1))
    return float((100.0 * abs(moving - fixed) / fixed).max())


def _compute_ratio(errors: xr.DataArray) -> float:
    means = errors.mean("seed")
    return float((means.sel(dictionary="gaussian_rf") / means.sel(dictionary=OWN)).mean())


def _count_smallest(*errors: xr.DataArray) -> float:
    means = [each.mean("seed") for each in errors]
    return float(sum(int((each.sel(dictionary=OWN) <= each.min("dictionary")).sum()) for each in means))


_FAMILIES = ("oscillatory_1d", "target_1d", "p1_fem_oscillatory", "p1_fem_target")
_COMPARED = ("oscillatory_1d", "target_1d", "operator_2d", "nonseparable_2d", "nonseparable_3d", "allen_cahn_2d")
CLAIMS: Mapping[str, Claim] = {
    **{
        f"cases with a lower mean error of {name} than of p1_fem": Claim(
            _FAMILIES, "error", _count_below_elements, {"dictionary": name}
        )
        for name in (OWN, "transnet")
    },
    "largest relative change of a mean error by the time-dependent operator, percent": Claim(
        ("operator_2d",), "error", _compute_largest_change
    ),
    "identity-mass defect, largest of all runs": Claim(
        ("oscillatory_1d", "threshold"), "mass_defect", lambda *defects: max(float(each.max()) for each in defects)
    ),
    "runs with a monotone decay of the energy": Claim(
        ("allen_cahn_2d",), "energy_increment", lambda increments: float((increments <= 0.0).sum())
    ),
    "mean error of gaussian_rf over gtransnet, three dimensions": Claim(("nonseparable_3d",), "error", _compute_ratio),
    "setups in which gtransnet has the smallest mean error": Claim(_COMPARED, "error", _count_smallest),
}


def _read_claim(results: Results, labels: Labels) -> Computed:
    claim = CLAIMS[labels["variable"]]
    values = [select(results[study], claim.variable, claim.labels) for study in claim.studies]
    return _join(claim.compute(*values), *(compute(each, "max") for each in values))


def find_measure(row: Row) -> Measure:
    """Return the measure of a number: rounding noise is judged by its order, and a bound holds or not."""
    variable = row.labels["variable"]
    if "upper bound" in variable:
        return Measure.bound
    noise = row.file == "reference_tolerance" or variable.replace(" ", "_").startswith(("mass_defect", "identity-mass"))
    return Measure.order if noise and row.file != "cross_grid" else Measure.digits


TABLES: Mapping[str, PublishedTable] = {
    "oscillatory_1d": _statistics("oscillatory_1d"),
    "target_1d": _statistics("target_1d"),
    "p1_fem": PublishedTable(lambda labels: (_find_element_study(labels),), _read_p1_fem),
    "feature_count": _statistics("feature_count"),
    "conditioning": PublishedTable(lambda labels: ("oscillatory_1d",), _read_conditioning),
    "threshold": _statistics("threshold"),
    "quadrature": _statistics("quadrature"),
    "temporal_convergence": PublishedTable(
        lambda labels: (f"temporal_{labels['problem']}",), _read_temporal_convergence
    ),
    "reference_tolerance": PublishedTable(
        lambda labels: ("temporal_tolerance", "space_time_regression"), _read_reference_tolerance
    ),
    "space_time_diagnostic": PublishedTable(
        lambda labels: (_find_heat_study(labels),),
        lambda results, labels: read_statistic(results[_find_heat_study(labels)], labels),
    ),
    "operator_2d": PublishedTable(lambda labels: ("operator_2d",), _read_operator_2d),
    "nonseparable_2d": _statistics("nonseparable_2d"),
    "nonseparable_3d": _statistics("nonseparable_3d"),
    "cross_grid": PublishedTable(_cross_grid_studies, _read_cross_grid),
    "allen_cahn_2d": _statistics("allen_cahn_2d"),
    "allen_cahn_reference": PublishedTable(lambda labels: ("allen_cahn_reference",), _read_allen_cahn_reference),
    "gamma_selected": PublishedTable(
        lambda labels: (PRESCRIBED.get(labels["study"], labels["study"]),), _read_gamma_selected
    ),
    "claims": PublishedTable(
        lambda labels: CLAIMS[labels["variable"]].studies,
        _read_claim,
    ),
}


def read_published(folder: Path) -> list[Row]:
    """Read all published numbers of `folder`, in the order of `TABLES`.  Raises InputError for a missing file."""
    return [row for name in TABLES for row in _read_rows(folder, name)]


def _read_rows(folder: Path, name: str) -> list[Row]:
    path = folder / f"{name}.csv"
    if name != "gamma_selected":
        columns = ("table", "source", "value")
        return [
            Row(name, raw.get("table") or "text", {key: raw[key] for key in raw if key not in columns}, raw["value"])
            for raw in read_csv(path, "value")
        ]
    place = ("study", "epsilon")  # the other columns are dictionaries
    return [
        Row(name, name, {key: raw[key] for key in place if raw[key]} | {"dictionary": key, "variable": "gamma"}, text)
        for raw in read_csv(path, *place)
        for key, text in raw.items()
        if key not in place and text
    ]


def read_csv(path: Path, *needed: str) -> list[dict[str, str]]:
    """Read the rows of a CSV file with at least the columns `needed`.

    Raises InputError, with file and line, if it cannot be read, has no such column, or a row of another length.
    """
    try:
        with path.open(newline="", encoding="utf-8") as file:
            reader = csv.DictReader(file, strict=True)
            rows = list(reader)
            header = reader.fieldnames or []
    except csv.Error as error:
        raise InputError(f"{path} must be CSV: {error}") from None
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or error
        raise InputError(f"cannot read the published numbers {path}: {reason}") from None
    missing = [name for name in needed if name not in header]
    if missing:
        raise InputError(f"{path} must have a column `{missing[0]}`, got {', '.join(header) or 'none'}")
    if not rows:
        raise InputError(f"{path} must have rows, got none")
    for line, row in enumerate(rows, start=2):
        if None in row or None in row.values():  # DictReader's key of cells too many, and value of cells too few
            raise InputError(f"{path}, line {line} must have {len(header)} columns ({', '.join(header)})")
    return rows


@dataclass(frozen=True)
class KnownDifference:
    """Entries of a file, selected by labels, with a known difference; the computed value and the explanation."""

    file: str
    labels: Labels
    computed: str
    explanation: str

    def explains(self, row: Row, computed: float | str) -> bool:
        """Test for a row that is one of these entries and has the known value."""
        named = self.file == row.file and all(row.labels.get(key) == text for key, text in self.labels.items())
        return named and judge_value(self.computed, computed) is Verdict.all_digits


def read_known_differences(folder: Path) -> list[KnownDifference]:
    """Read the list of known differences: columns file, entries ("k=8; statistic=mean"), computed and explanation.

    Raises InputError if the list cannot be read or names a file that does not exist.
    """
    path = folder / f"{KNOWN}.csv"
    rows = read_csv(path, "file", "entries", "computed", "explanation")
    unknown = [row["file"] for row in rows if row["file"] not in TABLES]
    if unknown:
        raise InputError(f"`file` must be one of {', '.join(TABLES)}, got {unknown[0]!r} ({path})")
    found = []
    for row in rows:
        pairs = (part.partition("=") for part in row["entries"].split(";"))
        labels = {key.strip(): value.strip() for key, _, value in pairs}
        found.append(KnownDifference(row["file"], labels, row["computed"], row["explanation"]))
    return found


def judge_numbers(rows: Sequence[Row], results: Results, known: Sequence[KnownDifference] = ()) -> list[Entry]:
    """Return an entry for each row whose studies are among the `results`, with its values on their axes.

    Raises InputError for a row that nothing could compute.
    """
    entries = []
    for row in rows:
        try:
            if all(name in results for name in TABLES[row.file].studies(row.labels)):
                entries.append(_judge_row(row, results, known))
        except NotComputedError:
            continue
        except (KeyError, ValueError) as error:  # labels that no table has
            raise InputError(f"cannot read the published number {row.labels} of {row.file}: {error!r}") from None
    return entries


def _judge_row(row: Row, results: Results, known: Sequence[KnownDifference]) -> Entry:
    computed, measure = TABLES[row.file].read(results, row.labels), find_measure(row)
    verdict, reason = judge_value(row.published, computed.value, measure), ""
    if computed.n_ok < computed.n_planned:
        verdict = Verdict.differs  # a number over the runs that are left is another number
    elif verdict is Verdict.differs:
        reason = next((each.explanation for each in known if each.explains(row, computed.value)), "")
    return Entry(
        row.file, row.table, row.labels, row.published, computed.value, measure, verdict, computed.n_ok,
        computed.n_planned, reason,
    )  # fmt: skip
