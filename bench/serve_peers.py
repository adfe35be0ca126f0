"""The CPU time of a turn on `prowess serve`, and on two servers with an agent of deepagents, in one run: LangGraph's own, which keeps
threads in memory, and Aegra, which keeps them in PostgreSQL.

  make bench-serve-peers

All servers get the same model on this machine, the same skills and the same conversation: a message, a call of `write_todos`, an
answer of 50 words that a client watches while it comes, and a second message with such an answer. The CPU time is that of the
server and its children, and in a column of its own that of PostgreSQL. The first conversations do not count, and neither does
starting.

Advantages of the peers: LangGraph's server stores nothing on the disk, while prowess stores every step. Their clients ask for the
messages only, while the client of prowess gets all events of the log too.
"""

import argparse
import asyncio
import json
import os
import random
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from serve_load import Server, model, request

# A turn of prowess must take at least so many times less.
BAR = 20
SKILLS = Path(__file__).resolve().parent.parent / "examples" / "skills"
SAID = ["Make a list.", "And the tide?"]

GRAPH = '''
import os
from deepagents import create_deep_agent
from deepagents.backends.filesystem import FilesystemBackend
from langchain_openai import ChatOpenAI

graph = create_deep_agent(
    model=ChatOpenAI(model="m", base_url=os.environ["MODEL_URL"], api_key="none", streaming=True, stream_usage=True),
    skills=["/"],
    backend=FilesystemBackend(root_dir=os.environ["SKILLS"], virtual_mode=True),
)
'''


