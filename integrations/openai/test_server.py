"""Asks the server as a user of the openai package does; on the loopback alone.

    python integrations/openai/test_server.py [BUILD]      the folder with run and export [build]
"""
import base64
import concurrent.futures
import http.client
import json
import os
import pathlib
import re
import shutil
import socket
import struct
import subprocess
import sys
import tempfile
import unittest
import urllib.error
import urllib.request

import openai

HERE = pathlib.Path(__file__).resolve().parent
BUILD = (HERE.parent.parent / "build").resolve()
MESSAGES = [{"role": "user", "content": "Tell me of a fox."}]


class Served(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.directory = tempfile.TemporaryDirectory()
        cls.model = cls.directory.name + "/tiny.bin"
        subprocess.run([BUILD / "export", "--random", "tiny,context=512", cls.model, "-q"], check=True)
        cls.server = subprocess.Popen(
            [sys.executable, HERE / "verbatim_server.py", "--run", BUILD / "run", "--port", "0", cls.model,
             "-n", "24", "--pooling", "mean"], stdout=subprocess.PIPE, text=True)
        cls.url = cls.server.stdout.readline().strip()
        cls.client = openai.OpenAI(base_url=cls.url, api_key="none", max_retries=0)

    @classmethod
    def tearDownClass(cls):
        cls.client.close()
        cls.server.terminate()  # an interrupt is ignored where a shell has put the test into the background
        status = cls.server.wait(20)
        cls.server.stdout.close()
        cls.directory.cleanup()
        assert status in (0, 3), status  # 3: some requests of the tests were refused

    def chat(self, **more):
        return self.client.chat.completions.create(model="tiny", messages=MESSAGES, **more)

    def test_a_port_that_there_is_not_is_one_line(self):
        said = subprocess.run([sys.executable, HERE / "verbatim_server.py", "--run", BUILD / "run", "--port", "99999",
                               self.model], stderr=subprocess.PIPE, text=True)
        self.assertEqual(said.returncode, 1)
        self.assertRegex(said.stderr, r"^verbatim_server: port 99999 .*\n$")

    def test_models_are_listed(self):
        self.assertEqual([m.id for m in self.client.models.list()], ["tiny"])
        self.assertEqual(self.client.models.retrieve("tiny").owned_by, "verbatim")

    def test_an_answer_is_the_same_again_and_what_the_batch_gives(self):
        first, second = self.chat(), self.chat()
        self.assertEqual(first.choices, second.choices)
        self.assertEqual(first.usage.completion_tokens, 24)
        line = {"messages": MESSAGES, "max_tokens": 24}
        out = subprocess.run([BUILD / "run", self.model, "--batch", "-"], input=json.dumps(line), text=True,
                             capture_output=True, check=True).stdout
        self.assertEqual(json.loads(out)["text"], first.choices[0].message.content)

    def test_chunks_make_the_answer(self):
        whole = self.chat(n=2, seed=5)
        texts, ends, usage = ["", ""], [None, None], None
        for chunk in self.chat(n=2, seed=5, stream=True, stream_options={"include_usage": True}):
            usage = chunk.usage or usage
            for choice in chunk.choices:
                texts[choice.index] += choice.delta.content or ""
                ends[choice.index] = choice.finish_reason or ends[choice.index]
        self.assertEqual(texts, [c.message.content for c in whole.choices])
        self.assertEqual(ends, [c.finish_reason for c in whole.choices])
        self.assertEqual(usage, whole.usage)

    def test_a_completion_streams(self):
        whole = self.client.completions.create(model="tiny", prompt="Tom", max_tokens=9)
        chunks = list(self.client.completions.create(model="tiny", prompt="Tom", max_tokens=9, stream=True))
        self.assertEqual("".join(c.choices[0].text for c in chunks), whole.choices[0].text)
        self.assertGreater(len(chunks), 3)

    def test_embeddings_come_as_the_client_asks(self):
        # The client asks for base64 and unpacks it unless it is told otherwise.
        packed = self.client.embeddings.create(model="tiny", input=["one", "two"], dimensions=8)
        plain = self.client.embeddings.create(model="tiny", input="one", dimensions=8, encoding_format="float")
        self.assertEqual([d.index for d in packed.data], [0, 1])
        self.assertEqual(len(plain.data[0].embedding), 8)
        for a, b in zip(packed.data[0].embedding, plain.data[0].embedding):
            self.assertEqual(struct.pack("<f", a), struct.pack("<f", b))
        self.assertAlmostEqual(sum(x * x for x in plain.data[0].embedding), 1, places=6)

    def test_results_of_a_batch_are_read_by_the_client(self):
        line = {"custom_id": "a", "method": "POST", "url": "/v1/embeddings",
                "body": {"model": "m", "input": "one", "encoding_format": "base64"}}
        out = subprocess.run([BUILD / "run", self.model, "--batch", "-", "--pooling", "mean"], text=True,
                             input=json.dumps(line), capture_output=True, check=True).stdout
        body = json.loads(out)["response"]["body"]
        read = openai.types.CreateEmbeddingResponse.model_validate(
            {**body, "data": [{**d, "embedding": list(struct.unpack(
                f"<{len(base64.b64decode(d['embedding'])) // 4}f", base64.b64decode(d["embedding"])))}
                for d in body["data"]]})
        asked = self.client.embeddings.create(model="m", input="one")
        self.assertEqual(read.data, asked.data)

    def test_many_at_once_get_what_each_gets_alone(self):
        prompts = [f"Number {i}" for i in range(12)]
        ask = lambda p: self.client.completions.create(model="tiny", prompt=p, max_tokens=12).choices[0].text
        alone = [ask(p) for p in prompts]
        with concurrent.futures.ThreadPoolExecutor(12) as pool:
            self.assertEqual(list(pool.map(ask, prompts)), alone)

    def test_a_wrong_request_is_told_what_is_wrong(self):
        with self.assertRaises(openai.BadRequestError) as caught:
            self.chat(extra_body={"temprature": 1})
        self.assertIn("did you mean 'temperature'", str(caught.exception))
        with self.assertRaises(openai.BadRequestError):
            list(self.chat(stream=True, temperature=-1))
        with self.assertRaises(openai.NotFoundError):
            self.client.images.generate(model="tiny", prompt="a fox")

    def test_a_client_that_goes_away_disturbs_nobody(self):
        stream = self.chat(stream=True)
        next(iter(stream))
        stream.close()
        self.assertEqual(self.chat(seed=1).choices, self.chat(seed=1).choices)

    def raw(self, headers, body):
        connection = http.client.HTTPConnection(self.url.split("/")[2], timeout=60)
        connection.request("POST", "/v1/completions", body, headers)
        status = connection.getresponse().status
        connection.close()
        return status

    def answers(self, data):
        """The status of each answer to bytes that a client sends, until the server closes."""
        host, port = self.url.split("/")[2].split(":")
        with socket.create_connection((host, int(port)), 60) as connection:
            connection.sendall(data)
            said = b"".join(iter(lambda: connection.recv(65536), b""))
        return [int(status) for status in re.findall(rb"HTTP/1\.1 ([0-9]+) ", said)]

    def test_a_body_is_no_next_request(self):
        # RFC 9112, 6.3 and 11.2: where it is unclear what the body is, the connection ends with the answer.
        hidden = b"GET /nowhere HTTP/1.1\r\nHost: localhost\r\n\r\n"
        get = b"GET /health HTTP/1.1\r\nHost: localhost\r\n"
        post = b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        size = b"Content-Length: %d\r\n" % len(hidden)
        body = b'{"prompt": "Tom", "max_tokens": 1}'
        short = b"Content-Length: %d\r\n" % len(body)
        close = b"Connection: close\r\n"
        self.assertEqual(self.answers(get + b"\r\n" + get + close + b"\r\n"), [200, 200])
        self.assertEqual(self.answers(post + short + b"\r\n" + body + post + short + close + b"\r\n" + body), [200, 200])
        self.assertEqual(self.answers(get + size + b"\r\n" + hidden), [200])
        self.assertEqual(self.answers(get + b"Transfer-Encoding: chunked\r\n\r\n" + hidden), [400])
        self.assertEqual(self.answers(post + short + b"Transfer-Encoding: chunked\r\n\r\n" + body + hidden), [400])
        self.assertEqual(self.answers(post + short + size + b"\r\n" + body + hidden), [400])
        # The reader of heads stops at a line that is none, and would miss the length behind it.
        for line in (b"no header\r\n", b"Content-Length : 5\r\n", b"X: a\r\n folded\r\n"):
            self.assertEqual(self.answers(get + line + size + b"\r\n" + hidden), [400], line)

    def test_pages_of_other_sites_are_refused(self):
        body = json.dumps({"prompt": "Tom", "max_tokens": 1})
        kind = {"Content-Type": "application/json"}
        self.assertEqual(self.raw(kind, body), 200)
        self.assertEqual(self.raw({**kind, "Host": "evil.example"}, body), 403)
        self.assertEqual(self.raw({"Content-Type": "text/plain"}, body), 415)
        # curl -d alone names this type, and so can a form of any page.
        url = self.url + "/completions"
        refused = urllib.request.Request(url, body.encode(), {"Content-Type": "application/x-www-form-urlencoded"})
        with self.assertRaises(urllib.error.HTTPError) as why:
            urllib.request.urlopen(refused)
        self.assertIn("curl -H 'Content-Type: application/json'", why.exception.read().decode())
        with self.assertRaises(urllib.error.HTTPError) as why:
            urllib.request.urlopen(self.url)
        self.assertIn("there are GET /v1/models and /health, POST /v1/chat/completions", why.exception.read().decode())
        self.assertEqual(self.raw(kind, "[1"), 400)
        self.assertEqual(self.raw(kind, "[1]"), 400)

    def test_what_the_program_cannot_read_is_answered(self):
        # Python's JSON takes these, the program's does not: their results have no id. Python makes 1e999 infinite.
        kind = {"Content-Type": "application/json"}
        for value, status in (("NaN", 400), ('"\\ud800"', 400), ("1e999", 400), ("9" * 30, 200)):
            self.assertEqual(self.raw(kind, '{"prompt": "Tom", "max_tokens": 1, "user": %s}' % value), status, value)
        self.assertEqual(self.raw(kind, '{"prompt": %s' % ("[" * 100000)), 400)
        self.assertEqual(self.raw(kind, '{"prompt": "Tom", "max_tokens": 1}'), 200)

    def test_what_python_cannot_parse_is_answered(self):
        kind = {"Content-Type": "application/json"}
        self.assertEqual(self.raw(kind, '{"prompt": %s%s}' % ("[" * 984, "]" * 984)), 400)
        self.assertEqual(self.raw(kind, '{"prompt": "Tom", "seed": %s}' % ("9" * 5000)), 400)
        self.assertEqual(self.raw(kind, '{"prompt": [%s]}' % ("1," * 2000000)), 400)
        self.assertEqual(self.raw({**kind, "Content-Length": "9" * 5000}, "{}"), 413)
        text = json.dumps({"prompt": 'a \\ " [ \\\\', "max_tokens": 1})  # ends and brackets that are none
        self.assertEqual(self.raw(kind, text), 200)

    def test_the_program_is_started_again(self):
        before = self.chat(seed=3)
        for path in pathlib.Path("/proc").glob("[0-9]*/stat"):
            try:
                parent = path.read_text().rpartition(")")[2].split()[1]
            except OSError:
                continue
            if int(parent) == self.server.pid:
                os.kill(int(path.parent.name), 9)
        self.assertEqual(self.chat(seed=3).choices, before.choices)


class Started(unittest.TestCase):
    def serve(self, *words, path=None):
        environment = {**os.environ, "PATH": path} if path else None
        return subprocess.run([HERE.parent.parent / "serve", *words], capture_output=True, text=True, timeout=30,
                              env=environment)

    def test_serve_starts_it_with_options_on_either_side(self):
        model = HERE.parent.parent / "models" / "stories.bin"
        words = [HERE.parent.parent / "serve", "--run", BUILD / "run", model, "-n", "3", "--port=0", "--name", "tales"]
        server = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
        try:
            client = openai.OpenAI(base_url=server.stdout.readline().strip(), api_key="none", max_retries=0)
            self.assertEqual([m.id for m in client.models.list()], ["tales"])
            self.assertEqual(client.completions.create(model="tales", prompt="Tom").usage.completion_tokens, 3)
            client.close()
        finally:
            server.terminate()
            server.wait(20)
            server.stdout.close()

    def test_serve_says_what_is_wrong(self):
        self.assertIn("usage: serve MODEL", self.serve("--help").stdout)
        for words, said in [([], "serve: no MODEL"), (["-n", "3"], "serve: -n stands before MODEL"),
                            (["m", "--port", "x"], "serve: port x"), (["m", "--port"], "--port needs a value"),
                            (["m", "--host", "0.0.0.0"], "loopback alone"), (["m", "--run", "nope"], "no program nope")]:
            done = self.serve(*words)
            self.assertIn(done.returncode, (1, 2))
            self.assertIn(said, done.stderr)
        with socket.create_server(("127.0.0.1", 0)) as taken:
            port = str(taken.getsockname()[1])
            said = f"serve: port {port}: Address already in use: --port 0 takes any that is free\n"
            self.assertEqual(self.serve("m", "--port", port).stderr, said)
        with tempfile.TemporaryDirectory() as folder:
            for tool in ("dirname", "readlink", "sh"):
                os.symlink(shutil.which(tool), folder + "/" + tool)
            self.assertRegex(self.serve("m", path=folder).stderr, "^serve: python3 is not installed.*--batch FILE")


class Ended(unittest.TestCase):
    def test_a_model_that_is_not_there_ends_the_server(self):
        server = subprocess.run([sys.executable, HERE / "verbatim_server.py", "--run", BUILD / "run", "--port", "0",
                                 "/nowhere.bin"], capture_output=True, text=True, timeout=30)
        self.assertEqual(server.returncode, 1)
        self.assertIn("/nowhere.bin", server.stderr)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        BUILD = pathlib.Path(sys.argv.pop(1)).resolve()
    os.environ.pop("VERBATIM_API_KEY", None)
    unittest.main()
