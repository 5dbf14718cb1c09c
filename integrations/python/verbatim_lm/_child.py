"""The program, `run MODEL --batch - --live`, as a child that answers requests.

One thread writes requests and one reads results, so that neither can block the other; any number of threads may
submit. A request is known by the number of its line. What becomes of it goes to its sink, which is called by the
reading thread: with each chunk, and at last with the result or an exception.
"""

from __future__ import annotations

import collections
import copy
import json
import os
import signal
import subprocess
import threading
import weakref
from typing import Any, Callable, Deque, Dict, List, Optional

from .errors import Cancelled, ModelClosed, ModelError, OptionError, ProgramEnded, RequestError

Sink = Callable[[Any], None]  # of a dict, bytes (raw) or an exception

_SHOWN = 4000  # bytes of what the program said that an exception shows
_CLOSE_SECONDS = 5
_children: "weakref.WeakSet[Child]" = weakref.WeakSet()


def fresh(error: Exception) -> Exception:
    """The same exception for another thread: a traceback belongs to one."""
    return copy.copy(error).with_traceback(None)


class Ticket:
    """A request under way."""

    __slots__ = ("data", "sink", "raw", "line", "ended", "control")

    def __init__(self, data: bytes, sink: Sink, raw: bool, control: bool):
        self.data, self.sink, self.raw, self.control = data, sink, raw, control
        self.line = 0  # not yet written
        self.ended = False


def encode(request: Dict[str, Any]) -> bytes:
    """A request's line."""
    try:
        return json.dumps(request, allow_nan=False).encode() + b"\n"
    except ValueError as error:
        raise RequestError(f"the request cannot be written as JSON: {error}") from None


