import { spawn, type IPty } from '@lydell/node-pty';
import xterm from '@xterm/headless';
import { setTimeout as delay } from 'node:timers/promises';
import { onTestFinished } from 'vitest';
import { program, userEnvironment } from './cli-process.ts';

const maxWaitMs = 20_000;

/** A program in a pseudo-terminal, and what its screen shows. */
export class PtyScreen {
  readonly pty: IPty;
  readonly terminal: xterm.Terminal;
  readonly exited: Promise<number>;
  #hasExited = false;
  #written = '';

  constructor(
    args: readonly string[],
    given: {
      readonly cwd: string;
      readonly cols?: number;
      readonly rows?: number;
      /** The arguments of Node.js before those of the call. Default: the command line. */
      readonly program?: readonly string[];
    },
  ) {
    const { cwd, cols = 100, rows = 30, program: before = [program] } = given;
    const { NO_COLOR: _, ...env } = userEnvironment();
    this.terminal = new xterm.Terminal({ cols, rows, allowProposedApi: true });
    this.pty = spawn(process.execPath, [...before, ...args], {
      cwd,
      cols,
      rows,
      env,
      name: 'xterm',
    });
    this.pty.onData((data) => {
      this.#written += data;
      this.terminal.write(data);
    });
    this.exited = new Promise((resolve) => {
      this.pty.onExit(({ exitCode }) => {
        this.#hasExited = true;
        resolve(exitCode);
      });
    });
    onTestFinished(async () => {
      if (!this.#hasExited) this.pty.kill('SIGKILL');
      await this.exited;
      this.terminal.dispose();
    });
  }

  /** The lines of the screen. */
  lines(): readonly string[] {
    const { active } = this.terminal.buffer;
    return Array.from(
      { length: this.terminal.rows },
      (_, row) => active.getLine(active.baseY + row)?.translateToString(true) ?? '',
    );
  }

  /** Everything that the program wrote, with its escapes. */
  get written(): string {
    return this.#written;
  }

  /** Whether the program uses the alternate screen. */
  get isAlternate(): boolean {
    return this.terminal.buffer.active.type === 'alternate';
  }

  /** Whether the program left the cursor visible. */
  get showsCursor(): boolean {
    return this.#written.lastIndexOf('[?25h') >= this.#written.lastIndexOf('[?25l');
  }

  /** Waits until the screen matches. */
  async until(pattern: RegExp): Promise<void> {
    const deadline = performance.now() + maxWaitMs;
    while (!pattern.test(this.lines().join('\n'))) {
      if (performance.now() > deadline) {
        throw new Error(`No ${pattern} on the screen:\n${this.lines().join('\n')}`);
      }
      await delay(20);
    }
  }

  resize(cols: number, rows: number): void {
    this.terminal.resize(cols, rows);
    this.pty.resize(cols, rows);
  }
}
