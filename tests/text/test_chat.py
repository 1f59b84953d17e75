"""Chat templates: the prompts of transformers, and nothing that a prompt has no need of."""

import json

import pytest
import transformers

from clearhead.errors import BadCheckpoint, BadInput, NotFound
from clearhead.text import Tokenizer, train_tokenizer
from clearhead.text.chat import ChatTemplate

MESSAGES = [
    {"role": "system", "content": " Be brief. "},
    {"role": "user", "content": "Who's barking,\nnaïve café?"},
    {"role": "assistant", "content": "<think>dogs</think> Dogs."},
    {"role": "user", "content": "And who 'meows'?"},
]
CHATML = (
    "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>\n' }}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)
LLAMA = """\
{%- if messages[0]['role'] == 'system' %}
    {%- set system, rest = messages[0]['content'] | trim, messages[1:] %}
{%- else %}
    {%- set system, rest = '', messages %}
{%- endif %}
{{- bos_token }}
{%- for message in rest %}
    {%- if (message.role == 'user') != (loop.index0 % 2 == 0) %}
        {{- raise_exception('roles must alternate') }}
    {%- endif %}
    {%- if message.role == 'user' %}
        {{- '[INST] ' + ('<<SYS>>' + system + '<</SYS>> ' if loop.first and system else '') }}
        {{- message.content.strip() + ' [/INST]' }}
    {%- else %}
        {{- ' ' + message.content.split('</think>')[-1].lstrip() + ' ' + eos_token }}
    {%- endif %}
{%- endfor %}
"""
NAMESPACE = """\
{%- set ns = namespace(users=0, last='') %}
{%- for message in messages if message.role in ['user', 'assistant'] %}
    {%- set ns.users = ns.users + 1 %}
    {%- set ns.last = message.content %}
    {%- if ns.users > 2 %}{% break %}{% endif %}
{%- endfor %}
{{- messages | selectattr('role', 'equalto', 'user') | list | length }} {{ ns.users }} {{ ns.last | tojson }}
{{- {'a': ["it's", 1]} | tojson(indent=2) }}
{%- for key, value in messages[0].items() %}{{ key | upper }}={{ value }};{% endfor %}
{%- macro said(one) %}<{{ one.role | title }}>{% endmacro %}{{ said(messages[-1]) }}{{ undefined_one }}
"""


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory):
    folder = tmp_path_factory.mktemp("chat")
    made = train_tokenizer(texts=["dogs bark and cats meow"] * 3, kind="bpe", vocabulary=300, min_frequency=1)
    ends = {"bos_token": {"content": "<s>", "__type": "AddedToken"}, "eos_token": "</s>"}
    Tokenizer(made._library, {**made.settings, **ends}).save(folder)
    return folder


def with_template(folder, template):
    own = Tokenizer.from_folder(folder)
    return Tokenizer(own._library, {**own.settings, "chat_template": template})


@pytest.mark.parametrize("template", [CHATML, LLAMA, NAMESPACE], ids=["chatml", "llama", "namespace"])
def test_prompts_are_those_of_transformers(tokenizer, template):
    theirs = transformers.AutoTokenizer.from_pretrained(tokenizer)
    tokens = {name: str(token) for name, token in theirs.special_tokens_map.items() if isinstance(token, str)}
    ours = ChatTemplate(template, tokens).render(MESSAGES)
    assert ours == theirs.apply_chat_template(
        MESSAGES, chat_template=template, tokenize=False, add_generation_prompt=True
    )
    own = ChatTemplate.of(with_template(tokenizer, template))
    assert own.tokens["bos_token"] == tokens["bos_token"]


def test_where_a_template_lies(tokenizer, tmp_path):
    several = [{"name": "tools", "template": "x"}, {"name": "default", "template": CHATML}]
    assert ChatTemplate.of(with_template(tokenizer, several)).source == CHATML
    with_template(tokenizer, None).save(tmp_path / "new")
    (tmp_path / "new" / "chat_template.jinja").write_text(CHATML)
    read = Tokenizer.from_folder(tmp_path / "new")
    assert ChatTemplate.of(read).source == CHATML
    read.save(tmp_path / "again")
    assert json.loads((tmp_path / "again" / "tokenizer_config.json").read_text())["chat_template"] == CHATML
    with pytest.raises(NotFound, match="this model has no chat template; it goes on from plain prompts"):
        ChatTemplate.of(with_template(tokenizer, None))
    for wrong in (5, [{"name": "default", "template": 5}]):
        with pytest.raises(BadCheckpoint, match="is no text but 5"):
            ChatTemplate.of(with_template(tokenizer, wrong))


@pytest.mark.parametrize(
    "template",
    [
        "{{ ''.__class__.__mro__ }}",
        "{{ messages.append({}) }}",
        "{{ messages[0].update({'a': 1}) }}",
        "{{ namespace.__init__.__globals__ }}",
        "{{ cycler.__init__.__globals__ }}",
        "{{ lipsum() }}",
        "{% include '/etc/passwd' %}",
        "{% import 'os' as os %}{{ os }}",
        "{{ 'a' * 1000000000 }}",
        "{{ [1] * 1000000000 }}",
        "{{ 10 ** 1000000000 }}",
        "{{ '%1000000000d' % 1 }}",
        "{{ '%1000000000d' | format(1) }}",
        "{{ '{:1000000000}'.format(1) }}",
        "{{ 'a'.ljust(1000000000) }}",
        "{{ 'a' | center(1000000000) }}",
        "{{ 'a' | indent(1000000000) }}",
        "{% for i in range(1000000000) %}{% endfor %}",
        "{% for i in range(9999) %}{{ messages }}{% endfor %}",
        "{% for",
        "{{ messages.nothing.more }}",
        "{{ 1 / 0 }}",
        "{{ messages['a']['b'] }}",
        "{{ 'a' + 1 }}",
    ],
)
def test_what_a_prompt_has_no_need_of_is_refused(template):
    with pytest.raises(
        (BadCheckpoint, BadInput), match=r"the chat template \(chat_template in tokenizer_config.json\)"
    ):
        ChatTemplate(template, {}).render(MESSAGES)


@pytest.mark.parametrize(
    "template",
    ["{{ messages.__class__ }}", "{{ raise_exception.__globals__ }}", "{{ self._TemplateReference__context }}"],
)
def test_what_is_hidden_is_nothing(template):
    assert ChatTemplate(template, {}).render(MESSAGES) == ""


def test_messages_stay_as_they_were():
    messages = [{"role": "user", "content": "a"}]
    assert ChatTemplate("{% set x = messages[0] %}{{ x.content }}", {}).render(messages) == "a"
    assert messages == [{"role": "user", "content": "a"}]


@pytest.mark.parametrize(
    ("messages", "said"),
    [
        ([], "the conversation has no message"),
        ([{"role": "user"}], "message 1 has None for 'content'; write a text"),
        ([{"role": "user", "content": "a"}, {"role": 3, "content": "a"}], "message 2 has 3 for 'role'"),
        (["Hello"], "message 1 has None for 'role'"),
    ],
)
def test_what_is_no_conversation_is_refused(messages, said):
    with pytest.raises(BadInput, match=said):
        ChatTemplate(CHATML, {}).render(messages)


def test_a_template_may_refuse_messages_itself():
    twice = [{"role": "user", "content": "a"}] * 2
    with pytest.raises(BadInput, match="the model's chat template refuses these messages: 'roles must alternate'"):
        ChatTemplate(LLAMA, {"bos_token": "<s>", "eos_token": "</s>"}).render(twice)
