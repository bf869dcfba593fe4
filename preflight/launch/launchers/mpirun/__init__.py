"""mpirun and mpiexec, of Open MPI and Hydra."""
