import type { FlowRef } from '../../model/definition.ts';
import { PerdureError } from '../../model/failures/errors.ts';
import { invalid, readFields } from '../../model/option-fields.ts';

/** What a schedule is told to start. */
interface WorkFields {
  readonly task?: unknown;
  readonly orchestration?: unknown;
  readonly flow?: unknown;
  readonly input?: unknown;
  readonly options?: unknown;
}

type Work =
  | { readonly kind: 'task'; readonly task: unknown; readonly input: unknown }
  | { readonly kind: 'orchestration'; readonly orchestration: unknown; readonly input: unknown };

/** Reads whether a schedule starts a task or an orchestration; a flow is one whose input carries its graph. */
export function readWork({ task, orchestration, flow, input, options }: WorkFields): Work {
  if ([task, orchestration, flow].filter((one) => one !== undefined).length !== 1) {
    throw new PerdureError(
      'INVALID_SCHEDULE',
      'A schedule starts either a task, an orchestration or a flow.',
    );
  }
  if (task !== undefined) return { kind: 'task', task, input };
  if (flow === undefined) return { kind: 'orchestration', orchestration, input };
  const given: Partial<FlowRef> | null = flow;
  if (typeof given !== 'object' || given?.kind !== 'flow') {
    throw invalid('flow', flow, 'a flow: its graph is needed, so a name is not enough');
  }
  readFields(options, 'options', [] as const);
  return {
    kind: 'orchestration',
    orchestration: given.orchestration,
    input: { flow: given.graph, input },
  };
}
