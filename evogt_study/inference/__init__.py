"""Statistics on arrays, NumPy and SciPy only: numbers of samples, and how well these are known.

- `kernels`: statistics over the last axis of arrays
- `intervals`: bootstrap intervals, likewise
"""
