"""Processes: PostgreSQL, a server of S3's protocol, and any number of `prowess serve`."""

import asyncio
import os
import re
import signal
import socket
import subprocess
import sys
from pathlib import Path

SCRIPTS = Path(__file__).resolve().parents[2] / "scripts"
KEYS = {"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test", "AWS_REGION": "us-east-1", "AWS_ALLOW_HTTP": "true"}
# How long a process may take until it answers, in seconds.
PATIENCE = 60


def free_port():
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


def script(*words, environment=None):
    """The variables that a script prints."""
    ran = subprocess.run([SCRIPTS / words[0], *words[1:]], capture_output=True, text=True, timeout=300,
                         env={**os.environ, **(environment or {})})
    if ran.returncode:
        raise SystemExit(f"{' '.join(words)} failed:\n{ran.stderr[-2000:]}")
    return dict(re.findall(r"^export (\w+)='(.*)'$", ran.stdout, re.M))


class Postgres:
    """The PostgreSQL of scripts/test-postgres.sh, and a pooler in front of it if one is wanted."""

    def __enter__(self):
        self.url = script("test-postgres.sh", "start")["PROWESS_TEST_POSTGRES"]
        self.directory = Path(re.search(r"host=([^&]*)", self.url).group(1))
        self.port = int(re.search(r"port=(\d+)", self.url).group(1))
        self.pooler_url, self.restarts = None, 0
        return self

    def __exit__(self, *_):
        if self.pooler_url:
            script("test-pgbouncer.sh", "stop")
        script("test-postgres.sh", "stop")

    def through(self, port):
        """The address at another port of this machine, such as that of a proxy."""
        return f"postgres://prowess@127.0.0.1:{port}/prowess?sslmode=disable"

    def start_pooler(self, connections):
        variables = {"PROWESS_TEST_POSTGRES": self.url, "PROWESS_TEST_PGBOUNCER_POOL": str(connections)}
        self.pooler_url = script("test-pgbouncer.sh", "start", environment=variables)["PROWESS_TEST_PGBOUNCER"]

    async def restart(self, mode):
        """Restarts the server. `immediate` is like a crash: the server recovers from its log."""
        await asyncio.to_thread(script, "test-postgres.sh", "restart", mode)
        self.restarts += 1

    def ask(self, statement, url=None):
        """The rows that a statement returns, as lists of texts."""
        ran = subprocess.run(["psql", "--no-psqlrc", "-X", "-q", "-A", "-t", "-F", "\t", "-c", statement, url or self.url],
                             capture_output=True, text=True, timeout=60)
        if ran.returncode:
            raise SystemExit(f"{statement}: {ran.stderr}")
        return [line.split("\t") for line in ran.stdout.splitlines()]

    def processor(self):
        """The CPU seconds of the server and of all its processes that live, and of those that ended."""
        postmaster = int((self.directory / "data" / "postmaster.pid").read_text().split()[0])
        return processor(postmaster, with_ended=True) + sum(processor(child) for child in children(postmaster))


def children(process):
    try:
        return [int(child) for child in Path(f"/proc/{process}/task/{process}/children").read_text().split()]
    except OSError:
        return []


def processor(process, with_ended=False):
    """The CPU seconds of a process, and of its children that ended."""
    try:
        fields = Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()
    except OSError:
        return 0.0
    return sum(map(int, fields[11:15 if with_ended else 13])) / os.sysconf("SC_CLK_TCK")


def configuration(model, witness):
    """The prowess.toml of every process."""
    text = f'[model]\nname = "fake:m"\ncontext_window = 100000\n[provider.fake]\napi = "openai"\nbase_url = "{model}"\n'
    if witness:
        text += f'[mcp.witness]\nurl = "{witness}"\n'
        text += '[permission]\nwrite = "allow"\n[permission.mcp]\n"witness *" = "allow"\n"witness ask" = "ask"\n'
    return text


