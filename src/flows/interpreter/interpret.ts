import {
  isPerdureError,
  NondeterminismError,
  PerdureError,
  type OrchestrationContext,
} from '../../index.ts';
import { quote, StepFailedError, toFailure, type FlowFailure } from '../definition/flow-errors.ts';
import { activityNames, thawCall, type RunInput } from '../definition/graph.ts';
import { EarlyEnd, LiveFlow, selectOutput, type FlowCode } from './live-flow.ts';

/** The orchestration code of every flow. Runs the graph that is stored in the run's input. */
export async function interpret(
  ctx: OrchestrationContext<RunInput>,
  run: RunInput,
  code: FlowCode,
): Promise<unknown> {
  const format: unknown = (run as Partial<RunInput> | undefined)?.flow?.format;
  if (format === undefined) {
    throw new PerdureError(
      'INVALID_INPUT',
      `${quote(ctx.name)} is a flow: start it with client.runFlow(), which passes its graph to the run.`,
    );
  }
  if (format !== 1) {
    throw new NondeterminismError(
      `Run ${quote(ctx.instanceId)} has flow format ${quote(format)}, which a newer version of Perdure wrote. Upgrade this worker.`,
      0,
      undefined,
      { cause: new PerdureError('UNDECODABLE', `Unknown flow format ${quote(format)}.`) },
    );
  }
  const flow = new LiveFlow(ctx, run, code);
  try {
    await flow.run();
    return selectOutput(flow);
  } catch (error) {
    if (error instanceof EarlyEnd) return error.output;
    if (isFlowFailure(error)) await callOnFail(flow, error);
    throw error;
  }
}

function isFlowFailure(error: unknown): error is PerdureError {
  return isPerdureError(error, 'STEP_FAILED') || isPerdureError(error, 'NO_OUTPUT');
}

/** Calls the on-fail handler in a shield. If it fails, its failure is only recorded in the history. */
async function callOnFail(flow: LiveFlow, error: PerdureError): Promise<void> {
  const { ctx, graph } = flow;
  if (graph.onFail === undefined) return;
  const activity = activityNames.onFail(graph.name);
  const missing = flow.missingHandler(activity);
  if (missing !== undefined) throw missing;
  const options = thawCall(graph.onFail.call, flow.priority);
  const call = (failure: FlowFailure) => ctx.shield(() => ctx.call(activity, failure, options));
  const flowFailure = toFlowFailure(flow, error);
  try {
    await call(flowFailure).catch((thrown: unknown) => {
      if (!isPerdureError(thrown, 'PAYLOAD_TOO_LARGE')) throw thrown;
      return call({ ...flowFailure, outputs: {} });
    });
  } catch (thrown) {
    ctx.log.error(
      { error: thrown, flow: graph.name, runId: ctx.instanceId },
      'on-fail handler failed',
    );
  }
}

function toFlowFailure(flow: LiveFlow, error: PerdureError): FlowFailure {
  const common = { input: flow.input, outputs: flow.outputs() };
  if (!(error instanceof StepFailedError)) return { ...common, failure: toFailure(error) };
  const { step, index, given, attempts, failure } = error;
  return {
    ...common,
    step,
    ...(index !== undefined && { index }),
    ...(given !== undefined && { given }),
    ...(attempts !== undefined && { attempts }),
    failure,
  };
}
