"""Figures of labelled results.  Only this folder imports matplotlib.

Each kind of plot is a function of a Dataset, the name of a variable and a `PlotRequest`.  `ds.evogt.plot` and
`evogt plot` draw them by the names in `catalogue`.

- `style`: sizes, colours, text from files, file formats
- `canvas`: a figure with panels, labels, legends and notes, or axes of the user
- `groups`: runs grouped into panels, series and samples
- `distribution`: a variable over the seeds
- `dependence`: a variable against an axis or another variable
- `trend`: a variable against the parameters of a sample
- `heat_map`: a variable over two axes
- `time_series`: a variable along a dimension of its own, such as time; spectra
- `fields`: fields on a grid, beside exact fields
- `comparison`: comparison of the values of one axis
- `catalogue`: plot kinds by name; which kinds fit a result; captions
"""
