"""Figures of labelled results.  Only this folder imports matplotlib.

- `style`: sizes, colours, text from files, file formats
- `canvas`: a figure with panels, labels, legends and notes, or axes of the user
- `groups`: runs grouped into panels, series and samples
- `axis_plots`: one number of each run over axes: distribution, dependence, scatter, trend, heat map, comparison
- `array_plots`: arrays of the runs: time series, spectra, and fields beside exact fields
- `catalogue`: plot kinds by name, kinds that fit a result, and captions
"""
