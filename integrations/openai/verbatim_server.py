#!/usr/bin/env python3
"""Serves OpenAI's API on this machine's loopback over one `run MODEL --batch -`.

    verbatim_server.py [--run PROGRAM] [--port N] [--name NAME] MODEL [OPTION ...]

The options after MODEL go to `run`. Python's standard library is all that it needs; README.md says more.
"""
import argparse
import hmac
import json
import os
import queue
import signal
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

URLS = ("/v1/chat/completions", "/v1/completions", "/v1/embeddings", "/v1/rerank")
MOST_BYTES = 64 << 20  # of a request: what a line of a batch may have


class Runner:
    """The program, answering lines. Each request has the number of its line and a queue for what answers it."""

    def __init__(self, command):
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.lock, self.queues, self.count = threading.Lock(), {}, 0
        self.writing = threading.Lock()  # apart: results are read while a request waits to be written
        threading.Thread(target=self.read, daemon=True).start()

    def read(self):
        """Hands every line to the queue of its request; None where the program has ended."""
        for line in self.process.stdout:
            result = json.loads(line)
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
                        raise EOFError
                    self.count += 1
                    number = str(self.count)
                    self.queues[number] = waiting
                self.process.stdin.write(f'{{"custom_id": "{number}", {rest}\n'.encode())
                self.process.stdin.flush()
            while (result := waiting.get()) is not None:
                yield result
                if (result.get("response") or {}).get("done", True):
                    return
            raise EOFError
        finally:
            with self.lock:
                if self.queues is not None:
                    self.queues.pop(number, None)


class Handler(BaseHTTPRequestHandler):
    """One connection. The server has `runner`, `names` of models and `key`."""

    protocol_version = "HTTP/1.1"
    server_version = "verbatim"

    def log_message(self, *args):
        pass

    def send_json(self, value, status=200):
        data = json.dumps(value, ensure_ascii=False).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def send_problem(self, status, message, code=None):
        kind = "server_error" if status >= 500 else "invalid_request_error"
        self.close_connection = True  # the request's body may not have been read
        self.send_json({"error": {"message": message, "type": kind, "param": None, "code": code}}, status)

    def is_welcome(self):
        """Refuses pages of other sites, which a browser would let send requests, and other keys."""
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
            self.send_problem(404, f"no such thing: GET {path}")

    def read_body(self):
        """The request's JSON; None after an answer that says what is wrong."""
        length = self.headers.get("Content-Length", "")
        if not self.headers.get("Content-Type", "").startswith("application/json"):
            return self.send_problem(415, "the Content-Type must be application/json")
        if not length.isdecimal() or int(length) > MOST_BYTES:
            return self.send_problem(413, f"a request needs a Content-Length of at most {MOST_BYTES}")
        try:
            body = json.loads(self.rfile.read(int(length)))
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
        except EOFError:
            self.send_failure(503, "the program that answers has ended", None)
        except OSError:  # the client has gone, or the program
            self.close_connection = True

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


def main():
    parser = argparse.ArgumentParser(description="Serves OpenAI's API on localhost.")
    parser.add_argument("--run", default="verbatim", help="the program [verbatim, as make install names it]")
    parser.add_argument("--port", type=int, default=8080, help="of the loopback; 0: any [8080]")
    parser.add_argument("--name", help="of the model in /v1/models [MODEL's file name]")
    parser.add_argument("model")
    parser.add_argument("options", nargs=argparse.REMAINDER, help="of the program")
    a = parser.parse_args()
    name = a.name or os.path.basename(a.model.rstrip("/")).removesuffix(".bin").removesuffix(".gguf")
    server = ThreadingHTTPServer(("127.0.0.1", a.port), Handler)
    server.daemon_threads = True
    server.names, server.key = [name] + adapters(a.options), os.environ.get("VERBATIM_API_KEY")
    server.runner = Runner([a.run, a.model, "--batch", "-", *a.options])

    def stop_with_program():
        server.runner.process.wait()
        server.shutdown()

    threading.Thread(target=stop_with_program, daemon=True).start()
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # of service managers; as Ctrl-C
    print(f"http://127.0.0.1:{server.server_address[1]}/v1", flush=True)
    try:
        server.serve_forever()
    except KeyboardInterrupt:
        pass
    server.server_close()
    server.runner.process.stdin.close()
    return server.runner.process.wait()


if __name__ == "__main__":
    sys.exit(main())
