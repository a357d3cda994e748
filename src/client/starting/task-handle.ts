import { Handle, type InstanceAccess } from '../handle.ts';

/** One task run, as seen from a client. */
export class TaskHandle<Output = unknown> extends Handle<Output> {
  /** Whether this request created the run; otherwise one with its id or its dedupe key was there. */
  readonly created: boolean;

  constructor(id: string, created: boolean, access: InstanceAccess) {
    super(id, access);
    this.created = created;
  }
}
