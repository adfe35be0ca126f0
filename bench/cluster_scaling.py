"""Turns per second with 1, 2, 4 and 8 workers on one PostgreSQL, and what a step costs the database.

  python3 bench/cluster_scaling.py --prowess target/release/prowess

A worker is one process with 8 turns at once. A response of the model takes 500 ms. A step is one model call with the tool calls of
its response; a turn has `--steps` of them. For each number of workers, threads with a message each are queued first, then the
workers start. A measurement begins when the workers are busy, and ends while threads still wait.

The last row goes through PgBouncer, which counts queries and bytes. Only loopback is used; everything stops by itself.
"""

import argparse
import asyncio
import collections
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from urllib.parse import urlsplit

from cluster.client import Api, Watcher
from cluster.processes import Cluster, Postgres, configuration, plain_get

# A user may have 200 messages that wait.
WAITING = 200
HERE = Path(__file__).resolve().parent


class ModelProcess:
    """The model as a process of its own, so that the clients of this program do not slow it down."""

    def __init__(self, delay):
        self.process = subprocess.Popen([sys.executable, "-m", "cluster.model", str(delay)], cwd=HERE, text=True,
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.url = self.process.stdout.readline().strip()

    async def counts(self):
        status, text = await plain_get(urlsplit(self.url).port, "/")
        if status != 200:
            raise SystemExit("the model does not answer")
        return json.loads(text)

    def stop(self):
        self.process.stdin.close()
        self.process.wait(10)


def machine():
    """The seconds for which all cores were busy, and for which they were idle."""
    fields = list(map(int, Path("/proc/stat").read_text().splitlines()[0].split()[1:9]))
    idle = fields[3] + fields[4]
    return (sum(fields) - idle) / os.sysconf("SC_CLK_TCK"), idle / os.sysconf("SC_CLK_TCK")


class Sample:
    """Everything that is measured, at one moment."""

    def __init__(self):
        self.values = collections.Counter()

    @classmethod
    async def take(cls, cluster, postgres, model):
        sample, values = cls(), {}
        values["time"] = time.monotonic()
        counts = await model.counts()
        values["steps"], values["turns"], values["model CPU"] = counts["calls"], counts["turns"], counts["cpu"]
        values["PostgreSQL CPU"] = postgres.processor()
        values["worker CPU"] = sum(process.processor() for process in cluster.workers)
        values["web CPU"] = sum(process.processor() for process in cluster.webs)
        values["own CPU"] = time.process_time()
        values["busy"], values["idle"] = machine()
        transactions, wal = postgres.ask("SELECT xact_commit, pg_current_wal_lsn() - '0/0' FROM pg_stat_database WHERE datname = 'prowess'")[0]
        values["transactions"], values["WAL"] = int(transactions), float(wal)
        for name in ("statements", "round_trips", "errors"):
            metrics = await asyncio.gather(*(process.metrics() for process in cluster.workers))
            values[name] = sum(one.get(f"prowess_database_{name}_total", float("nan")) for one in metrics)
        if postgres.pooler_url:
            stats = postgres.ask("SHOW STATS", postgres.pooler_url.replace("/prowess?", "/pgbouncer?"))
            rows = [list(map(int, row[1:5])) for row in stats if row[0] == "prowess"]
            values["pooled queries"], values["pooled bytes"] = (rows[0][1], rows[0][2] + rows[0][3]) if rows else (0, 0)
        sample.values = values
        return sample

    def since(self, before):
        return {name: value - before.values.get(name, 0) for name, value in self.values.items()}


async def measure(options, postgres, directory, workers, is_pooled):
    """What happened in the seconds of the measurement."""
    model = ModelProcess(options.delay)
    variables = {"PROWESS_DATABASE": postgres.through(postgres.port)}
    # Without an object store, all processes of a server share a directory.
    # There are few users, so each may have all turns.
    common = ["--turns", str(options.turns), "--turns-per-user", "1000", "--streams", "8000", "--data", f"{directory}/data"]
    if is_pooled:
        variables["PROWESS_DATABASE"] = postgres.pooler_url
        common += ["--listen-database", postgres.through(postgres.port)]
    cluster = Cluster(directory, configuration(model.url, None), variables)
    cluster.add(options.prowess, "web", 1, *common)
    watching = []
    try:
        await cluster.start()
        slots = workers * options.turns
        rate = slots / (options.delay * options.steps)
        wanted = int(rate * (options.seconds + options.warm_up) * 1.1) + 2 * slots
        await queue_threads(options, cluster, wanted, watching)
        for number in range(workers):
            await cluster.add(options.prowess, "worker", number + 1, *common).start()
        await asyncio.gather(*(process.answers() for process in cluster.workers))
        await asyncio.sleep(options.warm_up)
        before = await Sample.take(cluster, postgres, model)
        await asyncio.sleep(options.seconds)
        after = await Sample.take(cluster, postgres, model)
        waiting = wanted - (await model.counts())["turns"]
        if waiting < slots:
            raise SystemExit(f"the queue was almost empty at the end of the measurement: {waiting} threads waited")
        # What still waits is not worked off.
        cluster.kill_all()
        return after.since(before)
    finally:
        for task in watching:
            task.cancel()
        cluster.kill_all()
        model.stop()


async def queue_threads(options, cluster, wanted, watching):
    """Makes threads with a message each, of as many users as it takes, while no worker runs."""
    statistics = collections.Counter()
    tokens = await cluster.users(max(8, -(-wanted // WAITING) + 1))
    apis = [Api(cluster, token, statistics) for token in tokens]
    places = asyncio.Semaphore(16)

    async def queue(number):
        async with places:
            api = apis[number % len(apis)]
            _, thread, _ = await api.request("POST", "/threads", {})
            if number < options.watched:
                watching.append(asyncio.create_task(Watcher(api, thread["id"], []).run()))
            text = f"do:plan:{options.steps - 1}x{number}"
            status, answer, _ = await api.request("POST", f"/threads/{thread['id']}/turns", {"text": text})
            if status != 202:
                raise SystemExit(f"a message was refused: {status} {answer}")

    await asyncio.gather(*(queue(number) for number in range(wanted)))


def row(workers, value, first, is_pooled):
    """A line of the table."""
    steps, turns, seconds = value["steps"], value["turns"], value["time"]
    per_step = lambda name: value[name] / steps
    linear = turns / seconds / (first * workers)
    cells = [f"{workers}{', PgBouncer' if is_pooled else ''}", f"{turns / seconds:.1f}", f"{steps / seconds:.1f}", f"{linear * 100:.0f} %",
             f"{per_step('statements'):.1f}", f"{per_step('round_trips'):.1f}", f"{per_step('transactions'):.1f}", f"{per_step('WAL') / 1024:.1f} KiB",
             f"{value['PostgreSQL CPU'] / steps * 1000:.2f} ms", f"{value['worker CPU'] / steps * 1000:.2f} ms", f"{value['web CPU'] / steps * 1000:.2f} ms",
             f"{(value['model CPU'] + value['own CPU']) / steps * 1000:.2f} ms", f"{value['busy'] / (value['busy'] + value['idle']) * 100:.0f} %"]
    return f"| {' | '.join(cells)} |"


HEAD = """| workers | turns per second | steps per second | of linear | statements per step | round trips per step | transactions per step | WAL per step | CPU of PostgreSQL per step | of workers | of the web process | of model and clients | cores busy |
|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|"""


def main():
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--prowess", required=True)
    arguments.add_argument("--workers", type=int, nargs="+", default=[1, 2, 4, 8])
    arguments.add_argument("--turns", type=int, default=8, help="threads at the same time in one worker")
    arguments.add_argument("--delay", type=float, default=0.5, help="how long a response takes, in seconds")
    arguments.add_argument("--steps", type=int, default=2, help="the steps of a turn")
    arguments.add_argument("--seconds", type=float, default=20)
    arguments.add_argument("--warm-up", type=float, default=6)
    arguments.add_argument("--watched", type=int, default=0, help="how many of the threads have a client that follows their events")
    arguments.add_argument("--pooled", type=int, default=2, help="the number of workers behind PgBouncer; 0 leaves this row out")
    arguments.add_argument("--most-round-trips", type=float, help="fail if a step takes more of them")
    arguments.add_argument("--least-linear", type=float, help="fail if a number of workers reaches less than this part of linear while cores are idle")
    options = arguments.parse_args()
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 65536), hard))
    first, failed = None, []
    print(f"{os.cpu_count()} cores; {options.turns} turns at once in a worker; a turn has {options.steps} steps; a response takes {options.delay * 1000:.0f} ms; {options.seconds:.0f} s each")
    print(HEAD)
    for workers, is_pooled in [*((workers, False) for workers in options.workers), *([(options.pooled, True)] if options.pooled else [])]:
        # A database of its own for each, so that all begin alike.
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as directory, Postgres() as postgres:
            if is_pooled:
                postgres.start_pooler(100)
            value = asyncio.run(measure(options, postgres, directory, workers, is_pooled))
        if not value["steps"] or not value["turns"]:
            raise SystemExit("nothing was done in the seconds of the measurement")
        rate = value["turns"] / value["time"]
        first = first or rate / workers
        print(row(workers, value, first, is_pooled), flush=True)
        if is_pooled:
            print(f"\nThrough PgBouncer, a step has {value['pooled queries'] / value['steps']:.1f} queries and "
                  f"{value['pooled bytes'] / value['steps'] / 1024:.1f} KiB, of all processes.")
        # `not <=` also refuses what was not counted.
        if options.most_round_trips and not value["round_trips"] / value["steps"] <= options.most_round_trips:
            failed.append(f"{workers} workers: {value['round_trips'] / value['steps']:.1f} round trips per step")
        has_room = value["idle"] / (value["idle"] + value["busy"]) > 0.05
        if options.least_linear and has_room and rate < options.least_linear * first * workers:
            failed.append(f"{workers} workers: {rate / first / workers * 100:.0f} % of linear, with idle cores")
    if failed:
        sys.exit("; ".join(failed))


if __name__ == "__main__":
    main()
