"""Figures of labelled results.  Only this folder imports matplotlib.

Each kind of plot is a function of a Dataset, the name of a variable and a `PlotRequest`.  `ds.evogt.plot` and
`evogt plot` draw them by the names in `catalogue`.

- `style`: sizes, colours, text from files, file formats
- `canvas`: a figure with panels, labels, legends and notes, or axes of the user
- `groups`: runs grouped into panels, series and samples
- `axis_plots`: one number of each run over axes: distribution, dependence, scatter, trend, heat map
- `array_plots`: arrays of the runs: time series, spectra, and fields beside exact fields
- `comparison`: comparison of the values of one axis
- `catalogue`: plot kinds by name; which kinds fit a result; captions
"""
