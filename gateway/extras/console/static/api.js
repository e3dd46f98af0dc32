// The JSON API. Every failure becomes one ApiError whose message a person can act on.

export class ApiError extends Error {
  constructor(status, error) {
    super(error.message);
    this.status = status;
    this.code = error.code ?? "";
    this.field = error.field;
    this.retrySeconds = error.retry_after_seconds;
    this.requestId = error.request_id;
  }
}

export const UNREACHABLE = {
  code: "unreachable",
  message: "The gateway does not answer. It may be restarting. Try again in a moment.",
};

/** The signals of pages that renew themselves just now: what they ask for is no use of the session. */
export const renewals = new WeakSet();

let signInAgain = null;

/** Set what signs in again where that is needed; the request is then sent anew. */
export const onSignInAgain = (run) => { signInAgain = run; };

export async function api(method, path, options = {}) {
  try {
    return await send(method, path, options);
  } catch (error) {
    if (error.code !== "sign_in_again") throw error;
    await signInAgain(error);
    return send(method, path, options);
  }
}

async function send(method, path, { body, idempotencyKey, signal }) {
  const headers = { accept: "application/json" };
  if (body !== undefined) headers["content-type"] = "application/json";
  if (idempotencyKey) headers["idempotency-key"] = idempotencyKey;
  if (renewals.has(signal)) headers["x-renewal"] = "1";
  let reply;
  try {
    reply = await fetch(apiUrl(path), {
      method, headers, signal,
      body: body === undefined ? undefined : JSON.stringify(body),
      cache: "no-store",
      redirect: "error",
    });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new ApiError(0, UNREACHABLE);
  }
  return readReply(reply);
}

async function readReply(reply) {
  if (reply.status === 204) return null;
  let value = null;
  try {
    value = await reply.json();
  } catch (error) {
    if (error.name === "AbortError") throw error;
  }
  if (reply.ok && value !== null) {
    // The idempotency key was used before: this is the answer of that time.
    return reply.headers.has("idempotent-replay") ? { ...value, replayed: true } : value;
  }
  throw new ApiError(reply.status, value?.error ?? {
    code: "no_answer",
    message: `The gateway could not answer (status ${reply.status}). Try again in a moment.`,
  });
}

export const get = (path, signal) => api("GET", path, { signal });

export const apiUrl = (path) => `/console/api${path}`;

/** A query string of what is set. */
export function query(values) {
  const set = Object.entries(values).filter(([, value]) => value !== null && value !== undefined && value !== "");
  return set.length ? `?${new URLSearchParams(set)}` : "";
}

/** Random enough to name one filled-in form; randomUUID does not exist on plain http. */
export function newIdempotencyKey() {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}

/** A path within the console, or its start: never another site's. */
export function safeNext(path) {
  if (!path || !/^\/console(\/|$|\?)/.test(path) || /[\\\s]|\/\//.test(path.split("?")[0])) return "/console/";
  const url = new URL(path, location.origin);
  return url.origin === location.origin && url.pathname.startsWith("/console") ? url.pathname + url.search : "/console/";
}
