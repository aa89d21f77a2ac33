"""Figures of labelled results.  Only this folder imports matplotlib.

- `style` sets sizes, colours and file formats, and escapes text from files.
- `canvas` makes a figure with panels, labels, legends and notes, or uses axes of the user.
- `groups` groups runs into panels, series and samples.
- `axis_plots` draws one number of each run over axes, for example as a distribution or a heat map.
- `array_plots` draws arrays of the runs, such as time series, spectra and fields.
- `catalogue` chooses the plot kinds that fit a result, and writes captions.
"""
