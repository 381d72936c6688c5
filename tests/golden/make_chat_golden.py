"""Writes tests/golden/chat_golden.json: conversations as transformers' chat templates render them.

    python tests/golden/make_chat_golden.py            # transformers 5.23, jinja2 3.1.6

The templates below were written for this file. Each uses the constructs of the templates that the models of its
family are published with, or of other published ones, in other words and with other texts; none is a copy of one.
GPT-2, Mamba-2 and the flash-linear-attention families are published without a template.
"""

import datetime
import json
import pathlib
import re

import jinja2
import transformers
from transformers.utils import chat_template_utils

NOW = datetime.datetime(2026, 7, 9, 15, 4, 5)


class FrozenTime(datetime.datetime):
    @classmethod
    def now(cls, tz=None):
        return NOW


TEMPLATES = {
    # The first Llamas: one system text before the first turn, roles that must alternate.
    "llama2": """{% if messages[0]['role'] == 'system' %}{% set rest = messages[1:] %}{% set rules = messages[0]['content'] %}{% else %}{% set rest = messages %}{% set rules = false %}{% endif %}{% for turn in rest %}{% if (turn['role'] == 'user') != (loop.index0 % 2 == 0) %}{{ raise_exception('turns of user and assistant must take each other\\'s place') }}{% endif %}{% if loop.index0 == 0 and rules != false %}{% set said = '<<SYS>>\\n' + rules.strip() + '\\n<</SYS>>\\n\\n' + turn['content'] %}{% else %}{% set said = turn['content'] %}{% endif %}{% if turn['role'] == 'user' %}{{ bos_token + '[INST] ' + said.strip() + ' [/INST]' }}{% elif turn['role'] == 'assistant' %}{{ ' ' + said.strip() + ' ' + eos_token }}{% endif %}{% endfor %}""",
    # Headers around each role, the text trimmed.
    "llama3": """{% set loop_messages = messages %}{% for message in loop_messages %}{% set piece = '<|start_header_id|>' + message['role'] + '<|end_header_id|>\n\n' + message['content'] | trim + '<|eot_id|>' %}{% if loop.index0 == 0 %}{% set piece = bos_token + piece %}{% endif %}{{ piece }}{% endfor %}{% if add_generation_prompt %}{{ '<|start_header_id|>assistant<|end_header_id|>\n\n' }}{% endif %}""",
    # Tools, dates, calls of the assistant as JSON; "-" in most tags.
    "llama3.1": """{{- bos_token }}
{%- if custom_tools is defined %}
    {%- set tools = custom_tools %}
{%- endif %}
{%- if not date_string is defined %}
    {%- if strftime_now is defined %}
        {%- set date_string = strftime_now("%d %b %Y") %}
    {%- else %}
        {%- set date_string = "26 Jul 2024" %}
    {%- endif %}
{%- endif %}
{%- if not tools is defined %}
    {%- set tools = none %}
{%- endif %}
{#- The system's text, whether the conversation has one or not. #}
{%- if messages[0]['role'] == 'system' %}
    {%- set system_text = messages[0]['content']|trim %}
    {%- set messages = messages[1:] %}
{%- else %}
    {%- set system_text = "" %}
{%- endif %}
{{- "<|start_header_id|>system<|end_header_id|>\\n\\n" }}
{%- if tools is not none %}
    {{- "Environment: ipython\\n" }}
{%- endif %}
{{- "Knowledge ends: May 2025\\nToday: " + date_string + "\\n\\n" }}
{%- if tools is not none %}
    {{- "These functions can be called:\\n\\n" }}
    {%- for t in tools %}
        {{- t | tojson(indent=4) }}
        {{- "\\n\\n" }}
    {%- endfor %}
{%- endif %}
{{- system_text }}
{{- "<|eot_id|>" }}
{%- for message in messages %}
    {%- if not (message.role == 'ipython' or message.role == 'tool' or 'tool_calls' in message) %}
        {{- '<|start_header_id|>' + message['role'] + '<|end_header_id|>\\n\\n'+ message['content'] | trim + '<|eot_id|>' }}
    {%- elif 'tool_calls' in message %}
        {%- if not message.tool_calls|length == 1 %}
            {{- raise_exception("One call at a time is known here") }}
        {%- endif %}
        {%- set tool_call = message.tool_calls[0].function %}
        {{- '<|start_header_id|>assistant<|end_header_id|>\\n\\n' -}}
        {{- '{"name": "' + tool_call.name + '", ' }}
        {{- '"parameters": ' }}
        {{- tool_call.arguments | tojson }}
        {{- "}" }}
        {{- "<|eot_id|>" }}
    {%- elif message.role == "tool" or message.role == "ipython" %}
        {{- "<|start_header_id|>ipython<|end_header_id|>\\n\\n" }}
        {%- if message.content is mapping or message.content is iterable %}
            {{- message.content | tojson }}
        {%- else %}
            {{- message.content }}
        {%- endif %}
        {{- "<|eot_id|>" }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|start_header_id|>assistant<|end_header_id|>\\n\\n' }}
{%- endif %}
""",
    "mistral": """{{ bos_token }}{% for message in messages %}{% if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}{{ raise_exception('user and assistant must alternate') }}{% endif %}{% if message['role'] == 'user' %}{{ '[INST] ' + message['content'] + ' [/INST]' }}{% elif message['role'] == 'assistant' %}{{ message['content'] + eos_token}}{% else %}{{ raise_exception('only user and assistant speak here') }}{% endif %}{% endfor %}""",
    # A namespace as counter, selectattr and list, results of tools, nine-letter ids of calls.
    "mistral_tools": """{%- if messages[0]["role"] == "system" %}
    {%- set system_message = messages[0]["content"] %}
    {%- set loop_messages = messages[1:] %}
{%- else %}
    {%- set loop_messages = messages %}
{%- endif %}
{%- if not tools is defined %}
    {%- set tools = none %}
{%- endif %}
{%- set user_messages = loop_messages | selectattr("role", "equalto", "user") | list %}
{%- set ns = namespace() %}
{%- set ns.index = 0 %}
{%- for message in loop_messages %}
    {%- if not (message.role == "tool" or message.role == "tool_results" or (message.tool_calls is defined and message.tool_calls is not none)) %}
        {%- if (message["role"] == "user") != (ns.index % 2 == 0) %}
            {{- raise_exception("after an optional system text, user and assistant alternate") }}
        {%- endif %}
        {%- set ns.index = ns.index + 1 %}
    {%- endif %}
{%- endfor %}
{{- bos_token }}
{%- for message in loop_messages %}
    {%- if message["role"] == "user" %}
        {%- if tools is not none and (message == user_messages[-1]) %}
            {{- "[AVAILABLE_TOOLS] [" }}
            {%- for tool in tools %}
                {%- set tool = tool.function %}
                {{- '{"type": "function", "function": {' }}
                {%- for key, val in tool.items() if key != "return" %}
                    {%- if val is string %}
                        {{- '"' + key + '": "' + val + '"' }}
                    {%- else %}
                        {{- '"' + key + '": ' + val|tojson }}
                    {%- endif %}
                    {%- if not loop.last %}
                        {{- ", " }}
                    {%- endif %}
                {%- endfor %}
                {{- "}}" }}
                {%- if not loop.last %}
                    {{- ", " }}
                {%- else %}
                    {{- "]" }}
                {%- endif %}
            {%- endfor %}
            {{- "[/AVAILABLE_TOOLS]" }}
        {%- endif %}
        {%- if loop.last and system_message is defined %}
            {{- "[INST] " + system_message + "\\n\\n" + message["content"] + "[/INST]" }}
        {%- else %}
            {{- "[INST] " + message["content"] + "[/INST]" }}
        {%- endif %}
    {%- elif message.tool_calls is defined and message.tool_calls is not none %}
        {{- "[TOOL_CALLS] [" }}
        {%- for tool_call in message.tool_calls %}
            {%- set out = tool_call.function|tojson %}
            {{- out[:-1] }}
            {%- if not tool_call.id is defined or tool_call.id|length != 9 %}
                {{- raise_exception("ids of calls have nine characters") }}
            {%- endif %}
            {{- ', "id": "' + tool_call.id + '"}' }}
            {%- if not loop.last %}
                {{- ", " }}
            {%- else %}
                {{- "]" + eos_token }}
            {%- endif %}
        {%- endfor %}
    {%- elif message["role"] == "assistant" %}
        {{- " " + message["content"]|trim + eos_token}}
    {%- elif message["role"] == "tool_results" or message["role"] == "tool" %}
        {%- if message.content is defined and message.content.content is defined %}
            {%- set content = message.content.content %}
        {%- else %}
            {%- set content = message.content %}
        {%- endif %}
        {{- '[TOOL_RESULTS] {"content": ' + content|string + ", " }}
        {{- '"call_id": "' + message.tool_call_id + '"}[/TOOL_RESULTS]' }}
    {%- else %}
        {{- raise_exception("an unknown role") }}
    {%- endif %}
{%- endfor %}
""",
    "qwen2": """{% for message in messages %}{% if loop.first and messages[0]['role'] != 'system' %}{{ '<|im_start|>system\nBe of help.<|im_end|>\n' }}{% endif %}{{'<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n'}}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}""",
    "qwen2.5": """{%- if tools %}
    {{- '<|im_start|>system\\n' }}
    {%- if messages[0]['role'] == 'system' %}
        {{- messages[0]['content'] }}
    {%- else %}
        {{- 'You are a model that was made for a test.' }}
    {%- endif %}
    {{- "\\n\\n# Tools\\n\\nSignatures stand in <tools></tools>:\\n<tools>" }}
    {%- for tool in tools %}
        {{- "\\n" }}
        {{- tool | tojson }}
    {%- endfor %}
    {{- "\\n</tools>\\n\\nA call is {\\"name\\": <name>, \\"arguments\\": <json>}<|im_end|>\\n" }}
{%- else %}
    {%- if messages[0]['role'] == 'system' %}
        {{- '<|im_start|>system\\n' + messages[0]['content'] + '<|im_end|>\\n' }}
    {%- else %}
        {{- '<|im_start|>system\\nYou are a model that was made for a test.<|im_end|>\\n' }}
    {%- endif %}
{%- endif %}
{%- for message in messages %}
    {%- if (message.role == "user") or (message.role == "system" and not loop.first) or (message.role == "assistant" and not message.tool_calls) %}
        {{- '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>' + '\\n' }}
    {%- elif message.role == "assistant" %}
        {{- '<|im_start|>' + message.role }}
        {%- if message.content %}
            {{- '\\n' + message.content }}
        {%- endif %}
        {%- for tool_call in message.tool_calls %}
            {%- if tool_call.function is defined %}
                {%- set tool_call = tool_call.function %}
            {%- endif %}
            {{- '\\n<tool_call>\\n{"name": "' }}
            {{- tool_call.name }}
            {{- '", "arguments": ' }}
            {{- tool_call.arguments | tojson }}
            {{- '}\\n</tool_call>' }}
        {%- endfor %}
        {{- '<|im_end|>\\n' }}
    {%- elif message.role == "tool" %}
        {%- if (loop.index0 == 0) or (messages[loop.index0 - 1].role != "tool") %}
            {{- '<|im_start|>user' }}
        {%- endif %}
        {{- '\\n<tool_response>\\n' }}
        {{- message.content }}
        {{- '\\n</tool_response>' }}
        {%- if loop.last or (messages[loop.index0 + 1].role != "tool") %}
            {{- '<|im_end|>\\n' }}
        {%- endif %}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\\n' }}
{%- endif %}
""",
    # Reasoning: only that after the last question stays; a slice backwards finds it.
    "qwen3": """{%- if messages[0].role == 'system' %}
    {{- '<|im_start|>system\\n' + messages[0].content + '<|im_end|>\\n' }}
{%- endif %}
{%- set ns = namespace(multi_step_tool=true, last_query_index=messages|length - 1) %}
{%- for message in messages[::-1] %}
    {%- set index = (messages|length - 1) - loop.index0 %}
    {%- if ns.multi_step_tool and message.role == "user" and message.content is string and not(message.content.startswith('<tool_response>') and message.content.endswith('</tool_response>')) %}
        {%- set ns.multi_step_tool = false %}
        {%- set ns.last_query_index = index %}
    {%- endif %}
{%- endfor %}
{%- for message in messages %}
    {%- if message.content is string %}
        {%- set content = message.content %}
    {%- else %}
        {%- set content = '' %}
    {%- endif %}
    {%- if (message.role == "user") or (message.role == "system" and not loop.first) %}
        {{- '<|im_start|>' + message.role + '\\n' + content + '<|im_end|>' + '\\n' }}
    {%- elif message.role == "assistant" %}
        {%- set reasoning_content = '' %}
        {%- if message.reasoning_content is string %}
            {%- set reasoning_content = message.reasoning_content %}
        {%- else %}
            {%- if '</think>' in content %}
                {%- set reasoning_content = content.split('</think>')[0].rstrip('\\n').split('<think>')[-1].lstrip('\\n') %}
                {%- set content = content.split('</think>')[-1].lstrip('\\n') %}
            {%- endif %}
        {%- endif %}
        {%- if loop.index0 > ns.last_query_index %}
            {%- if loop.last or (not loop.last and reasoning_content) %}
                {{- '<|im_start|>' + message.role + '\\n<think>\\n' + reasoning_content.strip('\\n') + '\\n</think>\\n\\n' + content.lstrip('\\n') }}
            {%- else %}
                {{- '<|im_start|>' + message.role + '\\n' + content }}
            {%- endif %}
        {%- else %}
            {{- '<|im_start|>' + message.role + '\\n' + content }}
        {%- endif %}
        {{- '<|im_end|>\\n' }}
    {%- elif message.role == "tool" %}
        {%- if loop.first or (messages[loop.index0 - 1].role != "tool") %}
            {{- '<|im_start|>user' }}
        {%- endif %}
        {{- '\\n<tool_response>\\n' + content + '\\n</tool_response>' }}
        {%- if loop.last or (messages[loop.index0 + 1].role != "tool") %}
            {{- '<|im_end|>\\n' }}
        {%- endif %}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\\n' }}
    {%- if enable_thinking is defined and enable_thinking is false %}
        {{- '<think>\\n\\n</think>\\n\\n' }}
    {%- endif %}
{%- endif %}""",
    # Content in parts, a name beside the role.
    "minimax": """{% for message in messages %}{% if message['role'] == 'system' %}{{ '<beginning_of_sentence>system ai_setting=assistant\\n' + message['content'][0]['text'] + '<end_of_sentence>\\n'}}{% elif message['role'] == 'user' %}{{ '<beginning_of_sentence>user name=user\\n' + message['content'][0]['text'] + '<end_of_sentence>\\n'}}{% elif message['role'] == 'assistant' %}{{ '<beginning_of_sentence>ai name=assistant\\n' }}{% for content in message['content'] | selectattr('type', 'equalto', 'text') %}{% generation %}{{ content['text'] }}{% endgeneration %}{% endfor %}{{ '<end_of_sentence>\\n' }}{% endif %}{% endfor %}{% if add_generation_prompt %}{{ '<beginning_of_sentence>ai name=assistant\\n' }}{% endif %}""",
    # ————— unusual ones, after what is published
    "generation_chatml": """{% for m in messages %}
{% if m.role == "assistant" %}
<|im_start|>assistant
{% generation %}{{ m.content }}<|im_end|>
{% endgeneration %}
{% else %}
<|im_start|>{{ m.role }}
{{ m.content }}<|im_end|>
{% endif %}
{% endfor %}
{% if add_generation_prompt %}
<|im_start|>assistant
{% endif %}
""",
    "macros": """{%- macro render(parts, image='<image>', sep='\\n') -%}
{%- if parts is string -%}{{ parts }}
{%- else -%}
{%- for p in parts -%}
{%- if p.type == 'text' -%}{{ p.text }}{%- elif p['type'] in ['image', 'image_url'] -%}{{ image }}{%- else -%}[{{ p.type|upper }}]{%- endif -%}
{%- if not loop.last -%}{{ sep }}{%- endif -%}
{%- endfor -%}
{%- endif -%}
{%- endmacro -%}
{%- for m in messages -%}
<|{{ m.role }}|>{{ render(m.content) if loop.first else render(m.content, sep=' ', image='<img ' ~ loop.index ~ '>') }}<|end|>
{% endfor -%}
""",
    # Types of a JSON schema as TypeScript, by a macro that calls itself.
    "schema_types": """{%- macro type_of(p) -%}
{%- if p.type == "object" -%}
{ {% for name, field in p.properties.items() %}{{ name }}{{ "" if name in p.get("required", []) else "?" }}: {{ type_of(field) }}{{ ", " if not loop.last }}{% endfor %} }
{%- elif p.type == "array" -%}{{ type_of(p["items"]) }}[]
{%- elif p.enum is defined -%}{{ p.enum | map("tojson") | join(" | ") }}
{%- else -%}{{ {"string": "string", "integer": "number", "number": "number", "boolean": "boolean"}.get(p.type if p.type is string else "", "any") }}
{%- endif -%}
{%- endmacro -%}
namespace functions {
{% for tool in tools %}
// {{ tool.function.description | default("no words", true) }}
type {{ tool.function.name }} = (_: {{ type_of(tool.function.parameters) }}) => any;
{% endfor %}
}
{% for m in messages %}{{ m.role }}: {{ m.content }}
{% endfor %}""",
    "blocks": """{% set system %}
  {% for m in messages if m.role == 'system' %}
{{ m.content | trim }}
  {% endfor %}
{% endset %}
{% set shout | upper | replace("!", "?") %}be {{ "quick" }}!{% endset %}
[{{ system | trim }}|{{ shout }}]
{% filter indent(2) %}
{% for m in messages if m.role != 'system' %}
{{ loop.index }}/{{ loop.length }} {{ m.role }}: {{ m.content }}
{% else %}
nothing said
{% endfor %}
{% endfilter %}
{% with a = 1, b = "x" %}{{ a }}{{ b }}{% endwith %}{{ b is defined }}
""",
    "call_blocks": """{% macro each(list) %}{% for item in list %}{{ caller(item.role) }}{% endfor %}{% endmacro %}
{% call(word) each(messages) %}<{{ word }}{% if word == 'user' %} *{% endif %}>{% endcall %}
""",
    "white_space": """  {# a comment #}
  {% if true %}
	tab {{ 1 }}   
  {%- if true -%}
     no blanks
  {%- endif +%}
  {%- endif %}

x   {%+ if true %} kept {% endif %}

 {{- ' y' -}}   
   z
{% raw %}{{ not }} {% for %}{% endraw %}
   {%- raw -%}   a b  {%- endraw -%}   
end

""",
    "loops": """{% for m in messages recursive %}{{ loop.depth }}{{ loop.cycle('a','b') }}{{ m.role }}{% if m.children %}({{ loop(m.children) }}){% endif %}{{ "," if not loop.last }}{% endfor %}
{% for m in messages %}{% if m.role == "tool" %}{% continue %}{% endif %}{% if loop.index > 3 %}{% break %}{% endif %}{{ loop.previtem.role if loop.previtem is defined else "-" }}>{{ m.role }}>{{ loop.nextitem.role if loop.nextitem is defined else "-" }} {{ loop.revindex }}{{ loop.revindex0 }}{{ loop.first }}{{ loop.changed(m.role) }}
{% endfor %}
{% for a, (b, c) in [[1, [2, 3]], [4, (5, 6)]] %}{{ a }}{{ b }}{{ c }};{% endfor %}
{% for k in {"x": 1, "y": none} %}{{ k }}{% endfor %}{% for c in "aé€𝄞" %}[{{ c }}]{% endfor %}
{% for q in [] %}q{% else %}none of them{% endfor %}{% for u in nothing %}u{% endfor %}
{% set x = 1 %}{% for i in range(3) %}{% set x = x + i %}{{ x }}{% endfor %}={{ x }}
""",
    "numbers": """{{ 7 // 2 }} {{ -7 // 2 }} {{ 7 % 3 }} {{ -7 % 3 }} {{ 7 / 2 }} {{ 2 ** 10 }} {{ 2 ** -1 }} {{ 1 + 2 * 3 - 4 }} {{ -2 ** 2 }} {{ 1e3 }} {{ 1.5e-7 }} {{ 0.1 + 0.2 }} {{ 1e22 }} {{ 1_000 }}
{{ 7.5 // 2 }} {{ -7.5 % 2 }} {{ 3.0 }} {{ 10 / 5 }} {{ 2.5 | round }} {{ 2.675 | round(2) }} {{ 7 | round }} {{ 2.1 | round(0, 'ceil') }} {{ 2.19 | round(1, 'floor') }}
{{ "12" | int + 1 }} {{ "x" | int(5) }} {{ "3.9" | int }} {{ "ff" | int(base=16) }} {{ "1.5" | float }} {{ "q" | float(0.5) }} {{ 3.99 | int }} {{ true + 1 }} {{ -3 | abs }} {{ (-3) | abs }}
{{ 1 < 2 < 3 }} {{ 1 < 2 > 3 }} {{ 1 == 1.0 == true }} {{ not 1 == 2 }} {{ 2 in [1, 2] }} {{ 2 not in [1, 2] }} {{ "a" in "cat" }} {{ "k" in {"k": 1} }}
{{ 5 is odd }} {{ 4 is even }} {{ 9 is divisibleby 3 }} {{ 4 is gt 3 }} {{ 1 is number }} {{ true is number }} {{ 1 is integer }} {{ true is integer }} {{ 1.0 is float }} {{ none is none }}
{{ [1, 2, 3] | sum }} {{ [3, 1, 2] | sort | join("-") }} {{ [3, 1] | max }} {{ ["b", "A"] | min }} {{ [1, 2, 2, 3, 1] | unique | list }} {{ 'a' if false }}|{{ [] | first }}|{{ [[1,2],[3]] | sum(start=[]) }}
""",
    "texts": """{{ "  pad " | trim }}|{{ "xxaxx".strip("x") }}|{{ "  l".lstrip() }}|{{ "r  ".rstrip() }}|{{ "a,b,,c".split(",") }}|{{ " a  b ".split() }}|{{ "a b c d".split(" ", 2) }}|{{ "a b c".rsplit(" ", 1) }}|{{ " x y  z".split(none, 1) }}
{{ "they're bill's FRIENDS-of mine" | title }}|{{ "they're bill's".title() }}|{{ "hELLO wORLD" | capitalize }}|{{ "straße" | upper }}|{{ "ÀÉ" | lower }}|{{ "ǆ".title() }}
{{ "a-b-c" | replace("-", "+", 1) }}|{{ "aaa".replace("a", "b", 2) }}|{{ "abc".replace("", "-") }}|{{ "x" * 3 }}|{{ 3 * "ab" }}|{{ "a" ~ 1 ~ none ~ true ~ 1.0 }}|{{ "%s is %d%%" % ("x", 3) }}|{{ "%s-%s" | format("p", 2) }}
{{ "héllo"[1] }}|{{ "héllo"[-1] }}|{{ "héllo"[1:3] }}|{{ "héllo"[::-1] }}|{{ "héllo"[::2] }}|{{ "abc"[5:] }}|{{ "abc"[-2:] }}|{{ "abc"[:-1] }}|{{ "abc"[9] }}|{{ "héllo" | length }}|{{ "héllo" | reverse }}|{{ "abc" | first }}{{ "abc" | last }}
{{ "a.b".startswith("a") }}|{{ "a.b".endswith(("x", "b")) }}|{{ "banana".find("na") }}|{{ "banana".rfind("na") }}|{{ "banana".count("an") }}|{{ "-".join(["p", "q"]) }}|{{ "p=1".removeprefix("p=") }}|{{ "1 2" | wordcount }}|{{ "x".find("y") }}
{{ "l1\nl2\r\nl3".splitlines() }}|{{ "12".isdigit() }}{{ "1a".isdigit() }}{{ "ab".isalpha() }}{{ "a1".isalnum() }}{{ " ".isspace() }}{{ "AB".isupper() }}{{ "Ab".islower() }}{{ "".isdigit() }}|{{ "ab" is lower }}{{ "AB" is upper }}
{{ "<a href='x'>\\"&</a>" | e }}|{{ "tab\\there \\x41\\u00e9 \\\\ \\q \\101" }}|{{ 'it''s' }}|{{ "l1\nl2\n\nl4" | indent }}|{{ "l1\nl2\n\nl4" | indent(2, true, true) }}|{{ "a\nb" | indent("> ", first=true) }}
{{ "z" > "é" }} {{ "abc" < "abd" }} {{ "Zeta" | string is string }} {{ 5 | string + "5" }} {{ "a" is in ["a"] }} {{ "A" is sameas "A" }} {{ "e\u0301" | length }} {{ "\u00a0x\u3000" | trim | length }}
""",
    "lists": """{{ [1, "two", 3.0, none, true, [4], {"k": "v"}, (5,), ()] }}
{{ "it's" | list }}|{{ ["it's", 'say "hi"', "both ' and \\"", "new\\nline", "\\x00\\x7f", "é", "\u200b"] }}
{{ [1,2,3][::-1] }} {{ [1,2,3][-2:] }} {{ [1,2,3][1] }} {{ [1,2,3][7] is defined }} {{ (1,2) + (3,) }} {{ [1] + [2] }} {{ [0] * 3 }} {{ [1,2,3] | reverse | list }} {{ [1,2,3] | last }}
{{ people | map(attribute="name") | join(", ") }}|{{ people | map(attribute="age", default=0) | list }}|{{ people | selectattr("age") | map(attribute="name") | list }}|{{ people | rejectattr("age", "defined") | list | length }}|{{ people | selectattr("age", "ge", 30) | list | length }}
{{ people | sort(attribute="name") | map(attribute="name") | list }}|{{ ["b", "A", "c"] | sort }}|{{ ["b", "A", "c"] | sort(case_sensitive=true, reverse=true) }}|{{ people | map(attribute="home.city") | list }}|{{ people[:2] | sort(attribute="age,name") | map(attribute="name") | join }}
{{ {"b": 1, "A": 2} | dictsort }}|{{ {"b": 1, "a": 2} | dictsort(by="value", reverse=true) }}|{{ {"b": 1}.items() | list }}|{{ {"b": 1} | items | list }}|{{ {"b": 1}.keys() | list }}|{{ {"b": 1}.values() | list }}|{{ {"b": 1}.get("c") }}|{{ {"b": 1}.get("c", 7) }}|{{ {"b": 1}["b"] }}|{{ {"b": 1}.b }}|{{ {"b": 1}.c is defined }}
{{ [0, 1, "", "x", none] | select | list }}|{{ [0, 1, 2] | reject("odd") | list }}|{{ ["a", "b"] | map("upper") | list }}|{{ ["a", "b"] | map("replace", "a", "z") | list }}|{{ [[1, 2], [3, 4]] | map("first") | list }}|{{ [1, 2] | map("string") | list }}
{{ dict(a=1, b="x") }}|{{ dict([["k", 2]]) }}|{{ dict({"a": 1}, b=2) }}|{{ {"a": {"b": [1, 2]}} == {"a": {"b": [1, 2]}} }}|{{ [1, 2] == (1, 2) }}|{{ {"items": 5}["items"] }}|{{ {1: "one", "1": "text"}[1] }}|{{ [3, 1].index(1) }}|{{ [3, 3].count(3) }}
{{ range(3) | list }}|{{ range(5, 0, -2) | list }}|{{ [] is iterable }}{{ 5 is iterable }}{{ "s" is sequence }}{{ {} is mapping }}{{ range is callable }}{{ x is undefined }}{{ x | default("d") }}{{ "" | default("d") }}{{ "" | default("d", true) }}{{ none | d("d") }}|{{ x }}|{{ (x or "or") }}{{ "" or 0 or "last" }}{{ 1 and "and" }}
""",
    "json": """{{ data | tojson }}
{{ data | tojson(indent=2) }}
{{ data | tojson(ensure_ascii=true) }}
{{ data | tojson(separators=(",", ":"), sort_keys=true) }}
{{ data | tojson(indent=1, sort_keys=true) }}
{{ [] | tojson }} {{ {} | tojson(indent=4) }} {{ none | tojson }} {{ "\u2028 \\u007f é 𝄞 \\t\\b\\f\\r \\"/ <&>" | tojson }} {{ 1e16 | tojson }} {{ 1e-5 | tojson }} {{ 123456789.125 | tojson }} {{ {1: 2, none: 3, true: 4} | tojson }}
""",
    "dates": """{{ strftime_now("%Y-%m-%d %H:%M:%S %A %B %j %y %I %p %% %-d") }}{% set today = strftime_now("%d %b %Y") %} [{{ today }}]{% for m in messages %}
{{ m.content }}{% endfor %}""",
    # A persona in a dict of texts, chosen by a variable; "in" with several keys.
    "personas": """{% set styles = {'brief': 'Few words.', 'long': 'Many words.'} %}{% set style = reasoning_effort | default('medium') %}{% if style in styles %}{{ styles[style] }}{% elif style is string and style | length > 3 %}{{ 'Style: ' ~ style | capitalize }}{% endif %}
{% for m in messages %}{{ '<|' + m['role'] + '|>' }}{{ m['content'] }}{{ eos_token if m['role'] == 'assistant' else '' }}{% endfor %}{% if add_generation_prompt %}<|assistant|>{% endif %}""",
    # System text is moved before the first question; roles get other names.
    "renamed_roles": """{{ bos_token }}{% if messages[0]['role'] == 'system' %}{% set prefix = messages[0]['content'] | trim + '\\n\\n' %}{% set messages = messages[1:] %}{% else %}{% set prefix = '' %}{% endif %}{% for message in messages %}{% if (message['role'] == 'assistant') %}{% set role = 'model' %}{% else %}{% set role = message['role'] %}{% endif %}{{ '<start_of_turn>' + role + '\n' + (prefix if loop.first else '') }}{% if message['content'] is string %}{{ message['content'] | trim }}{% elif message['content'] is iterable %}{% for item in message['content'] %}{% if item['type'] == 'image' %}{{ '<start_of_image>' }}{% elif item['type'] == 'text' %}{{ item['text'] | trim }}{% endif %}{% endfor %}{% else %}{{ raise_exception('content of no known type') }}{% endif %}{{ '<end_of_turn>\n' }}{% endfor %}{% if add_generation_prompt %}{{ '<start_of_turn>model\n' }}{% endif %}""",
    # Thoughts are dropped; several states in one namespace; content after the last mark.
    "reasoning_dropped": """{% if not add_generation_prompt is defined %}{% set add_generation_prompt = false %}{% endif %}{% set ns = namespace(is_first=false, is_tool=false, is_output_first=true, system_prompt='') %}{%- for message in messages %}{%- if message['role'] == 'system' %}{% set ns.system_prompt = message['content'] %}{%- endif %}{%- endfor %}{{ bos_token }}{{ ns.system_prompt }}{%- for message in messages %}{%- if message['role'] == 'user' %}{%- set ns.is_tool = false -%}{{ '<｜User｜>' + message['content'] }}{%- endif %}{%- if message['role'] == 'assistant' and message['content'] is none %}{%- set ns.is_tool = false -%}{%- for tool in message['tool_calls'] %}{%- if not ns.is_first %}{{ '<｜Assistant｜><｜calls begin｜>' + tool['type'] + '\\n' + '```json' + '\\n' + tool['function']['arguments'] + '\\n' + '```' }}{%- set ns.is_first = true -%}{%- else %}{{ '\\n' + tool['type'] }}{%- endif %}{%- endfor %}{%- endif %}{%- if message['role'] == 'assistant' and message['content'] is not none %}{%- set content = message['content'] %}{%- if '</think>' in content %}{%- set content = content.split('</think>')[-1] %}{%- endif %}{{ '<｜Assistant｜>' + content + '<｜end｜>' }}{%- endif %}{%- if message['role'] == 'tool' %}{%- set ns.is_tool = true -%}{%- if ns.is_output_first %}{{ '<｜outputs｜>' + message['content'] }}{%- set ns.is_output_first = false %}{%- else %}{{ '\\n' + message['content'] }}{%- endif %}{%- endif %}{%- endfor -%}{% if ns.is_tool %}{{ '<｜outputs end｜>' }}{% endif %}{% if add_generation_prompt and not ns.is_tool %}{{ '<｜Assistant｜><think>\\n' }}{% endif %}""",
    "documents": """{% if documents %}{% for doc in documents %}Document {{ loop.index }}: {{ doc.title }}
{{ doc['text'] | indent(4, first=True) }}

{% endfor %}{% endif %}{% for m in messages %}{{ m.role | upper }}: {{ m.content }}
{% endfor %}""",
    "images": """{% set image_count = namespace(value=0) %}{% for message in messages %}{{ '<|' + message.role + '|>\\n' }}{% if message.content is string %}{{ message.content }}{% else %}{% for content in message.content %}{% if content.type == 'image' or 'image' in content or 'image_url' in content %}{% set image_count.value = image_count.value + 1 %}{% if add_vision_id %}Picture {{ image_count.value }}: {% endif %}{{ '<|image_' ~ image_count.value ~ '|>' }}{% elif 'text' in content %}{{ content.text }}{% endif %}{% endfor %}{% endif %}{{ '<|end|>\\n' }}{% endfor %}""",
    "tool_use_plan": """{%- macro json_to_python_type(json_spec) %}
{%- set basic_type_map = {"string": "str", "number": "float", "integer": "int", "boolean": "bool"} %}
{%- if basic_type_map[json_spec.type] is defined %}
{{- basic_type_map[json_spec.type] }}
{%- elif json_spec.type == "array" %}
{{- "list[" + json_to_python_type(json_spec["items"]) + "]" }}
{%- elif json_spec.type is iterable and json_spec.type is not string %}
{{- "Union[" }}
{%- for t in json_spec.type %}
{{- json_to_python_type({"type": t}) }}{% if not loop.last %}{{ "," }}{% endif %}
{%- endfor %}
{{- "]" }}
{%- else %}
{{- "Any" }}
{%- endif %}
{%- endmacro %}
{{ bos_token }}{%- for tool in tools %}
{%- if tool.function is defined %}{%- set tool = tool.function %}{%- endif %}
def {{ tool.name }}({% for name, spec in tool.parameters.properties|items %}{{ name }}: {{ json_to_python_type(spec) }}{% if name not in tool.parameters.required %} = None{% endif %}{{ ", " if not loop.last else "" }}{% endfor %}):
    \"\"\"{{ tool.description }}\"\"\"
{% endfor %}
{%- for message in messages %}
{{ message.role }}: {{ message.content | default("(no content)", true) }}
{%- endfor %}
""",
    # Channels of one answer: thoughts and final text, the first dropped once a later answer follows; a macro with a default that reads another.
    "channels": """{%- macro piece(channel, text, end='<|end|>', to=none) -%}
<|start|>assistant{{ ' to=' ~ to if to else '' }}<|channel|>{{ channel }}<|message|>{{ text }}{{ end }}
{%- endmacro -%}
{%- set effort = reasoning_effort or 'medium' -%}
<|start|>system<|message|>Reasoning: {{ effort }}{% if tools %}
Functions: {{ tools | map(attribute='function.name') | sort | join(', ') }}{% endif %}<|end|>
{%- for m in messages -%}
{%- set later = messages[loop.index:] | selectattr('role', 'equalto', 'assistant') | list | length > 0 -%}
{%- if m.role == 'assistant' -%}
{%- if m.thinking and not later %}{{ piece('analysis', m.thinking) }}{% endif -%}
{%- for call in m.tool_calls or [] -%}
{%- if loop.length > 1 and not loop.first %}{{ '' }}{% endif -%}
{{ piece('commentary', call.function.arguments if call.function.arguments is string else call.function.arguments | tojson, '<|call|>', to='functions.' ~ call.function.name) }}
{%- endfor -%}
{%- if m.content %}{% generation %}{{ piece('final', m.content, '<|return|>' if loop.last else '<|end|>') }}{% endgeneration %}{% endif -%}
{%- elif m.role == 'tool' -%}
<|start|>functions.{{ messages[loop.index0 - 1].tool_calls[0].function.name if loop.index0 and messages[loop.index0 - 1].tool_calls else 'unknown' }} to=assistant<|message|>{{ m.content | tojson }}<|end|>
{%- else -%}
<|start|>{{ {'system': 'developer'}.get(m.role, m.role) }}<|message|>{{ m.content }}<|end|>
{%- endif -%}
{%- endfor -%}
{%- if add_generation_prompt -%}<|start|>assistant{%- endif -%}""",
    # Results of a search with marks to cite, texts in a dict of rules, a list that grows in a namespace, the last question found by reverse.
    "citations": """{%- set rules = {'accurate': 'Cite [n].', 'fast': 'Do not cite.'} -%}
{%- set ns = namespace(seen=[], last='') -%}
{%- for m in messages | reverse -%}{%- if m.role == 'user' and not ns.last -%}{%- set ns.last = m.content -%}{%- endif -%}{%- endfor -%}
{%- for doc in documents or [] -%}
{%- if doc.title not in ns.seen -%}
{%- set ns.seen = ns.seen + [doc.title] -%}
<doc id="{{ ns.seen | length - 1 }}" title="{{ doc.title | e }}">{{ (doc.text | default('', true)).split('\n')[0][:12] }}{{ '…' if doc.text | length > 12 }}</doc>
{% endif -%}
{%- endfor -%}
{%- for name, text in rules | dictsort if name == (citation_mode | default('accurate')) -%}{{ text }}{%- else -%}{{ raise_exception('no such mode') }}{%- endfor %}
{% for m in messages -%}
{%- set is_last = m.content == ns.last and loop.revindex <= 2 -%}
{{ '>>' if is_last else '  ' }}{{ m.role[0] | upper ~ m.role[1:] }}: {{ m.content.splitlines() | map('trim') | select | join(' / ') }}
{% endfor -%}""",
    "refuses": """{% for m in messages %}{% if m.role not in ['user', 'assistant'] %}{{ raise_exception('no role ' ~ m.role ~ ' here') }}{% endif %}{{ m.content }}{% endfor %}""",
    "undefined_attribute": "{{ messages[0].nothing.more }}",
    "undefined_call": "{{ nothing() }}",
    "appends": "{% set l = [] %}{{ l.append(1) }}",
    "adds_text_to_number": "{{ 'a' + 1 }}",
    "unknown_filter": "{{ 'a' | shuffled }}",
    "underscore": "{% set n = namespace(_x=1) %}{{ n._x }}",
    "mapping_of_texts": "{{ [1, 2].items() }}",
    "list_as_key": "{{ {}.get([1]) }}",
    "syntax": "{% if %}x{% endif %}",
}

