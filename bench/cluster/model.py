"""A model on this machine that streams, and counts its calls at `GET /`. A message says what it does: `do:KIND:KEY`, with a key that is used once.

| kind | the model |
|---|---|
| `say` | answers |
| `charge` | calls the tool `charge` of the witness once, and answers |
| `many` | calls it three times in one response, and answers |
| `ask` | calls the tool `ask` of the witness, which a person must approve, and answers |
| `task` | hands `do:charge:KEY-sub` to a sub-agent, and answers |
| `write` | writes a file, reads it, and answers |
| `read` | reads the file that an earlier `write` with the same key made, and answers |
| `plan` | writes a todo list in as many responses as the key says (`3x` and the rest of the key), and answers |
| `long` | answers for a long time, so that somebody can cancel it |
"""

import asyncio
import json
import os
import random
import re
import sys
import time

ORDER = re.compile(r"do:(\w+):([\w-]+)")
NOTED = re.compile(r"noted ([\w-]+)")
ANSWER = "The tide is high at noon, and low in the evening. ".split(" ")
LONG = 200
# The words of an answer about a call that was under way when its worker died.
INTERRUPTED = "it is not known whether it took effect"


def text_of(message):
    content = message.get("content") or ""
    return content if isinstance(content, str) else " ".join(part.get("text", "") for part in content)


class Model:
    """Answers requests like an OpenAI-compatible server. `delay` is how long a response takes."""

    def __init__(self, delay=0.24, words=len(ANSWER)):
        self.delay, self.words = delay, words
        # Files that a `write` made for certain, and what was wrong with what was read.
        self.written, self.wrong = set(), []
        # Keys that the witness said it noted, and orders with a call of which nobody knows.
        self.noted, self.interrupted = set(), set()
        self.calls, self.turns, self.reads = 0, 0, 0
        self.server, self.url = None, None

    async def start(self):
        self.server = await asyncio.start_server(self.serve, "127.0.0.1", 0, limit=1 << 24, backlog=4096)
        self.url = f"http://127.0.0.1:{self.server.sockets[0].getsockname()[1]}/v1"

    async def serve(self, reader, writer):
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                if head.startswith(b"GET"):
                    counts = json.dumps({"calls": self.calls, "turns": self.turns, "cpu": time.process_time()}).encode()
                    writer.write(f"HTTP/1.1 200 OK\r\ncontent-length: {len(counts)}\r\n\r\n".encode() + counts)
                    return
                length = int(re.search(rb"content-length: *(\d+)", head, re.I).group(1))
                body = json.loads(await reader.readexactly(length))
                writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n")
                await self.respond(body, writer)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    async def respond(self, body, writer):
        response = [Chunk({"role": "assistant"})]
        calls = self.tool_calls(body["messages"])
        if isinstance(calls, list):
            for index, (name, arguments) in enumerate(calls):
                function = {"name": name, "arguments": json.dumps(arguments)}
                call = {"index": index, "id": f"call_{random.getrandbits(60):x}", "type": "function", "function": function}
                response.append(Chunk({"tool_calls": [call]}))
            response.append(Chunk({}, "tool_calls"))
        else:
            response += [Chunk({"content": ANSWER[number % len(ANSWER)] + " "}) for number in range(calls)]
            response.append(Chunk({}, "stop"))
        pause = self.delay / max(1, len(response))
        for chunk in response:
            await asyncio.sleep(pause)
            write_chunk(writer, chunk.line())
            await writer.drain()
        usage = {"choices": [], "usage": {"prompt_tokens": 100, "completion_tokens": 10, "total_tokens": 110}}
        write_chunk(writer, f"data: {json.dumps(usage)}\n\ndata: [DONE]\n\n".encode())
        writer.write(b"0\r\n\r\n")
        await writer.drain()
        # Only the last response of a turn has no calls.
        self.calls += 1
        self.turns += not isinstance(calls, list)

    def tool_calls(self, messages):
        """The calls of the next response, or the number of its words."""
        # Messages of one person in a row come as one: the last order counts.
        orders = [(number, found) for number, message in enumerate(messages) if message["role"] == "user"
                  for found in ORDER.findall(text_of(message))]
        if not orders:
            return self.words
        begun, (kind, key) = orders[-1]
        answers = [text_of(message) for message in messages[begun + 1:] if message["role"] == "tool"]
        path = f"/project/notes/{key}.txt"
        for answer in answers:
            self.noted.update(NOTED.findall(answer))
            if INTERRUPTED in answer:
                self.interrupted.add(key)
        if kind == "long":
            return LONG
        if kind == "say":
            return self.words
        if kind == "write" and len(answers) == 1:
            if not is_error(answers[0]):
                self.written.add(key)
            return [("read_file", {"file_path": path})]
        if kind in ("write", "read") and answers:
            self.reads += 1
            # A read may be cut off, too, but is then made again.
            if key in self.written and f"note {key}" not in answers[-1]:
                self.wrong.append(f"{kind} {key}: the file that was written was not read, but: {answers[-1][:200]}")
            return self.words
        if kind == "plan" and len(answers) < int(key.partition("x")[0]):
            return [("write_todos", {"todos": [{"content": f"{key} {len(answers)}", "status": "in_progress"}]})]
        if answers or kind == "plan":
            return self.words
        first = {
            "charge": [("witness__charge", {"key": key})],
            "many": [("witness__charge", {"key": f"{key}-{number}"}) for number in range(3)],
            "ask": [("witness__ask", {"key": key})],
            "task": [("task", {"description": f"do:charge:{key}-sub", "subagent_type": "general-purpose"})],
            "write": [("write_file", {"file_path": path, "content": f"note {key}\n"})],
            "read": [("read_file", {"file_path": path})],
        }
        return first[kind]


class Chunk:
    """A piece of a response."""

    def __init__(self, delta, reason=None):
        self.delta, self.reason = delta, reason

    def line(self):
        choice = {"index": 0, "delta": self.delta, "finish_reason": self.reason}
        whole = {"id": "c", "object": "chat.completion.chunk", "model": "m", "choices": [choice]}
        return f"data: {json.dumps(whole)}\n\n".encode()


def write_chunk(writer, data):
    writer.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")


def is_error(answer):
    return answer.startswith("Error") or INTERRUPTED in answer


async def main():
    """A process of its own, for measurements: model.py DELAY. It prints its address, and ends when its input does."""
    model = Model(delay=float(sys.argv[1]))
    await model.start()
    print(model.url, flush=True)
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
    # Without a word about connections that are open.
    os._exit(0)


if __name__ == "__main__":
    asyncio.run(main())
