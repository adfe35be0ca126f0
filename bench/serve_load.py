"""Many streams and turns of one `prowess serve`, against a model on this machine that answers at once.

  python3 bench/serve_load.py --prowess target/release/prowess                    the load, with times from event to client
  python3 bench/serve_load.py --prowess target/release/prowess --kills 100        kill -9 at random moments, and start again

Each thread has streams and turns. A stream that breaks is resumed with the id of its last event. At the end every turn must have
ended, and every stream must have had every event of the log once, in order. Only loopback is used; everything stops by itself.
"""

import argparse
import asyncio
import json
import os
import random
import re
import resource
import signal
import sys
import tempfile
import time
from datetime import datetime

ANSWER = "The tide is high at noon, and low in the evening. ".split(" ")


async def model(reader, writer):
    """A model that streams one answer to each request. Every second turn it first calls a tool that needs no approval."""
    try:
        while True:
            head = await reader.readuntil(b"\r\n\r\n")
            length = int(re.search(rb"content-length: *(\d+)", head, re.I).group(1))
            body = json.loads(await reader.readexactly(length))
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n")

            def send(delta, reason=None):
                choice = {"index": 0, "delta": delta, "finish_reason": reason}
                writer.write(f"data: {json.dumps({'id': 'c', 'object': 'chat.completion.chunk', 'model': 'm', 'choices': [choice]})}\n\n".encode())

            last = body["messages"][-1]
            if last["role"] == "user" and "list" in str(last["content"]):
                todos = {"todos": [{"content": "Look", "status": "in_progress"}]}
                function = {"name": "write_todos", "arguments": json.dumps(todos)}
                send({"role": "assistant", "tool_calls": [{"index": 0, "id": f"call_{random.getrandbits(60)}", "type": "function", "function": function}]})
                send({}, "tool_calls")
            else:
                for word in ANSWER:
                    send({"content": word + " "})
                    await writer.drain()
                    await asyncio.sleep(0.02)
                send({}, "stop")
            usage = {"choices": [], "usage": {"prompt_tokens": 100, "completion_tokens": 10, "total_tokens": 110}}
            writer.write(f"data: {json.dumps(usage)}\n\ndata: [DONE]\n\n".encode())
            await writer.drain()
            writer.close()
            return
    except (asyncio.IncompleteReadError, ConnectionError):
        writer.close()


class Server:
    """`prowess serve`, started again after a kill on the same port."""

    def __init__(self, program, home, database, turns):
        self.program, self.home, self.database, self.turns = program, home, database, turns
        self.port, self.process, self.memory = 0, None, []

    def environment(self):
        environment = {"HOME": self.home, "PATH": os.environ["PATH"]}
        if self.database:
            environment["PROWESS_DATABASE"] = self.database
        return environment

    async def start(self):
        arguments = ["serve", "--listen", f"127.0.0.1:{self.port}", "--lease", "2", "--turns", str(self.turns), "--streams", "8000"]
        self.process = await asyncio.create_subprocess_exec(
            self.program, *arguments, env=self.environment(), cwd=self.home, stderr=asyncio.subprocess.PIPE)
        while True:
            line = (await asyncio.wait_for(self.process.stderr.readline(), 60)).decode()
            found = re.search(r"http://127\.0\.0\.1:(\d+) ·", line)
            if found:
                self.port = int(found.group(1))
                break
            if not line:
                raise SystemExit("the server did not start")
        asyncio.get_running_loop().create_task(self.drain(self.process))

    async def drain(self, process):
        while line := await process.stderr.readline():
            if b"ERROR" in line:
                print("server:", line.decode().strip()[:300], file=sys.stderr)

    def kill(self):
        self.process.send_signal(signal.SIGKILL)

    def resident(self):
        with open(f"/proc/{self.process.pid}/status") as status:
            return int(re.search(r"VmRSS:\s+(\d+)", status.read()).group(1)) / 1024

    def processor(self):
        with open(f"/proc/{self.process.pid}/stat") as stat:
            fields = stat.read().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


