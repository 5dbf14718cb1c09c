#!/usr/bin/env python3
"""Serves OpenAI's API on this machine's loopback over one `run MODEL --batch -`.

    verbatim_server.py MODEL [--port N] [--name NAME] [--run PROGRAM] [OPTION ...]

All other options go to `run`. ./serve in the checkout is this script. Python's standard library is all that it needs; README.md says more.
"""
import hmac
import io
import json
import os
import pathlib
import queue
import re
import signal
import socket
import subprocess
import sys
import threading
import time
import types
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

URLS = ("/v1/chat/completions", "/v1/completions", "/v1/embeddings", "/v1/rerank")
MOST_BYTES = 64 << 20  # of a request: what a line of a batch may have
MOST_HELD = 128 << 20  # of all bodies that are being read or parsed
SMALL_BYTES = 64 << 10  # bodies up to this need not wait for room
MOST_PARTS = 1 << 20  # values and names of a request: each is some 100 bytes for Python
MOST_LEVELS = 200  # lists and objects in each other
MOST_DIGITS = 400  # of a number
MOST_CONNECTIONS = 1024
IDLE_SECONDS = 30  # for the head of a request, and for a client that does not read its answer
BODY_SECONDS = 60  # for all of a body
STOP_SECONDS = 5  # for answers that have begun, once the server is to end
STARTS = 5  # of the program, one after the other, without an answer
OUR_VARIABLES = ("VERBATIM_API_KEY", "VERBATIM_SERVE")  # which the program does not see
TRIES = 3  # of a request whose program ends before the answer begins


class ProgramEnded(Exception):
    pass


class Program:
    """The program, answering lines. Each request has the number of its line and a queue for what answers it."""

    def __init__(self, command):
        environment = {k: v for k, v in os.environ.items() if k not in OUR_VARIABLES}
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment)
        self.lock, self.queues, self.count, self.answered = threading.Lock(), {}, 0, False
        self.writing = threading.Lock()  # apart: results are read while a request waits to be written
        self.reader = threading.Thread(target=self.read, daemon=True)
        self.reader.start()

    def read(self):
        """Hands every line to the queue of its request; None when the program has ended."""
        for line in self.process.stdout:
            try:
                result = json.loads(line)
            except ValueError:
                break  # its last line, cut
            self.answered = True
            # A line that the program cannot read as JSON has no id: its result tells its number.
            number = result.get("custom_id") or str(result.get("line"))
            with self.lock:
                waiting = self.queues.get(number)
            if waiting:  # else its client has gone
                waiting.put(result)
        with self.lock:
            waiting, self.queues = list(self.queues.values()), None
        for one in waiting:
            one.put(None)

    def ask(self, url, body):
        """Yields the lines that answer the request; the last is one without "done": false."""
        waiting, number = queue.Queue(), None
        rest = json.dumps({"method": "POST", "url": url, "body": body})[1:]
        try:
            with self.writing:
                with self.lock:
                    if self.queues is None:
                        raise ProgramEnded
                    self.count += 1
                    number = str(self.count)
                    self.queues[number] = waiting
                try:
                    self.process.stdin.write(f'{{"custom_id": "{number}", {rest}\n'.encode())
                    self.process.stdin.flush()
                except (OSError, ValueError):
                    raise ProgramEnded from None
            while (result := waiting.get()) is not None:
                yield result
                if (result.get("response") or {}).get("done", True):
                    return
            raise ProgramEnded
        finally:
            with self.lock:
                if self.queues is not None:
                    self.queues.pop(number, None)


