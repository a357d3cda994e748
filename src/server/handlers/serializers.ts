import type { HistoryExport, HistoryPage } from '../../client/reading/history.ts';
import type { InstanceInfo } from '../../client/reading/instance-info.ts';
import type { Why } from '../../client/explaining/why.ts';
import type { FlowItem, FlowRun, StepState } from '../../flows/reading/flow-run.ts';
import type { HistoryEvent } from '../../model/event.ts';
import type { BlockedDetails } from '../../model/failures/blocked.ts';
import type { Failure } from '../../model/failures/failure.ts';
import { toFailureResponse } from '../http/errors.ts';

// The functions of this module remove the stacks of failures unless `showStacks` is set.

export function toInstanceResponse<Info extends InstanceInfo>(
  info: Info,
  showStacks: boolean,
): Info {
  const { failure, task, blocked } = info;
  const onFailFailure = task?.onFailFailure;
  return {
    ...withFailure(info, failure, showStacks),
    ...(blocked !== undefined && { blocked: toBlockedResponse(blocked, showStacks) }),
    ...(onFailFailure !== undefined && {
      task: { ...task, onFailFailure: toFailureResponse(onFailFailure, showStacks) },
    }),
  };
}

/** Removes the location, which is a frame of a stack. */
function toBlockedResponse<Blocked extends BlockedDetails>(
  blocked: Blocked,
  showStacks: boolean,
): Blocked {
  if (showStacks || blocked.location === undefined) return blocked;
  const { location: _, ...shown } = blocked;
  return shown as Blocked;
}

export function toWhyResponse(why: Why, showStacks: boolean): Why {
  const waits = why.waits.map((wait) =>
    wait.kind === 'blocked' ? toBlockedResponse(wait, showStacks) : wait,
  );
  return { ...why, waits };
}

export function toHistoryResponse(page: HistoryPage, showStacks: boolean): HistoryPage {
  return {
    ...page,
    items: page.items.map((entry) => ({
      ...entry,
      event: toEventResponse(entry.event, showStacks),
    })),
  };
}

/** Serializes an exported history as chunks of JSON, one per page read from the store. */
export async function* toExportChunks(
  { pages, ...header }: HistoryExport,
  showStacks: boolean,
): AsyncGenerator<string, void, undefined> {
  yield `${JSON.stringify(header).slice(0, -1)},"events":[`;
  let separator = '';
  for await (const page of pages) {
    const events = page.map((event) => JSON.stringify(toEventResponse(event, showStacks)));
    yield `${separator}${events.join(',')}`;
    separator = ',';
  }
  yield ']}';
}

export function toFlowRunResponse(run: FlowRun, showStacks: boolean): FlowRun {
  return {
    ...withFailure(run, run.failure, showStacks),
    ...(run.blocked !== undefined && { blocked: toBlockedResponse(run.blocked, showStacks) }),
    steps: run.steps.map((step) => toStepResponse(step, showStacks)),
    ...(run.onFail !== undefined && { onFail: toStepResponse(run.onFail, showStacks) }),
  };
}

export function toStepResponse<State extends StepState | FlowItem>(
  state: State,
  showStacks: boolean,
): State {
  return withFailure(state, state.failure, showStacks);
}

export function toEventResponse(event: HistoryEvent, showStacks: boolean): HistoryEvent {
  return 'failure' in event ? withFailure(event, event.failure, showStacks) : event;
}

function withFailure<Holder extends object>(
  holder: Holder,
  failure: Failure | undefined,
  showStacks: boolean,
): Holder {
  return failure === undefined
    ? holder
    : { ...holder, failure: toFailureResponse(failure, showStacks) };
}
