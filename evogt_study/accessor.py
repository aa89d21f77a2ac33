"""Open a result file as a Dataset, and analyse its variables with the accessor `ds.evogt`.

The methods of `ds.evogt` call functions of `evogt_study.analysis` and `evogt_study.plots`.  The import of this module
adds the accessor to all Datasets.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import pandas as pd
import xarray as xr

from evogt_study.analysis.comparison import compare
from evogt_study.analysis.export import run_table
from evogt_study.analysis.performance import performance, share
from evogt_study.analysis.runs import KEYS, Design, find_finished_keys
from evogt_study.analysis.sensitivity import check_indices, sensitivity, variance_shares
from evogt_study.analysis.statistics import observed_orders, summary
from evogt_study.analysis.tables import find_variables
from evogt_study.errors import ResultError
from evogt_study.results.netcdf import open_result, read_finished_so_far, with_status_names
from evogt_study.schema.variables import MAIN, PILOT, Status, to_status

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from evogt_study.plots.canvas import PlottedFigure

F = TypeVar("F", bound=Callable[..., Any])
_VALUES, _DATA = (re.compile(rf"^{name}\n(?: {{4}}.*\n)+", re.MULTILINE) for name in ("values : .*", "data : Dataset"))
"""Patterns of the section about the first parameter in a docstring."""


def open(path: str | Path, pilot: bool = False, chunks: Any = None) -> xr.Dataset:  # as evs.open
    """Open the runs of a result file as a Dataset.

    The Dataset reads values on access.  Use the Dataset in a ``with`` block, or call ``close()``.

    Parameters
    ----------
    path : str or Path
        Result file.  If the study is not finished, its finished runs are in memory and the missing runs have the status
        "not_run".
    pilot : bool, default False
        Open the runs of the pilot instead of the main phase.
    chunks : int, dict or "auto", optional
        Chunks for Dask arrays, as in `xarray.open_dataset`.  Strings are always in memory.

    Returns
    -------
    xarray.Dataset
        The variables of the file, and run metadata such as `run_status`, which is a string.

    Raises
    ------
    ResultError
        If the file is not a result of this package or has no runs of this phase.

    Examples
    --------
    >>> import evogt_study as evs
    >>> with evs.open("data/results/oscillatory_1d.nc") as ds:
    ...     ds.error.sel(dictionary="gtransnet").median("seed").values.round(5)
    array([0.00038, 0.00044, 0.00071])
    """
    path, phase = Path(path), PILOT if pilot else MAIN
    found = read_finished_so_far(path)  # None for a complete result
    if found is not None and phase not in found and not path.exists():
        why = "its pilot is not finished. Open the pilot with pilot=True." if PILOT in found else "it has no pilot"
        raise ResultError(f"{path} has no runs of the {phase}: {why}")
    data = None if found is None else found.get(phase)
    return with_status_names(open_result(path, phase, chunks) if data is None else data)


def _document_like(function: Callable[..., Any], *example: str) -> Callable[[F], F]:
    """Return a decorator that copies the sections of a docstring to a method and adds an example."""

    def add_sections(method: F) -> F:
        text = (inspect.getdoc(function) or "").partition("Parameters\n")[2].partition("Examples\n")[0]
        entry = "variable : str, optional\n    Name of the variable.  The default is the first variable of the study.\n"
        text = _DATA.sub("", _VALUES.sub(entry, text))
        if function is performance:
            text = text.replace(" : DataArray", " : str")
        opened = ('>>> with evs.open("data/results/threshold.nc") as ds:', f"...     {example[0]}", example[1])
        lines = ("--------", ">>> import evogt_study as evs", *(example if len(example) > 2 else opened))
        method.__doc__ = f"{method.__doc__}\n\nParameters\n{text}Examples\n" + "\n".join(lines) + "\n"
        return method

    return add_sections


@xr.register_dataset_accessor("evogt")  # type: ignore[no-untyped-call]  # xarray's
class Result:
    """Accessor ``ds.evogt`` with the analyses of a result of this package."""

    def __init__(self, data: xr.Dataset) -> None:
        self._data = data

    def __repr__(self) -> str:
        names = [name for name, each in vars(Result).items() if callable(each) and name[0] != "_"]
        return f"ds.evogt: {', '.join(names)}, design"

    @property
    def design(self) -> Design:
        """Design of the study: axes, samples, random streams, and numbers of planned and ok runs."""
        ok = to_status(self._data["run_status"]) == Status.ok
        return Design.of(self._data["run_status"].copy(data=np.where(ok, 1.0, np.nan)), planned=self._data.get(KEYS))

    @_document_like(
        summary, 'dict(ds.evogt.summary("error", statistics="median").sizes)', "{'tau': 4, 'dictionary': 2}"
    )
    def summary(self, variable: str | None = None, over: str | Iterable[str] = "seed", **options: Any) -> xr.Dataset:
        """Compute statistics of a variable over the planned runs, as `evs.summary` does."""
        return summary(self._select(variable), over, planned=self._data.get(KEYS), **options)

    @_document_like(compare, 'ds.evogt.compare("dictionary", "error").leader.values[-1]', "'gtransnet'")
    def compare(
        self, dim: str, variable: str | None = None, over: str | Iterable[str] = "seed", **options: Any
    ) -> xr.Dataset:
        """Compare the values of an axis over the finished runs, as `evs.compare` does."""
        return compare(self._select(variable), dim, over, **{"planned": find_finished_keys(self._data), **options})

    @_document_like(performance, 'list(ds.evogt.performance("error", 0.0))[:2]', "['bias', 'bias_mcse']")
    def performance(self, estimate: str, truth: str | float, over: str = "seed", **options: Any) -> xr.Dataset:
        """Compute the performance measures of an estimator, as `evs.performance` does."""
        given = {"truth": truth, "planned": find_finished_keys(self._data), **options}
        named: dict[str, Any] = {
            name: self._data[each] if isinstance(each, str) else each for name, each in given.items()
        }
        return performance(self._select(estimate), over=over, **named)

    @_document_like(share, 'ds.evogt.share("error < 1e-3").n_ok.values[-1].tolist()', "[10, 10]")
    def share(self, condition: str, over: str | Iterable[str] = "seed", **options: Any) -> xr.Dataset:
        """Return the share of runs that meet a condition, with the Wilson confidence interval."""
        return share(self._data, condition, over, **{"planned": find_finished_keys(self._data), **options})

    @_document_like(observed_orders, 'ds.evogt.orders("tau", "error").slope.dims', "('dictionary',)")
    def orders(
        self, along: str, variable: str | None = None, over: str | Iterable[str] = "seed", **options: Any
    ) -> xr.Dataset:
        """Estimate the observed order of a variable along an axis, as `evs.observed_orders` does."""
        return observed_orders(self._select(variable), along, over, planned=self._data.get(KEYS), **options)

    @_document_like(
        sensitivity,
        '>>> sample = evs.sample("point", "sobol", 32, a={"from": 0, "to": 1}, b={"from": 0, "to": 1})',
        '>>> ds = evs.run(evs.Study(lambda a, b: {"y": a + b / 10}, designs=sample), workers=0)',
        '>>> ds.evogt.sensitivity("y").first_order.idxmax().item()',
        "'a'",
    )
    def sensitivity(
        self, variable: str | None = None, over: str | Iterable[str] | None = None, **options: Any
    ) -> xr.Dataset:
        """Estimate the sensitivity of a variable to the parameters of a sample, as `evs.sensitivity` does."""
        values = self._select(variable)
        return check_indices(sensitivity(values, over, planned=self._data.get(KEYS), **options), values)

    @_document_like(
        variance_shares, 'ds.evogt.variance_shares("error").source.values.tolist()[:2]', "['tau', 'dictionary']"
    )
    def variance_shares(
        self, variable: str | None = None, axes: Sequence[str] | None = None, **options: Any
    ) -> xr.Dataset:
        """Compute variance shares of the axes and seeds, as `evs.variance_shares` does."""
        return variance_shares(self._select(variable), axes, **{"planned": self._data.get(KEYS), **options})

    def plot(
        self, kind: str = "distribution", variable: str | None = None, *, x: str | None = None,
        hue: str | None = None, col: str | None = None, over: str | Iterable[str] | None = None,
        at: Mapping[str, object] | None = None, slope: float | Iterable[float] = (), title: str = "",
        xlabel: str | None = None, ylabel: str | None = None, size: tuple[float, float] | None = None,
        xscale: str | None = None, yscale: str | None = None,
        ax: Axes | Sequence[Axes] | Figure | None = None, notes: bool = True,
    ) -> Figure:  # fmt: skip
        """Draw a plot of one kind, as `evogt plot` does.

        Parameters
        ----------
        kind : str, default "distribution"
            distribution, dependence, heat_map, trend, time_series, spectrum, scatter, comparison or fields.
        variable : str, optional
            Variable to draw.  The default is the main variable of the study.
        x : str, optional
            Axis along x, a parameter that follows an axis, or a recorded variable.
        hue, col : str, optional
            Axis with a series for each value, and axis with a panel for each value.
        over : str or iterable of str, optional
            Axes whose points are a sample.  The default sample is the seed and all random samples.
        at : mapping, optional
            Axis values to select, one value for each fixed axis.
        slope : float or iterable of float, optional
            Slopes of reference lines of a dependence with two logarithmic scales.
        title, xlabel, ylabel : str, optional
            Labels, with mathematics between dollars.
        size : tuple of float, optional
            Width and height in inches.
        xscale, yscale : {"linear", "log"}, optional
            Scale of an axis.  The default is logarithmic for an error or for values over three decades.
        ax : Axes, sequence of Axes or Figure, optional
            Axes to draw on, one for each panel, or an empty figure.  Your axes keep their labels, scales and size.
        notes : bool, default True
            If False, the figure has no footnote.  See `caption`.

        Returns
        -------
        matplotlib.figure.Figure
            The figure.  Change or save the figure with Matplotlib.

        Raises
        ------
        InputError
            If the plot cannot be drawn.

        Examples
        --------
        >>> import evogt_study as evs
        >>> with evs.open("data/results/threshold.nc") as ds:
        ...     figure = ds.evogt.plot("dependence", "error", x="tau", hue="dictionary", slope=0.5)
        >>> figure.axes[0].get_xlabel()
        'tau'
        """
        roles = {"variable": variable, "x": x, "hue": hue, "col": col, "over": over, "at": at or {}, "slope": slope}
        look = {"title": title, "xlabel": xlabel, "ylabel": ylabel, "size": size, "xscale": xscale, "yscale": yscale}
        return self._draw(kind, **roles, **look, ax=ax, notes=notes).figure

    def caption(
        self, kind: str = "distribution", variable: str | None = None, *, slope: float | Iterable[float] = (),
        **roles: Any,
    ) -> str:  # fmt: skip
        """Return the caption of a plot without notes: its subject, long names, numbers of runs and footnotes.

        Parameters
        ----------
        kind, variable, slope
            Kind of plot, variable and slopes, as in `plot`.
        **roles
            The arguments x, hue, col, over and at, as in `plot`.

        Returns
        -------
        str
            Sentences of the caption.

        Raises
        ------
        InputError
            If the plot cannot be drawn.

        Examples
        --------
        >>> import evogt_study as evs
        >>> with evs.open("data/results/threshold.nc") as ds:
        ...     text = ds.evogt.caption("dependence", "error", x="tau", hue="dictionary")
        >>> text.partition("; ")[2].partition(".")[0]
        '80 of 80 runs'
        """
        return self._draw(kind, variable=variable, slope=slope, notes=False, **roles).caption

    def _draw(self, kind: str, **options: Any) -> PlottedFigure:
        from evogt_study.plots.catalogue import draw_kind  # 0.4 s, with matplotlib
        from evogt_study.plots.groups import PlotRequest

        if options.get("over") is not None:
            options["over"] = (options["over"],) if isinstance(options["over"], str) else tuple(options["over"])
        slope = options["slope"]
        options["slope"] = (slope,) if isinstance(slope, (int, float)) else tuple(slope)
        return draw_kind(self._data, kind, PlotRequest(**options))

    def failures(self) -> pd.DataFrame:
        """Return a row for each planned run that is not ok.

        Returns
        -------
        DataFrame
            Axis values, status, message, attempts and seconds.

        Examples
        --------
        >>> import evogt_study as evs
        >>> with evs.open("data/results/threshold.nc") as ds:
        ...     len(ds.evogt.failures())
        0
        """
        columns = ["run_status", "run_message", "run_attempts", "run_seconds"]
        runs = run_table(self._data[[*columns, KEYS]])
        axes = map(str, self._data["run_status"].dims)
        return runs.loc[runs["run_status"] != "ok", [*axes, *columns]].reset_index(drop=True)

    def to_dataframe(self) -> pd.DataFrame:
        """Return a table with one row for each planned run, as `evogt export` does.

        Returns
        -------
        DataFrame
            Parameters, status, message, values and run metadata.

        Examples
        --------
        >>> import evogt_study as evs
        >>> with evs.open("data/results/threshold.nc") as ds:
        ...     len(ds.evogt.to_dataframe())
        80
        """
        return run_table(self._data)

    def _select(self, variable: str | None) -> xr.DataArray:
        """Return a variable by name, by default the first variable of the study."""
        return self._data[find_variables(self._data, *([] if variable is None else [variable]))[0]]
