"""Compute the cases of a study in batches.

- `runner`: define `RunOptions`, and start and supervise runners, the interpreters that compute runs
- `batch`: compute the cases of a batch, in this process or in a runner, with a cache of their common stages
- `executor`: compute a plan in this process, on Dask, or in array tasks that claim its parts in a folder
- `dask_executor`: connect to Dask, and submit batches, a limited number at a time
- `batch_systems`: submit array tasks to SLURM and similar systems
- `signals`: convert signals and the time limit to KeyboardInterrupt
"""
