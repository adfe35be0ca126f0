"""Proxies that break what passes through them."""

import asyncio
import random
import re


class CutProxy:
    """Passes bytes to a port, counts them, and cuts connections when it is told to."""

    def __init__(self, port):
        self.to, self.port = port, None
        self.open, self.cuts, self.bytes = set(), 0, 0

    async def start(self):
        self.server = await asyncio.start_server(self.serve, "127.0.0.1", 0, backlog=1024)
        self.port = self.server.sockets[0].getsockname()[1]

    async def serve(self, reader, writer):
        try:
            other_reader, other_writer = await asyncio.open_connection("127.0.0.1", self.to)
        except OSError:
            writer.transport.abort()
            return
        both = (writer, other_writer)
        self.open.add(both)
        await asyncio.gather(self.pour(reader, other_writer), self.pour(other_reader, writer))
        self.open.discard(both)

    async def pour(self, reader, writer):
        try:
            while data := await reader.read(1 << 16):
                self.bytes += len(data)
                writer.write(data)
                await writer.drain()
        except OSError:
            pass
        finally:
            writer.close()

    def cut(self, part):
        """Cuts this part of the open connections, at least one, without a farewell."""
        chosen = random.sample(list(self.open), max(1, int(len(self.open) * part))) if self.open else []
        for one, other in chosen:
            one.transport.abort()
            other.transport.abort()
        self.cuts += len(chosen)


class S3Faults:
    """Passes requests to a server of S3's protocol, and fails this part of them: an error of the server, a connection that
    ends before or after the work, or an answer that comes late."""

    def __init__(self, port, part=0.1, late=2.0):
        self.to, self.port, self.part, self.late = port, None, part, late
        self.requests, self.failed = 0, 0

    async def start(self):
        self.server = await asyncio.start_server(self.serve, "127.0.0.1", 0, limit=1 << 24, backlog=1024)
        self.port = self.server.sockets[0].getsockname()[1]

    async def serve(self, reader, writer):
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                body = await read_body(head, reader)
                self.requests += 1
                fault = random.choice(("error", "before", "after", "late")) if random.random() < self.part else None
                self.failed += fault is not None
                if fault == "error":
                    text = b"<Error><Code>InternalError</Code><Message>We encountered an internal error.</Message></Error>"
                    writer.write(b"HTTP/1.1 500 Internal Server Error\r\ncontent-type: application/xml\r\n"
                                 + f"content-length: {len(text)}\r\n\r\n".encode() + text)
                    await writer.drain()
                    continue
                if fault == "before":
                    return
                answer = await self.passed(head, body)
                if fault == "after":
                    return
                if fault == "late":
                    await asyncio.sleep(self.late)
                writer.write(answer)
                await writer.drain()
        except (asyncio.IncompleteReadError, OSError):
            pass
        finally:
            writer.close()

    async def passed(self, head, body):
        """The whole answer. The connection to the server is for this request alone."""
        head = re.sub(rb"(?im)^(connection|expect):[^\n]*\n", b"", head)
        first, _, rest = head.partition(b"\r\n")
        reader, writer = await asyncio.open_connection("127.0.0.1", self.to, limit=1 << 24)
        try:
            writer.write(first + b"\r\nconnection: close\r\n" + rest + body)
            await writer.drain()
            answer = await reader.readuntil(b"\r\n\r\n")
            is_head = first.startswith(b"HEAD") or b" 204 " in answer.split(b"\r\n")[0]
            return re.sub(rb"(?im)^connection:[^\n]*\n", b"", answer) + (b"" if is_head else await read_body(answer, reader))
        finally:
            writer.close()


async def read_body(head, reader):
    """The bytes after a head, as they are."""
    if re.search(rb"(?im)^transfer-encoding: *chunked", head):
        parts = []
        while True:
            size = await reader.readline()
            data = await reader.readexactly(int(size.split(b";")[0].strip(), 16) + 2)
            parts += [size, data]
            if data == b"\r\n":
                return b"".join(parts)
    length = re.search(rb"(?im)^content-length: *(\d+)", head)
    return await reader.readexactly(int(length.group(1))) if length else b""
