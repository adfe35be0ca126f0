"""A model on loopback that plays a script, by the Responses API and by Chat Completions.

How far it is, it knows from the answers in a request: after the second it makes the third call. A request that offers
no tools, as for a title, gets a word.
"""

import http.server
import json
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any


@dataclass
class Asked:
    """A request for the next step of a conversation."""

    text: str
    offered: list[str] = field(default_factory=list)
    results: list[str] = field(default_factory=list)


@dataclass
class Call:
    """A call of a tool, by the name that the client gave it."""

    tool: str
    arguments: dict[str, Any]


Step = Call | str
Script = Callable[[Asked], Step]


def plain(content: Any) -> str:
    """The text of what may be text, or a list of parts."""
    if isinstance(content, list):
        return "\n".join(part.get("text", json.dumps(part)) for part in content)
    return content or ""


def of_responses(body: dict[str, Any]) -> Asked:
    asked = Asked(body.get("instructions") or "")
    for tool in body.get("tools", []):
        if tool["type"] != "namespace":
            asked.offered.append(tool.get("name", tool["type"]))
            continue
        # A client may put the tools of one server into a namespace.
        asked.offered += [f"{tool['name']}.{one['name']}" for one in tool["tools"]]
        asked.text += "\n" + tool.get("description", "")
    for item in body["input"]:
        if item["type"] == "function_call_output":
            asked.results.append(plain(item["output"]))
        elif item["type"] == "message":
            asked.text += "\n" + plain(item["content"])
    return asked


def of_chat(body: dict[str, Any]) -> Asked:
    asked = Asked("")
    asked.offered = [tool["function"]["name"] for tool in body.get("tools", [])]
    for message in body["messages"]:
        if message["role"] == "tool":
            asked.results.append(plain(message["content"]))
        else:
            asked.text += "\n" + plain(message["content"])
    return asked


def as_responses(step: Step, at: int) -> Iterator[dict[str, Any]]:
    answer = {"id": f"answer_{at}", "object": "response", "output": []}
    yield {"type": "response.created", "response": {**answer, "status": "in_progress"}}
    if isinstance(step, Call):
        *namespace, name = step.tool.split(".", 1)
        item = {"type": "function_call", "id": f"item_{at}", "call_id": f"call_{at}", "name": name}
        item |= {"arguments": json.dumps(step.arguments), "status": "completed"}
        item |= {"namespace": namespace[0]} if namespace else {}
    else:
        content = [{"type": "output_text", "text": step, "annotations": []}]
        item = {"type": "message", "id": f"item_{at}", "role": "assistant", "status": "completed", "content": content}
    yield {"type": "response.output_item.done", "output_index": 0, "item": item}
    usage = {"input_tokens": 1, "output_tokens": 1, "total_tokens": 2}
    yield {"type": "response.completed", "response": {**answer, "status": "completed", "output": [item], "usage": usage}}


def as_chat(step: Step, at: int) -> Iterator[dict[str, Any]]:
    def chunk(delta: dict[str, Any], finished: str | None = None) -> dict[str, Any]:
        choice = {"index": 0, "delta": delta, "finish_reason": finished}
        return {"id": f"answer_{at}", "object": "chat.completion.chunk", "created": 0, "model": "fake", "choices": [choice]}

    if isinstance(step, Call):
        function = {"name": step.tool, "arguments": json.dumps(step.arguments)}
        call = {"index": 0, "id": f"call_{at}", "type": "function", "function": function}
        yield chunk({"role": "assistant", "content": None, "tool_calls": [call]})
        yield chunk({}, "tool_calls")
    else:
        yield chunk({"role": "assistant", "content": step})
        yield chunk({}, "stop")


class Model:
    """The endpoint, at `address` while it is entered. What it was asked with tools is in `asked`."""

    def __init__(self, script: Script) -> None:
        self.asked: list[Asked] = []
        self.failures: list[str] = []
        model = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                try:
                    self.answer(json.loads(self.rfile.read(int(self.headers["content-length"]))))
                except Exception as error:  # noqa: BLE001: whatever it is, the test fails with it
                    model.failures.append(f"{self.path}: {error!r}")
                    self.send_error(400, "the script ended here")

            def do_GET(self) -> None:
                model.failures.append(f"GET {self.path}")
                self.send_error(404)

            def answer(self, body: dict[str, Any]) -> None:
                read, write = {
                    "/v1/responses": (of_responses, as_responses),
                    "/v1/chat/completions": (of_chat, as_chat),
                }[self.path]
                asked = read(body)
                step: Step = "Title"
                if asked.offered:
                    model.asked.append(asked)
                    step = script(asked)
                self.send_response(200)
                self.send_header("content-type", "text/event-stream")
                self.end_headers()
                for event in write(step, len(asked.results)):
                    name = f"event: {event['type']}\n" if "type" in event else ""
                    self.wfile.write(f"{name}data: {json.dumps(event)}\n\n".encode())
                if write is as_chat:
                    self.wfile.write(b"data: [DONE]\n\n")

            def log_message(self, *_: Any) -> None:
                """The conversation is looked at, not the log."""

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.address = f"http://127.0.0.1:{self.server.server_port}/v1"

    def __enter__(self) -> "Model":
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.server.shutdown()
        self.server.server_close()
