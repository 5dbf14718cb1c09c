#!/usr/bin/env python3
"""Attacks the server: slow clients, many clients, bodies without an end, and kills of its program.

    python3 integrations/openai/soak_server.py [BUILD] [--requests 2000] [--clients 200] [--slow 300] [--kills 3]

BUILD is the folder with run and export [build]. Python's standard library alone, on the loopback, a minute. Every
request must get the answer that `run --batch` gives it. The exit status is 1 if one was lost, mixed up or wrong, or if
the server's memory grew.
"""
import argparse
import concurrent.futures
import http.client
import json
import os
import pathlib
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time

HERE = pathlib.Path(__file__).resolve().parent
KIND = {"Content-Type": "application/json"}


class Server:
    def __init__(self, build, model, script):
        self.process = subprocess.Popen(
            [sys.executable, script, "--run", build / "run", "--port", "0", model, "-n", "12"],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env={**os.environ, "VERBATIM_API_KEY": "secret"})
        self.said = []
        threading.Thread(target=lambda: self.said.extend(self.process.stderr), daemon=True).start()
        self.port = int(self.process.stdout.readline().split(":")[2].split("/")[0])

    def connect(self, timeout=100):
        return socket.create_connection(("127.0.0.1", self.port), timeout)

    def post(self, body, headers=(), timeout=100):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout)
        try:
            connection.request("POST", "/v1/completions", body, {**KIND, "Authorization": "Bearer secret", **dict(headers)})
            response = connection.getresponse()
            return response.status, response.read()
        finally:
            connection.close()

    def child(self):
        """The process of its program; waits for one."""
        while True:
            for name in filter(str.isdecimal, os.listdir("/proc")):
                try:
                    with open(f"/proc/{name}/stat") as stat:
                        state, parent = stat.read().rpartition(")")[2].split()[:2]
                except OSError:
                    continue
                if int(parent) == self.process.pid and state != "Z":
                    return int(name)
            time.sleep(0.01)

    def megabytes(self, key="VmRSS"):
        for line in open(f"/proc/{self.process.pid}/status"):
            if line.startswith(key + ":"):
                return int(line.split()[1]) / 1024
        return 0


def drip(server, stop, i):
    """A client that sends a byte a second: of its request's head, or of its body."""
    head = b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer secret\r\n"
    head += b"Content-Type: application/json\r\nContent-Length: 60000\r\n\r\n"
    try:
        with server.connect() as s:
            s.sendall(head if i % 2 else head[:40])
            while not stop.wait(1):
                s.sendall(b"x")
    except OSError:
        pass  # the server has had enough


def expected(build, model, prompts):
    lines = "".join(json.dumps({"id": i, "prompt": p, "max_tokens": 12}) + "\n" for i, p in enumerate(prompts))
    out = subprocess.run([build / "run", model, "--batch", "-"], input=lines, text=True, capture_output=True, check=True)
    results = map(json.loads, out.stdout.splitlines())
    return {r["id"]: r["text"] for r in results}


def ask_all(server, options, texts, prompts):
    """Has the clients ask everything, and kills the program meanwhile. Returns what went wrong."""
    wrong, done = [], 0

    def ask(i):
        nonlocal done
        try:
            status, data = server.post(json.dumps({"prompt": prompts[i], "max_tokens": 12}))
            text = json.loads(data)["choices"][0]["text"] if status == 200 else f"{status} {data!r}"
        except (OSError, http.client.HTTPException, ValueError, KeyError) as error:
            text = repr(error)
        done += 1
        if text != texts[i]:
            wrong.append(f"request {i}: {text[:200]!r} for {texts[i]!r}")

    def kill():
        for k in range(options.kills):
            while done < (k + 1) * len(prompts) // (options.kills + 1):
                time.sleep(0.01)
            os.kill(server.child(), signal.SIGKILL)

    killer = threading.Thread(target=kill, daemon=True)
    killer.start()
    with concurrent.futures.ThreadPoolExecutor(options.clients) as pool:
        list(pool.map(ask, range(len(prompts))))
    killer.join()
    return wrong


