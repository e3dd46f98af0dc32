import { generateText, streamText, tool, stepCountIs } from "ai";
import { createOpenAI } from "@ai-sdk/openai";
import { z } from "zod";

const openai = createOpenAI({ baseURL: process.env.BASE_URL, apiKey: process.env.KEY });
const options = {
  prompt: "How is the weather?",
  maxRetries: 0,
  stopWhen: stepCountIs(5),
  providerOptions: { openai: JSON.parse(process.env.OPTIONS) },
  tools: {
    weather: tool({
      description: "Tell the weather.",
      inputSchema: z.object({ city: z.string() }),
      execute: async ({ city }) => `sunny in ${city}`,
    }),
  },
};
try {
  for (const name of process.env.MODEL.split(" ")) {
    const model = openai(name);
    console.log("TOLD", (await generateText({ model, ...options })).text);
    console.log("STREAMED", await streamText({ model, ...options }).text);
  }
} catch (error) {
  console.log("FAILED", error.message);
}
