import { expectSchema } from '../helpers/targets.ts';

/** Parses the JSON of a command, and checks it against its schema. */
export function parseJson<T>(command: string, text: string): T {
  const value = JSON.parse(text) as T;
  expectSchema([command], value);
  return value;
}
