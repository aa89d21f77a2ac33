"""Compute the cases of a study in batches.

- `runner` defines `RunOptions`, and starts and supervises runners, the interpreters that compute runs.
- `batch` computes the cases of a batch, in this process or in a runner, with a cache of their common stages.
- `executor` computes a plan in this process, on Dask, or in array tasks that claim its parts in a folder.
- `dask_executor` connects to Dask and submits a limited number of batches at a time.
- `batch_systems` submits array tasks to SLURM and similar systems.
- `signals` converts signals and the time limit to KeyboardInterrupt.
"""
