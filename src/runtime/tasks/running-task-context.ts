import { PerdureError } from '../../model/failures/errors.ts';
import { decodeHeaders, type Headers } from '../../model/work-item-options.ts';
import type { TaskClient, TaskContext } from '../../tasks/task-context.ts';
import {
  RunningActivityContext,
  type RunningContextParams,
} from '../activities/running-activity-context.ts';

/** What the running handler of a task sees. */
export class RunningTaskContext extends RunningActivityContext implements TaskContext {
  declare readonly client: TaskClient;
  readonly #storedOptions: string | null;
  readonly #cancelRun: (reason: string | undefined) => Promise<void>;

  constructor(
    params: RunningContextParams & {
      readonly client: TaskClient;
      readonly cancelRun: (reason: string | undefined) => Promise<void>;
    },
  ) {
    super(params);
    this.#storedOptions = params.item.options;
    this.#cancelRun = params.cancelRun;
  }

  get runId(): string {
    return this.instanceId;
  }

  get taskName(): string {
    return this.activityName;
  }

  get headers(): Headers {
    return decodeHeaders(this.#storedOptions);
  }

  async cancel(reason?: string): Promise<void> {
    if (this.hasEnded) {
      throw new PerdureError(
        'OUTSIDE_HANDLER',
        `The handler of task ${JSON.stringify(this.taskName)} has ended, so it cannot cancel its run any more. Use client.cancel(${JSON.stringify(this.runId)}).`,
      );
    }
    await this.#cancelRun(reason);
  }
}
