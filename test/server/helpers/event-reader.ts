import { onTestFinished } from 'vitest';
import { writePath } from '../../../src/server/routes/route.ts';
import { routes, type RouteName } from '../../../src/server/routes/table.ts';
import type { Parts, TestServer } from './server-fixture.ts';

/** Reader of an event stream. */
export interface EventReader {
  readonly status: number;
  /** Resolves with the next message, or `undefined` at the end. */
  next(): Promise<unknown>;
  /** Resolves with all messages until the end. */
  rest(): Promise<readonly unknown[]>;
  /** Resolves with the next comment or message, unparsed. */
  raw(): Promise<string | undefined>;
  close(): void;
}

/** Opens a stream and closes it after the test. */
export async function openEvents(
  { url, tokens }: TestServer,
  name: RouteName,
  parts: Parts = {},
  headers: Readonly<Record<string, string>> = {},
): Promise<EventReader> {
  const { method, path } = routes[name];
  const controller = new AbortController();
  onTestFinished(() => controller.abort());
  const search = new URLSearchParams(parts.query as Record<string, string> | undefined).toString();
  const query = search === '' ? '' : `?${search}`;
  const response = await fetch(url + writePath(path, parts.params) + query, {
    method,
    headers: {
      authorization: `Bearer ${tokens.admin}`,
      ...(method === 'POST' && { 'content-type': 'application/json' }),
      ...headers,
    },
    ...(method === 'POST' && { body: JSON.stringify(parts.body) }),
    signal: controller.signal,
  });
  const events = readEvents(response);
  const raw = async (): Promise<string | undefined> => {
    const { value, done } = await events.next();
    return done === true ? undefined : value;
  };
  const next = async (): Promise<unknown> => {
    for (let event = await raw(); event !== undefined; event = await raw()) {
      const data = /^data: (.*)$/m.exec(event)?.[1];
      if (data !== undefined) return JSON.parse(data);
    }
    return undefined;
  };
  const rest = async (): Promise<readonly unknown[]> => {
    const all: unknown[] = [];
    for (let one = await next(); one !== undefined; one = await next()) all.push(one);
    return all;
  };
  return { status: response.status, next, rest, raw, close: () => controller.abort() };
}

async function* readEvents(response: Response): AsyncGenerator<string, void, undefined> {
  let text = '';
  const decoder = new TextDecoder();
  for await (const chunk of response.body ?? []) {
    text += decoder.decode(chunk, { stream: true });
    const events = text.split('\n\n');
    text = events.pop() ?? '';
    yield* events;
  }
}
