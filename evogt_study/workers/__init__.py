"""Compute the cases of a study in batches.

- `options`: define `RunOptions`, the arguments of `evs.run` and options of `evogt run`
- `batch`: compute the cases of a batch and return their records
- `stage_cache`: cache the stages that cases share, and measure the time of each stage
- `runner`: start and supervise the interpreters that compute runs
- `runner_process`: receive batches and send records inside such an interpreter
- `executor`: choose the size of batches, and compute them in this process or on Dask
- `dask_executor`: submit batches to a Dask client, a limited number at a time
- `folder_executor`: claim and compute parts of a plan in array tasks, without a scheduler
- `clusters`: connect to a scheduler, or start a cluster in this process
- `batch_systems`: submit array tasks to SLURM and similar systems
- `signals`: convert signals to KeyboardInterrupt, and defer signals
"""
