"use strict";

const key = document.getElementById("key"); // only there if a key is needed; it is never stored
const root = new URL("./", location.href); // the page may stand under a prefix
const SHOWN = 200_000; // characters of an answer

function address(route) {
  let path = route.dataset.path.slice(1);
  for (const place of route.querySelectorAll(".places input")) {
    if (!place.value.trim()) return null;
    path = path.replace(`{${place.name}}`, encodeURIComponent(place.value.trim()));
  }
  return new URL(path, root);
}

function quoted(text) {
  return `'${text.replaceAll("'", "'\\''")}'`;
}

function compact(text) {
  try { return JSON.stringify(JSON.parse(text)); } catch { return text; }
}

function writeCurl(route) {
  const body = route.querySelector("textarea");
  const to = address(route) ?? new URL(route.dataset.path.slice(1), root);
  const parts = [`curl ${quoted(decodeURI(to.href))}`];
  if (key && !route.dataset.open) parts.push(`-H "authorization: Bearer $CLEARHEAD_API_KEY"`);
  if (body) parts.push(`-H 'content-type: application/json'`, `-d ${quoted(compact(body.value))}`);
  route.querySelector(".curl").textContent = parts.join(" ");
}

function say(route, text, mood) {
  const status = route.querySelector(".status");
  status.textContent = text;
  status.className = `status ${mood}`;
}

async function show(response, output) {
  if ((response.headers.get("content-type") ?? "").startsWith("text/event-stream")) {
    const decoder = new TextDecoder(), reader = response.body.getReader();
    for (let part = await reader.read(); !part.done; part = await reader.read()) {
      output.textContent += decoder.decode(part.value, { stream: true });
    }
    return;
  }
  const text = await response.text();
  let pretty = text;
  try { pretty = JSON.stringify(JSON.parse(text), null, 2); } catch { /* it is no JSON, and shown as it is */ }
  const rest = pretty.length - SHOWN;
  output.textContent = rest > 0 ? `${pretty.slice(0, SHOWN)}\n… ${rest} characters more` : pretty;
}

async function send(route) {
  const body = route.querySelector("textarea");
  const output = route.querySelector(".answer");
  const button = route.querySelector(".send");
  const to = address(route);
  if (to === null) return say(route, "Fill in what stands in braces first.", "bad");
  const headers = {};
  if (body) headers["content-type"] = "application/json";
  if (key && key.value) headers.authorization = `Bearer ${key.value}`;
  button.disabled = true;
  say(route, "Waiting …", "");
  output.textContent = "";
  const begun = performance.now();
  try {
    const response = await fetch(to, { method: route.dataset.method, headers, body: body ? body.value : undefined });
    output.hidden = false;
    await show(response, output);
    const time = performance.now() - begun;
    say(route, `${response.status} ${response.statusText} · ${time.toFixed(0)} ms`, response.ok ? "good" : "bad");
  } catch (error) {
    say(route, `The service did not answer: ${error.message}`, "bad");
  } finally {
    button.disabled = false;
  }
}

function find(words) {
  const wanted = words.toLowerCase().split(/\s+/).filter(Boolean);
  let any = false;
  for (const section of document.querySelectorAll("section")) {
    let here = false;
    for (const route of section.querySelectorAll(".route")) {
      const text = `${section.id} ${route.querySelector("summary").textContent}`.toLowerCase();
      route.hidden = !wanted.every((word) => text.includes(word));
      here ||= !route.hidden;
    }
    section.hidden = !here;
    any ||= here;
  }
  document.querySelector(".none").hidden = any;
}

for (const route of document.querySelectorAll(".route")) {
  route.addEventListener("input", () => writeCurl(route));
  route.querySelector(".send").addEventListener("click", () => send(route));
  route.querySelector(".reset")?.addEventListener("click", () => {
    const body = route.querySelector("textarea");
    body.value = body.defaultValue;
    writeCurl(route);
  });
  route.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) send(route);
  });
  writeCurl(route);
}
document.getElementById("find").addEventListener("input", (event) => find(event.target.value));