def unfinished(server, n, size):
    """n bodies of `size` bytes of which the last byte never comes; the most memory that the server had."""
    head = f"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer secret\r\nContent-Type: " \
           f"application/json\r\nContent-Length: {size}\r\n\r\n".encode()
    stop, most = threading.Event(), 0

    def send():
        try:
            with server.connect(5) as s:
                s.sendall(head)
                for _ in range(size // 1000000):
                    s.sendall(b"[" * 1000000)
                stop.wait()
        except OSError:
            stop.wait()

    threads = [threading.Thread(target=send, daemon=True) for _ in range(n)]
    for t in threads:
        t.start()
    for _ in range(80):
        time.sleep(0.1)
        most = max(most, server.megabytes())
    stop.set()
    for t in threads:
        t.join()
    return most


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("build", nargs="?", default="build")
    parser.add_argument("--requests", type=int, default=2000)
    parser.add_argument("--clients", type=int, default=200)
    parser.add_argument("--slow", type=int, default=300)
    parser.add_argument("--kills", type=int, default=3)
    parser.add_argument("--script", default=HERE / "verbatim_server.py")
    options = parser.parse_args()
    build, failures = pathlib.Path(options.build).resolve(), []
    with tempfile.TemporaryDirectory() as directory:
        model = directory + "/tiny.bin"
        subprocess.run([build / "export", "--random", "tiny,context=512", model, "-q"], check=True)
        prompts = [f"Number {i}" for i in range(options.requests)]
        texts = expected(build, model, prompts)
        server = Server(build, model, options.script)
        environment = open(f"/proc/{server.child()}/environ").read()
        if "secret" in environment:
            failures.append("the program knows the key")
        for what, body, headers in [("984 levels", '{"prompt": ' + "[" * 984 + "]" * 984 + "}", ()),
                                    ("a long Content-Length", "{}", [("Content-Length", "9" * 5000)]),
                                    ("a long number", '{"prompt": "a", "seed": ' + "9" * 100000 + "}", ())]:
            try:
                status, data = server.post(body, headers, 20)
                error = json.loads(data)["error"]["message"]
                print(f"{what}: {status} {error[:80]}")
            except (OSError, http.client.HTTPException, ValueError, KeyError) as error:
                failures.append(f"{what}: {error!r}")
        idle, begun = server.connect(), time.monotonic()
        stop = threading.Event()
        slow = [threading.Thread(target=drip, args=(server, stop, i), daemon=True) for i in range(options.slow)]
        for t in slow:
            t.start()
        start, sizes = time.monotonic(), []
        for _ in range(2):
            wrong = ask_all(server, options, texts, prompts)
            failures += wrong[:3]
            sizes.append(server.megabytes())
            print(f"{options.requests} requests of {options.clients} clients beside {options.slow} slow ones, "
                  f"{options.kills} kills: {len(wrong)} lost or wrong, {time.monotonic() - start:.1f} s, {sizes[-1]:.0f} MiB")
        if sizes[1] > 1.2 * sizes[0] + 10:
            failures.append("memory grows")
        stop.set()
        for t in slow:
            t.join()
        most = unfinished(server, 20, 62000000)
        print(f"20 unfinished bodies of 62 MB: at most {most:.0f} MiB")
        if most > 400:
            failures.append("unfinished bodies take much memory")
        idle.settimeout(60)
        if idle.recv(1) != b"":
            failures.append("an idle connection was answered")
        print(f"an idle connection was closed within {time.monotonic() - begun:.0f} s")
        status, _ = server.post(json.dumps({"prompt": "a", "max_tokens": 1}))
        if status != 200:
            failures.append(f"afterwards: {status}")
        server.process.terminate()
        status = server.process.wait(30)
        print(f"exit status {status}; on stderr: {''.join(server.said)[:1000].strip()!r}")
        failures += [f"exit status {status}"] * (status != 0)
    for failure in failures:
        print("FAILED:", failure)
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()
