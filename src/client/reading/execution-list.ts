import { notFound } from '../../model/failures/errors.ts';
import { invalid, readFields } from '../../model/option-fields.ts';
import type { ExecutionRecord } from '../../providers/contract/instances.ts';
import type { Provider } from '../../providers/contract/provider.ts';
import { readLimit } from './instance-list.ts';

/** Which executions of an instance. */
export interface ExecutionListOptions {
  /** Only executions with a greater id. Default 0. */
  readonly after?: number | undefined;
  /** 1 to 1,000. Default 100. */
  readonly limit?: number | undefined;
}

/** Some executions of one instance, oldest first. Those that were pruned are missing. */
export interface ExecutionPage {
  readonly items: readonly ExecutionRecord[];
  /** The `after` of the next page; absent on the last. */
  readonly nextAfter?: number;
}

/** Reads one page of an instance's executions. */
export async function listExecutions(
  provider: Provider,
  instanceId: string,
  options?: ExecutionListOptions,
): Promise<ExecutionPage> {
  const { after = 0, ...given } = readFields(options, 'options', ['after', 'limit'] as const);
  if (!Number.isSafeInteger(after) || (after as number) < 0) {
    throw invalid('after', after, 'a whole number of 0 or more');
  }
  const limit = readLimit(given.limit);
  // One more than asked tells whether there is a next page.
  const params = { instanceId, after: after as number, limit: limit + 1 };
  const executions = await provider.listExecutions(params);
  if (executions.length === 0) await assertExists(provider, instanceId);
  const items = executions.slice(0, limit);
  const last = items.at(-1);
  if (last === undefined || executions.length <= limit) return { items };
  return { items, nextAfter: last.executionId };
}

async function assertExists(provider: Provider, instanceId: string): Promise<void> {
  const [record] = await provider.getInstances([instanceId]);
  if (record === undefined) throw notFound(instanceId);
}
