import type { StartSettings } from '../../model/start-settings.ts';

/** The settings of a start as a server takes them: durations are milliseconds. */
export interface WireSettings {
  delay?: number;
  runAt?: number;
  timeout?: number;
  headers?: Record<string, string>;
  tags?: Record<string, string>;
  priority?: number;
}

/** Converts the settings of a start to what a server takes. */
export function toWireSettings(settings: StartSettings): WireSettings {
  const { delayMs, runAt, timeoutMs, headers, tags, priority } = settings;
  return {
    ...(delayMs !== undefined && { delay: delayMs }),
    ...(runAt !== undefined && { runAt }),
    ...(timeoutMs !== undefined && { timeout: timeoutMs }),
    ...(headers !== undefined && { headers: { ...headers } }),
    ...(tags !== undefined && { tags: { ...tags } }),
    ...(priority !== undefined && { priority }),
  };
}
