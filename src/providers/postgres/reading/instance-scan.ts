import type { InstanceStatus } from '../../../model/status.ts';
import type { ScanInstancesParams, ScanInstancesResult } from '../../contract/management.ts';
import { texts } from '../driver/arrays.ts';
import type { Statement, Transaction } from '../driver/connection.ts';
import type { Definitions } from '../tables/definitions.ts';
import { RunState } from '../tables/task-rows.ts';

interface Row {
  /** How many rows the step has looked at, and the last of them. */
  readonly scanned: number;
  readonly lastKey: number | null;
  readonly isAtEnd: boolean;
  /** `null`, like all of the instance, when none was found. */
  readonly instanceKey: number | null;
  readonly instanceId: string;
  readonly incarnation: string;
  readonly definitionKey: number;
  readonly status: InstanceStatus;
  readonly endedAt: number | null;
}

interface FoundRow extends Row {
  readonly instanceKey: number;
}

/** Walks over `instances` by key: the cost of a step depends on nothing but its length. */
export class InstanceScan {
  readonly #definitions: Definitions;
  readonly #step: Statement;

  constructor(schema: string, definitions: Definitions) {
    this.#definitions = definitions;
    this.#step = {
      name: 'perdure_scan_instances',
      text: `WITH step AS MATERIALIZED (
          SELECT instance_key, instance_id, incarnation, definition_key, ${new RunState(schema).status('instances')} AS status,
            execution_id, parent_instance_id, created_at, ended_at
          FROM ${schema}.instances WHERE instance_key > $1::bigint ORDER BY instance_key LIMIT $2::bigint
        ), range AS (
          SELECT count(*) AS scanned, max(instance_key) AS last_key,
            min(instance_key) FILTER (WHERE created_at >= $3::bigint) AS end_key
          FROM step)
        SELECT scanned, last_key AS "lastKey", end_key IS NOT NULL AS "isAtEnd", instance_key AS "instanceKey",
          instance_id AS "instanceId", incarnation, definition_key AS "definitionKey", status, ended_at AS "endedAt"
        FROM range LEFT JOIN step ON instance_key < coalesce(end_key, last_key + 1)
          AND ($4::text[] IS NULL OR status = ANY ($4::text[]))
          AND ($5::bigint IS NULL OR ended_at < $5::bigint)
          AND (NOT $6 OR parent_instance_id IS NULL)
          AND (NOT $7 OR execution_id > 1 AND (
            SELECT 1 FROM ${schema}.executions AS past WHERE past.instance_key = step.instance_key LIMIT 1) = 1)
        ORDER BY instance_key`,
    };
  }

  async run(tx: Transaction, params: ScanInstancesParams): Promise<ScanInstancesResult> {
    const { afterKey, maxScanned, createdBefore, statuses, endedBefore } = params;
    const max = Math.max(maxScanned, 1);
    const rows = await tx.query<Row>(this.#step, [
      afterKey,
      max,
      createdBefore === undefined ? null : Math.ceil(createdBefore),
      statuses === undefined ? null : texts(statuses),
      endedBefore === undefined ? null : Math.ceil(endedBefore),
      params.rootsOnly === true,
      params.withFinishedExecutions === true,
    ]);
    const found = rows.filter((row): row is FoundRow => row.instanceKey !== null);
    await this.#definitions.load(
      tx,
      found.map(({ definitionKey }) => definitionKey),
    );
    const [first] = rows;
    const isOver = first === undefined || first.isAtEnd || first.scanned < max;
    return {
      instances: found.map(({ instanceKey, instanceId, incarnation, status, endedAt, ...row }) => ({
        instanceKey,
        instanceId,
        incarnation,
        name: this.#definitions.get(row.definitionKey).name,
        status,
        endedAt,
      })),
      nextKey: isOver ? null : first.lastKey,
    };
  }
}
