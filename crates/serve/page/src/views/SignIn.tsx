import { useId, useState } from "preact/hooks";
import * as api from "../api";
import { errorMessage, useLoaded } from "../hooks";
import { line, prose } from "../text";

export function SignIn({ reason, onSignedIn }: { reason: string | null; onSignedIn: () => void }) {
  const [token, setToken] = useState("");
  const [error, setError] = useState<string | null>(null);
  const [isBusy, setBusy] = useState(false);
  // The server leads here from a one-time link that does not work any more.
  const [wasUsed] = useState(() => new URLSearchParams(location.search).get("login") === "used");
  // Without an answer, the other ways are still there.
  const { oidc, refused } = useLoaded(api.ways, "ways").value ?? {};
  const id = useId();
  const submit = async (event: Event) => {
    event.preventDefault();
    setBusy(true);
    setError(null);
    try {
      await api.login(token.trim());
      setToken("");
      onSignedIn();
    } catch (problem) {
      setError(problem instanceof api.ApiError && problem.status === 401
        ? "The server does not know this token, or it was revoked."
        : errorMessage(problem));
    } finally {
      setBusy(false);
    }
  };
  return (
    <main class="centre">
      <form class="sign-in" onSubmit={submit} aria-labelledby={`${id}-title`}>
        <h1 id={`${id}-title`}>prowess</h1>
        {reason && !wasUsed && <p class="question-note" role="status">{reason}</p>}
        {wasUsed && <p class="question-note" role="status">This link was used before, or it is too old. Ask your administrator for another one.</p>}
        {refused && <p class="error-text" role="alert" dir="auto">{prose(refused)}</p>}
        {oidc && (
          <>
            <a class="button primary" href={oidc.url} dir="auto">Sign in with {line(oidc.label)}</a>
            <p class="divider">or</p>
          </>
        )}
        <p class="muted">Sign in with a token of this server.</p>
        <label for={`${id}-token`}>Token</label>
        <input
          id={`${id}-token`} type="password" value={token} autocomplete="current-password" spellcheck={false} required
          placeholder="prowess_…" aria-invalid={error !== null} aria-describedby={`${id}-hint${error ? ` ${id}-error` : ""}`}
          onInput={(event) => setToken(event.currentTarget.value)}
        />
        {error && <p id={`${id}-error`} class="error-text" role="alert">{error}</p>}
        <button type="submit" class="primary" disabled={isBusy || token.trim() === ""}>Sign in</button>
        <p id={`${id}-hint`} class="hint">
          No token? Ask your administrator for a sign-in link. It works once.
        </p>
      </form>
    </main>
  );
}
