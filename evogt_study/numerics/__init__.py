"""The Evo-GTransNet method on plain arrays: NumPy and SciPy only.

The modules in pipeline order: `quadrature`, `boundary`, `dictionary`, `problem`, `retained_space`, `galerkin`,
`implicit_midpoint`, `diagnostics`, and `solve`, which runs them one after the other.
"""
