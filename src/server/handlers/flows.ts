import { readFlowGraph } from '../../flows/reading/flow-graph.ts';
import { readFlowItems, readFlowRun } from '../../flows/reading/flow-run.ts';
import { signalFlow } from '../../flows/interpreter/signals.ts';
import { PerdureError, notFound } from '../../model/failures/errors.ts';
import type { Handlers } from '../server-context.ts';
import type { flowRoutes } from '../routes/flows.ts';
import { longestPollMs } from '../routes/route.ts';
import { toStartOptions } from './start-options.ts';
import { toFlowRunResponse, toStepResponse } from './serializers.ts';

export const flowHandlers: Handlers<typeof flowRoutes> = {
  async listFlows(_, { flows }) {
    const items = [...flows.values()].map(({ name, graph }) => ({ name, graph: { ...graph } }));
    return { items };
  },
  async startFlow({ params, body }, { client, flows }) {
    const flow = flows.get(params.name);
    if (flow === undefined) throw unknownFlow(params.name);
    const { input, ...options } = body;
    return { id: (await client.runFlow(flow, input, toStartOptions(options))).id };
  },
  async getFlowRun({ params }, { client, showStacks }) {
    const run = await readFlowRun(client, params.id);
    if (run === undefined) throw notFound(params.id);
    return toFlowRunResponse(run, showStacks);
  },
  async getFlowGraph({ params }, { client }) {
    const graph = await readFlowGraph(client, params.id);
    if (graph === undefined) throw notFound(params.id);
    return graph;
  },
  async listFlowItems({ params, query }, { client, showStacks }) {
    const { step, ...options } = query;
    const page = await readFlowItems(client, params.id, step, options);
    return { ...page, items: page.items.map((item) => toStepResponse(item, showStacks)) };
  },
  async signalFlow({ params, body }, { client }) {
    const { name, payload, timeoutMs = longestPollMs } = body;
    await signalFlow(client, params.id, name, payload, { timeoutMs });
    return {};
  },
};

function unknownFlow(name: string): PerdureError {
  return new PerdureError(
    'UNREGISTERED',
    `Unknown flow ${JSON.stringify(name)}. Add it to the \`flows\` of serve().`,
  );
}
