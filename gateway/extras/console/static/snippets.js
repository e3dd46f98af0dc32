// How to ask models that do not chat, by what they make.

const EMBEDDING = {
  OpenAI: ({ base, secret, model }) => `from openai import OpenAI

client = OpenAI(
    base_url="${base}",
    api_key="${secret}",
)
reply = client.embeddings.create(
    model="${model}",
    input="Hello",
)
print(reply.data[0].embedding[:3])`,
  LangChain: ({ base, secret, model }) => `from langchain_openai import OpenAIEmbeddings

embeddings = OpenAIEmbeddings(
    base_url="${base}",
    api_key="${secret}",
    model="${model}",
    check_embedding_ctx_length=False,
)
print(embeddings.embed_query("Hello")[:3])`,
  curl: ({ base, secret, model }) => `curl ${base}/embeddings \\
  -H "Authorization: Bearer ${secret}" \\
  -H "Content-Type: application/json" \\
  -d '{"model": "${model}", "input": "Hello"}'`,
};

const COMPLETION = {
  OpenAI: ({ base, secret, model }) => `from openai import OpenAI

client = OpenAI(
    base_url="${base}",
    api_key="${secret}",
)
reply = client.completions.create(
    model="${model}",
    prompt="def add(a, b):",
)
print(reply.choices[0].text)`,
  curl: ({ base, secret, model }) => `curl ${base}/completions \\
  -H "Authorization: Bearer ${secret}" \\
  -H "Content-Type: application/json" \\
  -d '{"model": "${model}", "prompt": "def add(a, b):"}'`,
};

const SPEECH = {
  OpenAI: ({ base, secret, model }) => `from openai import OpenAI

client = OpenAI(
    base_url="${base}",
    api_key="${secret}",
)
speech = client.audio.speech.create(
    model="${model}",
    voice="alloy",
    input="Hello, gateway!",
)
speech.write_to_file("hello.audio")`,
  curl: ({ base, secret, model }) => `curl ${base}/audio/speech \\
  -H "Authorization: Bearer ${secret}" \\
  -H "Content-Type: application/json" \\
  -d '{"model": "${model}", "voice": "alloy", "input": "Hello, gateway!"}' \\
  -o hello.audio`,
};

const TRANSCRIPT = {
  OpenAI: ({ base, secret, model }) => `from openai import OpenAI

client = OpenAI(
    base_url="${base}",
    api_key="${secret}",
)
with open("hello.mp3", "rb") as recording:
    transcript = client.audio.transcriptions.create(
        model="${model}",
        file=recording,
    )
print(transcript.text)`,
  curl: ({ base, secret, model }) => `curl ${base}/audio/transcriptions \\
  -H "Authorization: Bearer ${secret}" \\
  -F model="${model}" \\
  -F file=@hello.mp3`,
};

export const SNIPPETS = { completion: COMPLETION, embedding: EMBEDDING, audio: SPEECH, transcript: TRANSCRIPT };
