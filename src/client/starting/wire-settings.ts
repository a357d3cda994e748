import type { Admission } from '../../model/admission-options.ts';
import type { Lane } from '../../model/limit-options.ts';
import type { StartSettings } from '../../model/start-settings.ts';

/** The settings of a start as a server takes them: durations are milliseconds. */
export interface WireSettings {
  delay?: number;
  runAt?: number;
  timeout?: number;
  headers?: Record<string, string>;
  tags?: Record<string, string>;
  priority?: number;
  key?: string;
  weight?: number;
}

/** Converts the settings of a start to what a server takes. */
export function toWireSettings(settings: StartSettings): WireSettings {
  const { delayMs, runAt, timeoutMs, headers, tags, priority, lane } = settings;
  return {
    ...(delayMs !== undefined && { delay: delayMs }),
    ...(runAt !== undefined && { runAt }),
    ...(timeoutMs !== undefined && { timeout: timeoutMs }),
    ...(headers !== undefined && { headers: { ...headers } }),
    ...(tags !== undefined && { tags: { ...tags } }),
    ...(priority !== undefined && { priority }),
    ...(lane !== undefined && toWireLane(lane)),
  };
}

/** The options of a start that find another run, as a server takes them. */
interface WireAdmission {
  dedupeKey?: string;
  dedupe?: { key: string; for: number };
  debounce?: { key: string; wait: number; maxWait?: number; requestKey: string };
}

/** Converts a start to what a server takes: its settings, and the options that find another run. */
export function toWireStart(call: StartSettings & Admission): WireSettings & WireAdmission {
  const { delay, ...settings } = toWireSettings(call);
  const { dedupeKey, dedupeMs, debounce } = call;
  if (debounce !== undefined) {
    const { key, maxWaitMs, requestKey } = debounce;
    const limited = maxWaitMs !== undefined && { maxWait: maxWaitMs };
    return { ...settings, debounce: { key, wait: delay ?? 0, ...limited, requestKey } };
  }
  const started = delay === undefined ? settings : { ...settings, delay };
  if (dedupeKey === undefined) return started;
  return dedupeMs === undefined
    ? { ...started, dedupeKey }
    : { ...started, dedupe: { key: dedupeKey, for: dedupeMs } };
}

/** Converts a lane to the options that name it. */
export function toWireLane({ key, weight }: Lane): { key: string; weight?: number } {
  return { key, ...(weight !== 1 && { weight }) };
}
