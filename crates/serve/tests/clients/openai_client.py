"""The client of OpenAI for Python: openai_client.py URL TOKEN"""

import sys

import openai

url, token = sys.argv[1:]
client = openai.OpenAI(base_url=f"{url}/v1", api_key=token, max_retries=0)
model = "prowess"


def refused(kind, call, **arguments):
    try:
        call(**arguments)
    except kind as error:
        assert error.type and error.code, f"not of OpenAI's form: {error.body}"
    else:
        raise AssertionError(f"no {kind.__name__}")


assert [known.id for known in client.models.list()] == [model]

hello = [{"role": "user", "content": "Hello"}]
whole = client.chat.completions.create(model=model, messages=hello)
assert whole.choices[0].message.content == "Hello there, friend.", whole
assert whole.usage.total_tokens == 110, whole.usage
chunks = list(client.chat.completions.create(model=model, messages=hello, stream=True))
assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks) == "Hello there, friend."
assert chunks[-1].choices[0].finish_reason == "stop"
with client.chat.completions.stream(model=model, messages=hello) as stream:
    assert stream.get_final_completion().choices[0].message.content == "Hello there, friend."

asked = client.chat.completions.create(model=model, messages=[{"role": "user", "content": "Look up the tide"}])
assert f"{url}/#/thread/" in asked.choices[0].message.content, asked

first = client.responses.create(model=model, input="Hello, the colour is green.", metadata={"mine": "1"})
assert first.status == "completed" and first.output_text and first.metadata == {"mine": "1"}, first
second = client.responses.create(model=model, input="Which colour is it?", previous_response_id=first.id)
assert second.output_text == "It is green." and second.usage.total_tokens == 110, second
with client.responses.stream(model=model, input="Make a plan", previous_response_id=second.id) as stream:
    events = list(stream)
    final = stream.get_final_response()
assert final.output_text == "Planned.", final
assert [event.sequence_number for event in events] == list(range(len(events))), events
plain = list(client.responses.create(model=model, input="Hello", stream=True))
assert plain[0].type == "response.created" and plain[-1].type == "response.completed", plain
question = client.responses.create(model=model, input="Look up the tide")
assert "waits for your reply" in question.output_text, question
failed = list(client.responses.create(model=model, input="Now fail", stream=True))
assert failed[-1].type == "response.failed" and "No such luck" in failed[-1].response.error.message, failed[-1]

refused(openai.ConflictError, client.responses.create, model=model, input="Hello", previous_response_id=question.id)
refused(openai.NotFoundError, client.responses.create, model="other", input="Hello")
refused(openai.BadRequestError, client.responses.create, model=model, input=[])
refused(openai.InternalServerError, client.responses.create, model=model, input="Now fail")
wrong = openai.OpenAI(base_url=f"{url}/v1", api_key="wrong", max_retries=0)
refused(openai.AuthenticationError, wrong.responses.create, model=model, input="Hello")

print("openai for Python: models, chat completions and responses work")
