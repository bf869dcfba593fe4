"""Which fixtures do all tests share?"""

from tests.lab.fixtures import lab3, lab_is_possible, make_lab

__all__ = ["lab3", "lab_is_possible", "make_lab"]
