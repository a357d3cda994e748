import { PerdureError } from '../../model/failures/errors.ts';
import { currentScope } from '../../replay/cancellation/scope.ts';

/** Throws inside an orchestration: what a client does there would be done again in every replay. */
export function assertOutsideOrchestration(): void {
  if (currentScope() === undefined) return;
  throw new PerdureError(
    'FORBIDDEN_IN_ORCHESTRATION',
    'A client was used inside an orchestration, where every replay would use it again. Use ctx.child, ctx.startDetached or ctx.waitFor, or use the client in an activity.',
  );
}
