import { onFailOperation, taskOperation } from './work-items.ts';

/**
 * How far a task run has come, while it is not over. Its row says `pending` from its creation to its end, or to a request to
 * stop; whether and when it has started stands in its item. So a claim writes one row, and waits for nobody.
 * Each is an expression over a row of `instances` of the given name.
 */
export class RunState {
  readonly #items: string;

  constructor(schema: string) {
    this.#items = `${schema}.worker_queue`;
  }

  /** The status of any instance. */
  status(instance: string): string {
    return `CASE WHEN ${instance}.status = 'pending' AND ${instance}.priority IS NOT NULL
        AND ${this.#itemStartedAt(instance, taskOperation)} IS NOT NULL THEN 'running' ELSE ${instance}.status END`;
  }

  /** When any instance has started. */
  startedAt(instance: string): string {
    return `coalesce(${instance}.started_at, CASE WHEN ${instance}.priority IS NOT NULL AND ${instance}.ended_at IS NULL
        THEN ${this.#itemStartedAt(instance, taskOperation)} END)`;
  }

  /** When the current execution of any instance has started: the only one that a run has. */
  executionStartedAt(instance: string): string {
    return `CASE WHEN ${instance}.priority IS NULL THEN ${instance}.execution_started_at ELSE ${this.startedAt(instance)} END`;
  }

  /** How far the handler for failures of a run has come. */
  onFail(instance: string): string {
    return `CASE WHEN ${instance}.on_fail = 'queued' AND ${this.#itemStartedAt(instance, onFailOperation)} IS NOT NULL
        THEN 'running' ELSE ${instance}.on_fail END`;
  }

  #itemStartedAt(instance: string, operation: number): string {
    return `(SELECT item.started_at FROM ${this.#items} AS item
        WHERE item.instance_key = ${instance}.instance_key AND item.execution_id = 1 AND item.operation = ${operation})`;
  }
}
