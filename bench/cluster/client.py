"""Clients that check what they get: requests that are tried again at any web process, and streams that are resumed at any."""

import asyncio
import hashlib
import json
import random
import time


class Failed(Exception):
    """A promise was broken."""


class Api:
    """Requests of one user. A request that finds nobody, or an error of the server, is tried again, at any web process."""

    def __init__(self, cluster, token, statistics, patience=90):
        self.cluster, self.token, self.statistics, self.patience = cluster, token, statistics, patience

    def web(self):
        return random.choice(self.cluster.webs)

    async def request(self, method, path, body=None):
        """The status, the value or the bytes, and whether it was tried more than once."""
        end, tries, last = time.monotonic() + self.patience, 0, None
        while time.monotonic() < end:
            tries += 1
            try:
                status, value = await self.once(self.web().port, method, path, body)
                if status < 500 and status != 429:
                    return status, value, tries > 1
                last = (status, value)
            except (OSError, asyncio.TimeoutError, ValueError, IndexError) as error:
                last = repr(error)
            self.statistics["repeated requests"] += 1
            await asyncio.sleep(random.uniform(0.05, 0.3))
        raise Failed(f"{method} {path} had no answer in {self.patience} s: {last}")

    async def once(self, port, method, path, body):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        try:
            data = json.dumps(body).encode() if body is not None else b""
            head = f"{method} /api/v1{path} HTTP/1.1\r\nhost: 127.0.0.1:{port}\r\nauthorization: Bearer {self.token}\r\ncontent-type: application/json\r\n"
            writer.write(f"{head}content-length: {len(data)}\r\nconnection: close\r\n\r\n".encode() + data)
            answer = await asyncio.wait_for(reader.read(), 60)
        finally:
            writer.close()
        head, _, rest = answer.partition(b"\r\n\r\n")
        status = int(head.split(b" ")[1])
        if b"transfer-encoding: chunked" in head.lower():
            parts = []
            while rest:
                size, _, rest = rest.partition(b"\r\n")
                parts.append(rest[:int(size, 16)])
                rest = rest[int(size, 16) + 2:]
            rest = b"".join(parts)
        if b"application/json" not in head.lower():
            return status, rest
        return status, json.loads(rest) if rest else None


def digest(event):
    """What an event says, for a comparison of what a stream had with what the log has."""
    return hashlib.sha256(json.dumps(event, sort_keys=True).encode()).hexdigest()[:16]


class Watcher:
    """One stream of one thread. It is resumed with the id of its last event, at any web process."""

    def __init__(self, api, thread, broken):
        self.api, self.thread, self.broken = api, thread, broken
        self.digests, self.turns, self.questions, self.delays = [], {}, [], []
        self.turn, self.changed, self.writer, self.resumed = [], asyncio.Event(), None, 0
        self.lives = 0

    async def run(self):
        while True:
            try:
                await self.follow()
            except (OSError, asyncio.IncompleteReadError, asyncio.TimeoutError, asyncio.LimitOverrunError, ValueError):
                pass
            except Failed as failed:
                self.broken.append(str(failed))
                return
            self.resumed += 1
            await asyncio.sleep(random.uniform(0.05, 0.2))

    async def follow(self):
        port = self.api.web().port
        reader, self.writer = await asyncio.open_connection("127.0.0.1", port, limit=1 << 22)
        head = f"GET /api/v1/threads/{self.thread}/events HTTP/1.1\r\nhost: 127.0.0.1:{port}\r\nauthorization: Bearer {self.api.token}\r\n"
        self.writer.write(f"{head}last-event-id: {len(self.digests)}\r\n\r\n".encode())
        try:
            answer = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), 60)
            if b" 200 " not in answer.split(b"\r\n")[0]:
                raise ValueError(answer)
            text = b""
            while True:
                # The server sends a comment from time to time.
                size = int((await asyncio.wait_for(reader.readline(), 60)).strip() or b"0", 16)
                if size == 0:
                    raise ValueError
                text += await reader.readexactly(size)
                await reader.readexactly(2)
                *events, text = text.split(b"\n\n")
                for event in events:
                    self.note(event)
        finally:
            self.writer.close()

    def break_off(self):
        if self.writer:
            self.writer.transport.abort()

    def note(self, event):
        fields = dict(line.split(b": ", 1) for line in event.split(b"\n") if b": " in line)
        if b"id" not in fields:
            self.lives += fields.get(b"event") == b"live"
            return
        number, data = int(fields[b"id"]), json.loads(fields[b"data"])
        if number != len(self.digests) + 1 or data["number"] != number:
            raise Failed(f"thread {self.thread}: a stream had event {number} after {len(self.digests)}")
        self.digests.append(digest(data))
        kind = data["type"]
        if kind == "turn_started":
            self.turn = [message["id"] for message in data["messages"]]
        elif kind == "messages_added":
            self.turn += [message["id"] for message in data["messages"]]
        elif kind == "asked":
            self.questions.append(number)
        elif kind == "turn_ended":
            self.turns.update((message, data["outcome"]) for message in self.turn)
            self.turn = []
        self.changed.set()

    async def wait(self, is_done, patience, what):
        """Waits until something of the stream is so."""
        end = time.monotonic() + patience
        while not is_done():
            if time.monotonic() > end:
                raise Failed(f"thread {self.thread}: {what} within {patience} s")
            self.changed.clear()
            try:
                await asyncio.wait_for(self.changed.wait(), 1)
            except asyncio.TimeoutError:
                pass


