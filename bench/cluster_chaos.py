"""Workers and web processes on PostgreSQL and an object store, while everything fails that can fail.

  scripts/test-s3.sh python3 bench/cluster_chaos.py --prowess target/release/prowess                     five minutes, 500 threads
  scripts/test-s3.sh python3 bench/cluster_chaos.py --prowess target/release/prowess --seconds 20 --threads 40

A random worker is killed (-9) every second and started again. PostgreSQL is restarted twice, once as after a crash. Connections to
it are cut, as are streams of clients. A tenth of the calls to the object store fail. Every process has a home of its own, as on a
machine of its own.

At the end, every turn must have ended, every message must be in its log once, every stream must have had every event of its log
once and in order, and no call that must not be made twice may have been made twice. A tool on this machine notes these calls in a
file that only grows. Only loopback is used; everything stops by itself.
"""

import argparse
import asyncio
import collections
import os
import random
import resource
import sys
import tempfile
import time
from urllib.parse import urlsplit

from cluster.chaos import Chaos
from cluster.checks import Checks, check_files, check_threads, check_witness
from cluster.client import Api, Conversation
from cluster.faults import CutProxy, S3Faults
from cluster.model import Model
from cluster.processes import KEYS, Cluster, Postgres, configuration
from cluster.witness import Witness

KINDS = ["say", "charge", "charge", "many", "ask", "task", "write", "read", "long"]
# How long the turns may take that are under way when nothing fails any more, in seconds.
REST = 240


async def run(options, postgres, directory):
    model, witness = Model(), Witness(f"{directory}/witness", delay=0.2)
    to_database, to_files = CutProxy(postgres.port), S3Faults(urlsplit(os.environ["PROWESS_TEST_S3"]).port)
    for one in (model, witness, to_database, to_files):
        await one.start()
    variables = {"PROWESS_DATABASE": postgres.through(to_database.port), "PROWESS_FILES": "s3://prowess",
                 "AWS_ENDPOINT_URL": f"http://127.0.0.1:{to_files.port}", **KEYS}
    cluster = Cluster(directory, configuration(model.url, witness.url), variables)
    common = ["--lease", "2", "--turns", str(options.turns), "--streams", "8000"]
    if options.single:
        cluster.add(options.prowess, None, 1, *common)
    else:
        for number in range(options.webs):
            cluster.add(options.prowess, "web", number + 1, *common)
        for number in range(options.workers):
            cluster.add(options.prowess, "worker", number + 1, *common)
    try:
        return await load(options, postgres, cluster, model, witness, to_database, to_files)
    finally:
        cluster.kill_all()


async def load(options, postgres, cluster, model, witness, to_database, to_files):
    statistics, broken = collections.Counter(), []
    await cluster.start()
    tokens = await cluster.users(8)
    apis = [Api(cluster, token, statistics) for token in tokens]
    conversations = [Conversation(apis[number % len(apis)], KINDS, broken, options.seconds + REST)
                     for number in range(options.threads)]
    for conversation in conversations:
        await conversation.begin()
    watchers = [conversation.watcher for conversation in conversations]
    following = [asyncio.create_task(watcher.run()) for watcher in watchers]
    begun = time.monotonic()
    chaos = Chaos(cluster, postgres, to_database, watchers, cluster.workers or cluster.webs)
    turns = [asyncio.create_task(one.run(lambda: begun + options.seconds)) for one in conversations]
    await chaos.run(options.seconds)
    print(f"nothing fails any more; {sum(not turn.done() for turn in turns)} threads have turns in progress", file=sys.stderr)
    to_files.part = 0
    await asyncio.gather(*turns)
    took = time.monotonic() - begun
    chaos.rest()
    checks = Checks()
    await check_threads(checks, conversations, watchers, broken)
    check_witness(checks, conversations, witness, model)
    await check_files(checks, conversations, model)
    checks.note("processes", chaos.ended_alone(), f"{sum(process.starts for process in cluster.processes)} starts, {chaos.failed_starts()} of them while the database was away")
    if not options.single:
        # Counters begin again with each process; what waits is in the database.
        metrics = await cluster.webs[0].metrics()
        dead = metrics.get('prowess_queue_threads{state="dead"}')
        checks.note("dead letters", [] if dead == 0 else [f"the metric says {dead}"], str(dead))
    checks.at_least("kills", chaos.kills, options.seconds // 2)
    checks.at_least("restarts of PostgreSQL", postgres.restarts, 2)
    checks.at_least("cut connections to PostgreSQL", to_database.cuts, 1)
    checks.at_least("failed calls of the object store", to_files.failed, max(1, to_files.requests // 50))
    checks.at_least("interrupted calls and resumed streams", len(model.interrupted) + sum(watcher.resumed for watcher in watchers), 1)
    times = sorted(time for one in conversations for time in one.times)
    print(f"{len(times)} turns in {took:.0f} s ({len(times) / took:.1f} a second): median {times[len(times) // 2]:.1f} s, longest {times[-1]:.1f} s; "
          f"{model.calls} model calls, {to_files.requests} calls of the object store, {statistics['repeated requests']} repeated requests")
    for task in following:
        task.cancel()
    await cluster.stop()
    return checks.failed


def main():
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--prowess", required=True)
    arguments.add_argument("--seconds", type=int, default=300)
    arguments.add_argument("--threads", type=int, default=500)
    arguments.add_argument("--workers", type=int, default=3)
    arguments.add_argument("--webs", type=int, default=2)
    arguments.add_argument("--turns", type=int, default=32, help="threads at the same time in one worker")
    arguments.add_argument("--single", action="store_true", help="one process without a role, which is killed")
    arguments.add_argument("--seed", type=int, default=time.time_ns() % 1_000_000)
    options = arguments.parse_args()
    if "PROWESS_TEST_S3" not in os.environ:
        arguments.error("start it with scripts/test-s3.sh, which runs the object store")
    print(f"seed {options.seed}", file=sys.stderr)
    random.seed(options.seed)
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 65536), hard))
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as directory, Postgres() as postgres:
        failed = asyncio.run(run(options, postgres, directory))
    if failed:
        sys.exit(f"failed: {', '.join(failed)}")


if __name__ == "__main__":
    main()
