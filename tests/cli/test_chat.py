"""`clearhead generate --chat`: conversations out of a file, each with the message that comes next."""

import json
from dataclasses import replace
from shutil import copytree

import pytest

import clearhead as ch
from clearhead.data.published import read_conversations
from clearhead.errors import BadInput, WrongTask
from pipelines.writers import gpt_folder, translator

TEMPLATE = "{{ bos_token }}{% for one in messages %}{{ one.role }}: {{ one.content }}\n{% endfor %}assistant:"
ASKED = [{"role": "user", "content": "Who barks?"}]
LONGER = [*ASKED, {"role": "assistant", "content": "Dogs."}, {"role": "user", "content": "And who meows?"}]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    made = copytree(gpt_folder(), tmp_path_factory.mktemp("chat") / "gpt")
    settings = {"bos_token": "<|endoftext|>", "chat_template": TEMPLATE}
    (made / "tokenizer_config.json").write_text(json.dumps(settings))
    return made


def write(path, rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def test_the_prompt_is_the_templates_and_nothing_more(folder):
    model = ch.load(folder)
    found = model.chat([ASKED, LONGER], max_new_tokens=6)
    (alone,) = model.chat([ASKED], max_new_tokens=6)
    assert replace(found[0], score=alone.score) == alone
    assert found[0].score == pytest.approx(alone.score, abs=1e-4)
    prompt = "<|endoftext|>user: Who barks?\nassistant:"
    assert found[0].tokens == model.generate(prompt, max_new_tokens=6).tokens
    drawn = [model.chat([LONGER], max_new_tokens=6, temperature=2.0, seed=seed)[0].tokens for seed in (1, 1, 2)]
    assert drawn[0] == drawn[1] != drawn[2]


def test_one_conversation_or_several(run, folder, tmp_path):
    one = write(tmp_path / "one.jsonl", LONGER)
    several = write(tmp_path / "several.jsonl", [{"messages": ASKED}, {"messages": LONGER, "id": 1}])
    how = ["-m", folder, "--max-new-tokens", 6]
    (alone,) = map(json.loads, run("generate", "--chat", one, *how, "--json")[1].splitlines())
    both = [json.loads(line) for line in run("generate", "--chat", several, *how, "--json")[1].splitlines()]
    assert list(alone) == ["messages", "generated", "score", "ended"]
    assert [row["messages"] for row in both] == [ASKED, LONGER]
    assert both[1] == alone
    code, out, _ = run("generate", "--chat", one, *how)
    assert (code, out) == (0, f"{alone['generated']}\n")


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ([], "has no messages; write a role and a content a line"),
        ([*ASKED, {"messages": ASKED}], "has both messages and lists of them"),
        ([{"role": "user"}], "line 1, message 1 has None for 'content'; write a text"),
        ([{"messages": []}], "line 1 has no message; give one"),
        ([{"messages": [*ASKED, "Dogs."]}], "line 1, message 2 has None for 'role'"),
        (["Dogs."], "line 1, message 1 has None for 'role'"),
    ],
)
def test_a_file_of_no_conversation_is_refused(tmp_path, rows, said):
    with pytest.raises(BadInput, match=said):
        read_conversations(write(tmp_path / "chat.jsonl", rows))


def test_what_cannot_go_on_says_so(run, folder, tmp_path):
    file = write(tmp_path / "chat.jsonl", ASKED)
    for arguments, said in (
        (["--chat", file, "-m", gpt_folder()], "this model has no chat template"),
        (["Once", "--chat", file, "-m", folder], "give prompts, or messages with --chat FILE, not both"),
        (["--chat", file, "-m", folder, "--num-return-sequences", 2], "goes on with one message"),
        (["--chat", tmp_path / "none.jsonl", "-m", folder], "There is no file"),
    ):
        code, out, err = run("generate", *arguments)
        assert (code, out, said in err) == (2, "", True), err
    with pytest.raises(WrongTask, match="this model reads a source and answers no messages; choose a GPT"):
        translator().chat([ASKED])


def test_a_line_may_be_a_list_of_messages(tmp_path):
    said = [{"role": "user", "content": "hi"}]
    assert read_conversations(write(tmp_path / "chat.jsonl", [said, {"messages": said}])) == [said, said]
