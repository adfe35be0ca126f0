"""Replaces the processes of an old version by those of a new one, one by one, under load.

  python3 bench/cluster_rolling.py --old target/old/release/prowess --new target/release/prowess

Two web processes and three workers of the old version have a load. Then a worker of the new version starts beside them, and
brings the database up to date. Each old process is replaced: a new one starts, and when it is ready, the old one is told to end.
An old process may also end by itself, if it says that the database is newer; it is replaced in its turn.

At the end, every turn must have ended, every message must be in its log once, every stream must have had every event of its log
once and in order, and no call that must not be made twice may have been made twice.
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

from cluster.checks import Checks, check_files, check_threads, check_witness
from cluster.client import Api, Conversation
from cluster.model import Model
from cluster.processes import KEYS, Cluster, Postgres, configuration
from cluster.witness import Witness

KINDS = ["say", "charge", "many", "ask", "task", "write", "read", "long"]
# How long a process may take to hand its threads over and end, in seconds.
HAND_OVER = 60
# How long the last turns may take, in seconds.
REST = 180
# What an old process says if it cannot go on beside a newer one.
NEWER = "newer prowess"


class Upgrade:
    """Old processes, and the new ones that take their places."""

    def __init__(self, cluster, options, common):
        self.cluster, self.options, self.common = cluster, options, common
        self.wrong, self.by_themselves, self.number = [], 0, 0

    async def start_new(self, role):
        self.number += 1
        process = self.cluster.add(self.options.new, role, f"new-{self.number}", *self.common)
        # Clients find a web process when it is ready.
        self.of(process).remove(process)
        await process.start()
        await process.answers("/readyz")
        self.of(process).append(process)
        return process

    def of(self, process):
        return self.cluster.workers if process.role == "worker" else self.cluster.webs

    async def replace(self, old):
        ended_alone = old.process.returncode is not None
        new = await self.start_new(old.role)
        if ended_alone or old.process.returncode is not None:
            self.by_themselves += 1
            if NEWER not in old.last_words():
                self.wrong.append(f"{old.name} ended by itself without a clear message: {old.last_words()[-300:]}")
        else:
            begun = time.monotonic()
            code = await old.stop(HAND_OVER)
            # 128 plus the number of SIGTERM.
            if code not in (0, 143):
                self.wrong.append(f"{old.name} ended with {code}: {old.last_words()[-300:]}")
            print(f"{old.name} is replaced by {new.name}; it ended after {time.monotonic() - begun:.1f} s", file=sys.stderr)
        self.of(old).remove(old)

    async def run(self):
        old = list(self.cluster.processes)
        await asyncio.sleep(self.options.step)
        print("a worker of the new version starts beside the old ones", file=sys.stderr)
        await self.start_new("worker")
        await asyncio.sleep(self.options.step)
        for process in random.sample(old, len(old)):
            await self.replace(process)
            await asyncio.sleep(self.options.step)


def version_of(postgres):
    return int(postgres.ask("SELECT version FROM prowess_schema")[0][0])


async def run(options, postgres, directory):
    model, witness = Model(), Witness(f"{directory}/witness")
    await model.start()
    await witness.start()
    variables = {"PROWESS_DATABASE": postgres.through(postgres.port), "PROWESS_FILES": "s3://prowess",
                 "AWS_ENDPOINT_URL": f"http://127.0.0.1:{urlsplit(os.environ['PROWESS_TEST_S3']).port}", **KEYS}
    cluster = Cluster(directory, configuration(model.url, witness.url), variables)
    common = ["--lease", "2", "--turns", "16", "--streams", "8000"]
    for role, count in (("web", 2), ("worker", 3)):
        for number in range(count):
            cluster.add(options.old, role, f"old-{number + 1}", *common)
    every = list(cluster.processes)
    try:
        await cluster.start()
        before, checks, broken, statistics = version_of(postgres), Checks(), [], collections.Counter()
        apis = [Api(cluster, token, statistics) for token in await cluster.users(8)]
        conversations = [Conversation(apis[number % len(apis)], KINDS, broken, REST + 20 * options.step) for number in range(options.threads)]
        for conversation in conversations:
            await conversation.begin()
        watchers = [conversation.watcher for conversation in conversations]
        following = [asyncio.create_task(watcher.run()) for watcher in watchers]
        upgrade, is_over = Upgrade(cluster, options, common), asyncio.Event()
        until = lambda: 0 if is_over.is_set() else float("inf")
        turns = [asyncio.create_task(one.run(until)) for one in conversations]
        try:
            await upgrade.run()
        finally:
            is_over.set()
            every += [process for process in cluster.processes if process not in every]
        await asyncio.gather(*turns)
        await check_threads(checks, conversations, watchers, broken)
        check_witness(checks, conversations, witness, model)
        await check_files(checks, conversations, model)
        checks.note("old processes", upgrade.wrong, f"{5 - upgrade.by_themselves} were told to end, {upgrade.by_themselves} ended by themselves")
        after = version_of(postgres)
        checks.note("the version of the tables", [] if after > before else [f"{before} before and {after} after: nothing was migrated"], f"from {before} to {after}")
        times = sorted(time for one in conversations for time in one.times)
        print(f"{len(times)} turns: median {times[len(times) // 2]:.1f} s, longest {times[-1]:.1f} s; {statistics['repeated requests']} repeated requests")
        for task in following:
            task.cancel()
        await cluster.stop()
        return checks.failed
    finally:
        for process in {*every, *cluster.processes}:
            if process.process and process.process.returncode is None:
                process.process.kill()


def main():
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--old", required=True)
    arguments.add_argument("--new", required=True)
    arguments.add_argument("--threads", type=int, default=60)
    arguments.add_argument("--step", type=float, default=5, help="the seconds between two replacements")
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
