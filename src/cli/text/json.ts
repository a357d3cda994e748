import type { Output } from '../command.ts';
import { cleanJson } from './format.ts';

/** Writes one JSON document: indented for a person, in one line for a pipe. */
export function writeJson(output: Output, value: unknown): void {
  output.write(`${cleanJson(JSON.stringify(value, null, output.isTTY ? 2 : 0))}\n`);
}

/** Writes one item of a stream, in one line. */
export function writeJsonLine(output: Output, value: unknown): void {
  output.write(`${cleanJson(JSON.stringify(value))}\n`);
}
