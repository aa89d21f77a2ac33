"""The Evo-GTransNet method on plain arrays: NumPy and SciPy only.

- `arrays`: the array type
- `registry`: kinds by name, those of other packages too
- `quadrature`: rules with positive weights
- `domains`: open sets on which problems are posed, and the factor that vanishes on their boundary
- `dictionaries`: families of prescribed features
- `problem`: the data of a parabolic problem, as functions of nodes and times
- `problem_checks`: checks that the data of a problem agree
- `retained_space`: trial functions, their weighted SVD, and its truncation to identity mass
- `stiffness`: the matrix of the linear terms in the retained space
- `galerkin`: stiffness, load and initial value in the retained space
- `time_grid`: time steps, the steps that are observed, and the trajectory
- `integrators`: schemes that march from the initial value to the final time
- `validation`: relative L2 errors
- `diagnostics`: norms, energies, distances of coefficients
- `cross_grid`: the retained basis on another rule than the one that made it
- `coefficient_reference`: coefficients free of time-stepping error
- `pipeline`: the whole method on one screen, one stage after the other
- `certificates`: what a run says of its own error
"""
