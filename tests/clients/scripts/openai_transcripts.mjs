import OpenAI, { toFile } from "openai";

const model = process.env.MODEL;
const client = new OpenAI({ baseURL: process.env.BASE_URL, apiKey: process.env.KEY, maxRetries: 0 });

const file = await toFile(Buffer.alloc(600000, 7), "a.mp3");
const made = await client.audio.transcriptions.create({ model, file, language: "de" });
console.log("HEARD", made.text, made.usage.seconds);
const stream = await client.audio.transcriptions.create({ model, file, stream: true });
for await (const event of stream) console.log(event.type);