class Child:
    def __init__(self, command: "List[str]", verbose: bool = False):
        """`command` opens the model; the options of the batch are added here."""
        self.lock = threading.Lock()
        self.work = threading.Condition(self.lock)
        self.queue: Deque[Ticket] = collections.deque()
        self.controls: Deque[Ticket] = collections.deque()
        self.pending: Dict[int, Ticket] = {}
        self.lines = 0
        self.in_flight = 0  # requests that were written and are not answered
        self.opened = False
        self.most = 16  # of them
        self.over: Optional[Exception] = None  # why nothing can be asked any more
        self.closing = False
        self.ended = threading.Event()
        self.logits_fd = os.memfd_create("verbatim-logits", os.MFD_CLOEXEC)
        self.errors_fd = -1 if verbose else os.memfd_create("verbatim-stderr", os.MFD_CLOEXEC)
        self.command = [*command, "--batch", "-", "--live", "--logits", f"/proc/self/fd/{self.logits_fd}"]
        try:
            self.process = subprocess.Popen(
                self.command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=None if verbose else self.errors_fd,
                pass_fds=(self.logits_fd,),
                start_new_session=True,  # Ctrl-C is this process' affair
                bufsize=0,
            )
        except OSError as error:
            self._close_files()
            raise OptionError(f"{command[0]}: {error}") from None
        assert self.process.stdin and self.process.stdout
        self.stdin, self.stdout = self.process.stdin.fileno(), self.process.stdout
        _children.add(self)
        # Threads know the child, not the Model: a Model that nobody has any more can be collected.
        threading.Thread(target=self._write, name="verbatim-write", daemon=True).start()
        threading.Thread(target=self._read, name="verbatim-read", daemon=True).start()

    # ---- Asking ----

    def submit(self, data: bytes, sink: Sink, raw: bool = False, control: bool = False) -> Ticket:
        """Hands a line over. `raw`: the sink gets the result's line as bytes. `control`: before all others."""
        ticket = Ticket(data, sink, raw, control)
        with self.work:
            if self.over:
                raise fresh(self.over)
            (self.controls if control else self.queue).append(ticket)
            self.work.notify()
        return ticket

    def cancel(self, ticket: Ticket) -> None:
        """Ends a request. Its sink gets Cancelled, unless its result was faster."""
        with self.work:
            if self.over or ticket.ended:
                return
            if ticket.line == 0:
                try:
                    self.queue.remove(ticket)
                except ValueError:
                    return
                ticket.ended = True
            else:
                self.controls.append(Ticket(encode({"cancel": ticket.line}), lambda _: None, False, True))
                self.work.notify()
                return
        ticket.sink(Cancelled("cancelled"))

    def forget(self, line: int) -> None:
        """Lets go of a kept prompt."""
        with self.work:
            if not self.over:
                self.controls.append(Ticket(encode({"forget": line}), lambda _: None, False, True))
                self.work.notify()

    def is_open(self, max_concurrent: int) -> None:
        """The program has told how many texts it computes at a time. As many again may wait there: it reads lines,
        also those that cancel, while they are no more."""
        with self.work:
            self.opened, self.most = True, max_concurrent + max(max_concurrent, 16)
            self.work.notify()

    # ---- The threads ----

    def _next(self) -> Optional[Ticket]:
        """The next line to write, with its number; None: there will be none."""
        with self.work:
            while not self.over:
                if self.controls:
                    ticket = self.controls.popleft()
                elif self.queue and self.in_flight < self.most:
                    ticket = self.queue.popleft()
                    self.in_flight += 1
                else:
                    self.work.wait()
                    continue
                self.lines += 1
                ticket.line = self.lines
                self.pending[ticket.line] = ticket
                return ticket
            return None

    def _write(self) -> None:
        while (ticket := self._next()) is not None:
            rest = memoryview(ticket.data)
            try:
                while rest:
                    rest = rest[os.write(self.stdin, rest) :]
            except (OSError, ValueError):
                return  # the reading thread sees the end
            ticket.data = b""

    def _read(self) -> None:
        try:
            for line in self._lines():
                self._deliver(line)
        except (OSError, ValueError):
            pass  # closed
        finally:
            self._finish()

    def _lines(self):
        """The lines of stdout. A last one without its end is none."""
        rest = b""
        fd = self.stdout.fileno()
        while True:
            data = os.read(fd, 1 << 20)
            if not data:
                return
            parts = (rest + data).split(b"\n") if rest else data.split(b"\n")
            rest = parts.pop()
            yield from parts

    def _deliver(self, line: bytes) -> None:
        # Every line names its request's, before anything that a model has written. (The quotes of an id with the
        # same words are escaped.)
        at = line.find(b'"line": ')
        number = int(line[at + 8 : line.find(b",", at)])
        ticket = self.pending.get(number)
        if ticket is None:
            return
        result = line if ticket.raw else json.loads(line)
        if not ticket.raw and ("delta" in result or not (result.get("response") or {}).get("done", True)):
            ticket.sink(result)
            return
        with self.work:
            del self.pending[number]
            ticket.ended = True
            if not ticket.control:
                self.in_flight -= 1
                if self.queue:
                    self.work.notify()
        error = None if ticket.raw else result.get("error")
        if not error:
            ticket.sink(result)
        elif error["code"] == "cancelled":
            ticket.sink(Cancelled("cancelled"))
        else:
            ticket.sink(RequestError(error["message"], error["code"]))

    def _finish(self) -> None:
        """The program has ended: everybody who waits is told why."""
        status = self.process.wait()
        with self.work:
            if self.over is None:
                self.over = ModelClosed("the model was closed") if self.closing else self._reason(status)
            waiting = [*self.pending.values(), *self.controls, *self.queue]
            self.pending.clear()
            self.controls.clear()
            self.queue.clear()
            self.work.notify_all()
        for ticket in waiting:
            if not ticket.ended:
                ticket.ended = True
                ticket.sink(fresh(self.over))
        self.ended.set()

    def said(self) -> str:
        """The end of what the program wrote to stderr."""
        if self.errors_fd < 0:
            return ""
        size = os.fstat(self.errors_fd).st_size
        return os.pread(self.errors_fd, _SHOWN, max(0, size - _SHOWN)).decode(errors="replace").strip()

    def _reason(self, status: int) -> Exception:
        said = self.said()
        lines = [one for one in said.splitlines() if one.startswith(("run: ", "verbatim: "))]
        why = lines[-1].split(": ", 1)[1] if lines else said
        if status == 2:
            return OptionError(why)
        if not self.opened and status == 1:
            return ModelError(why)
        if status < 0:
            name = signal.Signals(-status).name if -status in [*signal.Signals] else str(-status)
            why = f"the program was ended by {name}" + (f": {why}" if why else "")
            if name == "SIGKILL":
                why += " (by somebody, or by the kernel for want of memory)"
        return ProgramEnded(why or f"the program ended with status {status}", status)

    # ---- The end ----

    def close(self) -> None:
        """Ends the program. What is under way is given up."""
        with self.work:
            self.closing = True
            busy = bool(self.pending or self.queue or self.controls)
            if self.over is None:
                self.over = ModelClosed("the model was closed")
            self.work.notify_all()
        self._end_process(busy)
        if threading.current_thread().name != "verbatim-read":
            self.ended.wait(_CLOSE_SECONDS)
        self._close_files()

    def _end_process(self, busy: bool) -> None:
        process = self.process
        try:
            if busy:
                process.terminate()
                process.wait(_CLOSE_SECONDS)  # the writing thread may be in os.write until then
            if process.stdin:
                process.stdin.close()
            process.wait(_CLOSE_SECONDS)
        except (OSError, ValueError):
            pass
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        except BaseException:  # Ctrl-C while it waits: nothing is left behind
            process.kill()
            process.wait()
            raise

    def _close_files(self) -> None:
        for name in ("logits_fd", "errors_fd"):
            fd = getattr(self, name)
            setattr(self, name, -1)
            if fd >= 0:
                os.close(fd)
        process = getattr(self, "process", None)
        if process and process.stdout:
            process.stdout.close()

    def _forked(self) -> None:
        """In a process that was forked from this one's: the program is the parent's. Its pipes must not stay open
        here, or it would outlive the parent."""
        self.lock = threading.Lock()
        self.work = threading.Condition(self.lock)
        self.over = ModelClosed("this Model belongs to the process that this one was forked from: open one here")
        self.queue.clear()
        self.controls.clear()
        self.pending.clear()
        self.closing = True
        self.ended = threading.Event()
        self.ended.set()
        for stream in (self.process.stdin, self.process.stdout):
            if stream:
                stream.close()
        self.process.returncode = 0  # nobody waits for it here
        self._close_files()


def _in_forked() -> None:
    for child in list(_children):
        child._forked()
    _children.clear()


os.register_at_fork(after_in_child=_in_forked)
