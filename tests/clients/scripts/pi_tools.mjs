import { stream } from "@mariozechner/pi-ai";

const { BASE_URL, KEY, MODEL } = process.env;
const PATHS = {
  "anthropic-messages": BASE_URL.replace("/v1", ""),
  "openai-completions": BASE_URL,
  "openai-responses": BASE_URL,
};
const none = { input: 0, output: 0, cacheRead: 0, cacheWrite: 0 };
const known = { provider: "gateway", reasoning: true, input: ["text"], cost: none };
const parameters = { type: "object", properties: { city: { type: "string" } }, required: ["city"] };
const tools = [{ name: "weather", description: "Tell the weather.", parameters }];

async function play(name, api, baseUrl) {
  const model = { ...known, id: name, name, api, baseUrl, contextWindow: 128000, maxTokens: 8000 };
  const messages = [{ role: "user", content: "How is the weather?", timestamp: 0 }];
  let calls, streamed;
  do {
    const reply = stream(model, { systemPrompt: "Be brief.", messages, tools }, { apiKey: KEY });
    streamed = "";
    for await (const event of reply) if (event.type === "text_delta") streamed += event.delta;
    const { errorMessage, content } = await reply.result();
    if (errorMessage) throw new Error(`${api}: ${errorMessage}`);
    messages.push(await reply.result());
    calls = content.filter((block) => block.type === "toolCall");
    for (const { id, name, arguments: { city } } of calls) {
      const told = [{ type: "text", text: `sunny in ${city}` }];
      messages.push({ role: "toolResult", toolCallId: id, toolName: name, content: told, isError: false });
    }
  } while (calls.length);
  console.log("TOLD", messages.at(-1).content.find((block) => block.type === "text").text);
  console.log("STREAMED", streamed);
}

for (const name of MODEL.split(" "))
  for (const [api, baseUrl] of Object.entries(PATHS)) await play(name, api, baseUrl);
