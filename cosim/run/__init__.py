"""One run: a system at one rung of the ladder, driven through the batches of a workload under a policy."""
