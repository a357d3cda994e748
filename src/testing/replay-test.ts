import { isPerdureError, type NondeterminismError } from '../model/failures/errors.ts';
import type { HistoryEvent } from '../model/event.ts';
import { silentLogger } from '../model/logger.ts';
import { installDeterministicGlobals } from '../orchestration/deterministic-globals.ts';
import type { OrchestrationDefinition } from '../orchestration/orchestration.ts';
import { createProgram } from '../orchestration/program.ts';
import { Execution } from '../replay/execution.ts';

/** The code and the recorded history to compare. */
export interface ReplayCheck {
  /** The current code. */
  readonly definition: OrchestrationDefinition;
  /** A recorded history from its first event. The execution need not have ended. */
  readonly history: readonly HistoryEvent[];
  /** Required if the code uses it, or starts children without ids. Default: 'replay-check'. */
  readonly instanceId?: string;
  /** Required if the code uses random numbers or generated ids. */
  readonly incarnation?: string;
  /** Default: 1. */
  readonly executionId?: number;
  /** Set to false to leave the globals unpatched, like the worker option. Default: true. */
  readonly deterministicGlobals?: boolean;
}

/** The result of a replay check. On a mismatch, `eventId` is the first event that differs. */
export type ReplayCheckResult =
  | { readonly ok: true }
  | { readonly ok: false; readonly eventId: number; readonly message: string };

/** Replays a recorded history with the current code, and compares. Run it before a deploy. */
export async function checkReplay(check: ReplayCheck): Promise<ReplayCheckResult> {
  if (check.deterministicGlobals !== false) installDeterministicGlobals();
  const execution = new Execution({
    instanceId: check.instanceId ?? 'replay-check',
    incarnation: check.incarnation ?? '',
    executionId: check.executionId ?? 1,
    program: createProgram(check.definition, { log: silentLogger }),
    // A payload limit that was lowered since must not count as a code change.
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
