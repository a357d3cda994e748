import {
  isPerdureError,
  NondeterminismError,
  type OrchestrationContext,
  PerdureError,
} from '../../index.ts';
import { StepFailedError, toFailure, type FlowFailure } from '../definition/flow-errors.ts';
import { activityNames, thawCall, type RunInput } from '../definition/graph.ts';
import { EarlyEnd, LiveFlow, selectOutput, type FlowCode } from './live-flow.ts';

/** The code of every flow's orchestration: runs the graph that the run was started with. */
export async function interpret(
  ctx: OrchestrationContext<RunInput>,
  run: RunInput,
  code: FlowCode,
): Promise<unknown> {
  const format: unknown = (run as Partial<RunInput> | undefined)?.flow?.format;
  if (format === undefined) {
    throw new PerdureError(
      'INVALID_INPUT',
      `'${ctx.name}' is a flow: start it with client.runFlow, which hands its steps to the run.`,
    );
  }
  if (format !== 1) {
    throw new NondeterminismError(
      `Run '${ctx.instanceId}' was started by a newer version of Perdure: its flow has format ${JSON.stringify(format)}. Deploy that version here.`,
      0,
    );
  }
  const flow = new LiveFlow(ctx, run, code);
  try {
    await flow.run();
    return selectOutput(flow);
  } catch (error) {
    if (error instanceof EarlyEnd) return error.output;
    if (isFlowFailure(error)) await tellOnFail(flow, error);
    throw error;
  }
}

function isFlowFailure(error: unknown): error is PerdureError {
  return isPerdureError(error, 'STEP_FAILED') || isPerdureError(error, 'NO_OUTPUT');
}

/** Runs the on-fail handler where a cancel cannot reach it. Its own failure is in the history; the flow's stands. */
async function tellOnFail(flow: LiveFlow, error: PerdureError): Promise<void> {
  const { ctx, graph } = flow;
  if (graph.onFail === undefined) return;
  const activity = activityNames.onFail(graph.name);
  const missing = flow.lackOf(activity);
  if (missing !== undefined) throw missing;
  const options = thawCall(graph.onFail.call, flow.priority);
  const call = (failure: FlowFailure) => ctx.shield(() => ctx.call(activity, failure, options));
  const told = toFlowFailure(flow, error);
  try {
    await call(told).catch((thrown: unknown) => {
      if (!isPerdureError(thrown, 'PAYLOAD_TOO_LARGE')) throw thrown;
      return call({ ...told, outputs: {} });
    });
  } catch (thrown) {
    ctx.log.error({ error: thrown, flow: graph.name, runId: ctx.instanceId }, 'on-fail failed');
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
