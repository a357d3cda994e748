import type { HistoryExport, HistoryPage } from '../../client/reading/history.ts';
import type { InstanceInfo } from '../../client/reading/instance-info.ts';
import type { FlowItem, FlowRun, StepState } from '../../flows/reading/flow-run.ts';
import type { HistoryEvent } from '../../model/event.ts';
import type { Failure } from '../../model/failures/failure.ts';
import { toFailureResponse } from '../http/errors.ts';

/** An instance as it is shown. */
export function toInstanceResponse<Info extends InstanceInfo>(
  info: Info,
  showStacks: boolean,
): Info {
  const { failure, task } = info;
  const onFailFailure = task?.onFailFailure;
  return {
    ...withFailure(info, failure, showStacks),
    ...(onFailFailure !== undefined && {
      task: { ...task, onFailFailure: toFailureResponse(onFailFailure, showStacks) },
    }),
  };
}

/** A page of a history as it is shown. */
export function toHistoryResponse(page: HistoryPage, showStacks: boolean): HistoryPage {
  return {
    ...page,
    items: page.items.map(({ id, event }) => ({ id, event: toEventResponse(event, showStacks) })),
  };
}

/** A whole history as it is shown, as the parts of its JSON text: one for each page that is read. */
export async function* toExportChunks(
  { pages, ...of }: HistoryExport,
  showStacks: boolean,
): AsyncGenerator<string, void, undefined> {
  yield `${JSON.stringify(of).slice(0, -1)},"events":[`;
  let separator = '';
  for await (const page of pages) {
    const events = page.map((event) => JSON.stringify(toEventResponse(event, showStacks)));
    yield `${separator}${events.join(',')}`;
    separator = ',';
  }
  yield ']}';
}

/** A run of a flow as it is shown. */
export function toFlowRunResponse(run: FlowRun, showStacks: boolean): FlowRun {
  return {
    ...withFailure(run, run.failure, showStacks),
    steps: run.steps.map((step) => toStepResponse(step, showStacks)),
    ...(run.onFail !== undefined && { onFail: toStepResponse(run.onFail, showStacks) }),
  };
}

/** A step or an item as it is shown. */
export function toStepResponse<State extends StepState | FlowItem>(
  state: State,
  showStacks: boolean,
): State {
  return withFailure(state, state.failure, showStacks);
}

function toEventResponse(event: HistoryEvent, showStacks: boolean): HistoryEvent {
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
