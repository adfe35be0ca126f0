"""Prints how many tokens the skills take in a request, for several numbers of skills and context windows.

`prowess chat` gets a message, and a server on this machine takes its first request: that is what a provider would get. The
tokens of the skills are those of the system prompt and the tools, minus those of the same request without skills. The same
skills go to an agent of deepagents, which does not know the window. Then the tool `search_skills` searches each skill by its
name.

Tokens are counted with o200k, the tokenizer of OpenAI's models, and as prowess estimates them: four characters each.
"""

import argparse
import http.server
import json
import os
import re
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from typing import Any

from deepagents import create_deep_agent
from deepagents.backends.filesystem import FilesystemBackend
from langchain_core.language_models.chat_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.utils.function_calling import convert_to_openai_tool
from rs_bpe.bpe import openai

SIZES = [7, 100, 500, 1_000, 5_000, 10_000]
WINDOWS = [8_000, 32_000, 128_000, 1_000_000]
# The most tokens of 1,000 skills, as both ways count them.
BAR_SIZE, BAR = 1_000, 4_000
# The sentences by which a form is known, in the order in which they are looked for.
FORMS = {
    "with words of the task to find them": "counts",
    "has no room for descriptions": "names",
    "Descriptions are shortened": "shortened lines",
    "to read the full instructions of a skill.": "lines",
}

O200K = openai.o200k_base()


