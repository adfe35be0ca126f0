"""Runs the same turn with agents of deepagents and of prowess, and compares the CPU time of one step.

In each step, the model calls a tool that adds two numbers, and the tool answers. After 50 steps the model ends the
turn. The model only returns prepared responses. It ignores its tools, reads no file and sends nothing, so all of the
time belongs to the loop.

Both agents have the same middleware: skills (those in `examples/skills`, discovered for every turn), todos, file tools
with eviction of large results, a general sub-agent, and summarisation. The other row has no middleware: only the tool
and the loop, which in deepagents is `create_agent` of langchain.

Advantages of deepagents: the time to build its agent and its imports does not count; it stays in one warmed-up process,
while prowess starts a new one for every measurement; and it need not store events, which prowess always does.
"""

import gc
import json
import os
import resource
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from deepagents import create_deep_agent
from deepagents.backends.filesystem import FilesystemBackend
from langchain.agents import create_agent
from langchain.agents.middleware import TodoListMiddleware
from langchain_core.language_models.chat_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver

STEPS = 50
# A step of the agent with middleware must be at least this many times cheaper in prowess.
BAR = 50
# How often each is measured. The lowest value counts, and the first turn does not.
REPETITIONS = 10
SKILLS = Path(__file__).resolve().parent.parent / "examples" / "skills"
PROMPT = "You add numbers for others."
MIDDLEWARE = "skills, todos, files, sub-agent, summarisation"


class Adds(BaseChatModel):
    """A model that calls the tool this many times and then ends the turn."""

    @property
    def _llm_type(self) -> str:
        return "adds"

    def bind_tools(self, tools: Any, **_: Any) -> "Adds":
        return self

    def _generate(self, messages: list[BaseMessage], *_: Any, **__: Any) -> ChatResult:
        # The system prompt, the user's message, then a call and its result for each step.
        step = (len(messages) - 1) // 2
        if step < STEPS:
            call = {"name": "add", "args": {"a": step, "b": 1}, "id": f"call-{step}"}
            message = AIMessage(content="", tool_calls=[call])
        else:
            message = AIMessage(content="done")
        return ChatResult(generations=[ChatGeneration(message=message)])


@tool
def add(a: int, b: int) -> str:
    """Adds two numbers."""
    return str(a + b)


def with_middleware(model: BaseChatModel, **options: Any) -> Any:
    return create_deep_agent(
        model=model,
        tools=[add],
        system_prompt=PROMPT,
        middleware=[TodoListMiddleware()],
        skills=["/"],
        backend=FilesystemBackend(root_dir=SKILLS, virtual_mode=True),
        **options,
    )


def without_middleware(model: BaseChatModel, **options: Any) -> Any:
    return create_agent(model=model, tools=[add], system_prompt=PROMPT, **options)


class RecordingModel(Adds):
    """Records its system prompt and its tools, to check that nothing is missing."""

    system: list[str] = []
    tools: list[str] = []

    def bind_tools(self, tools: Any, **_: Any) -> "RecordingModel":
        self.tools[:] = [getattr(tool, "name", "") for tool in tools]
        return self

    def _generate(self, messages: list[BaseMessage], *_: Any, **__: Any) -> ChatResult:
        self.system[:] = [str(messages[0].content)]
        return super()._generate(messages)


def check_middleware() -> None:
    """Checks that the agent of deepagents has all middleware; otherwise there is nothing to compare."""
    model = RecordingModel()
    turn(with_middleware(model), 0)
    skills = [path.name for path in SKILLS.iterdir() if (path / "SKILL.md").exists()]
    missing = [name for name in skills if name not in model.system[0]]
    expected = ["add", "write_todos", "ls", "read_file", "write_file", "edit_file", "glob", "grep", "task"]
    missing += [name for name in expected if name not in model.tools]
    if missing or not skills:
        sys.exit(f"the agent of deepagents lacks {missing}: it has {model.tools}, {model.system}")


def cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def turn(agent: Any, number: int) -> float:
    """The CPU time of one step, of all threads, in microseconds."""
    # langgraph counts every node of its graph.
    config = {"recursion_limit": 100 * STEPS, "configurable": {"thread_id": str(number)}}
    gc.collect()
    before = cpu()
    result = agent.invoke({"messages": [{"role": "user", "content": "Add some numbers."}]}, config)
    spent = cpu() - before
    said = [message.content for message in result["messages"]]
    if len(said) != 2 * STEPS + 2 or said[-2:] != [str(STEPS), "done"]:
        sys.exit(f"deepagents gave another result: {len(said)} messages, the last are {said[-2:]}")
    return spent / STEPS * 1e6


def turn_of_prowess(program: Path, task: str, directory: str) -> float:
    run = subprocess.run([program, "task", task, directory], check=True, capture_output=True)
    sample = json.loads(run.stdout)
    if sample["skills"] != STEPS:
        sys.exit(f"prowess made {sample['skills']} steps")
    return sample["ms"] * 1_000


def measure(program: Path, task: str, make: Callable[..., Any]) -> tuple[float, float, float]:
    """The lowest times of prowess, of deepagents, and of deepagents with all steps stored in memory."""
    forgets, keeps = make(Adds()), make(Adds(), checkpointer=InMemorySaver())
    ours, theirs, kept = [], [], []
    with tempfile.TemporaryDirectory() as directory:
        for number in range(REPETITIONS + 1):
            ours.append(turn_of_prowess(program, task, directory))
            theirs.append(turn(forgets, number))
            kept.append(turn(keeps, number))
    return min(ours[1:]), min(theirs[1:]), min(kept[1:])


def compare(program: Path) -> bool:
    """Prints the table, and returns whether prowess meets the bar."""
    os.environ.update(LANGSMITH_TRACING="false", LANGCHAIN_TRACING_V2="false")
    check_middleware()
    print("| agent | prowess | deepagents, keeps nothing | deepagents, keeps in memory | factor | bar | |")
    print("|-------|--------:|--------------------------:|----------------------------:|-------:|----:|-|")
    met = True
    rows = [(MIDDLEWARE, "steps", with_middleware, BAR), ("no middleware", "steps-bare", without_middleware, None)]
    for name, task, make, bar in rows:
        ours, theirs, kept = measure(program, task, make)
        factor = min(theirs, kept) / ours
        verdict = "" if bar is None else "ok" if factor >= bar else "MISSED"
        met &= verdict != "MISSED"
        shown = "" if bar is None else f"≥ {bar}×"
        print(
            f"| {name} | {ours:.1f} µs | {theirs:,.0f} µs | {kept:,.0f} µs | {factor:.0f}× | {shown} | {verdict} |",
            flush=True,
        )
    return met
