import type { JSX } from 'preact';

export function FlowRunView({ id }: { readonly id: string }): JSX.Element {
  return <p>{id}</p>;
}