async def request(server, token, method, path, body=None):
    """A request; tried again while the server is away."""
    for _ in range(400):
        try:
            reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
            data = json.dumps(body).encode() if body is not None else b""
            head = f"{method} /api/v1{path} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {token}\r\ncontent-type: application/json\r\n"
            writer.write(f"{head}content-length: {len(data)}\r\nconnection: close\r\n\r\n".encode() + data)
            answer = await asyncio.wait_for(reader.read(), 60)
            writer.close()
            if not answer:
                raise ConnectionError
            head, _, rest = answer.partition(b"\r\n\r\n")
            status = int(head.split(b" ")[1])
            if b"transfer-encoding: chunked" in head.lower():
                parts = []
                while rest:
                    size, _, rest = rest.partition(b"\r\n")
                    parts.append(rest[:int(size, 16)])
                    rest = rest[int(size, 16) + 2:]
                rest = b"".join(parts)
            return status, json.loads(rest) if rest else None
        except (ConnectionError, OSError, asyncio.TimeoutError):
            await asyncio.sleep(0.05)
    raise SystemExit("the server did not come back")


class Watcher:
    """One stream of one thread, resumed whenever it breaks."""

    def __init__(self, server, token, thread, delays):
        self.server, self.token, self.thread, self.delays = server, token, thread, delays
        self.numbers, self.ended, self.changed = [], 0, asyncio.Event()

    async def run(self):
        while True:
            try:
                await self.follow()
            except (ConnectionError, OSError, asyncio.IncompleteReadError, ValueError):
                pass
            await asyncio.sleep(0.05)

    async def follow(self):
        reader, writer = await asyncio.open_connection("127.0.0.1", self.server.port, limit=1 << 22)
        last = self.numbers[-1] if self.numbers else 0
        head = f"GET /api/v1/threads/{self.thread}/events HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {self.token}\r\nlast-event-id: {last}\r\n\r\n"
        writer.write(head.encode())
        try:
            answer = await reader.readuntil(b"\r\n\r\n")
            if b" 200 " not in answer.split(b"\r\n")[0]:
                raise ConnectionError(answer)
            text = b""
            while True:
                size = int((await reader.readline()).strip() or b"0", 16)
                if size == 0:
                    raise ConnectionError
                text += await reader.readexactly(size)
                await reader.readexactly(2)
                *events, text = text.split(b"\n\n")
                for event in events:
                    self.note(event)
        finally:
            writer.close()

    def note(self, event):
        fields = dict(line.split(b": ", 1) for line in event.split(b"\n") if b": " in line)
        if b"id" not in fields:
            return
        number = int(fields[b"id"])
        expected = self.numbers[-1] + 1 if self.numbers else 1
        if number != expected:
            raise SystemExit(f"thread {self.thread}: event {number} came after {expected - 1}")
        self.numbers.append(number)
        data = json.loads(fields[b"data"])
        stored = datetime.fromisoformat(data["at"].replace("Z", "+00:00")).timestamp()
        self.delays.append(max(0.0, time.time() - stored))
        if data["type"] == "turn_ended":
            self.ended += 1
            if data["outcome"] not in ("answered", "cancelled"):
                print(f"thread {self.thread}: {data}", file=sys.stderr)
        self.changed.set()


async def converse(server, token, watcher, until, statistics):
    """Turn after turn, until the time is over."""
    said = 0
    while time.time() < until or said == 0:
        said += 1
        text = "Make a list." if said % 2 else "And the tide?"
        body = {"text": text, "mode": "queue", "id": f"m{random.getrandbits(64):016x}"}
        status, answer = await request(server, token, "POST", f"/threads/{watcher.thread}/turns", body)
        if status != 202:
            statistics["errors"] += 1
            print(status, answer, file=sys.stderr)
        deadline = time.time() + 120
        while watcher.ended < said:
            if time.time() > deadline:
                raise SystemExit(f"thread {watcher.thread}: turn {said} did not end")
            watcher.changed.clear()
            try:
                await asyncio.wait_for(watcher.changed.wait(), 5)
            except asyncio.TimeoutError:
                pass
        statistics["turns"] += 1


def percentile(values, part):
    values = sorted(values)
    return values[min(len(values) - 1, int(len(values) * part))] * 1000 if values else 0.0


