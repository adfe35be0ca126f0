"""A server of MCP with two tools that note each call in a file, which only grows: `charge`, and `ask`, which a person must approve.

prowess treats tools of servers as tools that may do anything: a call that was under way when its worker died must not be made
again.
"""

import asyncio
import json
import os
import re

TOOLS = [
    {"name": name, "description": f"Notes a key ({name}).",
     "inputSchema": {"type": "object", "properties": {"key": {"type": "string"}}, "required": ["key"]}}
    for name in ("charge", "ask")
]


class Witness:
    """The server, and its file."""

    def __init__(self, path, delay=0.05):
        self.path, self.delay = path, delay
        self.file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        self.server, self.url = None, None

    async def start(self):
        self.server = await asyncio.start_server(self.serve, "127.0.0.1", 0, limit=1 << 20, backlog=1024)
        self.url = f"http://127.0.0.1:{self.server.sockets[0].getsockname()[1]}/mcp"

    def counts(self):
        """How often each key was noted."""
        counts = {}
        with open(self.path, encoding="utf-8") as file:
            for line in file:
                key = json.loads(line)["key"]
                counts[key] = counts.get(key, 0) + 1
        return counts

    async def serve(self, reader, writer):
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                if not head.startswith(b"POST"):
                    writer.write(b"HTTP/1.1 405 Method Not Allowed\r\ncontent-length: 0\r\n\r\n")
                    await writer.drain()
                    continue
                length = int(re.search(rb"content-length: *(\d+)", head, re.I).group(1))
                message = json.loads(await reader.readexactly(length))
                answer = await self.answer(message)
                if answer is None:
                    writer.write(b"HTTP/1.1 202 Accepted\r\ncontent-length: 0\r\n\r\n")
                else:
                    data = json.dumps({"jsonrpc": "2.0", "id": message["id"], **answer}).encode()
                    writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n"
                                 + f"content-length: {len(data)}\r\n\r\n".encode() + data)
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    async def answer(self, message):
        if "id" not in message:
            return None
        method, params = message["method"], message.get("params", {})
        if method == "initialize":
            return {"result": {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}},
                               "serverInfo": {"name": "witness", "version": "1"}}}
        if method == "tools/list":
            return {"result": {"tools": TOOLS}}
        if method == "ping":
            return {"result": {}}
        if method == "tools/call":
            key = params["arguments"]["key"]
            # One write of one line: nobody who reads sees half of it.
            os.write(self.file, (json.dumps({"tool": params["name"], "key": key}) + "\n").encode())
            # The work takes a while after it took effect, so that workers die in between.
            await asyncio.sleep(self.delay)
            return {"result": {"content": [{"type": "text", "text": f"noted {key}"}], "isError": False}}
        return {"error": {"code": -32601, "message": f"no method {method}"}}
