"""Cases computed in batches by Dask workers.

- `batch`: cases to records, in one call on a worker
- `stage_cache`: stages that cases share, each computed once
- `file_descriptors`: file descriptors that runs leave to their worker
- `limits`: limits of a study's failures and of a run's time
- `on_worker`: what a Dask worker does with a batch
- `looked_up_once`: what each worker would have to find out first
- `batch_size`: cases in the next batch
- `watch`: a cluster that has lost all of its workers
- `dispatch`: batches sent to Dask, none lost
- `local_cluster`: worker processes on this machine, or a client that is given
- `worker_server`: the process from which those are forked
- `forked_process`: a process that computes until a cluster is there
- `jobs`: workers that are jobs of a batch system
- `worker_memory`: memory of a worker
- `interruption`: signals and the command's own time limit
"""
