import type { Hint, Provider } from '../../providers/contract/provider.ts';
import { withTimeLimit } from './time-limit.ts';

/** Collects hints. `next` resolves with the first hint of some kinds, past or future. */
export function collectHints(provider: Provider) {
  const hints: Hint[] = [];
  const waiters = new Set<() => void>();
  const stop = provider.hints((hint) => {
    hints.push(hint);
    for (const wake of waiters) wake();
  });
  const next = async <Kind extends Hint['kind']>(...kinds: readonly Kind[]) => {
    for (;;) {
      const hint = hints.find((each): each is Extract<Hint, { kind: Kind }> =>
        kinds.some((kind) => kind === each.kind),
      );
      if (hint !== undefined) return hint;
      await withTimeLimit(
        new Promise<void>((resolve) => void waiters.add(resolve)),
        `hint ${kinds.join()}`,
      );
    }
  };
  return { hints, next, stop };
}
