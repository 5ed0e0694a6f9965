// Talk to the service. The token is kept in this tab alone.

const KEY = "osler-token";

export class ServerError extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

// `askToken(wrong)` returns a promise of the token that the user gives.
export function connect(askToken) {
  async function call(path, body, accept = "application/json") {
    for (;;) {
      const token = sessionStorage.getItem(KEY);
      const headers = { accept };
      if (token) headers.authorization = `Bearer ${token}`;
      if (body !== undefined) headers["content-type"] = "application/json";
      let answer;
      try {
        answer = await fetch(path, {
          method: body === undefined ? "GET" : "POST",
          headers,
          body: body === undefined ? undefined : JSON.stringify(body),
          cache: "no-store",
        });
      } catch {
        throw new ServerError(0, "The server does not answer.");
      }
      if (answer.status === 401) {
        sessionStorage.removeItem(KEY);
        sessionStorage.setItem(KEY, await askToken(Boolean(token)));
        continue;
      }
      if (!answer.ok) throw new ServerError(answer.status, await reason(answer));
      return answer;
    }
  }

  return {
    get: async (path) => (await call(path)).json(),
    post: async (path, body) => (await call(path, body)).json(),
    file: async (path, body) => (await call(path, body, "*/*")).blob(),
  };
}

async function reason(answer) {
  const wait = answer.headers.get("retry-after");
  const later = wait ? ` Try again in ${wait} s.` : "";
  try {
    const problem = await answer.json();
    const first = problem.mistakes?.[0];
    return `${problem.message ?? "The request was refused."}${first ? ` ${first.where}: ${first.problem}.` : ""}${later}`;
  } catch {
    return `The server answered with ${answer.status}.${later}`;
  }
}