class Runner:
    """Keeps one program running. Starts it again when it ends, unless it never opened its model, or ends without an
    answer again and again."""

    def __init__(self, command, when_over):
        self.command, self.when_over = command, when_over
        self.changed, self.opened, self.over, self.stopping = threading.Condition(), False, False, False
        self.program = Program(command)
        threading.Thread(target=self.keep, daemon=True).start()

    def open(self):
        """Waits until the model is open, which the answer to any request shows; False: it cannot be."""
        try:
            for _ in self.program.ask(URLS[1], {}):
                pass
        except ProgramEnded:
            return False
        self.opened = True
        return True

    def keep(self):
        silent = 0
        while True:
            status = self.program.process.wait()
            self.program.reader.join()
            silent = 0 if self.program.answered else silent + 1
            if silent and self.opened:
                time.sleep(1)
            with self.changed:
                if self.opened and not self.stopping and silent < STARTS:
                    print(f"the program ended with status {status}: it is started again", file=sys.stderr, flush=True)
                    self.program = Program(self.command)
                else:
                    self.over = True
                self.changed.notify_all()
            if self.over:
                self.when_over()
                return

    def current(self, ended):
        """The program, after the one that has `ended`."""
        with self.changed:
            self.changed.wait_for(lambda: self.over or self.program is not ended)
            if self.over:
                raise ProgramEnded
            return self.program

    def ask(self, url, body):
        """As Program.ask. A request is asked again as long as nothing of its answer has come."""
        program, begun = None, False
        for i in range(TRIES):
            program = self.current(program)
            try:
                for result in program.ask(url, body):
                    begun = True
                    yield result
                return
            except ProgramEnded:
                if begun or i == TRIES - 1:
                    raise

    def stop(self):
        """Lets the program end; its exit status, in which refused requests (3) are no failure."""
        with self.changed:
            self.stopping = True
            program = self.program
        if program.writing.acquire(timeout=STOP_SECONDS):
            try:
                program.process.stdin.close()
            except OSError:
                pass
        try:
            status = program.process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:  # nobody waits for its answers any more
            program.process.terminate()
            status = program.process.wait()
        return 0 if status == 3 else status


class Room:
    """Bytes of memory for bodies: who wants more than there is waits."""

    def __init__(self, size):
        self.left, self.changed = size, threading.Condition()

    def take(self, size, seconds):
        with self.changed:
            there = self.changed.wait_for(lambda: self.left >= size, seconds)
            if there:
                self.left -= size
            return there

    def give(self, size):
        with self.changed:
            self.left += size
            self.changed.notify_all()


class DeadlineReader(io.RawIOBase):
    """Reads a socket until a point of time, however slowly the bytes come."""

    def __init__(self, connection):
        self.connection, self.deadline = connection, 0

    def readable(self):
        return True

    def readinto(self, buffer):
        left = self.deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError
        self.connection.settimeout(left)
        try:
            return self.connection.recv_into(buffer)
        except socket.timeout:  # before Python 3.10 this is no TimeoutError
            raise TimeoutError from None
        finally:
            self.connection.settimeout(IDLE_SECONDS)  # for what is written


def too_much(body):
    """What of a JSON text is more than may be parsed; None: nothing. Looks at strings as wholes."""
    at, level, parts = 0, 0, 0
    special = re.compile(rb'["\[\]{},]')
    while found := special.search(body, at):
        at, character = found.end(), found.group()
        if character == b'"':  # to the next that no odd number of backslashes precedes
            while True:
                end = body.find(b'"', at)
                if end < 0:
                    return None  # no end: the parser says so
                escapes = end - at - len(body[at:end].rstrip(b"\\"))
                at = end + 1
                if escapes % 2 == 0:
                    break
            continue
        parts += 1
        level += (character in b"[{") - (character in b"]}")
        if level > MOST_LEVELS:
            return f"more than {MOST_LEVELS} lists and objects in each other"
        if parts > MOST_PARTS:
            return f"more than {MOST_PARTS} values"
    return None


def number(text, kind):
    if len(text) > MOST_DIGITS:
        raise ValueError(f"a number has more than {MOST_DIGITS} digits")
    return kind(text)


def parse(body):
    return json.loads(body, parse_int=lambda t: number(t, int), parse_float=lambda t: number(t, float))


