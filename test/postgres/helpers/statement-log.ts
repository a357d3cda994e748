import pg from 'pg';
import { onTestFinished, vi } from 'vitest';

/** A statement as it was sent; BEGIN and COMMIT have no name. */
export interface SentStatement {
  readonly name: string;
  readonly text: string;
  readonly values: readonly unknown[];
}

/** Records statements until the test ends. Returns those sent since the previous call. */
export function watchStatements(): () => readonly SentStatement[] {
  const query = vi.spyOn(pg.Client.prototype, 'query');
  onTestFinished(() => query.mockRestore());
  return () => {
    const sent = (query.mock.calls as unknown as readonly (readonly unknown[])[]).map(toSent);
    query.mockClear();
    // Notifications are sent at any time and are not counted.
    return sent.filter(({ text }) => !/pg_notify|^LISTEN/.test(text));
  };
}

function toSent([statement]: readonly unknown[]): SentStatement {
  if (typeof statement === 'string') return { name: '', text: statement, values: [] };
  const { name = '', text = '', values = [] } = statement as Partial<SentStatement>;
  return { name, text, values };
}