def tokens(text: str) -> tuple[int, int]:
    """Its tokens by o200k, and as prowess estimates them."""
    return O200K.count(text), -(-len(text) // 4)


def write_skills(source: list[Path], count: int, directory: Path) -> list[str]:
    """Writes so many skills. If there are fewer, they come again under other names."""
    names: dict[str, None] = {}
    for number in range(count):
        original, again = source[number % len(source)], number // len(source)
        text = (original / "SKILL.md").read_text()
        name = original.name
        if again:
            name = f"{name[:53]}-copy-{again}"
            text = re.sub(r"(?m)^name:.*$", f"name: {name}", text, count=1)
        (directory / name).mkdir(parents=True)
        (directory / name / "SKILL.md").write_text(text)
        names[name] = None
    return list(names)


class Provider(http.server.BaseHTTPRequestHandler):
    """Takes one request, and responds with one word."""

    def do_POST(self) -> None:
        length = int(self.headers["content-length"])
        self.server.requests.append(json.loads(self.rfile.read(length)))
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.end_headers()
        chunk = {"choices": [{"index": 0, "delta": {"content": "Done."}, "finish_reason": "stop"}]}
        self.wfile.write(f"data: {json.dumps(chunk)}\n\ndata: [DONE]\n\n".encode())

    def log_message(self, *_: Any) -> None:
        pass


def request_of_prowess(program: Path, root: Path, window: int) -> tuple[str, str]:
    """The system prompt and the tools of the first request of a chat."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Provider)
    server.requests = []
    threading.Thread(target=server.serve_forever, daemon=True).start()
    with tempfile.TemporaryDirectory() as home:
        config = Path(home) / ".config" / "prowess"
        config.mkdir(parents=True)
        (config / "prowess.toml").write_text(
            f'[model]\nname = "here:m"\ncontext_window = {window}\n'
            f'[provider.here]\napi = "openai"\nbase_url = "http://127.0.0.1:{server.server_port}/v1"\n'
        )
        project = Path(home) / "project"
        project.mkdir()
        environment = {"HOME": home, "PATH": os.environ["PATH"]}
        command = [program, "chat", "--only", "--root", root, "Hello."]
        run = subprocess.run(command, cwd=project, env=environment, capture_output=True, text=True)
    server.shutdown()
    if not server.requests:
        sys.exit(f"prowess chat sent nothing: {run.stderr}")
    request = server.requests[0]
    system = "\n".join(text_of(message) for message in request["messages"] if message["role"] == "system")
    return system, json.dumps(request["tools"], ensure_ascii=False)


def text_of(message: dict) -> str:
    content = message["content"]
    return content if isinstance(content, str) else "\n".join(part.get("text", "") for part in content)


class Recorder(BaseChatModel):
    """A model that records its system prompt and its tools, and responds with one word."""

    system: list[str] = []
    tools: list[str] = []

    @property
    def _llm_type(self) -> str:
        return "recorder"

    def bind_tools(self, tools: Any, **_: Any) -> "Recorder":
        self.tools[:] = [json.dumps(convert_to_openai_tool(tool), ensure_ascii=False) for tool in tools]
        return self

    def _generate(self, messages: list[BaseMessage], *_: Any, **__: Any) -> ChatResult:
        self.system[:] = [str(message.content) for message in messages if message.type == "system"]
        return ChatResult(generations=[ChatGeneration(message=AIMessage(content="Done."))])


def request_of_deepagents(root: Path | None) -> tuple[str, str]:
    """The same for an agent of deepagents; without skills if there is no root."""
    model = Recorder()
    options: dict[str, Any] = {}
    if root:
        options = {"skills": ["/"], "backend": FilesystemBackend(root_dir=root, virtual_mode=True)}
    agent = create_deep_agent(model=model, **options)
    agent.invoke({"messages": [{"role": "user", "content": "Hello."}]})
    return "\n".join(model.system), "\n".join(model.tools)


def form_of(system: str) -> str:
    found = [form for sentence, form in FORMS.items() if sentence in system]
    return found[0] if found else "full"


def listed(names: list[str], form: str, text: str) -> int:
    """How many of these names the list has: as words, or at the beginning of a line."""
    words = set(re.findall(r"[\w-]+" if form == "names" else r"(?m)^- \*\*([\w-]+)\*\*", text))
    return sum(name in words for name in names)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--prowess", type=lambda path: Path(path).absolute(), required=True)
    parser.add_argument("--prowess-bench", type=lambda path: Path(path).absolute(), required=True)
    parser.add_argument("--skills", type=Path, help="a directory of skills; by default, skills are made up")
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES, help="how many skills")
    arguments = parser.parse_args()
    os.environ.update(LANGSMITH_TRACING="false", LANGCHAIN_TRACING_V2="false")
    missed = False
    with tempfile.TemporaryDirectory() as scratch:
        source = arguments.skills
        if source is None:
            source = Path(scratch) / "made-up"
            subprocess.run([arguments.prowess_bench, "make", source, str(max(arguments.sizes))], check=True)
        source = sorted(path for path in source.iterdir() if (path / "SKILL.md").exists())
        print("| skills | window | form | tokens, o200k | tokens, estimate | in the list | by search | deepagents, o200k | estimate | factor | |")
        print("|---:|---:|---|---:|---:|---:|---:|---:|---:|---:|---|")
        empty = Path(scratch) / "empty"
        empty.mkdir()
        bare = {window: sum_of(request_of_prowess(arguments.prowess, empty, window)) for window in WINDOWS}
        theirs_bare = sum_of(request_of_deepagents(None))
        for size in arguments.sizes:
            root = Path(scratch) / str(size)
            names = write_skills(source, size, root)
            theirs = difference(sum_of(request_of_deepagents(root)), theirs_bare)
            reach = subprocess.run([arguments.prowess_bench, "reach", root], check=True, capture_output=True)
            found = json.loads(reach.stdout)
            for window in WINDOWS:
                system, tools = request_of_prowess(arguments.prowess, root, window)
                ours = difference(sum_of((system, tools)), bare[window])
                form = form_of(system)
                is_good = found["found"] == found["skills"] == size
                if size == BAR_SIZE:
                    is_good &= max(ours) <= BAR
                missed |= not is_good
                print(
                    f"| {size:,} | {window // 1_000:,}k | {form} | {ours[0]:,} | {ours[1]:,} "
                    f"| {listed(names, form, system):,} | {found['found']:,} | {theirs[0]:,} | {theirs[1]:,} "
                    f"| {theirs[0] / ours[0]:.1f}× | {'ok' if is_good else 'MISSED'} |",
                    flush=True,
                )
    return 1 if missed else 0


def sum_of(texts: tuple[str, str]) -> tuple[int, int]:
    exact, estimate = zip(*(tokens(text) for text in texts))
    return sum(exact), sum(estimate)


def difference(one: tuple[int, int], other: tuple[int, int]) -> tuple[int, int]:
    return one[0] - other[0], one[1] - other[1]


if __name__ == "__main__":
    sys.exit(main())
