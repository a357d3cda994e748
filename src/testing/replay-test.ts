import { isPerdureError, type NondeterminismError } from '../model/failures/errors.ts';
import type { HistoryEvent } from '../model/event.ts';
import { silentLogger } from '../model/logger.ts';
import { installDeterministicGlobals } from '../orchestration/deterministic-globals.ts';
import type { OrchestrationDefinition } from '../orchestration/orchestration.ts';
import { createProgram } from '../orchestration/program.ts';
import { Execution } from '../replay/execution.ts';

/** Code and a recorded history to compare. */
export interface ReplayCheck {
  /** Today's code. */
  readonly definition: OrchestrationDefinition;
  /** A recorded history, from its first event on; it need not have ended. */
  readonly history: readonly HistoryEvent[];
  /** Default 'replay-check'; matters when the code uses it, or starts children without ids. */
  readonly instanceId?: string;
  /** Matters when the code uses random numbers or generated ids. */
  readonly incarnation?: string;
  /** Default 1. */
  readonly executionId?: number;
  /** Leave the globals alone, as the worker does with the same option. */
  readonly deterministicGlobals?: boolean;
}

/** Agreement, or the first event where code and history part and what each of them says. */
export type ReplayCheckResult =
  | { readonly ok: true }
  | { readonly ok: false; readonly eventId: number; readonly message: string };

/** Says whether today's code still agrees with a recorded history: to be run before a deploy. */
export async function checkReplay(check: ReplayCheck): Promise<ReplayCheckResult> {
  if (check.deterministicGlobals !== false) installDeterministicGlobals();
  const execution = new Execution({
    instanceId: check.instanceId ?? 'replay-check',
    incarnation: check.incarnation ?? '',
    executionId: check.executionId ?? 1,
    program: createProgram(check.definition, { log: silentLogger }),
    // A limit that was lowered since must not look like a change of the code.
    payloadLimitBytes: Number.MAX_SAFE_INTEGER,
  });
  try {
    await execution.replay(check.history);
    execution.assertReplayed();
    return { ok: true };
  } catch (error) {
    if (!isDisagreement(error)) throw error;
    return { ok: false, eventId: error.eventId, message: error.message };
  } finally {
    execution.dispose();
  }
}

function isDisagreement(error: unknown): error is NondeterminismError {
  return isPerdureError(error, 'NONDETERMINISM');
}
