import { spawn } from 'node:child_process';
import type { Figures } from './benchmark.ts';

/** Runs a benchmark program in a separate process and returns the results that it prints as JSON. */
export async function runProgram(what: string, args: readonly string[]): Promise<Figures> {
  const child = spawn(process.execPath, args, { stdio: ['ignore', 'pipe', 'inherit'] });
  let output = '';
  child.stdout.on('data', (chunk: Buffer) => (output += chunk.toString()));
  const code = await new Promise<number | null>((resolve, reject) => {
    child.on('error', reject);
    child.on('close', resolve);
  });
  if (code !== 0) throw new Error(`${what} exited with code ${code}.`);
  return JSON.parse(output) as Figures;
}
