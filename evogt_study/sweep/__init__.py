"""Parametric sweeps: study file -> `Study` -> `Plan` -> batches of records -> shards -> one labelled result file."""
