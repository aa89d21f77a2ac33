"""A result file as a Dataset to ask questions of: opened lazily, with its status in words and the accessor `evogt`.

The accessor is sugar: each of its methods is a function of `analysis` with the result's own variables filled in.  It
is there on every Dataset once this module is imported, which `evs.open`, `evs.run` and the other names that give
Datasets do.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import xarray as xr

from evogt_study.analysis.comparison import compare, ranking
from evogt_study.analysis.export import data_frame, run_table
from evogt_study.analysis.orders import observed_orders
from evogt_study.analysis.runs import KEYS
from evogt_study.analysis.sensitivity import known, sensitivity, shares_of_variance
from evogt_study.analysis.statistics import summary
from evogt_study.analysis.verdict import verdict
from evogt_study.errors import InputError, ResultError
from evogt_study.results.netcdf import finished_so_far, open_result
from evogt_study.results.seal import DIGESTS
from evogt_study.schema.variables import BOOKKEEPING, PILOT, Status

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from evogt_study.plots.catalogue import Drawn

NORMS = ("error", "error_h1", "error_max")
"""Variables that measure one error in different norms: L2, H1, maximum."""
STATUS_NAME = "status_name"
"""Variable of an opened result: `status` in words."""


def open(path: str | Path, pilot: bool = False, chunks: Any = None) -> xr.Dataset:  # as evs.open
    """The runs of a result file; those of its pilot with pilot=True.

    Values are read when they are asked for; with `chunks`, as of xarray.open_dataset, dask holds them.  `status_name`
    is the status of each run in words (ok, failed, ...) beside `status`, which is as in the file.  Close it by
    ``with`` or ``close()``.

    Of a study that is being computed, or was interrupted, the runs that are finished are given, in memory; the others
    are "not_run".

    Raises ResultError where the file is not a result of this package, or has no runs of that phase.
    """
    path, phase = Path(path), PILOT if pilot else "study"
    data = _finished_so_far(path, phase)
    if data is None:
        data = open_result(path, phase, chunks)
    found = with_status_names(data)
    found.set_close(data.close)  # which xarray loses on the way; a file that is collected instead can end the process
    return found


def _finished_so_far(path: Path, phase: str) -> xr.Dataset | None:
    """Return the finished runs of a result that is not written yet; None where it is, or nothing is finished."""
    found = finished_so_far(path)
    if found is not None and phase not in found and not path.exists():
        why = "its pilot has not chosen yet; open it with pilot=True" if PILOT in found else "it has no pilot"
        raise ResultError(f"{path} has no runs of the {phase}: {why}")
    return None if found is None else found.get(phase)


def with_status_names(data: xr.Dataset) -> xr.Dataset:
    """The result with `status_name`, the status of each run in words, and without the digests of the file's content.

    Case keys are coordinates, so that values taken from it carry them, by which statistics know equal runs.
    """
    words = {"long_name": BOOKKEEPING["status"].long_name, "comment": "status in words"}
    # digests are of the file as it is: a file that is written from this has others
    bare = data.drop_attrs(deep=False).assign_attrs({key: data.attrs[key] for key in data.attrs if key != DIGESTS})
    return bare.assign({STATUS_NAME: (data["status"].dims, status_names(data), words)}).set_coords(KEYS)


def status_names(data: xr.Dataset) -> np.ndarray[tuple[int, ...], np.dtype[np.object_]]:
    """The status of each run in words, over the axes."""
    names = np.array([status.name for status in Status], dtype=object)
    found: np.ndarray[tuple[int, ...], np.dtype[np.object_]] = names[data["status"].values.astype(int)]
    return found


@xr.register_dataset_accessor("evogt")  # type: ignore[no-untyped-call]  # xarray's
class Result:
    """``ds.evogt``: questions that a result of this package answers."""

    def __init__(self, data: xr.Dataset) -> None:
        self._data = data

    def __repr__(self) -> str:
        names = "summary, compare, ranking, verdict, orders, sensitivity, shares, plot, failures, runs"
        return f"ds.evogt: {names}"

    def summary(self, variable: str = "error", over: str | Iterable[str] = "seed", **options: Any) -> xr.Dataset:
        """`analysis.statistics.summary` of a variable, over runs that are planned."""
        return summary(self._values(variable), over, planned=self._planned(), **options)

    def compare(
        self, dim: str, first: object, second: object, variable: str = "error",
        over: str | Iterable[str] = "seed", **options: Any,
    ) -> xr.Dataset:  # fmt: skip
        """`analysis.comparison.compare` of two labels of `dim`, paired over common seeds."""
        return compare(self._values(variable), dim, first, second, over, planned=self._planned(), **options)

    def ranking(
        self, dim: str, variable: str = "error", over: str | Iterable[str] = "seed", **options: Any
    ) -> xr.Dataset:
        """`analysis.comparison.ranking` of the labels of `dim`."""
        return ranking(self._values(variable), dim, over, planned=self._planned(), **options)

    def verdict(
        self, dim: str, variable: str = "error", over: str | Iterable[str] = "seed", **options: Any
    ) -> xr.Dataset:
        """`analysis.verdict.verdict` on the labels of `dim`, by the other error norms and the times of its runs too."""
        own = {"seconds": self._data.get("wall_seconds"), "metrics": self._norms(variable)}
        return verdict(self._values(variable), dim, over, planned=self._planned(), **{**own, **options})

    def shares(self, variable: str = "error", parameters: Sequence[str] | None = None, **options: Any) -> xr.Dataset:
        """`analysis.beyond_the_mean.shares_of_variance`: parameters and seeds in the variance of a variable."""
        return shares_of_variance(self._values(variable), parameters, **options)

    def orders(
        self, along: str, variable: str = "error", over: str | Iterable[str] = "seed", **options: Any
    ) -> xr.Dataset:
        """`analysis.orders.observed_orders` along a numeric axis."""
        return observed_orders(self._values(variable), along, over, planned=self._planned(), **options)

    def sensitivity(
        self, variable: str = "error", over: str | Iterable[str] | None = None, **options: Any
    ) -> xr.Dataset:
        """`analysis.sensitivity.sensitivity.sensitivity` of a variable to the parameters of a sample.

        Raises InputError, too, where there is none: of a plain grid, or of values that are all equal.
        """
        values = self._values(variable)
        return known(sensitivity(values, over, planned=self._planned(), **options), values)

    def plot(
        self, kind: str = "distribution", variable: str | None = None, *, along: str | None = None,
        by: str | None = None, panel: str | None = None, over: str | Iterable[str] | None = None,
        at: Mapping[str, object] | None = None, slopes: Iterable[float] | None = None, title: str = "",
        xlabel: str | None = None, ylabel: str | None = None, size: tuple[float, float] | None = None,
        ax: Axes | Sequence[Axes] | None = None, notes: bool = True,
    ) -> Figure:  # fmt: skip
        """One kind of picture, as `evogt plot` draws it: a Matplotlib figure.

        along, by, panel, over and at are as of `analysis.plots.Places`; ax: axes to draw on, as many as there are
        panels, of which labels and size are one's own; notes: whether small print and counts of runs stand in the
        picture, or in its `caption` alone.  Raises InputError for what cannot be drawn.
        """
        look = {} if ax is not None else {"title": title, "xlabel": xlabel, "ylabel": ylabel, "size": size}
        places = {"along": along, "by": by, "panel": panel, "over": over, "at": at or {}}
        return self._drawn(kind, variable, places, look, slopes=slopes, ax=ax, notes=notes).figure

    def caption(
        self, kind: str = "distribution", variable: str | None = None, *, slopes: Iterable[float] | None = None,
        **places: Any,
    ) -> str:  # fmt: skip
        """Text beside a picture without notes: what it shows, long names, counts and small print.

        places: as of `plot`, along, by, panel, over and at.  Raises InputError for what cannot be drawn.
        """
        return self._drawn(kind, variable, places, {}, slopes=slopes, notes=False).caption

    def _drawn(
        self, kind: str, variable: str | None, places: Mapping[str, Any], look: Mapping[str, Any], *,
        slopes: Iterable[float] | None, ax: Axes | Sequence[Axes] | None = None, notes: bool,
    ) -> Drawn:  # fmt: skip
        from evogt_study.plots import Look, Places  # 0.4 s, with matplotlib
        from evogt_study.plots import catalogue as kinds

        over = places.get("over")
        sample = None if over is None else (over,) if isinstance(over, str) else tuple(over)
        lines = None if slopes is None else tuple(slopes)
        wish = kinds.Wish(variable, Places(**{**places, "over": sample}), lines, Look(**look), ax, notes=notes)
        return kinds.drawn(self._data, kind, wish)

    def failures(self) -> pd.DataFrame:
        """One row for each planned run that is not ok: its labels, status in words, message, attempts and seconds."""
        planned = self._data["case_key"].values != ""
        axes = list(map(str, self._data["status"].dims))
        where = np.nonzero(planned & (self._data["status"].values != Status.ok))
        columns = {axis: self._data[axis].values[at] for axis, at in zip(axes, where, strict=True)}
        columns["status"] = status_names(self._data)[where]
        for name in ("message", "attempts", "wall_seconds"):
            columns[name] = self._data[name].values[where]
        return pd.DataFrame(columns)

    def runs(self) -> pd.DataFrame:
        """One row for each planned run, as `evogt export` writes it."""
        return data_frame(run_table(self._data))

    def _values(self, variable: str) -> xr.DataArray:
        if variable not in self._data.data_vars:
            known = ", ".join(map(str, self._data.data_vars))
            raise InputError(f"`variable` must be one of {known}, got {variable!r}")
        return self._data[variable]

    def _norms(self, variable: str) -> dict[str, xr.DataArray]:
        """Errors of the same runs in other norms, which some run has."""
        if variable not in NORMS:
            return {}
        found = {name: self._data[name] for name in NORMS if name != variable and name in self._data}
        return {name: each for name, each in found.items() if bool(np.isfinite(each).any())}

    def _planned(self) -> xr.DataArray | None:
        """The runs' keys; nothing where the Dataset does not have them."""
        return self._data.get(KEYS)
