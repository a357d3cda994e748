import type { JSX } from 'preact';
import { FlowRunView } from '../flows/flow-run-view.tsx';

/** The graph of a flow run. */
export function FlowTab({ id }: { readonly id: string }): JSX.Element {
  return <FlowRunView id={id} />;
}
