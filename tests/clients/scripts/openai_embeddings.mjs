import OpenAI from "openai";

const model = process.env.MODEL;
const client = new OpenAI({ baseURL: process.env.BASE_URL, apiKey: process.env.KEY, maxRetries: 0 });

const texts = await client.embeddings.create({ model, input: ["one", "two"] });
const floats = await client.embeddings.create({ model, input: [[1], [2]], encoding_format: "float" });
console.log("MADE", JSON.stringify([texts, floats].map((one) => one.data.map((each) => each.embedding))));