class Handler(BaseHTTPRequestHandler):
    """One connection. The server has `runner`, `names` of models and `key`."""

    protocol_version = "HTTP/1.1"
    server_version = "verbatim"

    unread = False  # bytes of the request may still come

    def setup(self):
        super().setup()
        self.reader = DeadlineReader(self.connection)
        self.rfile = io.BufferedReader(self.reader)
        self.connection.settimeout(IDLE_SECONDS)

    def handle_one_request(self):
        self.reader.deadline = time.monotonic() + IDLE_SECONDS
        try:
            super().handle_one_request()
        except OSError:  # the client has gone, or reads nothing
            self.close_connection = True

    def finish(self):
        super().finish()
        if not self.unread:
            return
        # A socket that is closed with unread bytes takes the answer back: read some of them.
        self.connection.shutdown(socket.SHUT_WR)
        self.connection.settimeout(1)
        for _ in range(64):
            if not self.connection.recv(65536):
                return

    def log_message(self, *args):
        pass

    def send_json(self, value, status=200):
        data = json.dumps(value, ensure_ascii=False).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        if self.close_connection:
            self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(data)

    def send_problem(self, status, message, code=None):
        kind = "server_error" if status >= 500 else "invalid_request_error"
        self.close_connection = self.unread = True  # the request's body may not have been read
        self.send_json({"error": {"message": message, "type": kind, "param": None, "code": code}}, status)

    def where_it_ends(self):
        """What makes it unclear where the request ends and the next begins (RFC 9112, 6.3); None: nothing. Another
        program on the way may read it otherwise, and take a part of the body for a request, or the reverse."""
        head = self.headers
        if head.defects or head.get_payload() or any("\n" in value for value in head.values()):
            return "a line of the request's head is not 'Name: value'"
        if "Transfer-Encoding" in head:
            return "a body is sent with a Content-Length, not with Transfer-Encoding"
        if len(head.get_all("Content-Length", [])) > 1:
            return "a request has one Content-Length"
        return None

    def is_welcome(self):
        """Refuses requests without a clear end, pages of other sites, which a browser would let send requests, and other
        keys."""
        unclear = self.where_it_ends()
        if unclear:
            self.send_problem(400, unclear)
            return False
        if self.command == "GET" and self.headers.get("Content-Length", "0") != "0":
            self.close_connection = self.unread = True  # its body, which is not read, is no next request
        host = self.headers.get("Host", "").rsplit(":", 1)[0]
        given = self.headers.get("Authorization", "").removeprefix("Bearer ").encode()
        if host not in ("localhost", "127.0.0.1"):
            self.send_problem(403, f"this server answers to localhost alone, not to '{host[:80]}'")
        elif self.server.key and not hmac.compare_digest(given, self.server.key.encode()):
            self.send_problem(401, "the API key is not the server's", "invalid_api_key")
        else:
            return True
        return False

    def do_GET(self):
        if not self.is_welcome():
            return
        models = [{"id": n, "object": "model", "created": 0, "owned_by": "verbatim"} for n in self.server.names]
        path = self.path.split("?")[0].rstrip("/")
        one = next((m for m in models if path == "/v1/models/" + m["id"]), None)
        if path == "/v1/models":
            self.send_json({"object": "list", "data": models})
        elif one:
            self.send_json(one)
        elif path in ("", "/health"):
            self.send_json({"status": "ok"})
        else:
            there = f"GET /v1/models and /health, POST {', '.join(URLS)}"
            self.send_problem(404, f"no such thing: GET {path}; there are {there}")

    def read_body(self):
        """The request's JSON; None after an answer that says what is wrong."""
        length = self.headers.get("Content-Length", "")
        if not self.headers.get("Content-Type", "").startswith("application/json"):
            how = "curl -H 'Content-Type: application/json'"
            return self.send_problem(415, f"the Content-Type must be application/json: {how}")
        if not re.fullmatch("[0-9]{1,9}", length) or int(length) > MOST_BYTES:
            return self.send_problem(413, f"a request needs a Content-Length of at most {MOST_BYTES}")
        size = int(length)
        held = size if size > SMALL_BYTES else 0
        if not self.server.room.take(held, BODY_SECONDS):
            return self.send_problem(503, "too many large requests at once")
        try:
            return self.parse_body(size)
        finally:
            self.server.room.give(held)

    def parse_body(self, size):
        self.reader.deadline = time.monotonic() + BODY_SECONDS
        try:
            data = self.rfile.read(size)
        except TimeoutError:
            return self.send_problem(408, f"the body did not come within {BODY_SECONDS} seconds")
        if len(data) < size:
            self.close_connection = True
            return None
        problem = too_much(data)
        if problem:
            return self.send_problem(400, problem)
        try:
            body = parse(data)
        except (ValueError, RecursionError) as error:
            return self.send_problem(400, f"not JSON: {error}")
        return body if isinstance(body, dict) else self.send_problem(400, "not a JSON object")

    def do_POST(self):
        url = self.path.split("?")[0].rstrip("/")
        if not self.is_welcome():
            return
        if url not in URLS:
            self.send_problem(404, f"no such thing: POST {url}; there are {', '.join(URLS)}")
            return
        body = self.read_body()
        if body is None:
            return
        if len(self.server.names) > 1 and body.get("model") == self.server.names[0]:
            del body["model"]  # the program knows its model by another name than this server
        self.begun = False
        try:
            for result in self.server.runner.ask(url, body):
                self.answer(result, bool(body.get("stream")))
        except ProgramEnded:
            self.send_failure(503, "the program that answers has ended", None)

    def send_failure(self, status, message, code):
        if not self.begun:
            self.send_problem(status, message, code)
            return
        self.event({"error": {"message": message, "type": "server_error", "param": None, "code": code}})
        self.close_connection = True

    def answer(self, result, streams):
        if result.get("error"):
            self.send_failure(400, result["error"]["message"], result["error"]["code"])
        elif streams:
            if not self.begun:
                self.begun = self.close_connection = True
                self.send_response(200)
                self.send_header("Content-Type", "text/event-stream")
                self.send_header("Cache-Control", "no-cache")
                self.send_header("Connection", "close")
                self.end_headers()
            self.event(result["response"]["body"])
            if result["response"]["done"]:
                self.wfile.write(b"data: [DONE]\n\n")
        else:
            self.send_json(result["response"]["body"])

    def event(self, value):
        self.wfile.write(b"data: " + json.dumps(value, ensure_ascii=False).encode() + b"\n\n")
        self.wfile.flush()


