"""Rows of logits, which the program writes into memory that both have (batch/logits_file.h)."""

from __future__ import annotations

import ctypes
import os
import threading
from typing import Any, Dict, List

_PUNCH_HOLE = 0x01 | 0x02  # FALLOC_FL_KEEP_SIZE | FALLOC_FL_PUNCH_HOLE
_PAGE = os.sysconf("SC_PAGE_SIZE")


class Memory:
    """Takes rows out, and gives the memory back: a page as soon as all of its bytes were taken."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.partly: Dict[int, int] = {}  # pages of which some bytes were taken: how many
        self.libc = ctypes.CDLL(None, use_errno=True)

    def take(self, fd: int, rows: List[int], columns: int) -> Any:
        """numpy [len(rows)][columns] of float32."""
        import numpy

        result = numpy.empty((len(rows), columns), dtype=numpy.float32)
        width = columns * 4
        for i, row in enumerate(rows):
            buffer, at = memoryview(result[i]).cast("B"), 0
            while at < width:
                n = os.preadv(fd, [buffer[at:]], row * width + at)
                if n <= 0:
                    raise OSError("the program's logits are not there")
                at += n
            self._give_back(fd, row * width, (row + 1) * width)
        return result

    def _give_back(self, fd: int, begin: int, end: int) -> None:
        first, last = begin // _PAGE, (end - 1) // _PAGE
        whole = [page for page in range(first, last + 1) if self._is_taken(page, begin, end)]
        if whole:
            self.libc.fallocate(
                fd, _PUNCH_HOLE, ctypes.c_int64(whole[0] * _PAGE), ctypes.c_int64(len(whole) * _PAGE)
            )

    def _is_taken(self, page: int, begin: int, end: int) -> bool:
        size = min(end, (page + 1) * _PAGE) - max(begin, page * _PAGE)
        if size == _PAGE:
            return True
        with self.lock:
            total = self.partly.pop(page, 0) + size
            if total < _PAGE:
                self.partly[page] = total
            return total >= _PAGE