def processes(root: int) -> list[int]:
    """A process and all that it started."""
    found, parents = [root], {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                with open(f"/proc/{name}/stat") as stat:
                    parents.setdefault(int(stat.read().rsplit(")", 1)[1].split()[1]), []).append(int(name))
            except OSError:
                pass
    for process in found:
        found.extend(parents.get(process, []))
    return found


def processor(root: int) -> float:
    """The seconds of CPU time that a process and its children have used."""
    used = 0
    for process in processes(root):
        try:
            with open(f"/proc/{process}/stat") as stat:
                # Its own time, and that of children that ended.
                used += sum(int(field) for field in stat.read().rsplit(")", 1)[1].split()[11:15])
        except OSError:
            pass
    return used / os.sysconf("SC_CLK_TCK")


async def http(port, method, path, body, read, token=None):
    """A request whose response `read` looks at, chunk by chunk."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1 << 24)
    data = json.dumps(body).encode()
    bearer = f"authorization: Bearer {token}\r\n" if token else ""
    head = f"{method} {path} HTTP/1.1\r\nhost: 127.0.0.1:{port}\r\n{bearer}content-type: application/json\r\ncontent-length: {len(data)}\r\n"
    writer.write(f"{head}connection: close\r\n\r\n".encode() + data)
    try:
        answer = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), 60)
        status = int(answer.split(b" ")[1])
        if status >= 300:
            raise SystemExit(f"{method} {path}: {status} {await reader.read()}")
        if b"transfer-encoding: chunked" not in answer.lower():
            read(await reader.read())
            return
        while size := int((await reader.readline()).strip() or b"0", 16):
            if read(await reader.readexactly(size)):
                return
            await reader.readexactly(2)
    finally:
        writer.close()


class Peer:
    """A server with an agent of deepagents, and the API of LangGraph's platform."""

    name: str
    health: str

    def __init__(self, home: str, program: Path, model_port: int, database: str | None):
        self.home, self.program, self.model_port, self.database = home, program, model_port, database

    def command(self) -> list[str]:
        """The arguments of the program."""
        raise NotImplementedError

    def variables(self) -> dict[str, str]:
        """What its environment has besides."""
        return {}

    async def start(self):
        with socket.socket() as found:
            found.bind(("127.0.0.1", 0))
            self.port = found.getsockname()[1]
        Path(self.home, "graph.py").write_text(GRAPH)
        Path(self.home, "langgraph.json").write_text(json.dumps({"name": "bench", "dependencies": ["."], "graphs": {"agent": "./graph.py:graph"}}))
        environment = {
            "HOME": self.home, "PATH": f"{self.program.parent}:{os.environ['PATH']}", "MODEL_URL": f"http://127.0.0.1:{self.model_port}/v1",
            "SKILLS": str(SKILLS), "LANGSMITH_TRACING": "false", "LOG_LEVEL": "ERROR", **self.variables(),
        }
        # The output would be more work than the turns.
        self.log = open(f"{self.home}/log", "wb")
        self.process = await asyncio.create_subprocess_exec(
            self.program, *self.command(),
            cwd=self.home, env=environment, stdout=self.log, stderr=self.log, start_new_session=True)
        for _ in range(600):
            try:
                seen = []
                await http(self.port, "GET", self.health, {}, lambda data: seen.append(data) and None)
                return
            except (OSError, asyncio.IncompleteReadError):
                pass
            if self.process.returncode is not None:
                break
            await asyncio.sleep(0.1)
        raise SystemExit(f"{self.name} did not start: {Path(self.home, 'log').read_text()[-2000:]}")

    async def converse(self):
        made = []
        await http(self.port, "POST", "/threads", {}, made.append)
        thread = json.loads(b"".join(made))["thread_id"]
        for said in SAID:
            seen = []
            body = {"assistant_id": "agent", "input": {"messages": [{"role": "user", "content": said}]}, "stream_mode": ["messages-tuple"]}
            await http(self.port, "POST", f"/threads/{thread}/runs/stream", body, lambda data: seen.append(data) and None)
            text = b"".join(seen)
            if b"evening" not in text or b"event: error" in text:
                raise SystemExit(f"the peer did not answer: {text[-600:]}")

    async def stop(self):
        os.killpg(self.process.pid, signal.SIGTERM)
        await asyncio.wait_for(self.process.wait(), 60)
        self.log.close()

    pid = property(lambda self: self.process.pid)


class LangGraph(Peer):
    name, health = "langgraph, in memory", "/ok"

    def command(self):
        return ["dev", "--no-browser", "--no-reload", "--port", str(self.port), "--host", "127.0.0.1", "--n-jobs-per-worker", "8"]

    def variables(self):
        return {"LANGGRAPH_CLI_NO_ANALYTICS": "1"}


class Aegra(Peer):
    name, health = "aegra, PostgreSQL", "/health"

    def command(self):
        return ["serve", "--config", "langgraph.json", "--host", "127.0.0.1", "--port", str(self.port)]

    def variables(self):
        return {"DATABASE_URL": self.database, "AUTH_TYPE": "noop"}


class Postgres:
    """The PostgreSQL of the tests, in a cluster of its own."""

    def __init__(self, script: Path):
        self.script = script

    def __enter__(self):
        said = subprocess.run([self.script, "start"], check=True, capture_output=True, text=True).stdout
        self.url = re.search(r"PROWESS_TEST_POSTGRES='?(postgres://[^'\n]*)", said)[1]
        self.directory = re.search(r"host=([^&]*)", self.url)[1]
        self.port = re.search(r"port=(\d+)", self.url)[1]
        self.user = re.search(r"//([^@]*)@", self.url)[1]
        # The first line of this file is the process.
        self.pid = int(self.ask("SELECT pg_read_file('postmaster.pid')").split()[0])
        return self

    def __exit__(self, *_):
        subprocess.run([self.script, "stop"], check=True, capture_output=True)

    def ask(self, statement: str) -> str:
        command = ["psql", "-h", self.directory, "-p", self.port, "-U", self.user, "-d", "prowess", "-XAtqc", statement]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout

    def new(self, name: str) -> str:
        """Makes a database. Returns how a program finds it at the socket."""
        self.ask(f"CREATE DATABASE {name}")
        return f"{self.user}@/{name}?host={self.directory}&port={self.port}"


class Ours(Server):
    """`prowess serve`."""

    async def sign_in(self):
        made = await asyncio.create_subprocess_exec(
            self.program, "serve", "token", "add", "admin", env=self.environment(), cwd=self.home,
            stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.DEVNULL)
        self.token = (await made.communicate())[0].decode().strip()

    async def converse(self):
        _, thread = await request(self, self.token, "POST", "/threads", {})
        path = f"/threads/{thread['id']}"
        ended = asyncio.Semaphore(0)
        text = b""

        def read(data):
            nonlocal text
            text += data
            *events, text = text.split(b"\n\n")
            for event in events:
                if b"event: turn_ended" in event or b'"type":"turn_ended"' in event:
                    if b"answered" not in event:
                        raise SystemExit(f"prowess did not answer: {event}")
                    ended.release()

        watching = asyncio.create_task(http(self.port, "GET", f"/api/v1{path}/events", {}, read, self.token))
        for said in SAID:
            body = {"text": said, "mode": "queue", "id": f"m{random.getrandbits(64):016x}"}
            status, answer = await request(self, self.token, "POST", f"{path}/turns", body)
            if status != 202:
                raise SystemExit(f"prowess refused a message: {answer}")
            waiting = asyncio.create_task(ended.acquire())
            await asyncio.wait([waiting, watching], timeout=60, return_when=asyncio.FIRST_COMPLETED)
            if not waiting.done():
                raise SystemExit(f"the stream ended: {watching}")
        watching.cancel()

    async def stop(self):
        self.process.send_signal(signal.SIGTERM)
        await asyncio.wait_for(self.process.wait(), 60)

    pid = property(lambda self: self.process.pid)


async def measure(server, database: int | None, conversations: int, at_once: int) -> tuple[float, float, float]:
    """The milliseconds of CPU time for a turn, those of the database, and how long a turn takes."""
    used = lambda: (processor(server.pid), processor(database) if database else 0)
    await server.converse()
    await server.converse()
    before, begun = used(), time.time()
    room = asyncio.Semaphore(at_once)

    async def one():
        async with room:
            await server.converse()

    await asyncio.gather(*(one() for _ in range(conversations)))
    turns = conversations * len(SAID)
    own, stored = (((now - then) / turns * 1000) for now, then in zip(used(), before))
    return own, stored, (time.time() - begun) / turns * at_once * 1000


async def main():
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--prowess", required=True)
    arguments.add_argument("--langgraph", required=True, type=Path, help="the program langgraph, in a virtual environment")
    arguments.add_argument("--aegra", required=True, type=Path, help="the program aegra, in a virtual environment")
    arguments.add_argument("--postgres", required=True, type=Path, help="the script that starts and stops a PostgreSQL")
    arguments.add_argument("--conversations", type=int, default=60)
    arguments.add_argument("--at-once", type=int, default=4)
    options = arguments.parse_args()
    answering = await asyncio.start_server(model, "127.0.0.1", 0, limit=1 << 24)
    port = answering.sockets[0].getsockname()[1]

    async def ours(database: str | None, process: int | None):
        with tempfile.TemporaryDirectory() as home:
            os.makedirs(f"{home}/.config/prowess")
            Path(f"{home}/.config/prowess/prowess.toml").write_text(
                f'[model]\nname = "fake:m"\ncontext_window = 100000\n[provider.fake]\napi = "openai"\nbase_url = "http://127.0.0.1:{port}/v1"\n')
            shutil.copytree(SKILLS, f"{home}/.prowess/skills")
            server = Ours(os.path.abspath(options.prowess), home, database, 16)
            await server.start()
            await server.sign_in()
            measured = await measure(server, process, options.conversations, options.at_once)
            await server.stop()
            return measured

    async def theirs(kind: type[Peer], program: Path, database: str | None, process: int | None):
        with tempfile.TemporaryDirectory() as home:
            peer = kind(home, program.absolute(), port, database)
            await peer.start()
            measured = await measure(peer, process, options.conversations, options.at_once)
            await peer.stop()
            return measured

    rows = {}
    with Postgres(options.postgres) as postgres:
        rows["prowess, SQLite"] = await ours(None, None)
        rows[LangGraph.name] = await theirs(LangGraph, options.langgraph, None, None)
        rows["prowess, PostgreSQL"] = await ours("postgres://" + postgres.new("ours"), postgres.pid)
        rows[Aegra.name] = await theirs(Aegra, options.aegra, "postgresql://" + postgres.new("theirs"), postgres.pid)
    answering.close()
    turns = options.conversations * len(SAID)
    print(f"{turns} turns each, {options.at_once} conversations at once")
    print(f"{'':24} {'CPU for a turn':>16} {'of PostgreSQL':>16} {'time of a turn':>16}")
    for name, (own, stored, took) in rows.items():
        print(f"{name:24} {own:13.1f} ms {stored:13.1f} ms {took:13.0f} ms")
    factors = []
    for our, their in (("prowess, SQLite", LangGraph.name), ("prowess, PostgreSQL", Aegra.name)):
        factors.append(rows[their][0] / rows[our][0])
        print(f"{our}: {factors[-1]:.1f} times less CPU time than {their}, at least {BAR} wanted")
    if min(factors) < BAR:
        sys.exit(1)


if __name__ == "__main__":
    asyncio.run(main())
