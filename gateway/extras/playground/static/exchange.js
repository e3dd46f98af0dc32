// A request to a model by a key, as any caller sends it: the answer as it arrives, its times and its receipt.

import { ApiError, UNREACHABLE } from "./api.js";

/** How long to wait for the receipt of a call that ended, or that goes on at the provider after it was stopped. */
const WAITS = [0, 300, 1000, 2000, 4000];

/**
 * Send a request, and tell the texts of its answer to `tell` as they arrive.
 *
 * Returns `{id, first, total, reasoning, finish, error}`: the request id, milliseconds, tokens, and the error if it
 * failed; an AbortError if `signal` stopped it.
 */
export async function exchange(key, body, signal, tell) {
  const started = performance.now();
  const made = { id: null, first: null, reasoning: 0, finish: null, error: null };
  try {
    const reply = await ask(key, "chat/completions", signal, body);
    made.id = reply.headers.get("x-request-id");
    for await (const part of body.stream ? readEvents(reply) : readWhole(reply)) {
      made.first ??= performance.now() - started;
      if (part.error) throw new ApiError(reply.status, part.error);
      const [choice] = part.choices ?? [];
      const said = choice?.delta ?? choice?.message;
      tell(said?.content ?? said?.refusal ?? "");
      made.finish = choice?.finish_reason ?? made.finish;
      made.reasoning = part.usage?.completion_tokens_details?.reasoning_tokens ?? made.reasoning;
    }
  } catch (error) {
    if (!(error instanceof ApiError) && error.name !== "AbortError") made.error = new ApiError(0, BROKEN);
    else made.error = error;
    made.id ??= error.requestId;
  }
  return { ...made, total: performance.now() - started };
}

const BROKEN = { code: "broken", message: "The answer broke off. It may be charged up to there: its receipt tells." };

/** The receipt of a request, once it is settled; as it is by then if that takes long, null if there is none. */
export async function readReceipt(key, id, signal) {
  let receipt = null;
  for (const wait of WAITS) {
    if (wait) await new Promise((done) => { setTimeout(done, wait); });
    try {
      receipt = await (await ask(key, `receipts/${id}`, signal)).json();
      if (receipt.state !== "pending") break;
    } catch (error) {
      if (error.status !== 404) break;
    }
  }
  return receipt;
}

/** Ask by the key alone, without the session. */
async function ask(key, path, signal, body) {
  let reply;
  try {
    reply = await fetch(`/v1/${path}`, {
      method: body ? "POST" : "GET", signal, credentials: "omit", cache: "no-store",
      headers: { authorization: `Bearer ${key}`, ...(body && { "content-type": "application/json" }) },
      body: body && JSON.stringify(body),
    });
  } catch (error) {
    throw error.name === "AbortError" ? error : new ApiError(0, UNREACHABLE);
  }
  if (reply.ok) return reply;
  const { error } = await reply.json().catch(() => ({}));
  throw new ApiError(reply.status, { ...(error ?? { message: `The gateway answered with status ${reply.status}.` }), request_id: reply.headers.get("x-request-id") });
}

async function* readWhole(reply) {
  yield await reply.json();
}

async function* readEvents(reply) {
  const reader = reply.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (let { value, done } = await reader.read(); !done; { value, done } = await reader.read()) {
    const lines = (rest + value).split("\n");
    rest = lines.pop();
    for (const line of lines) {
      if (line.startsWith("data: {")) yield JSON.parse(line.slice("data: ".length));
    }
  }
}
