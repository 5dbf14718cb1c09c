"""python -m verbatim_lm: the program itself, as verbatim-lm."""

from ._program import main

main()
