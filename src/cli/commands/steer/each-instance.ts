import type { Call, ExitCode } from '../../command.ts';
import { reportOf, type ReportedError } from '../../exit-codes.ts';
import { orInterrupted } from '../../interrupts.ts';
import { clean } from '../../text/format.ts';
import { writeJson } from '../../text/json.ts';
import { nextStep } from '../../text/next-step.ts';

/** The outcome of an action on one instance. */
interface Outcome {
  readonly id: string;
  readonly result?: object;
  readonly error?: ReportedError;
}

/**
 * Applies an action to each id in order, and prints a line for each. An id that fails does not stop the others. Returns the exit
 * code of the first failure.
 */
export async function forEachInstance<Result extends object>(
  call: Call,
  ids: readonly string[],
  action: {
    readonly apply: (id: string) => Promise<Result>;
    /** What happened, in a few words. */
    readonly text: (result: Result) => string;
  },
): Promise<ExitCode> {
  const { terminal, json } = call;
  const { stdout, stderr } = terminal;
  const outcomes: Outcome[] = [];
  const writeItems = (): void => {
    const items = outcomes.map(({ id, result, error }) => ({
      id,
      ...result,
      ...(error !== undefined && { error }),
    }));
    if (json) writeJson(stdout, { items });
  };
  for (const id of new Set(ids)) {
    try {
      const result = await orInterrupted(action.apply(id), terminal.interrupted);
      outcomes.push({ id, result });
      if (!json) stdout.write(`${clean(id)}  ${clean(action.text(result))}\n`);
    } catch (error) {
      const reported = reportOf(error);
      if (reported.exitCode === 130) {
        writeItems();
        throw error;
      }
      const next = nextStep(reported.next, id, call);
      outcomes.push({ id, error: { ...reported, ...(next !== undefined && { next }) } });
      if (json) continue;
      stderr.write(`${stderr.style('red', 'error:')} ${clean(reported.message)}\n`);
      if (next !== undefined) stderr.write(`${clean(next)}\n`);
    }
  }
  writeItems();
  return outcomes.find(({ error }) => error !== undefined)?.error?.exitCode ?? 0;
}
