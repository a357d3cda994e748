import type { WorkOutcome } from '../../contract/work-queue.ts';
import type { HeldItem } from './work-items.ts';

/** An item that has ended for good. */
export interface Settlement {
  readonly item: HeldItem;
  readonly outcome: WorkOutcome;
}
