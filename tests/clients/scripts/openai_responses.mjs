import OpenAI from "openai";
import { zodTextFormat } from "openai/helpers/zod";
import { z } from "zod";

const model = process.env.MODEL;
const client = new OpenAI({ baseURL: process.env.BASE_URL, apiKey: process.env.KEY, maxRetries: 0 });

const asked = { model, input: "Weather in Köln?", store: false };
console.log("TOLD", (await client.responses.create(asked)).output_text);
const format = zodTextFormat(z.object({ city: z.string() }), "place");
const parsed = await client.responses.parse({ ...asked, text: { format } });
console.log("PARSED", parsed.output_parsed.city);
let text = "", next = 0;
for await (const event of await client.responses.create({ ...asked, stream: true })) {
  if (event.sequence_number !== next++) throw new Error(`a gap before ${next}`);
  if (event.type === "response.output_text.delta") text += event.delta;
}
console.log("STREAMED", text);
const helper = client.responses.stream({ ...asked, text: { format } });
console.log("HELPED", (await helper.finalResponse()).output_parsed.city);