SYSTEM = {"role": "system", "content": " Answer in the language of the question. "}
ASK = {"role": "user", "content": "Wie geht’s? 你好 <b>&</b>\n\nzweite Zeile  "}
SAY = {"role": "assistant", "content": " Gut, danke! {\"a\": 'b'} "}
AGAIN = {"role": "user", "content": "And now?"}
THOUGHT = {"role": "assistant", "content": "<think>\nI add.\n</think>\n\nFour."}
CALL = {"role": "assistant", "content": None, "tool_calls": [{"type": "function", "id": "abcdefghi", "function": {
    "name": "weather", "arguments": {"city": "Köln", "days": 3, "units": ["°C", "\"F\""], "exact": True, "limit": None, "share": 0.5}}}]}
TEXT_CALL = {"role": "assistant", "content": None, "tool_calls": [{"type": "function", "function": {"name": "f", "arguments": "{\"x\": 1}"}},
                                                                   {"type": "function", "function": {"name": "g", "arguments": "{}"}}]}
RESULT = {"role": "tool", "tool_call_id": "abcdefghi", "content": "{\"rain\": \"no\"}"}
TOOLS = [
    {"type": "function", "function": {"name": "weather", "description": "Tells the weather of \"a\" city – today's.", "parameters": {
        "type": "object", "properties": {"city": {"type": "string", "description": "where"}, "days": {"type": "integer", "default": 1},
                                         "units": {"type": "array", "items": {"type": "string"}},
                                         "kind": {"enum": ["now", "later"]}, "box": {"type": "object", "properties": {"w": {"type": "number"}}},
                                         "either": {"type": ["string", "integer"]}}, "required": ["city"]}}},
    {"type": "function", "function": {"name": "noop", "description": "", "parameters": {"type": "object", "properties": {}, "required": []}}},
]
PARTS = [{"role": "system", "content": [{"type": "text", "text": "Look closely."}]},
         {"role": "user", "content": [{"type": "text", "text": " what is this? "}, {"type": "image", "image": "x"}, {"type": "text", "text": "and this"},
                                      {"type": "image_url", "image_url": {"url": "y"}}]},
         {"role": "assistant", "content": [{"type": "text", "text": "A cat."}, {"type": "text", "text": " Two cats."}]}]
