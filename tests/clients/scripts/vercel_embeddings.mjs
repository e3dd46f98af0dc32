import { embed, embedMany } from "ai";
import { createOpenAI } from "@ai-sdk/openai";

const openai = createOpenAI({ baseURL: process.env.BASE_URL, apiKey: process.env.KEY });
const model = openai.embedding(process.env.MODEL);
const { embedding } = await embed({ model, value: "one", maxRetries: 0 });
const { embeddings, usage } = await embedMany({ model, values: ["one", "two"], maxRetries: 0 });
console.log("MADE", JSON.stringify({ embedding, embeddings, usage }));