class Conversation:
    """Turn after turn in one thread, each of a random kind. Questions are replied to as soon as they come."""

    def __init__(self, api, kinds, broken, turn_patience):
        self.api, self.kinds, self.broken, self.patience = api, kinds, broken, turn_patience
        self.posted, self.asked, self.written = {}, 0, []
        self.watcher, self.thread, self.times, self.events = None, None, [], []

    async def begin(self):
        status, thread, _ = await self.api.request("POST", "/threads", {})
        if status != 201:
            raise Failed(f"a thread was not made: {status} {thread}")
        self.thread = thread["id"]
        self.watcher = Watcher(self.api, self.thread, self.broken)

    async def run(self, until):
        try:
            while time.monotonic() < until() or not self.posted:
                await self.turn()
        except Failed as failed:
            self.broken.append(str(failed))

    async def turn(self):
        kind = random.choice(self.kinds)
        if kind == "read" and not self.written:
            kind = "write"
        identity = f"{random.getrandbits(64):016x}"
        key = random.choice(self.written) if kind == "read" else f"{kind}-{identity}"
        message = f"m{identity}"
        begun = time.monotonic()
        self.posted[message] = (kind, key)
        body = {"text": f"do:{kind}:{key}", "mode": "queue", "id": message}
        status, answer, _ = await self.api.request("POST", f"/threads/{self.thread}/turns", body)
        if status != 202:
            raise Failed(f"thread {self.thread}: a message was refused: {status} {answer}")
        if kind == "long":
            await self.cancel(message)
        ended = lambda: message in self.watcher.turns
        end = time.monotonic() + self.patience
        while not ended():
            waits = lambda: ended() or self.asked < len(self.watcher.questions)
            await self.watcher.wait(waits, max(0, end - time.monotonic()), f"the turn of {message} ({kind}) did not end")
            while self.asked < len(self.watcher.questions):
                number = self.watcher.questions[self.asked]
                self.asked += 1
                await self.reply(number)
        self.times.append(time.monotonic() - begun)
        if kind == "write":
            self.written.append(key)

    async def reply(self, number):
        """Replies to a question. If a request was repeated, the reply before may have counted."""
        path = f"/threads/{self.thread}/questions/{number}"
        status, answer, repeated = await self.api.request("POST", path, {"reply": "approve"})
        if status >= 300 and not (repeated and status == 409):
            raise Failed(f"thread {self.thread}: the reply to {number} was refused: {status} {answer}")

    async def cancel(self, message):
        """Cancels the turn as soon as it began. It may end by itself before."""
        await self.watcher.wait(lambda: message in self.watcher.turn or message in self.watcher.turns, self.patience, f"the turn of {message} did not begin")
        status, answer, _ = await self.api.request("POST", f"/threads/{self.thread}/cancel", {})
        if status not in (202, 409):
            raise Failed(f"thread {self.thread}: the end of a turn was refused: {status} {answer}")

    async def log(self):
        """All events of the log."""
        events = []
        while True:
            status, page, _ = await self.api.request("GET", f"/threads/{self.thread}/log?limit=200&after={len(events)}")
            if status != 200:
                raise Failed(f"thread {self.thread}: the log cannot be read: {status} {page}")
            events += page["items"]
            if not page["items"] or len(events) >= page["last"]:
                return events
