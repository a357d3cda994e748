import { expect } from 'vitest';
import { schemas } from '../../../src/cli/schemas.ts';

/** Parses the JSON of a command, and checks it against its schema. */
export function parseJson<T>(command: string, text: string): T {
  const value = JSON.parse(text) as T;
  expect(schemas[command]?.safeParse(value).error, `${command} ${text}`).toBeUndefined();
  expect(schemas[command]).toBeDefined();
  return value;
}
