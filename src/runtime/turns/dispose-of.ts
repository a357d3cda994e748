import { decodePayload, type Payload } from '../../model/values/payload.ts';
import type { WorkItem } from '../../providers/contract/work-queue.ts';
import type { TaskClient } from '../../tasks/task-context.ts';
import type { ResolvedOptions } from '../options.ts';
import type { WorkHandler } from '../activities/work-handler.ts';

/** Has a definition dispose of what its handler returned too late; what goes wrong is logged. */
export async function disposeOf(
  parts: {
    readonly item: WorkItem;
    readonly handler: WorkHandler;
    readonly options: ResolvedOptions;
    readonly client: TaskClient;
  },
  payload: Payload | null,
): Promise<void> {
  const { item, handler, options, client } = parts;
  const { instanceId, name } = item;
  const { logger: log } = options;
  try {
    const context = { instanceId, name, attempt: 1, client, log };
    await handler.onAbandoned?.(decodePayload(payload), context);
  } catch (error) {
    log.error({ error, instanceId, name }, 'onAbandoned failed; the result is not disposed of');
  }
}
