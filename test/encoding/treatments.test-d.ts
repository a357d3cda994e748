import type { Provider } from '../../src/providers/contract/provider.ts';
import type { WorkItemRenewal } from '../../src/providers/contract/work-queue.ts';
import { fields, keep, payload, variants } from '../../src/providers/encoding/treatment.ts';

// A type whose fields are all decided compiles.
fields<WorkItemRenewal>({ instanceId: keep, lockToken: keep, heartbeat: payload });

// @ts-expect-error `heartbeat` has no treatment
fields<WorkItemRenewal>({ instanceId: keep, lockToken: keep });

// @ts-expect-error `details` is a new field without a treatment
fields<WorkItemRenewal & { readonly details?: string }>({
  instanceId: keep,
  lockToken: keep,
  heartbeat: payload,
});

// @ts-expect-error `other` is no field
fields<WorkItemRenewal>({ instanceId: keep, lockToken: keep, heartbeat: payload, other: keep });

type Union = { readonly kind: 'a'; readonly text: string } | { readonly kind: 'b' };

// A union whose variants are all decided compiles.
variants<Union, 'kind'>('kind', { a: { kind: keep, text: keep }, b: { kind: keep } });

// @ts-expect-error the variant `b` has no treatment
variants<Union, 'kind'>('kind', { a: { kind: keep, text: keep } });

// @ts-expect-error the field `text` of the variant `a` has no treatment
variants<Union, 'kind'>('kind', { a: { kind: keep }, b: { kind: keep } });

type OptionalMember = {
  [Key in keyof Required<Provider>]: undefined extends Provider[Key] ? Key : never;
}[keyof Required<Provider>];

// `encodingProvider` passes on or wraps these. A new optional member does not compile without a decision.
export const handledMembers: Readonly<Record<OptionalMember, true>> = {
  clock: true,
  clockIsEstimate: true,
  reopening: true,
  within: true,
  transact: true,
};