PEOPLE = [{"name": "Zoë", "age": 31, "home": {"city": "Oslo"}}, {"name": "adam", "age": 31, "home": {"city": "Rome"}}, {"name": "Bea"}]
DATA = {"b": [1, 2.5, -0.0, 1e100, True, None], "a": {"text": "é\n\"q\" \\ / \u2028", "empty": [], "none": {}}, "ü": "x"}
TREE = [{"role": "a", "children": [{"role": "b", "children": [{"role": "c"}]}, {"role": "d"}]}, {"role": "tool"}, {"role": "f"}, {"role": "g"}]

TALK = [SYSTEM, ASK, SAY, AGAIN]
BARE = [ASK, SAY, AGAIN]

CASES = []


def case(template, messages, **more):
    CASES.append({"name": f"{template} {sum(c['template'] == template for c in CASES)}", "template": template, "messages": messages, **more})


for name in ["llama2", "llama3", "llama3.1", "mistral_tools", "qwen2", "qwen2.5", "qwen3", "generation_chatml", "personas", "renamed_roles",
             "reasoning_dropped", "documents", "blocks", "call_blocks", "images"]:
    for messages in (TALK, BARE, [AGAIN], BARE[:2]):
        case(name, messages, add_generation_prompt=messages[-1]["role"] == "user")
