import type { ActivityContext } from '../../src/index.ts';
import { isPerdureError } from '../../src/model/failures/errors.ts';

/** Returns the code with which `ctx.transaction` rejects in a thread. */
export async function callTransaction(ctx: ActivityContext): Promise<string> {
  try {
    return await ctx.transaction(async () => 'committed');
  } catch (error) {
    return isPerdureError(error) ? error.code : String(error);
  }
}
