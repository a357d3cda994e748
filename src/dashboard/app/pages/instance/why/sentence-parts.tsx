import type { ComponentChildren, JSX } from 'preact';
import { instanceHref } from '../../../state/router.ts';
import { since } from '../../../words/sentence.ts';

/** A sentence, and what follows from it. */
export interface Told {
  readonly sentence: ComponentChildren;
  readonly consequence?: ComponentChildren;
}

/** Since when a worker holds the lease, and which worker. */
export function ClaimedBy({
  claim: { claimedAt, worker },
}: {
  readonly claim: {
    readonly claimedAt?: number | undefined;
    readonly worker?: string | undefined;
  };
}): JSX.Element {
  return (
    <>
      {claimedAt !== undefined && (
        <>
          {' '}
          for <b>{since(claimedAt)}</b>
        </>
      )}
      {worker !== undefined && (
        <>
          {' '}
          on <bdi>{worker}</bdi>
        </>
      )}
    </>
  );
}

export function Strong({ children }: { readonly children: string }): JSX.Element {
  return (
    <b>
      <bdi>{children}</bdi>
    </b>
  );
}

export function Code({ children }: { readonly children: string }): JSX.Element {
  return (
    <code>
      <bdi>{children}</bdi>
    </code>
  );
}

export function InstanceLink({
  id,
  name,
}: {
  readonly id: string;
  readonly name: string | undefined;
}): JSX.Element {
  return (
    <a class="link strong" href={instanceHref(id)} title={id}>
      <bdi>{name ?? id}</bdi>
    </a>
  );
}

/** A message inside a sentence, which ends with a full stop of its own. */
export function withoutStop(text: string): string {
  return text.replace(/\.$/, '');
}

/** Joins two sentences, either of which may be absent. */
export function joined(first: ComponentChildren, second: ComponentChildren): ComponentChildren {
  if (first === undefined || first === null || first === '') return second;
  return second === undefined || second === null || second === '' ? (
    first
  ) : (
    <>
      {first} {second}
    </>
  );
}
