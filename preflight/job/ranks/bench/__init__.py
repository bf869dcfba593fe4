"""The parts of the benchmark in a rank: operations, sizes, clocks, figures, and what NCCL says of its paths."""
