"""The job files of clouds and schedulers that run containers, one module each."""
