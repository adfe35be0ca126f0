"""Lets agents of deepagents and of prowess have the same turn, in one run, and compares the CPU time of a step.

A step: the model is asked, answers with one call of a tool that adds two numbers, and the tool answers. After 50 of
them the model says that it is done. The model does nothing but answer; it reads no file, calls nobody, and ignores the
tools that are bound to it, so that all of the time is the loop's.

The parts of both agents are the same: skills (those in `examples/skills`, found anew for every turn), todos, file tools
with eviction of large results, a sub-agent for everything, and summarisation. The other row has no parts: the tool and
the loop alone, which in deepagents is `create_agent` of langchain.

What is in deepagents' favour: building its agent is not counted, nor are its imports; it stays in one warmed-up process
while every measurement of prowess begins a fresh one; and it need not keep what happened, which prowess always does.
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
# prowess has to take at least so many times less for a step of the agent with parts.
BAR = 50
# How often each is measured; the least counts. The first turn of each does not count.
REPETITIONS = 10
SKILLS = Path(__file__).resolve().parent.parent / "examples" / "skills"
PROMPT = "You add numbers for others."
PARTS = "skills, todos, files, sub-agent, summarisation"


class Adds(BaseChatModel):
    """Calls the tool so many times, and then says that it is done."""

    @property
    def _llm_type(self) -> str:
        return "adds"

    def bind_tools(self, tools: Any, **_: Any) -> "Adds":
        return self

    def _generate(self, messages: list[BaseMessage], *_: Any, **__: Any) -> ChatResult:
        # The system prompt, what the user said, then a call and its result for each step.
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


def with_parts(model: BaseChatModel, **options: Any) -> Any:
    return create_deep_agent(
        model=model,
        tools=[add],
        system_prompt=PROMPT,
        middleware=[TodoListMiddleware()],
        skills=["/"],
        backend=FilesystemBackend(root_dir=SKILLS, virtual_mode=True),
        **options,
    )


def without_parts(model: BaseChatModel, **options: Any) -> Any:
    return create_agent(model=model, tools=[add], system_prompt=PROMPT, **options)


class Asked(Adds):
    """Keeps what it was asked, to see that nothing is missing."""

    system: list[str] = []
    tools: list[str] = []

    def bind_tools(self, tools: Any, **_: Any) -> "Asked":
        self.tools[:] = [getattr(tool, "name", "") for tool in tools]
        return self

    def _generate(self, messages: list[BaseMessage], *_: Any, **__: Any) -> ChatResult:
        self.system[:] = [str(messages[0].content)]
        return super()._generate(messages)


def check_parts() -> None:
    """The agent with parts has all of them, or there is nothing to compare."""
    model = Asked()
    turn(with_parts(model), 0)
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
        sys.exit(f"deepagents ended otherwise: {len(said)} messages, the last are {said[-2:]}")
    return spent / STEPS * 1e6


def turn_of_prowess(program: Path, task: str, directory: str) -> float:
    run = subprocess.run([program, "task", task, directory], check=True, capture_output=True)
    sample = json.loads(run.stdout)
    if sample["skills"] != STEPS:
        sys.exit(f"prowess made {sample['skills']} steps")
    return sample["ms"] * 1_000


def measure(program: Path, task: str, make: Callable[..., Any]) -> tuple[float, float, float]:
    """The least of prowess, of deepagents, and of deepagents when it keeps every step in memory, as prowess does."""
    forgets, keeps = make(Adds()), make(Adds(), checkpointer=InMemorySaver())
    ours, theirs, kept = [], [], []
    with tempfile.TemporaryDirectory() as directory:
        for number in range(REPETITIONS + 1):
            ours.append(turn_of_prowess(program, task, directory))
            theirs.append(turn(forgets, number))
            kept.append(turn(keeps, number))
    return min(ours[1:]), min(theirs[1:]), min(kept[1:])


def compare(program: Path) -> bool:
    """Prints the table, and says whether the bar is met."""
    os.environ.update(LANGSMITH_TRACING="false", LANGCHAIN_TRACING_V2="false")
    check_parts()
    print("| agent | prowess | deepagents, keeps nothing | deepagents, keeps in memory | factor | bar | |")
    print("|-------|--------:|--------------------------:|----------------------------:|-------:|----:|-|")
    met = True
    rows = [(PARTS, "steps", with_parts, BAR), ("no parts", "steps-bare", without_parts, None)]
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
