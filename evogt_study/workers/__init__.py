"""Computation of cases in batches.

- `options`: `RunOptions`, the arguments of `evs.run` and options of `evogt run`
- `batch`: compute the cases of a batch and return their records
- `stage_cache`: stages that cases share, and the time of each
- `runner`: the interpreters that compute runs, started and watched by a worker
- `runner_process`: such an interpreter, seen from inside
- `executor`: `Executor`, batch sizes, computation in this process
- `dask_executor`: batches on any Dask client, a limited number in flight
- `folder_executor`: parts of a plan that array tasks claim in a folder, without a scheduler
- `clusters`: a given client, or a cluster inside this process
- `batch_systems`: array tasks as jobs of SLURM and similar systems
- `signals`: interrupts: deferred and forwarded
"""
