import { PerdureError } from '../../model/failures/errors.ts';

const advice =
  'Code of an orchestration may only await durable operations. ' +
  'Do the I/O or the waiting in an activity and await it with ctx.call(), or use ctx.sleep() and ctx.waitFor().';

interface Where {
  readonly instanceId: string;
  readonly lastOperation: string | undefined;
}

/** The code came back from something that is not durable, and went on outside a turn. */
export function strayCall(where: Where & { readonly what: string }): PerdureError {
  return new PerdureError(
    'STRAY_AWAIT',
    `Instance '${where.instanceId}': ${where.what} outside a turn. ${after(where)} the code awaited something that is not durable. ${advice}`,
  );
}

/** The code waits, but for nothing that Perdure knows of: it would wait for ever. */
export function strayWait(where: Where): PerdureError {
  return new PerdureError(
    'STRAY_AWAIT',
    `Instance '${where.instanceId}' is not finished, but waits for nothing durable. ${after(where)} the code awaited something that is not durable. ${advice}`,
  );
}

function after({ lastOperation }: Where): string {
  return lastOperation === undefined
    ? 'Before its first durable operation'
    : `After its last durable operation (${lastOperation})`;
}
