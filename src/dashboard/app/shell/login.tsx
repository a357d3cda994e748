import type { JSX } from 'preact';
import { useState } from 'preact/hooks';
import { ApiError } from '../api/api-error.ts';
import { session, signIn } from '../api/session.ts';
import { Button } from '../components/button.tsx';
import { Icon } from '../components/icon.tsx';
import { Problem } from '../components/states.tsx';

/** Asks for a token, which the server exchanges for a session. The page keeps no token. */
export function Login(): JSX.Element {
  const [error, setError] = useState<ApiError>();
  const [isBusy, setBusy] = useState(false);
  const submit = async (event: SubmitEvent): Promise<void> => {
    event.preventDefault();
    const form = event.currentTarget as HTMLFormElement;
    const field = form.elements.namedItem('token') as HTMLInputElement;
    setBusy(true);
    setError(undefined);
    try {
      await signIn(field.value.trim());
    } catch (problem) {
      setError(
        problem instanceof ApiError ? problem : new ApiError(-1, 'UNEXPECTED', String(problem)),
      );
      field.select();
    } finally {
      setBusy(false);
    }
  };
  return (
    <main class="login" id="main" tabIndex={-1}>
      <form onSubmit={(event) => void submit(event)}>
        <div class="brand">
          <Icon name="logo" />
          <bdi>{session.value?.title ?? 'Perdure'}</bdi>
          {session.value?.environment != null && <bdi class="env">{session.value.environment}</bdi>}
        </div>
        <h1>Sign in</h1>
        <p class="sec">
          Paste a token of this server. It is exchanged for a session once and not kept in the
          browser.
        </p>
        <label class="field">
          <span>Token</span>
          <input
            class="input"
            name="token"
            type="password"
            autocomplete="current-password"
            required
            autofocus
          />
        </label>
        {error !== undefined && <Problem error={error} />}
        <Button type="submit" look="primary" disabled={isBusy}>
          {isBusy ? 'Signing in…' : 'Sign in'}
        </Button>
      </form>
    </main>
  );
}
