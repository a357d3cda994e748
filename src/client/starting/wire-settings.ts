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

/** Converts a lane to the options that name it. */
export function toWireLane({ key, weight }: Lane): { key: string; weight?: number } {
  return { key, ...(weight !== 1 && { weight }) };
}