def adapters(options):
    """The names that requests may give as their model beside the model's own: --lora NAME=PATH."""
    pairs = zip(options, options[1:] + [""])
    given = [b if a == "--lora" else a.removeprefix("--lora=") for a, b in pairs if a.startswith("--lora")]
    return [text.split("=")[0] for text in given if "=" in text]


class Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = MOST_CONNECTIONS

    def __init__(self, port):
        super().__init__(("127.0.0.1", port), Handler)
        self.room, self.free = Room(MOST_HELD), threading.Semaphore(MOST_CONNECTIONS)

    def process_request(self, request, client_address):
        if self.free.acquire(blocking=False):
            super().process_request(request, client_address)
        else:
            request.settimeout(1)
            try:
                request.sendall(b"HTTP/1.1 503 too many connections\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
            except OSError:
                pass
            self.shutdown_request(request)

    def process_request_thread(self, request, client_address):
        try:
            super().process_request_thread(request, client_address)
        finally:
            self.free.release()

    def handle_error(self, request, client_address):
        if not isinstance(sys.exc_info()[1], OSError):  # the client has gone
            print(f"a request failed: {sys.exc_info()[1]!r}", file=sys.stderr)


def default_program():
    """`run` of the checkout in which this file lies, or else what make install installs."""
    own = pathlib.Path(__file__).resolve().parent.parent.parent / "run"
    return str(own) if os.access(own, os.X_OK) else "verbatim"


USAGE = """%(prog)s MODEL [--port N] [--name NAME] [--run PROGRAM] [OPTIONS of run]

serves OpenAI's API for MODEL at http://127.0.0.1:8080/v1

  MODEL            as for run: a file, a directory, or a name that `run --list` shows
  --port N         the port on 127.0.0.1; 0: any that is free [8080]
  --name NAME      the model's name in /v1/models [MODEL's file name]
  --run PROGRAM    the program that answers [%(run)s]

All other options are those of run, as defaults for all requests: -n 512, -t 0, --lora NAME=PATH.
VERBATIM_API_KEY in the environment is the API key that requests must send."""


def read_options(words, prog):
    """Our options among run's, which stand before or after MODEL, as in "MODEL --port 1"; the rest in its order."""
    usage = USAGE % {"prog": prog, "run": default_program()}
    own, rest, words = {"--port": "8080", "--name": None, "--run": default_program(), "--host": None}, [], list(words)
    while words:
        word = words.pop(0)
        name, equals, value = word.partition("=")
        if word in ("-h", "--help"):
            print("usage:", usage, flush=True)
            sys.exit(0)
        if word == "--version":
            try:
                os.execvp(own["--run"], [own["--run"], "--version"])
            except OSError as error:
                sys.exit(f"{prog}: {own['--run']}: {error.strerror}")
        if name not in own:
            rest.append(word)
        elif not equals and not words:
            sys.exit(f"{prog}: {name} needs a value")
        else:
            own[name] = value if equals else words.pop(0)
    if not rest or rest[0].startswith("-"):
        say = f"{prog}: {rest[0]} stands before MODEL; options of run come after it" if rest else f"{prog}: no MODEL"
        print(f"{say}\nusage: {usage.splitlines()[0]}", file=sys.stderr)
        sys.exit(2)
    if own["--host"] not in (None, "localhost", "127.0.0.1"):
        sys.exit(f"{prog}: --host {own['--host']}: it listens on this machine's loopback alone, 127.0.0.1")
    if not re.fullmatch("[0-9]{1,5}", own["--port"]) or int(own["--port"]) > 65535:
        sys.exit(f"{prog}: port {own['--port']} is not a number from 0 to 65535")
    return types.SimpleNamespace(
        port=int(own["--port"]), name=own["--name"], run=own["--run"], model=rest[0], options=rest[1:])


def main():
    prog = os.environ.get("VERBATIM_SERVE") or os.path.basename(sys.argv[0]).removesuffix(".py")
    a = read_options(sys.argv[1:], prog)
    name = a.name or os.path.basename(a.model.rstrip("/")).removesuffix(".bin").removesuffix(".gguf")
    try:
        server = Server(a.port)
    except OSError as error:
        sys.exit(f"{prog}: port {a.port}: {error.strerror}: --port 0 takes any that is free")
    try:
        server.names, server.key = [name] + adapters(a.options), os.environ.get("VERBATIM_API_KEY")
        server.runner = Runner([a.run, a.model, "--batch", "-", *a.options], lambda: server.shutdown())
    except FileNotFoundError:
        sys.exit(f"{prog}: there is no program {a.run}: ./quickstart builds ./run, and --run names another")
    except OSError as error:
        sys.exit(f"{prog}: {a.run}: {error.strerror}")
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # of service managers; as Ctrl-C
    try:
        if server.runner.open():
            print(f"http://127.0.0.1:{server.server_address[1]}/v1", flush=True)
            server.serve_forever()
        else:
            server.runner.program.process.wait()
    except KeyboardInterrupt:
        pass
    server.server_close()
    return server.runner.stop()


if __name__ == "__main__":
    try:
        sys.exit(main())
    except BrokenPipeError:  # | head
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(141)