async def main():
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--prowess", required=True)
    arguments.add_argument("--database", help="the URL of PostgreSQL, instead of SQLite")
    arguments.add_argument("--streams", type=int, default=1000)
    arguments.add_argument("--turns", type=int, default=200)
    arguments.add_argument("--seconds", type=int, default=300)
    arguments.add_argument("--kills", type=int, default=0)
    options = arguments.parse_args()
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 65536), hard))
    with tempfile.TemporaryDirectory() as home:
        answering = await asyncio.start_server(model, "127.0.0.1", 0, limit=1 << 24)
        port = answering.sockets[0].getsockname()[1]
        os.makedirs(f"{home}/.config/prowess")
        with open(f"{home}/.config/prowess/prowess.toml", "w") as file:
            file.write(f'[model]\nname = "fake:m"\ncontext_window = 100000\n[provider.fake]\napi = "openai"\nbase_url = "http://127.0.0.1:{port}/v1"\n')
        server = Server(os.path.abspath(options.prowess), home, options.database, options.turns)
        await server.start()
        made = await asyncio.create_subprocess_exec(
            server.program, "serve", "token", "add", "admin", env=server.environment(), cwd=home,
            stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.DEVNULL)
        tokens = [(await made.communicate())[0].decode().strip()]
        # Several users: one may not make so many requests.
        for number in range(1, 8):
            for words in (["user", "add", f"u{number}"], ["token", "add", f"u{number}"]):
                made = await asyncio.create_subprocess_exec(
                    server.program, "serve", *words, env=server.environment(), cwd=home,
                    stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.DEVNULL)
                out = (await made.communicate())[0].decode().strip()
            tokens.append(out)
        delays, watchers, statistics = [], [], {"turns": 0, "errors": 0}
        for number in range(options.turns):
            token = tokens[number % len(tokens)]
            status, thread = await request(server, token, "POST", "/threads", {})
            assert status == 201, thread
            watchers.append(Watcher(server, token, thread["id"], delays))
        more = [Watcher(server, watchers[number % options.turns].token, watchers[number % options.turns].thread, delays)
                for number in range(max(0, options.streams - options.turns))]
        following = [asyncio.create_task(watcher.run()) for watcher in watchers + more]
        until = 0 if options.kills else time.time() + options.seconds
        turns = [asyncio.create_task(converse(server, watcher.token, watcher, until, statistics)) for watcher in watchers]
        memory, begun = [], time.time()

        async def kill():
            for number in range(options.kills):
                await asyncio.sleep(random.uniform(0.2, 2.5))
                server.kill()
                await server.process.wait()
                await server.start()

        async def measure():
            while True:
                await asyncio.sleep(5)
                try:
                    memory.append(server.resident())
                except (OSError, AttributeError):
                    pass

        measuring = asyncio.create_task(measure())
        if options.kills:
            killing = asyncio.create_task(kill())
            until_killed = asyncio.gather(killing)
            # The conversations go on as long as the kills.
            while not killing.done():
                done, _ = await asyncio.wait([*turns, killing], timeout=5, return_when=asyncio.FIRST_EXCEPTION)
                for one in done:
                    one.result()
                turns = [task if not task.done() else asyncio.create_task(
                    converse(server, watcher.token, Counted(watcher), 0, statistics)) for task, watcher in zip(turns, watchers)]
            await until_killed
        await asyncio.gather(*turns)
        took, used = time.time() - begun, server.processor()
        measuring.cancel()
        # Every stream has every event of its log.
        for watcher in watchers + more:
            status, log = await request(server, watcher.token, "GET", f"/threads/{watcher.thread}/log?limit=1")
            for _ in range(400):
                if watcher.numbers and watcher.numbers[-1] == log["last"]:
                    break
                await asyncio.sleep(0.05)
            assert watcher.numbers == list(range(1, log["last"] + 1)), watcher.thread
        for one in following:
            one.cancel()
        server.process.send_signal(signal.SIGTERM)
        await asyncio.wait_for(server.process.wait(), 60)
        answering.close()
    events = len(delays)
    print(f"{len(watchers) + len(more)} streams, {options.turns} threads, {took:.0f} s, {options.kills} kills")
    print(f"turns {statistics['turns']}, errors {statistics['errors']}, events {events} ({events / took:.0f} a second)")
    print(f"from event to client: p50 {percentile(delays, .5):.1f} ms, p95 {percentile(delays, .95):.1f} ms, p99 {percentile(delays, .99):.1f} ms")
    if memory and not options.kills:
        half = len(memory) // 2
        print(f"memory: {max(memory[:half] or memory):.0f} MiB at most in the first half, {max(memory[half:]):.0f} in the second")
        print(f"CPU: {used / max(1, statistics['turns']) * 1000:.1f} ms for a turn")
    if statistics["errors"]:
        sys.exit(1)


class Counted:
    """The same watcher, whose turns are counted from here."""

    def __init__(self, watcher):
        self.watcher, self.before = watcher, watcher.ended
        self.thread, self.token, self.changed = watcher.thread, watcher.token, watcher.changed

    @property
    def ended(self):
        return self.watcher.ended - self.before


if __name__ == "__main__":
    asyncio.run(main())
