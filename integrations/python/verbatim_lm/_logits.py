"""Rows of logits, which the program writes into memory that both have (modes/batch/logits_file.h)."""

from __future__ import annotations

import ctypes
import os
import threading
from typing import Any, Dict, List

from .errors import ModelClosed

_PUNCH_HOLE = 0x01 | 0x02  # FALLOC_FL_KEEP_SIZE | FALLOC_FL_PUNCH_HOLE
_PAGE = os.sysconf("SC_PAGE_SIZE")


class Memory:
    """Takes rows out, and gives the memory back: a page as soon as all of its bytes were taken."""

    def __init__(self) -> None:
        self.fd = os.memfd_create("verbatim-logits", os.MFD_CLOEXEC)
        self.lock = threading.Lock()  # nobody reads or punches a file that has got the number of a closed one
        self.partly: Dict[int, int] = {}  # pages of which some bytes were taken: how many
        self.libc = ctypes.CDLL(None, use_errno=True)

    def close(self) -> None:
        with self.lock:
            fd, self.fd = self.fd, -1
            if fd >= 0:
                os.close(fd)

    def __enter__(self) -> "Memory":
        return self

    def __exit__(self, *exception: Any) -> None:
        self.close()

    def take(self, rows: List[int], columns: int) -> Any:
        """numpy [len(rows)][columns] of float32."""
        import numpy

        with self.lock:
            if self.fd < 0:
                raise ModelClosed("the model was closed before its logits were taken")
            return self._take(numpy.empty((len(rows), columns), dtype=numpy.float32), rows)

    def _take(self, result: Any, rows: List[int]) -> Any:
        width = result.shape[1] * 4
        for i, row in enumerate(rows):
            buffer, at = memoryview(result[i]).cast("B"), 0
            while at < width:
                n = os.preadv(self.fd, [buffer[at:]], row * width + at)
                if n <= 0:
                    raise OSError("the program's logits are not there")
                at += n
            self._give_back(row * width, (row + 1) * width)
        return result

    def _give_back(self, begin: int, end: int) -> None:
        first, last = begin // _PAGE, (end - 1) // _PAGE
        whole = [page for page in range(first, last + 1) if self._is_taken(page, begin, end)]
        if whole:
            offset, size = ctypes.c_int64(whole[0] * _PAGE), ctypes.c_int64(len(whole) * _PAGE)
            self.libc.fallocate(self.fd, _PUNCH_HOLE, offset, size)

    def _is_taken(self, page: int, begin: int, end: int) -> bool:
        size = min(end, (page + 1) * _PAGE) - max(begin, page * _PAGE)
        if size == _PAGE:
            return True
        total = self.partly.pop(page, 0) + size
        if total < _PAGE:
            self.partly[page] = total
        return total >= _PAGE