case("mistral", BARE, add_generation_prompt=True)
case("mistral", TALK)
for name in ["llama3.1", "mistral_tools", "qwen2.5", "qwen3"]:
    case(name, [SYSTEM, ASK, CALL, RESULT], tools=TOOLS, add_generation_prompt=True)
    case(name, [ASK, CALL, RESULT, SAY, AGAIN], tools=TOOLS, add_generation_prompt=True)
    case(name, [ASK, TEXT_CALL, RESULT, RESULT, SAY], tools=TOOLS)
case("llama3.1", TALK, add_generation_prompt=True, variables={"date_string": "01 Jan 2000"})
case("qwen3", [ASK, THOUGHT, AGAIN], add_generation_prompt=True, variables={"enable_thinking": False})
case("qwen3", [ASK, THOUGHT], variables={"enable_thinking": True})
case("qwen3", [ASK, {"role": "assistant", "content": "Four.", "reasoning_content": "\nTwo and two.\n"}])
case("qwen3", [ASK, THOUGHT], continue_final_message=True)
case("llama3", [ASK, {"role": "assistant", "content": " Sure, here  "}], continue_final_message=True)
case("minimax", PARTS, add_generation_prompt=True)
case("minimax", PARTS[:2], add_generation_prompt=True)
case("minimax", PARTS, continue_final_message=True)
case("generation_chatml", [ASK, SAY, AGAIN, THOUGHT])
case("macros", PARTS)
case("macros", TALK)
case("renamed_roles", PARTS[1:], add_generation_prompt=True)
case("images", PARTS, variables={"add_vision_id": True})
case("images", PARTS)
case("schema_types", TALK, tools=TOOLS)
case("tool_use_plan", [SYSTEM, ASK, CALL, RESULT], tools=TOOLS)
case("white_space", TALK)
case("loops", TREE)
case("numbers", [])
case("texts", [])
case("lists", [], variables={"people": PEOPLE})
case("json", [], variables={"data": DATA})
case("dates", BARE)
case("personas", BARE, variables={"reasoning_effort": "brief"})
case("personas", BARE, variables={"reasoning_effort": "hIGH"})
case("reasoning_dropped", [SYSTEM, ASK, TEXT_CALL, RESULT, RESULT], add_generation_prompt=True)
case("reasoning_dropped", [ASK, THOUGHT, AGAIN], add_generation_prompt=True)
case("channels", [SYSTEM, ASK, CALL, RESULT, {**SAY, "thinking": "It is dry."}], tools=TOOLS)
case("channels", [SYSTEM, ASK, {**SAY, "thinking": "It is dry."}, AGAIN, SAY], variables={"reasoning_effort": "high"})
case("channels", [ASK, TEXT_CALL, RESULT], add_generation_prompt=True)
DOCUMENTS = [{"title": "A & \"B\"", "text": "a long first line\nsecond"}, {"title": "A & \"B\"", "text": "again"}, {"title": "C", "text": ""}]
case("citations", TALK, documents=DOCUMENTS)
case("citations", BARE, variables={"citation_mode": "fast"})
case("citations", BARE, variables={"citation_mode": "other"})
case("documents", BARE, documents=[{"title": "One", "text": "first\nsecond"}, {"title": "Two", "text": ""}])
for name in ["refuses", "undefined_attribute", "undefined_call", "appends", "adds_text_to_number", "unknown_filter", "underscore", "mapping_of_texts",
             "list_as_key", "syntax"]:
    case(name, TALK)
