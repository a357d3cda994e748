import type { FlowRef, OrchestrationRef } from '../model/definition.ts';
import type { HistoryEvent } from '../model/event.ts';
import { decodePayload } from '../model/values/payload.ts';

/** What a child or a detached instance runs. */
export interface StartTarget {
  readonly reference: OrchestrationRef | string;
  readonly input: unknown;
}

/**
 * Returns the orchestration and the input of a child: a flow is an orchestration whose input holds its graph. A replay
 * uses the recorded graph, because the flow may have been redefined.
 */
export function toStartTarget(
  definition: OrchestrationRef | FlowRef | string,
  input: unknown,
  options: { readonly priority?: unknown; readonly recorded: HistoryEvent | undefined },
): StartTarget {
  if (typeof definition === 'string' || !isFlow(definition))
    return { reference: definition, input };
  const { graph, orchestration } = definition;
  const { priority, recorded } = options;
  const flow = recordedGraph(recorded, orchestration.name) ?? graph;
  const prioritized = priority !== undefined && { priority };
  return { reference: orchestration, input: { flow, input, ...prioritized } };
}

function isFlow(definition: OrchestrationRef | FlowRef): definition is FlowRef {
  return (definition as Partial<FlowRef> | null | undefined)?.kind === 'flow';
}

function recordedGraph(recorded: HistoryEvent | undefined, name: string): unknown {
  if (recorded?.kind !== 'childScheduled' && recorded?.kind !== 'detachedStarted') return undefined;
  if (recorded.name !== name) return undefined;
  return (decodePayload(recorded.payload) as { readonly flow?: unknown } | undefined)?.flow;
}
