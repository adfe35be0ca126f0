"""A model on this machine that chooses what it says by the last words of the person: model.py

It speaks OpenAI's chat completions, prints its port, and lives until its input ends.
"""

import json
import os
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

RUN = ("skill_run", {"skill": "tides", "command": "sh scripts/tides.sh"})
calls = iter(range(1, 1_000_000))


def text_of(message):
    content = message.get("content") or ""
    if isinstance(content, list):
        content = "".join(part.get("text", "") for part in content)
    return content


def last_words(messages):
    """What the person said last, and how many tools answered since."""
    people = [n for n, message in enumerate(messages) if message["role"] == "user" and marked(text_of(message))]
    last = people[-1] if people else 0
    words = text_of(messages[last]).rsplit("Now the person says:", 1)[-1]
    return words, sum(message["role"] == "tool" for message in messages[last:])


def said(messages):
    """What the model says next: texts and calls."""
    words, answers = last_words(messages)
    if "tide" in words:
        return ["High."] if answers else ["I ask the ", "tides. ", RUN]
    if "both" in words:
        return ["Both."] if answers else [RUN, ("skill_run", {"skill": "tides", "command": "echo two"})]
    if "unload" in words:
        return ["Unloaded."] if answers else [("skill_unload", {"skill": "tides"})]
    if "load" in words:
        return ["Loaded."] if answers else [("skill_load", {"skill": "tides"})]
    if "plan" in words:
        todos = [{"content": "Look", "status": "in_progress"}]
        return ["Planned."] if answers else [("write_todos", {"todos": todos})]
    if "colour" in words:
        whole = json.dumps(messages)
        return ["It is green." if "is green" in whole else "I do not know."]
    return ["Hello ", "there, ", "friend."]


def marked(text):
    return any(word in text for word in ("tide", "both", "load", "plan", "colour", "Hello", "fail"))


class Model(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def do_POST(self):
        request = json.loads(self.rfile.read(int(self.headers["content-length"])))
        messages = request["messages"]
        if "fail" in last_words(messages)[0]:
            body = json.dumps({"error": {"message": "No such luck."}}).encode()
            self.send_response(400)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)
            return
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("connection", "close")
        self.end_headers()
        finish, index = "stop", 0
        for part in said(messages):
            if isinstance(part, str):
                self.delta({"content": part})
            else:
                name, arguments = part
                function = {"name": name, "arguments": json.dumps(arguments)}
                call = {"index": index, "id": f"call_{next(calls)}", "type": "function", "function": function}
                self.delta({"tool_calls": [call]})
                finish, index = "tool_calls", index + 1
        self.delta({}, finish)
        self.chunk({"choices": [], "usage": {"prompt_tokens": 100, "completion_tokens": 10, "total_tokens": 110}})
        self.wfile.write(b"data: [DONE]\n\n")
        self.close_connection = True

    def delta(self, delta, finish=None):
        self.chunk({"choices": [{"index": 0, "delta": delta, "finish_reason": finish}]})

    def chunk(self, fields):
        chunk = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m", **fields}
        self.wfile.write(f"data: {json.dumps(chunk)}\n\n".encode())


server = ThreadingHTTPServer(("127.0.0.1", 0), Model)
server.daemon_threads = True
threading.Thread(target=server.serve_forever, daemon=True).start()
print(server.server_port, flush=True)
sys.stdin.read()
os._exit(0)
