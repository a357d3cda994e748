import { spawn, type ChildProcess } from 'node:child_process';
import { existsSync, mkdirSync, mkdtempSync, rmSync, symlinkSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { onTestFinished } from 'vitest';
import { root } from '../../e2e/run-program.ts';

const maxWaitMs = 20_000;

/** The built program, as a user runs it. */
export const program = join(root, 'dist', 'cli', 'main.js');

/** The environment of a user: no settings of the test run choose a store. */
export function userEnvironment(env: Readonly<Record<string, string>> = {}): NodeJS.ProcessEnv {
  const { PERDURE_STORE: _, PERDURE_SERVER: __, NODE_OPTIONS: ___, ...rest } = process.env;
  return { ...rest, NO_COLOR: '1', HOME: tmpdir(), ...env };
}

/** Creates an empty directory, which is deleted after the test. */
export function emptyFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), 'perdure-cli-'));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true, maxRetries: 5 }));
  return folder;
}

/** Installs the package of this checkout into a project, as `npm install` does. */
export function installPackage(folder: string): void {
  mkdirSync(join(folder, 'node_modules'), { recursive: true });
  symlinkSync(root, join(folder, 'node_modules', 'perdure'), 'dir');
}

export interface FinishedProcess {
  readonly code: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

/** A running process with its output so far. */
export class RunningProcess {
  readonly child: ChildProcess;
  readonly finished: Promise<FinishedProcess>;
  stdout = '';
  stderr = '';

  constructor(
    args: readonly string[],
    given: { readonly cwd: string; readonly env?: Readonly<Record<string, string>> },
  ) {
    if (!existsSync(program))
      throw new Error(`${program} is missing: run \`npm run build\` first.`);
    this.child = spawn(process.execPath, args, {
      cwd: given.cwd,
      env: userEnvironment(given.env),
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    this.child.stdout?.on('data', (chunk: Buffer) => void (this.stdout += chunk.toString()));
    this.child.stderr?.on('data', (chunk: Buffer) => void (this.stderr += chunk.toString()));
    this.finished = new Promise((resolve, reject) => {
      this.child.once('error', reject);
      this.child.once('close', (code) =>
        resolve({ code, stdout: this.stdout, stderr: this.stderr }),
      );
    });
    onTestFinished(async () => {
      this.child.kill('SIGKILL');
      await this.finished;
    });
  }

  /** Waits until the output matches. Returns the match. */
  async until(pattern: RegExp, from: 'stdout' | 'stderr' = 'stdout'): Promise<RegExpExecArray> {
    const deadline = performance.now() + maxWaitMs;
    for (;;) {
      const found = pattern.exec(this[from]);
      if (found !== null) return found;
      const hasEnded = this.child.exitCode !== null || this.child.signalCode !== null;
      if (hasEnded || performance.now() > deadline) {
        throw new Error(`No ${pattern} in the output:\n${this.stdout}${this.stderr}`);
      }
      await delay(20);
    }
  }

  /** Forgets the output so far. */
  reset(): void {
    this.stdout = '';
    this.stderr = '';
  }
}

/** Starts `perdure` in a folder. */
export function startProgram(
  args: readonly string[],
  given: { readonly cwd: string; readonly env?: Readonly<Record<string, string>> },
): RunningProcess {
  return new RunningProcess([program, ...args], given);
}

/** Runs `perdure` in a folder until it exits. */
export function runProgram(
  args: readonly string[],
  given: { readonly cwd: string; readonly env?: Readonly<Record<string, string>> },
): Promise<FinishedProcess> {
  return startProgram(args, given).finished;
}
