// A request as code that sends the same. The key is an environment variable in it, never the key itself.

import { copyButton } from "./copy.js";
import { h } from "./dom.js";
import { tabs } from "./tabs.js";

/** Tabs of code, and `draw(base, body)`, which writes it anew. */
export function asCode() {
  const panes = Object.entries(LANGUAGES).map(([name, write]) => {
    const text = h("pre", { tabindex: "0", "aria-label": `As ${name}` });
    return { name, write, text, node: h("div", { class: "snippet" }, text, copyButton(() => text.textContent, `Copy ${name}`)) };
  });
  return {
    node: tabs("The request as code", panes.map(({ name, node }) => [name, () => node])),
    draw: (base, body) => { for (const { write, text } of panes) text.textContent = write(base, body); },
  };
}

const lines = (...all) => all.flat().filter((line) => line !== false).join("\n");

const json = (value) => JSON.stringify(value);

function writeCurl(base, body) {
  const data = JSON.stringify(body, null, 2).replaceAll("'", "'\\''");
  return lines(
    `curl ${body.stream ? "-N " : ""}${base}/chat/completions \\`,
    '  -H "Authorization: Bearer $GATEWAY_KEY" \\',
    '  -H "Content-Type: application/json" \\',
    `  -d '${data}'`,
  );
}

const writePython = (base, { messages, stream, stream_options: _, ...body }) => lines(
  "import os",
  "",
  "from openai import OpenAI",
  "",
  `client = OpenAI(base_url=${json(base)}, api_key=os.environ["GATEWAY_KEY"])`,
  `${stream ? "stream" : "reply"} = client.chat.completions.create(`,
  "    messages=[",
  messages.map((one) => `        ${json(one)},`),
  "    ],",
  // Texts and numbers alone, which both languages write alike.
  Object.entries(body).map(([name, value]) => `    ${name}=${json(value)},`),
  stream && ["    stream=True,", '    stream_options={"include_usage": True},'],
  ")",
  stream
    ? ["for chunk in stream:", "    if chunk.choices:", '        print(chunk.choices[0].delta.content or "", end="", flush=True)', "print()"]
    : "print(reply.choices[0].message.content)",
);

const writeJavaScript = (base, body) => lines(
  'import OpenAI from "openai";',
  "",
  `const client = new OpenAI({ baseURL: ${json(base)}, apiKey: process.env.GATEWAY_KEY });`,
  `const ${body.stream ? "stream" : "reply"} = await client.chat.completions.create(${JSON.stringify(body, null, 2)});`,
  body.stream
    ? 'for await (const chunk of stream) process.stdout.write(chunk.choices[0]?.delta?.content ?? "");'
    : "process.stdout.write(reply.choices[0].message.content);",
);

const LANGUAGES = { curl: writeCurl, Python: writePython, JavaScript: writeJavaScript };
