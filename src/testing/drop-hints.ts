import { setTimeout as sleep } from 'node:timers/promises';
import type { Provider } from '../providers/contract/provider.ts';

/**
 * Wraps a store so that it sends no hints, and its fetches poll every `pollMs`. Shows that a feature does not depend on
 * hints.
 */
export function dropHints(provider: Provider, pollMs: number): Provider {
  return new Proxy(provider, {
    get(target, key) {
      if (key === 'hints') return () => () => undefined;
      if (key === 'fetchOrchestrationItems') {
        return polling(target.fetchOrchestrationItems.bind(target), pollMs);
      }
      if (key === 'fetchWorkItems') return polling(target.fetchWorkItems.bind(target), pollMs);
      const value: unknown = Reflect.get(target, key);
      return typeof value === 'function' ? (value.bind(target) as unknown) : value;
    },
  });
}

interface Waiting {
  readonly waitMs: number;
  readonly signal?: AbortSignal;
}

function polling<Params extends Waiting, Item>(
  fetch: (params: Params) => Promise<readonly Item[]>,
  pollMs: number,
): (params: Params) => Promise<readonly Item[]> {
  return async (params) => {
    for (let waitedMs = 0; ; waitedMs += pollMs) {
      const items = await fetch({ ...params, waitMs: 0 });
      if (items.length > 0 || waitedMs >= params.waitMs || params.signal?.aborted === true)
        return items;
      await sleep(pollMs);
    }
  };
}
