import { expectSchema } from '../helpers/targets.ts';

/** Parses the JSON of a command, and checks it against its schema. */
export function parseJson(command: string, text: string): unknown {
  const value = JSON.parse(text) as unknown;
  expectSchema([command], value);
  return value;
}
