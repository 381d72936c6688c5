#include "serve/chat_page.h"

namespace longhaul::serve {
namespace {

constexpr const char* kStyle = R"css(
:root { color-scheme: light dark; --line: #8885; --soft: #8882; --accent: #2563eb; }
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 60rem; padding: 1rem; font: 16px/1.5 system-ui, sans-serif; min-height: 100vh; display: flex; flex-direction: column; }
header { display: flex; flex-wrap: wrap; gap: .5rem 1rem; align-items: baseline; }
h1 { font-size: 1.2rem; margin: 0; }
#figures { margin-left: auto; font-variant-numeric: tabular-nums; opacity: .75; }
details { border: 1px solid var(--line); border-radius: .5rem; padding: .4rem .8rem; margin: .6rem 0; }
.fields { display: grid; grid-template-columns: repeat(auto-fit, minmax(9rem, 1fr)); gap: .6rem; margin: .6rem 0; }
label { display: flex; flex-direction: column; font-size: .85rem; }
label.check { flex-direction: row; gap: .4rem; align-items: center; }
label.wide { grid-column: 1 / -1; }
input, select, textarea, button { font: inherit; padding: .35rem .5rem; border: 1px solid var(--line); border-radius: .35rem; background: Canvas; color: CanvasText; max-width: 100%; }
button { cursor: pointer; } button.main { background: var(--accent); border-color: var(--accent); color: #fff; }
button:disabled { opacity: .45; cursor: default; }
:focus-visible { outline: 3px solid var(--accent); outline-offset: 1px; }
#talk { flex: 1; }
.message { margin: .6rem 0; padding: .5rem .8rem; border-radius: .6rem; background: var(--soft); white-space: pre-wrap; overflow-wrap: anywhere; }
.message.user { margin-left: 15%; }
.message.error { border: 1px solid #dc2626; background: none; }
.message h2 { font-size: .75rem; margin: 0 0 .2rem; opacity: .7; font-weight: 600; }
.token:hover, .token:focus { background: #facc1577; }
#behind { position: sticky; bottom: 0; border: 1px solid var(--line); border-radius: .5rem; background: Canvas; padding: .4rem .8rem; font: .85rem/1.5 ui-monospace, monospace; overflow: auto; max-height: 45vh; }
#behind:empty { display: none; }
#behind td, #behind th { padding-right: 1rem; white-space: pre; text-align: left; font-weight: normal; } #behind td { white-space: pre-wrap; } #behind meter { width: 8rem; }
#behind caption { text-align: left; font-weight: 600; } .share { display: flex; width: 8rem; height: .8em; border-radius: .2em; overflow: hidden; }
@media (max-width: 40rem) { #behind meter, .share { width: 4rem; } #behind td, #behind th { padding-right: .5rem; } }
form.ask { display: flex; gap: .5rem; margin-top: .6rem; flex-wrap: wrap; }
form.ask textarea { flex: 1 1 16rem; min-height: 3.2rem; resize: vertical; }
)css";

constexpr const char* kBody = R"html(
<header><h1>longhaul serve</h1><label>Model <select id="model"></select></label><output id="figures" aria-live="off"></output></header>
<details><summary>Settings</summary><div class="fields">
<label>Form <select id="form"><option value="chat">conversation</option><option value="text">continue a text</option></select></label>
<label>Tokens at most <input id="tokens" type="number" min="1" value="256"></label>
<label>Temperature <input id="temperature" type="number" min="0" max="2" step="0.1" value="0.8"></label>
<label>Top p <input id="top_p" type="number" min="0" max="1" step="0.05" value="0.95"></label>
<label>Seed (empty: by chance) <input id="seed" type="number"></label>
<label class="check"><input id="likely_on" type="checkbox"> show likely tokens</label>
<label class="check"><input id="experts_on" type="checkbox"> show experts</label>
<label class="wide">System message <textarea id="system" rows="2"></textarea></label>
</div></details>
<main id="talk" role="log" aria-label="Conversation" aria-live="polite"></main>
<div id="behind" role="status" aria-label="What stands behind a word"></div>
<form class="ask"><textarea id="text" aria-label="Your message" placeholder="Your message; Enter sends it, Shift and Enter begins a line" autofocus></textarea>
<button class="main" id="send">Send</button><button type="button" id="stop" disabled>Stop</button><button type="button" id="new">New</button></form>
)html";

constexpr const char* kScript = R"js(
const $ = id => document.getElementById(id), messages = [];
let asking = null;
function shown(role, text, kind) {
  const box = document.createElement("article"), head = document.createElement("h2"), body = document.createElement("div");
  box.className = "message " + (kind || role);
  head.textContent = role;
  body.textContent = text;
  box.append(head, body);
  $("talk").append(box);
  box.scrollIntoView({block: "end"});
  return body;
}
function titled(title) {
  const table = document.createElement("table");
  table.createCaption().textContent = title;
  return table;
}
function likely(token) {
  const table = titled("Likely tokens");
  for (const each of token.top) {
    const row = table.insertRow(), meter = document.createElement("meter");
    meter.value = Math.exp(each.logprob);
    row.insertCell().textContent = JSON.stringify(each.token);
    row.insertCell().textContent = (100 * meter.value).toFixed(1) + " %";
    row.insertCell().append(meter);
  }
  return table;
}
// A row for each layer: which experts the token before this one went through, and their shares.
function experts(token) {
  const table = titled("Experts");
  for (const each of token.layers) {
    const row = table.insertRow(), head = document.createElement("th"), bar = document.createElement("div");
    const all = each.weights.reduce((sum, weight) => sum + weight, 0), shares = each.weights.map(weight => all > 0 ? 100 * weight / all : 0);
    head.scope = "row";
    head.textContent = "layer " + each.layer;
    row.append(head);
    row.insertCell().textContent = each.experts.map((expert, i) => `expert ${expert}: ${shares[i].toFixed(0)} %`).join(", ");
    bar.className = "share";
    bar.setAttribute("aria-hidden", "true");  // the text beside it says the same
    each.experts.forEach((expert, i) => {
      const part = document.createElement("span");
      part.style.width = shares[i] + "%";
      part.style.background = `hsl(${expert * 137 % 360} 65% 55%)`;  // of one expert everywhere the same
      bar.append(part);
    });
    row.insertCell().append(bar);
  }
  return table;
}
function behind(token) {
  $("behind").replaceChildren(...(token.top ? [likely(token)] : []), ...(token.layers ? [experts(token)] : []));
}
function add(body, piece) {
  if (!piece.tokens) return body.append(piece.text);
  for (const token of piece.tokens) {
    const span = document.createElement("span");
    span.className = "token";
    span.tabIndex = 0;
    span.textContent = token.token;
    span.onmouseenter = span.onfocus = () => behind(token);
    body.append(span);
  }
}
function request(text) {
  const number = id => $(id).value === "" ? undefined : Number($(id).value);
  const common = {model: $("model").value, stream: true, max_tokens: number("tokens"), temperature: number("temperature"), top_p: number("top_p"),
                  seed: number("seed"), stream_options: {include_usage: true}, ...($("experts_on").checked ? {experts: true} : {})};
  const tops = $("likely_on").checked;
  if ($("form").value === "text") return ["/v1/completions", {...common, prompt: text, ...(tops ? {logprobs: 5} : {})}];
  messages.push({role: "user", content: text});
  const system = $("system").value.trim();
  return ["/v1/chat/completions", {...common, messages: system ? [{role: "system", content: system}, ...messages] : messages,
                                   ...(tops ? {logprobs: true, top_logprobs: 5} : {})}];
}
function likely_of(choice) {
  const all = choice.logprobs;
  if (!all) return null;
  if (all.content) return all.content.map(t => ({token: t.token, top: t.top_logprobs}));
  return all.tokens.map((token, i) => ({token, top: Object.entries(all.top_logprobs[i] || {})
    .map(([token, logprob]) => ({token, logprob})).sort((a, b) => b.logprob - a.logprob)}));
}
function piece_of(choice) {
  const likely = likely_of(choice), experts = choice.experts || null, text = choice.delta === undefined ? choice.text : choice.delta.content || "";
  return {text, tokens: (likely || experts) && (likely || experts).map((each, i) => ({...each, ...(experts ? experts[i] : {})}))};
}
async function ask(text) {
  const chat = $("form").value === "chat", [path, body] = request(text), began = performance.now();
  shown(chat ? "user" : "text", text, "user");
  const to = shown("assistant", "");
  let answer = "", pieces = 0, first = 0, rest = "", usage = null;
  asking = new AbortController();
  $("send").disabled = !($("stop").disabled = false);
  document.body.dataset.state = "answering";
  try {
    const reply = await fetch(path, {method: "POST", headers: {"Content-Type": "application/json"}, body: JSON.stringify(body), signal: asking.signal});
    if (!reply.ok) throw new Error((await reply.json()).error.message);
    const reader = reply.body.pipeThrough(new TextDecoderStream()).getReader();
    for (;;) {
      const {done, value} = await reader.read();
      if (done) break;
      const events = (rest + value).split("\n\n");
      rest = events.pop();
      for (const event of events) {
        if (!event.startsWith("data: ") || event === "data: [DONE]") continue;
        const json = JSON.parse(event.slice(6));
        if (json.error) throw new Error(json.error.message);
        usage = json.usage || usage;
        for (const choice of json.choices) {
          const piece = piece_of(choice);
          if (piece.text && !pieces++) first = performance.now();
          answer += piece.text;
          add(to, piece);
        }
      }
      const seconds = (performance.now() - (first || began)) / 1000, count = usage ? usage.completion_tokens : pieces;
      const rate = seconds > 0.05 ? `${(count / seconds).toFixed(1)} a second, ` : "";  // not of a text that came at once
      $("figures").textContent = `${count} tokens, ${rate}the first after ${((first - began) / 1000).toFixed(2)} s`;
    }
  } catch (error) {
    if (error.name !== "AbortError") shown("error", error.message, "error");
    if (!answer) { to.parentElement.remove(); if (chat) messages.pop(); }
  }
  if (chat && answer) messages.push({role: "assistant", content: answer});
  asking = null;
  document.body.dataset.state = "answered";
  $("send").disabled = !($("stop").disabled = true);
  $("text").focus();
}
function send() {
  const text = $("text").value;
  if (asking || !text.trim()) return;
  $("text").value = "";
  ask(text);
}
document.querySelector("form.ask").onsubmit = event => { event.preventDefault(); send(); };
$("text").onkeydown = event => { if (event.key === "Enter" && !event.shiftKey && !event.isComposing) { event.preventDefault(); send(); } };
$("stop").onclick = () => asking && asking.abort();
$("new").onclick = () => { messages.length = 0; $("talk").replaceChildren(); $("behind").replaceChildren(); $("figures").textContent = ""; $("text").focus(); };
fetch("/v1/models").then(reply => reply.json()).then(json => {
  for (const model of json.data) $("model").add(new Option(model.id, model.id));
  const address = new URLSearchParams(location.search);  // "?form=text&seed=3&ask=Once": settings, and a question that is asked at once
  for (const [name, value] of address) {
    const field = $(name);
    if (field && field.type === "checkbox") field.checked = value !== "0";
    else if (field && "value" in field) field.value = value;
  }
  if (address.get("ask")) ask(address.get("ask")).then(() => address.has("focus") && (document.querySelectorAll(".token")[address.get("focus")] || $("text")).focus());
}).catch(error => shown("error", error.message, "error"));
)js";

}  // namespace

HttpReply chat_page() {
  const std::string style = kStyle, script = kScript;
  return {.body =
              "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\"><title>longhaul serve</title>"
              "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">"
              "<link rel=\"icon\" href=\"data:,\"><style>" +
              style + "</style></head><body>" + kBody + "<script>" + script + "</script></body></html>\n",
          .headers = {{"Content-Security-Policy",
                       "default-src 'none'; connect-src 'self'; style-src 'unsafe-inline'; script-src "
                       "'unsafe-inline'; img-src data:; "
                       "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"}}};
}

}  // namespace longhaul::serve
