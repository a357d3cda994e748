import type { Provider } from '../../../src/providers/contract/provider.ts';
import type { WorkItem } from '../../../src/providers/contract/work-queue.ts';
import { DueItems, type DueItem } from '../../../src/providers/sqlite/queues/due-items.ts';
import { WorkHandlers, type WorkHandler } from '../../../src/runtime/activities/work-handlers.ts';
import { Leases, type Lease } from '../../../src/runtime/leases/leases.ts';
import { Network } from '../engine/connection.ts';
import type { PlantedBug } from './planted-bug.ts';
import { replace } from './replace.ts';

interface SelectOptions {
  readonly suspect: boolean;
  readonly max: number;
}

interface Claims {
  /** Tokens of the claims that are renewed. */
  readonly tokens: Set<string>;
  /** Claims that came while a renewal had no response. They are neither renewed nor dropped. */
  readonly waiting: Map<string, { readonly lease: Lease; readonly claimedAt: number }>;
}

/** Claims that a worker makes while a renewal has no response wait for that response. */
function deferClaims(): () => void {
  const renewing = new Set<string>();
  const all = new Map<Leases<Lease>, Claims>();
  const claimsOf = (leases: Leases<Lease>): Claims => {
    const claims = all.get(leases) ?? { tokens: new Set(), waiting: new Map() };
    all.set(leases, claims);
    return claims;
  };
  const isRenewing = ({ tokens }: Claims): boolean =>
    [...tokens].some((token) => renewing.has(token));
  const admit = (add: (...args: unknown[]) => unknown): void => {
    for (const [leases, claims] of all) {
      if (isRenewing(claims)) continue;
      for (const [token, { lease, claimedAt }] of claims.waiting) {
        claims.tokens.add(token);
        add.call(leases, lease, claimedAt);
      }
      claims.waiting.clear();
    }
  };
  let originalAdd: (...args: unknown[]) => unknown = () => undefined;
  const undos = [
    replace(
      Network,
      'connect',
      (original) =>
        function connect(this: unknown, ...args: unknown[]) {
          const provider = original.call(this, ...args) as Provider;
          const renew: Provider['renewWorkItemLocks'] = async (renewals, extendMs) => {
            for (const { lockToken } of renewals) renewing.add(lockToken);
            try {
              return await provider.renewWorkItemLocks(renewals, extendMs);
            } finally {
              for (const { lockToken } of renewals) renewing.delete(lockToken);
              admit(originalAdd);
            }
          };
          return new Proxy(provider, {
            get: (target, key) =>
              key === 'renewWorkItemLocks' ? renew : (Reflect.get(target, key) as unknown),
          });
        },
    )(),
    replace(Leases, 'add', (original) => {
      originalAdd = original;
      return function add(this: Leases<Lease>, lease: Lease, claimedAt: number) {
        const claims = claimsOf(this);
        if (isRenewing(claims)) {
          claims.waiting.set(lease.lockToken, { lease, claimedAt });
          return;
        }
        claims.tokens.add(lease.lockToken);
        original.call(this, lease, claimedAt);
      };
    })(),
    replace(
      Leases,
      'remove',
      (original) =>
        function remove(this: Leases<Lease>, token: string) {
          const claims = claimsOf(this);
          claims.tokens.delete(token);
          if (!claims.waiting.delete(token)) original.call(this, token);
        },
    )(),
    replace(
      Leases,
      'find',
      (original) =>
        function find(this: Leases<Lease>, token: string) {
          return claimsOf(this).waiting.get(token)?.lease ?? original.call(this, token);
        },
    )(),
    replace(
      Leases,
      'isHeld',
      (original) =>
        function isHeld(this: Leases<Lease>, token: string) {
          return claimsOf(this).waiting.has(token) || original.call(this, token);
        },
    )(),
  ];
  return () => undos.forEach((undo) => undo());
}

/** Bugs that were found before: by hand, or by a seed of the simulation. */
export const foundBugs: readonly PlantedBug[] = [
  {
    fault: 'an onFail handler reads its run after the check of its lease',
    breakEngine: replace(
      WorkHandlers,
      'find',
      (original) =>
        function find(this: unknown, item: WorkItem) {
          const handler = original.call(this, item) as WorkHandler | undefined;
          if (handler?.load === undefined) return handler;
          const run: WorkHandler['run'] = async (context, input, one) =>
            handler.run(context, input, one, await handler.load?.(input, one));
          return { ...handler, load: undefined, run };
        },
    ),
    finding: /after its lease ended/,
    weather: { hosts: 0, activityLeaseMs: 300, rates: { slow: 0.3, stop: 0.012 } },
  },
  {
    fault: 'claims made while a renewal has no response are not renewed',
    breakEngine: deferClaims,
    weather: { hosts: 0, activityLeaseMs: 300, rates: { slow: 0.3 }, workers: 3 },
  },
  {
    fault: 'unstarted claims count towards poison, and suspects share a claim',
    breakEngine: replace(
      DueItems,
      'select',
      (original) =>
        function select(this: unknown, options: SelectOptions) {
          if (options.suspect) return [];
          const items = [false, true].flatMap(
            (suspect) => original.call(this, { ...options, suspect }) as readonly DueItem[],
          );
          return items.slice(0, options.max);
        },
    ),
    breakStore: ({ provider }) => ({
      abandonWorkItems: (abandons) =>
        provider.abandonWorkItems(
          abandons.map((one) => ({ ...one, giveBackClaim: false, unstarted: false })),
        ),
    }),
    finding: /is poison, although its code is not/,
    weather: { maxClaims: 3, workers: 1, hosts: 0, activityLeaseMs: 300, rates: { slow: 0.5 } },
  },
];
