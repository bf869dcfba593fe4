"""Readers of one raw source each: a program's output, a kernel interface, a file format."""