case("refuses", BARE)

TOKENS = {"bos_token": "<s>", "eos_token": "</s>"}


def merged(ranges):
    """Ranges in bytes are counted below; those that touch are one, and empty ones are none."""
    made = []
    for begin, end in ranges:
        if begin == end:
            continue
        if made and made[-1][1] == begin:
            made[-1][1] = end
        else:
            made.append([begin, end])
    return made


def rendered(each):
    source = TEMPLATES[each["template"]]
    marks = re.search(r"\{%-?\s*generation\s*-?%\}", source) is not None
    texts, indices = chat_template_utils.render_jinja_template(
        [each["messages"]], tools=each.get("tools"), documents=each.get("documents"), chat_template=source, return_assistant_tokens_mask=marks,
        continue_final_message=each.get("continue_final_message", False), add_generation_prompt=each.get("add_generation_prompt", False),
        **{**TOKENS, **each.get("variables", {})})
    text = texts[0]
    made = {"text": text}
    if marks and not each.get("continue_final_message"):
        made["written"] = merged([len(text[:begin].encode()), len(text[:end].encode())] for begin, end in indices[0])
    return made


def golden():
    chat_template_utils.datetime = FrozenTime
    for each in CASES:
        each["special_tokens"] = TOKENS
        try:
            each.update(rendered(json.loads(json.dumps(each))))
        except Exception as error:  # whatever the peer refuses
            each["error"] = f"{type(error).__name__}: {error}"[:200]
    return {"made_by": f"tests/golden/make_chat_golden.py, transformers {transformers.__version__}, jinja2 {jinja2.__version__}",
            "templates": TEMPLATES, "cases": CASES}


def main():
    path = pathlib.Path(__file__).with_name("chat_golden.json")
    path.write_text(json.dumps(golden(), ensure_ascii=False, indent=1) + "\n")
    errors = sum("error" in each for each in CASES)
    print(f"{len(CASES)} cases of {len(TEMPLATES)} templates, {errors} refused, {path.stat().st_size} bytes")


if __name__ == "__main__":
    main()