class Process:
    """A `prowess serve` with a home of its own, as if it were on a machine of its own. It keeps its port when it is started again.

    Without a role, it gets no option `--role`: that is the one process that every version has.
    """

    def __init__(self, cluster, program, role, number, options):
        self.cluster, self.program, self.role, self.name = cluster, program, role, f"{role or 'serve'}-{number}"
        self.home, self.port, self.process = cluster.directory / self.name, free_port(), None
        self.options, self.starts, self.used = options, 0, 0.0
        (self.home / ".config" / "prowess").mkdir(parents=True, exist_ok=True)
        (self.home / ".config" / "prowess" / "prowess.toml").write_text(cluster.configuration)

    @property
    def environment(self):
        return {"HOME": str(self.home), "PATH": os.environ["PATH"], "NO_COLOR": "1", **self.cluster.variables}

    async def start(self):
        role = ["--role", self.role] if self.role else []
        listen = ["--listen", f"127.0.0.1:{self.port}"]
        log = open(self.home / "log", "ab")
        self.process = await asyncio.create_subprocess_exec(
            self.program, "serve", *role, *listen, *self.options, env=self.environment, cwd=self.home,
            stdin=asyncio.subprocess.DEVNULL, stdout=log, stderr=log)
        log.close()
        self.starts += 1

    async def answers(self, path="/healthz", patience=PATIENCE):
        """Waits until the process answers."""
        end = asyncio.get_running_loop().time() + patience
        while asyncio.get_running_loop().time() < end:
            if self.process.returncode is not None:
                raise SystemExit(f"{self.name} ended with {self.process.returncode}:\n{self.last_words()}")
            status, _ = await plain_get(self.port, path)
            if status == 200:
                return
            await asyncio.sleep(0.05)
        raise SystemExit(f"{self.name} did not answer {path}:\n{self.last_words()}")

    async def metrics(self):
        """The numbers of /metrics, by name and labels."""
        status, text = await plain_get(self.port, "/metrics")
        if status != 200:
            return {}
        return {name: float(value) for name, value in re.findall(r"^(\w+(?:\{[^}]*\})?) ([\d.e+-]+)$", text, re.M)}

    def last_words(self):
        return (self.home / "log").read_text(errors="replace")[-2000:]

    def processor(self):
        return processor(self.process.pid) if self.process and self.process.returncode is None else 0.0

    async def kill(self):
        self.process.send_signal(signal.SIGKILL)
        await self.process.wait()

    async def stop(self, patience=PATIENCE):
        """Asks the process to hand its threads over and to end. Returns its exit code."""
        if self.process.returncode is None:
            self.process.send_signal(signal.SIGTERM)
        return await asyncio.wait_for(self.process.wait(), patience)

    async def command(self, *words, check=True):
        """Runs another command of the program with the same database. Returns what it prints."""
        ran = await asyncio.create_subprocess_exec(
            self.program, *words, env=self.environment, cwd=self.home, stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE)
        out, error = await asyncio.wait_for(ran.communicate(), 60)
        if check and ran.returncode:
            raise SystemExit(f"prowess {' '.join(words)} failed: {error.decode()[-1000:]}")
        return out.decode().strip()


async def plain_get(port, path):
    """The status and the text of an answer that needs no token; 0 if nobody answers."""
    try:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(f"GET {path} HTTP/1.1\r\nhost: 127.0.0.1:{port}\r\nconnection: close\r\n\r\n".encode())
        answer = await asyncio.wait_for(reader.read(), 10)
        writer.close()
        head, _, body = answer.partition(b"\r\n\r\n")
        return int(head.split(b" ")[1]), body.decode()
    except (OSError, asyncio.TimeoutError, IndexError, ValueError):
        return 0, ""


class Cluster:
    """Processes on one database."""

    def __init__(self, directory, configuration_text, variables):
        self.directory, self.configuration, self.variables = Path(directory), configuration_text, variables
        self.webs, self.workers = [], []

    def add(self, program, role, number, *options):
        process = Process(self, os.path.abspath(program), role, number, list(options))
        (self.workers if role == "worker" else self.webs).append(process)
        return process

    @property
    def processes(self):
        return self.webs + self.workers

    async def start(self):
        """Starts them all at the same time, so that migrations happen among starting processes."""
        await asyncio.gather(*(process.start() for process in self.processes))
        await asyncio.gather(*(process.answers() for process in self.processes))

    async def stop(self):
        """Asks all processes to end, and ends those that do not."""
        alive = [process for process in self.processes if process.process and process.process.returncode is None]
        stopped = await asyncio.gather(*(process.stop() for process in alive), return_exceptions=True)
        for process, code in zip(alive, stopped):
            if isinstance(code, Exception):
                print(f"{process.name} did not stop in time", file=sys.stderr)
                await process.kill()

    def kill_all(self):
        """Leaves nothing behind, whatever happened."""
        for process in self.processes:
            if process.process and process.process.returncode is None:
                process.process.kill()

    async def users(self, count):
        """Tokens of this many users. One user may not make so many requests, or run so many threads."""
        web = self.webs[0]
        tokens = [await web.command("serve", "token", "add", "admin")]
        for number in range(1, count):
            await web.command("serve", "user", "add", f"u{number}")
            tokens.append(await web.command("serve", "token", "add", f"u{number}"))
        return tokens
