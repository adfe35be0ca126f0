"""What happens to a cluster under load: kills, restarts, cut connections. Processes that end are started again, as a service
manager does."""

import asyncio
import random
import sys
import time

# A process that ends by itself after it lived for so many seconds is a failure. Before, it may have found no database.
SETTLED = 5


class Supervisor:
    """Starts a process again whenever it ends."""

    def __init__(self, process):
        self.process, self.is_over, self.ended_alone, self.failed_starts = process, False, [], 0
        self.begun, self.was_killed = time.monotonic(), False
        self.task = asyncio.create_task(self.run())

    async def run(self):
        while not self.is_over:
            code = await self.process.process.wait()
            if self.is_over:
                return
            if not self.was_killed:
                if time.monotonic() - self.begun > SETTLED:
                    self.ended_alone.append(f"{self.process.name} ended with {code}: {self.process.last_words()[-300:]}")
                else:
                    self.failed_starts += 1
                await asyncio.sleep(0.5)
            self.was_killed, self.begun = False, time.monotonic()
            await self.process.start()

    def kill(self):
        if self.process.process.returncode is None:
            self.was_killed = True
            self.process.process.kill()
            return True
        return False


class Chaos:
    """Everything that goes wrong, for some seconds."""

    def __init__(self, cluster, postgres, to_database, watchers, victims):
        self.postgres, self.to_database, self.watchers = postgres, to_database, watchers
        self.supervisors = {process.name: Supervisor(process) for process in cluster.processes}
        self.victims = [self.supervisors[process.name] for process in victims]
        self.kills, self.broken_streams = 0, 0

    async def run(self, seconds):
        end = time.monotonic() + seconds
        work = [self.kill_workers(end), self.cut(end), self.restart(seconds)]
        await asyncio.gather(*work)

    async def kill_workers(self, end):
        while time.monotonic() < end:
            await asyncio.sleep(1)
            self.kills += random.choice(self.victims).kill()

    async def cut(self, end):
        """A third of the connections to the database every few seconds, and streams of clients all the time."""
        turn = 0
        while time.monotonic() < end:
            await asyncio.sleep(0.5)
            turn += 1
            for watcher in random.sample(self.watchers, max(1, len(self.watchers) // 50)):
                watcher.break_off()
                self.broken_streams += 1
            if turn % 4 == 0:
                self.to_database.cut(0.3)

    async def restart(self, seconds):
        for mode in ("fast", "immediate"):
            await asyncio.sleep(seconds / 3)
            print(f"PostgreSQL is restarted ({mode})", file=sys.stderr)
            await self.postgres.restart(mode)

    def rest(self):
        """No process is started again from here on."""
        for supervisor in self.supervisors.values():
            supervisor.is_over = True
            supervisor.task.cancel()

    def ended_alone(self):
        return [text for supervisor in self.supervisors.values() for text in supervisor.ended_alone]

    def failed_starts(self):
        return sum(supervisor.failed_starts for supervisor in self.supervisors.values())
